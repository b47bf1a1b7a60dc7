//! From descriptor number to what this process knows about it: two loads, no lock, no allocation before the
//! first entry. Owns: the map. A number without an entry is libc's business.

use crate::here::Part as _;
use fabric::Reason;
use shm::slab::{Index, OnceRef};
use sync::{AtomicU64, Ordering};

const LEAF: usize = 512;
const LEAVES: usize = 2048;

/// The map of a process.
pub(crate) struct Table([OnceRef<[AtomicU64; LEAF]>; LEAVES]);

impl Table {
    pub(crate) const fn new() -> Self {
        Table([const { OnceRef::new() }; LEAVES])
    }
}

#[inline(always)]
fn root() -> &'static [OnceRef<[AtomicU64; LEAF]>; LEAVES] {
    &Table::here().0
}

/// What a descriptor number stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// Unknown: never seen, or closed.
    Empty,
    /// A TCP socket we take part in.
    Conn(Index),
    /// An epoll set, with or without such sockets.
    Epoll(Index),
    /// Looked at, and none of our business until it is closed.
    Foreign,
}

impl Entry {
    #[inline]
    fn from_word(word: u64) -> Self {
        let index = Index(word as u32);
        match word >> 32 {
            0 => Entry::Empty,
            1 => Entry::Conn(index),
            2 => Entry::Epoll(index),
            _ => Entry::Foreign,
        }
    }

    #[inline]
    fn word(self) -> u64 {
        match self {
            Entry::Empty => 0,
            Entry::Conn(Index(index)) => 1 << 32 | u64::from(index),
            Entry::Epoll(Index(index)) => 2 << 32 | u64::from(index),
            Entry::Foreign => 3 << 32,
        }
    }
}

#[inline(always)]
fn cell(fd: i32) -> Option<&'static AtomicU64> {
    let number = usize::try_from(fd).ok()?;
    root().get(number / LEAF)?.get().map(|leaf| &leaf[number % LEAF])
}

/// The entry of `fd`.
#[inline]
pub fn get(fd: i32) -> Entry {
    cell(fd).map_or(Entry::Empty, |cell| Entry::from_word(cell.load(Ordering::Acquire)))
}

/// The place of a number's entry.
pub(crate) struct Place(&'static AtomicU64);

impl Place {
    /// Whether its entry is `entry` (still).
    #[inline]
    pub(crate) fn still_is(&self, entry: Entry) -> bool {
        self.0.load(Ordering::SeqCst) == entry.word()
    }
}

/// The entry of `fd` and where it stands; `None` without one.
#[inline]
pub(crate) fn look(fd: i32) -> Option<(Place, Entry)> {
    let cell = cell(fd)?;
    Some((Place(cell), Entry::from_word(cell.load(Ordering::Acquire))))
}

/// Whether `fd` has no entry, as most descriptors of most programs.
#[inline(always)]
pub fn is_empty(fd: i32) -> bool {
    cell(fd).is_none_or(|cell| cell.load(Ordering::Acquire) == 0)
}

/// Sets the entry of `fd` and returns the old one. `None` if there is no memory for it or the number is too
/// large.
pub fn set(fd: i32, entry: Entry) -> Option<Entry> {
    Some(Entry::from_word(cell_or_new(fd)?.swap(entry.word(), Ordering::AcqRel)))
}

/// The same only if the old one is `seen`; whether it was.
pub(crate) fn replace(fd: i32, seen: Entry, entry: Entry) -> Option<bool> {
    let cell = cell_or_new(fd)?;
    let replaced =
        cell.compare_exchange(seen.word(), entry.word(), Ordering::AcqRel, Ordering::Relaxed).is_ok();
    Some(replaced)
}

fn cell_or_new(fd: i32) -> Option<&'static AtomicU64> {
    let number = usize::try_from(fd).ok()?;
    let root = root().get(number / LEAF)?;
    if root.get().is_none() {
        let memory = os::mem::map_private(LEAF * 8).ok()?;
        let leaf = <&'static [AtomicU64; LEAF]>::try_from(memory).ok()?;
        root.set(leaf);
    }
    cell(fd)
}

/// As [`set`] with [`Entry::Foreign`], for a socket that stays on TCP for a reason that is wanted later.
pub fn refuse(fd: i32, reason: Reason) {
    if set(fd, Entry::Foreign).is_some()
        && let Some(cell) = cell(fd)
    {
        cell.store(Entry::Foreign.word() | u64::from(reason.0), Ordering::Release);
    }
}

/// Why `fd` was refused.
pub fn refusal(fd: i32) -> Option<Reason> {
    let word = cell(fd)?.load(Ordering::Acquire);
    (Entry::from_word(word) == Entry::Foreign && word as u32 != 0).then_some(Reason(word as u32))
}

/// Empties the entry of `fd` and returns what it was. Cheap for numbers that never had one.
pub fn clear(fd: i32) -> Entry {
    match cell(fd) {
        Some(cell) if cell.load(Ordering::Relaxed) != 0 => Entry::from_word(cell.swap(0, Ordering::SeqCst)),
        _ => Entry::Empty,
    }
}

/// All non-empty entries with their numbers.
pub fn entries() -> impl Iterator<Item = (i32, Entry)> {
    let leaves = root().iter().enumerate().filter_map(|(at, root)| Some((at, root.get()?)));
    leaves.flat_map(|(at, leaf)| {
        leaf.iter().enumerate().filter_map(move |(offset, cell)| {
            let entry = Entry::from_word(cell.load(Ordering::Acquire));
            (entry != Entry::Empty).then_some(((at * LEAF + offset) as i32, entry))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_number_says_why() {
        refuse(100_001, Reason::MEM);
        assert_eq!((get(100_001), refusal(100_001)), (Entry::Foreign, Some(Reason::MEM)));
        set(100_001, Entry::Foreign);
        assert_eq!(refusal(100_001), None);
        clear(100_001);
    }

    #[test]
    fn entries_come_and_go() {
        assert_eq!(get(100_000), Entry::Empty);
        assert_eq!(set(100_000, Entry::Conn(Index(7))), Some(Entry::Empty));
        assert_eq!(get(100_000), Entry::Conn(Index(7)));
        assert!(entries().any(|entry| entry == (100_000, Entry::Conn(Index(7)))));
        assert_eq!(clear(100_000), Entry::Conn(Index(7)));
        assert_eq!(
            (clear(100_000), get(-1), set(1 << 30, Entry::Foreign)),
            (Entry::Empty, Entry::Empty, None)
        );
    }
}
