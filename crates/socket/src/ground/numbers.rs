//! Words by descriptor number, a leaf of them mapped when its first is wanted. Owns: two loads to a word, no
//! lock, no allocation before the first entry; and that a word stays where it is.

use shm::slab::OnceRef;
use sync::AtomicU64;

const LEAF: usize = 512;
const LEAVES: usize = 2048;

/// A word for each number, zero at first.
pub(crate) struct Numbers([OnceRef<[AtomicU64; LEAF]>; LEAVES]);

impl Numbers {
    pub(crate) const fn new() -> Self {
        Numbers([const { OnceRef::new() }; LEAVES])
    }

    /// The word of `fd`, if there is one yet.
    #[inline(always)]
    pub(crate) fn word(&'static self, fd: i32) -> Option<&'static AtomicU64> {
        // (As an unsigned number a negative one is beyond all leaves, and one comparison tells both.)
        let number = fd as u32 as usize;
        self.0.get(number / LEAF)?.get().map(|leaf| &leaf[number % LEAF])
    }

    /// The same; `None` if there is no memory for it or the number is too large.
    pub(crate) fn word_or_new(&'static self, fd: i32) -> Option<&'static AtomicU64> {
        let number = usize::try_from(fd).ok()?;
        let leaf = self.0.get(number / LEAF)?;
        if leaf.get().is_none() {
            let memory = os::mem::map_private(LEAF * 8).ok()?;
            leaf.set(<&'static [AtomicU64; LEAF]>::try_from(memory).ok()?);
        }
        self.word(fd)
    }

    /// All words there are, with their numbers.
    pub(crate) fn words(&'static self) -> impl Iterator<Item = (i32, &'static AtomicU64)> {
        let leaves = self.0.iter().enumerate().filter_map(|(at, leaf)| Some((at, leaf.get()?)));
        leaves.flat_map(|(at, leaf)| {
            leaf.iter().enumerate().map(move |(offset, word)| ((at * LEAF + offset) as i32, word))
        })
    }
}
