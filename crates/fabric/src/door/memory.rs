//! Where memory comes from, and how it is proven.
//!
//! One kernel: a sealed memfd of the client's, opened through /proc. Containers: a descriptor that the daemon
//! passes. Guests: a part of the window of a function. Hosts: rings that the daemon has registered. Owns:
//! nothing is used as memory that could vanish or shrink under its user. That it is the segment which was
//! meant shows in its header (the nonce), which the caller reads.

use crate::process::ProcessId;
use os::mem::Shared;
use wire::reason::Reason;

/// Where a row says that a segment is: the numbers are the peer's, and may be lies.
#[derive(Clone, Copy, Debug)]
pub struct Whereabouts {
    /// Process id of its maker, as the directory's processes count.
    pub pid: u32,
    /// Its number there.
    pub number: i32,
    /// Which tells the memory from any other: who does not know it is not to have the memory.
    pub nonce: u64,
    /// Who else may have it: the process that was last seen at the server's side.
    pub holder: ProcessId,
}

/// Memory that a peer offers: found, and not mapped yet. Let go when dropped.
pub trait ForeignMemory {
    /// Bytes. It is proven that they will not become fewer. Reason: SYNCERR.
    fn size(&self) -> Result<usize, Reason>;

    /// What it is, whoever has it under whichever number; the same memory has the same.
    fn identity(&self) -> Result<(u64, u64), Reason>;

    /// Maps it. Reason: MEM.
    fn map(&self, len: usize) -> Result<Shared, Reason>;

    /// Maps it in place of `old`, which has the same length; `false` if that stays as it is.
    fn map_over(&self, old: Shared) -> bool;

    /// A number under which it stays to be found, to be read by tools, when its maker has died; -1 for none.
    fn keep(&self) -> i32;
}

/// Memory of segments.
pub trait Memory {
    /// Memory of a peer.
    type Foreign: ForeignMemory;

    /// Makes zeroed memory, mapped here, and the number under which a peer finds it that knows `nonce`.
    /// Reasons: MEM; MAX_DMB for a limit that is not this process's; NOSMCDDEV.
    fn make(&self, len: usize, nonce: u64) -> Result<(Shared, i32), Reason>;

    /// The same in place of `old`, which this process made earlier and has retired: only the number.
    fn make_over(&self, old: Shared, nonce: u64) -> Result<i32, Reason>;

    /// [`make`](Self::make) for connections to `peer`; where there are several tiers, its one's.
    fn make_for(&self, _peer: ProcessId, len: usize, nonce: u64) -> Result<(Shared, i32), Reason> {
        self.make(len, nonce)
    }

    /// [`make_over`](Self::make_over) likewise.
    fn make_over_for(&self, _peer: ProcessId, old: Shared, nonce: u64) -> Result<i32, Reason> {
        self.make_over(old, nonce)
    }

    /// Whether somebody who was passed the memory of this number holds it still. (Where nobody is passed
    /// anything, nobody does.)
    fn is_held_elsewhere(&self, _number: i32) -> bool {
        false
    }

    /// Whether the maker of memory that was passed, and is kept under this number, holds it still.
    fn is_held_by_maker(&self, _kept: i32) -> bool {
        true
    }

    /// Memory that this process made was taken back by whoever passed it on: peers are to be offered another.
    fn note_revoked(&self) {}

    /// Brings the memory at `place` before `attach`: whatever may be it, one after the other, until it is.
    /// Reasons: OPTUNSUPP where the peer is closed to others, NOSMCDDEV where it cannot be found, MEM; or the
    /// last of `attach`'s.
    fn open<R>(
        &self,
        place: &Whereabouts,
        attach: impl FnMut(&Self::Foreign) -> Result<R, Reason>,
    ) -> Result<R, Reason>;

    /// Gives up what stands under a number that [`make`](Self::make) or [`ForeignMemory::keep`] gave;
    /// mappings stay.
    fn close(&self, number: i32);

    /// Lets what stands under such a number survive exec, or no longer.
    fn keep_over_exec(&self, number: i32, on: bool);

    /// Lets go of mapped memory, or a part: from then on it reads as zero here, and is nobody else's.
    fn retire(&self, memory: Shared);

    /// Gives the pages of a part of this process's own memory back: it reads as zero, for everybody.
    fn give_back_pages(&self, memory: Shared);

    /// A socket came from another process, or from the program that this one was before: memory may have come
    /// with it.
    fn note_adopted(&self);

    /// At the start of a program: what the one before it has left open over exec is known as ours from now
    /// on.
    fn take_over_inherited(&self) {}
}
