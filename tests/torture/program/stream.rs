//! The byte streams: each byte tells its connection, direction and offset. Invariant: eight bytes at a
//! multiple of eight are a bijection of (run, connection, direction, index), so whatever is read in a wrong
//! place names where it belongs.

use crate::script::Side;
use testkit::random::mix;

/// One direction of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    tag: u64,
}

/// Where bytes belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) number: u64,
    pub(crate) sender: Side,
    pub(crate) offset: u64,
}

/// A wrong byte.
#[derive(Debug)]
pub(crate) struct Wrong {
    /// How far into the bytes it stood.
    pub(crate) at: usize,
    /// "foreign", "lost", "doubled" or "wrong".
    pub(crate) class: &'static str,
    pub(crate) found: String,
}

const INDEX_BITS: u32 = 28;
const NUMBER_BITS: u32 = 27;

impl Stream {
    /// What `sender` writes on connection `number` of the run `seed`.
    pub(crate) fn new(seed: u64, number: u64, sender: Side) -> Stream {
        let side = sender as u64;
        Stream { tag: (run_of(seed) << 56) | (number << (INDEX_BITS + 1)) | (side << INDEX_BITS) }
    }

    /// The bytes from `offset` on.
    pub(crate) fn fill(self, offset: u64, buf: &mut [u8]) {
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let word = mix(self.tag | (at / 8)).to_le_bytes();
            let part = &word[(at % 8) as usize..];
            let n = part.len().min(rest.len());
            rest[..n].copy_from_slice(&part[..n]);
            rest = &mut rest[n..];
            at += n as u64;
        }
    }

    /// Compares what was read at `offset`; a difference is classified.
    pub(crate) fn check(self, offset: u64, bytes: &[u8]) -> Result<(), Wrong> {
        let mut want = vec![0; bytes.len()];
        self.fill(offset, &mut want);
        if want == bytes {
            return Ok(());
        }
        let at = want.iter().zip(bytes).position(|(a, b)| a != b).unwrap_or(0);
        Err(self.explain(offset, at, &bytes[at..]))
    }

    fn explain(self, offset: u64, at: usize, bytes: &[u8]) -> Wrong {
        let here = offset + at as u64;
        let Some((skipped, origin)) = locate(self.tag >> 56, bytes) else {
            let zeros = bytes.iter().take_while(|b| **b == 0).count();
            let head = &bytes[..bytes.len().min(16)];
            return Wrong { at, class: "wrong", found: format!("unknown bytes {head:02x?} ({zeros} zeros)") };
        };
        let begin = origin.offset.wrapping_sub(skipped as u64);
        let own = self.tag >> INDEX_BITS == Stream::tag_of(self.tag >> 56, origin) >> INDEX_BITS;
        let class = match own {
            true if begin > here => "lost",
            true => "doubled",
            false => "foreign",
        };
        let Origin { number, sender, .. } = origin;
        Wrong {
            at,
            class,
            found: format!("bytes of connection {number} from the {sender:?}, offset {begin}"),
        }
    }

    fn tag_of(run: u64, o: Origin) -> u64 {
        (run << 56) | (o.number << (INDEX_BITS + 1)) | ((o.sender as u64) << INDEX_BITS)
    }
}

fn run_of(seed: u64) -> u64 {
    (mix(seed) >> 57) | 0x80
}

/// The first whole word of the run among `bytes`: how many bytes stand before it, and where it belongs.
fn locate(run: u64, bytes: &[u8]) -> Option<(usize, Origin)> {
    (0..8).find_map(|skipped| {
        let word = bytes.get(skipped..skipped + 8)?;
        let x = unmix(u64::from_le_bytes(word.try_into().ok()?));
        let index = x & ((1 << INDEX_BITS) - 1);
        let number = (x >> (INDEX_BITS + 1)) & ((1 << NUMBER_BITS) - 1);
        // 2^18 connections of 256 MiB each are more than any run has: by chance one word in 2^26 would pass.
        if x >> 56 != run || number >= 1 << 18 || index >= 1 << 25 {
            return None;
        }
        let sender = if (x >> INDEX_BITS) & 1 == 0 { Side::Client } else { Side::Server };
        Some((skipped, Origin { number, sender, offset: index * 8 }))
    })
}

/// The inverse of [`mix`]; the factors are the inverses of its factors modulo 2^64.
fn unmix(x: u64) -> u64 {
    let x = (x ^ (x >> 31) ^ (x >> 62)).wrapping_mul(0x3196_42b2_d24d_8ec3);
    let x = (x ^ (x >> 27) ^ (x >> 54)).wrapping_mul(0x96de_1b17_3f11_9089);
    x ^ (x >> 30) ^ (x >> 60)
}

/// The streams hold each other apart: told once per run, since everything else rests on it.
pub(crate) fn self_check() {
    let (a, b) = (Stream::new(1, 5, Side::Client), Stream::new(1, 900, Side::Server));
    let mut bytes = vec![0; 64];
    b.fill(803, &mut bytes);
    assert!(b.check(803, &bytes).is_ok(), "a stream equals itself");
    let class = |w: Result<(), Wrong>| w.err().map_or("none", |w| w.class);
    assert_eq!(class(a.check(0, &bytes)), "foreign");
    assert_eq!(class(b.check(100, &bytes)), "lost");
    assert_eq!(class(b.check(900, &bytes)), "doubled");
    assert_eq!(class(a.check(0, &[1; 64])), "wrong");
}

/// Where bytes of the run `seed` belong, in words.
pub(crate) fn name(seed: u64, bytes: &[u8]) -> String {
    let origin = locate(run_of(seed), bytes);
    origin.map_or("of no stream".into(), |(skipped, o)| format!("{o:?} after {skipped} bytes"))
}
