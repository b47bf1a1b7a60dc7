//! Where the words of a segment lie, and what a hostile hand writes there. The layout is that of
//! `crates/shm/src/layout.rs`, whose version whoever uses this looks for first. Invariant: what is written
//! follows from the numbers that the caller draws.

use std::fs::File;
use std::os::unix::fs::FileExt;
use testkit::Random;

/// Bytes of a segment's header, and of each slot's.
pub const PAGE: u64 = 4096;
/// The three messages of the handshake: length and words of each.
pub const MAIL: (u64, u64) = (1920, 3 * 260);

/// The first rows of connections in the registry: first byte, bytes of a row, number of rows.
pub const CONNECTION_ROWS: (u64, usize, usize) = (140_096, 104, 2048);

/// Words of the segment header: magic, version, slots, ring size, nonce.
pub const HEADER: &[(u64, usize)] = &[(0, 8), (8, 4), (12, 4), (16, 4), (24, 8)];
/// Words of a slot header by offset and width.
pub const IDENTITY: &[(u64, usize)] = &[(0, 4), (8, 8), (16, 8)];
/// Where the client's and the server's block begin in a slot header.
pub const SIDES: [u64; 2] = [128, 512];
/// Where the words of both rings begin.
pub const RINGS: [u64; 2] = [896, 1408];
/// Cursors of a ring, and what counts bytes on TCP.
pub const CURSORS: &[(u64, usize)] =
    &[(0, 8), (8, 8), (16, 8), (24, 8), (32, 8), (40, 8), (128, 8), (136, 8)];
/// Wait words of a ring.
pub const WAITS: &[(u64, usize)] = &[(256, 4), (384, 4)];
/// Holders, what is closed, process, state of a side.
pub const FLAGS: &[(u64, usize)] = &[(0, 4), (8, 4), (16, 4), (20, 4)];
/// O_NONBLOCK of a side.
pub const NONBLOCKING: &[(u64, usize)] = &[(4, 4)];
/// Small buffers of a side.
pub const BUFFERS: &[(u64, usize)] = &[(104, 4), (108, 4)];
/// Number of a side's doorbell.
pub const BELLS: &[(u64, usize)] = &[(12, 4)];
/// The turns of a side.
pub const LOCKS: &[(u64, usize)] = &[(128, 8), (256, 8)];
/// Counts of sleepers for data and for space, and of processes that share an epoll set.
pub const SLEEPERS: &[(u64, usize)] = &[(188, 4), (316, 4), (24, 4)];

/// What is said to be in the totals.
pub const SETTLED: &[(u64, usize)] = &[(2704, 8), (2712, 8), (2720, 8), (2768, 8), (2832, 8), (2896, 8)];

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Anything.
    Random,
    /// The present value and a little more or less.
    Near,
    /// Nothing.
    Zero,
    /// All sizes of number, such as 0, 1, NO_END.
    Odd,
    /// Lock words that name process 1, which lives.
    HeldByInit,
    /// Descriptor numbers.
    Small,
}

impl Values {
    /// A value by the numbers of `random`; `now` is what stands there.
    pub fn one(self, random: &mut Random, now: impl Fn() -> u64) -> u64 {
        const ODD: [u64; 12] =
            [0, 1, 2, 3, 4, 8, 15, 0x7fff_ffff, 0xffff_ffff, 1 << 63, u64::MAX - 1, u64::MAX];
        match self {
            Values::Random => random.bits(),
            Values::Near => now().wrapping_add(random.below(40_000) as u64).wrapping_sub(20_000),
            Values::Zero => 0,
            Values::Odd => ODD[random.below(ODD.len())],
            Values::HeldByInit => 1 << 32 | 7,
            Values::Small => random.below(1100) as u64,
        }
    }
}

/// The words `words` of each of the blocks that begin at `bases`.
pub fn each(bases: &[u64], words: &[(u64, usize)]) -> Vec<(u64, usize)> {
    bases.iter().flat_map(|base| words.iter().map(move |(at, width)| (base + at, *width))).collect()
}

/// Writes the `width` low bytes of `value`.
pub fn put(file: &File, at: u64, width: usize, value: u64) {
    file.write_all_at(&value.to_le_bytes()[..width], at).expect("write to shared memory");
}
