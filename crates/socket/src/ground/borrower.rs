//! A process that runs in its parent's memory, with descriptors of its own (vfork): what it has made of their
//! numbers. Owns: that what it closes and duplicates changes nothing for the parent, whose table this is, and
//! that what it does with a number afterwards goes where it would without us.
//!
//! It finds its parent's connections under the numbers that it has not touched. For one that it has, a word
//! here says what it stands for, and whose word that is; a mark in the parent's table leads to it.

use crate::here::Part as _;
use crate::numbers::Numbers;
use sync::Ordering;

/// Where the process id stands in a word, above what the table says of a number.
const WHOSE: u32 = 40;

/// What borrowers have said; of two at once that touch the same number the last counts.
pub(crate) struct Borrowed(Numbers);

impl Borrowed {
    pub(crate) const fn new() -> Self {
        Borrowed(Numbers::new())
    }
}

/// Whether the calling process is one.
pub(crate) fn is_one() -> bool {
    os::process::pid() != os::process::cached_pid()
}

/// The calling process has what `word` says under `fd`. Whether there was memory to note it.
pub(crate) fn note(fd: i32, word: u64) -> bool {
    let noted = u64::from(os::process::pid()) << WHOSE | word;
    Borrowed::here().0.word_or_new(fd).map(|cell| cell.store(noted, Ordering::Release)).is_some()
}

/// What it has noted of `fd`.
pub(crate) fn word_of(fd: i32) -> Option<u64> {
    let noted = Borrowed::here().0.word(fd)?.load(Ordering::Acquire);
    (noted >> WHOSE == u64::from(os::process::pid())).then_some(noted & ((1 << WHOSE) - 1))
}

/// Whether whoever noted something of `fd` still runs in this memory: the kernel knows.
pub(crate) fn lives(fd: i32) -> bool {
    let noted = Borrowed::here().0.word(fd).map_or(0, |cell| cell.load(Ordering::Acquire));
    noted != 0 && os::process::shares_memory((noted >> WHOSE) as u32)
}
