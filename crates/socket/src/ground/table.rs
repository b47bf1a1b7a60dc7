//! From descriptor number to what this process knows about it: two loads, no lock, no allocation before the
//! first entry. Owns: the map. A number without an entry is libc's business.

use crate::borrower;
use crate::doubt;
use crate::here::Part as _;
use crate::numbers::Numbers;
use fabric::Reason;
use shm::slab::Index;
use sync::{AtomicU64, Ordering};

/// In a word: a process that borrows this memory has something else under the number ([`crate::borrower`]).
const ELSEWHERE: u64 = 1 << 63;

/// In a word: a process that shares our descriptors, and not our calls, may have put something else under the
/// number ([`crate::doubt`]).
const DOUBTED: u64 = 1 << 62;
const MARKS: u64 = ELSEWHERE | DOUBTED;

/// The map of a process.
pub(crate) struct Table(Numbers);

impl Table {
    pub(crate) const fn new() -> Self {
        Table(Numbers::new())
    }
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

    /// What the process that owns this memory has, from a word of its table.
    #[inline]
    fn owners(word: u64) -> Self {
        Self::from_word(word & !MARKS)
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
    Table::here().0.word(fd)
}

fn cell_or_new(fd: i32) -> Option<&'static AtomicU64> {
    Table::here().0.word_or_new(fd)
}

/// The entry of `fd`.
#[inline]
pub fn get(fd: i32) -> Entry {
    cell(fd).map_or(Entry::Empty, |cell| seen(cell, fd))
}

/// What a number's word says to the calling process.
#[inline(always)]
fn seen(cell: &'static AtomicU64, fd: i32) -> Entry {
    let word = cell.load(Ordering::Acquire);
    match word >> 32 {
        ..=3 => Entry::from_word(word),
        _ => entry_elsewhere(cell, word, fd),
    }
}

/// The place of a connection's entry, and what it said.
pub(crate) struct Place(&'static AtomicU64, u64);

impl Place {
    /// Whether `fd`, whose place it is, stands for `conn` (still).
    #[inline]
    pub(crate) fn still_is(&self, fd: i32, conn: Index) -> bool {
        self.0.load(Ordering::SeqCst) == self.1 || is_after_all(self.0, fd, conn)
    }
}

/// Whether `fd` stands for the connection of this number.
#[inline(always)]
pub(crate) fn is_of(fd: i32, conn: Index) -> bool {
    let entry = Entry::Conn(conn);
    cell(fd).is_some_and(|cell| cell.load(Ordering::Acquire) == entry.word()) || get(fd) == entry
}

/// The connection that `fd` stands for, and where it stands.
#[inline]
pub(crate) fn look(fd: i32) -> Option<(Place, Index)> {
    let cell = cell(fd)?;
    let word = cell.load(Ordering::Acquire);
    match word >> 32 {
        1 => Some((Place(cell, word), Index(word as u32))),
        ..=3 => None,
        _ => look_elsewhere(cell, word, fd),
    }
}

#[cold]
#[inline(never)]
fn look_elsewhere(cell: &'static AtomicU64, word: u64, fd: i32) -> Option<(Place, Index)> {
    match entry_elsewhere(cell, word, fd) {
        Entry::Conn(index) => Some((Place(cell, word), index)),
        _ => None,
    }
}

/// The word has changed: a mark may have come or gone.
#[cold]
#[inline(never)]
fn is_after_all(cell: &'static AtomicU64, fd: i32, conn: Index) -> bool {
    seen(cell, fd) == Entry::Conn(conn)
}

/// The entry of `fd` for the calling process, where others may have something else there.
#[cold]
#[inline(never)]
fn entry_elsewhere(cell: &AtomicU64, word: u64, fd: i32) -> Entry {
    if word & ELSEWHERE != 0 {
        if borrower::is_one() {
            return borrower::word_of(fd).map_or_else(|| believed(word, fd), Entry::from_word);
        }
        if !borrower::lives(fd) {
            let _ = cell.compare_exchange(word, word & !ELSEWHERE, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
    believed(word, fd)
}

/// What its owner has by `word`, unless there is something else by now.
fn believed(word: u64, fd: i32) -> Entry {
    let is_there = word & DOUBTED == 0 || doubt::stands(fd);
    if is_there { Entry::owners(word) } else { Entry::Empty }
}

/// From now on the kernel is asked at every look whether `fd` still stands for this connection, whose cookie
/// that is.
pub(crate) fn doubt(fd: i32, conn: Index, cookie: u64) {
    if let Some(cell) = cell(fd)
        && doubt::note(fd, cookie)
    {
        let word = cell.load(Ordering::Acquire);
        if Entry::owners(word) == Entry::Conn(conn) {
            let _ = cell.compare_exchange(word, word | DOUBTED, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// In a process that borrows this memory: for it alone `fd` stands for `entry` from now on.
pub fn set_for_borrower(fd: i32, entry: Entry) {
    if (entry != Entry::Empty || !is_empty(fd))
        && borrower::is_one()
        && borrower::note(fd, entry.word())
        && let Some(cell) = cell_or_new(fd)
    {
        cell.fetch_or(ELSEWHERE, Ordering::AcqRel);
    }
}

/// The same for a range of numbers, which stand for nothing any more.
pub fn clear_for_borrower(first: u32, last: u32) {
    let known = Table::here().0.words().filter(|(_, cell)| cell.load(Ordering::Relaxed) != 0);
    for (fd, _) in known.filter(|(fd, _)| (first..=last).contains(&(*fd as u32))) {
        set_for_borrower(fd, Entry::Empty);
    }
}

/// Whether `fd` has no entry, as most descriptors of most programs.
#[inline(always)]
pub fn is_empty(fd: i32) -> bool {
    cell(fd).is_none_or(|cell| cell.load(Ordering::Acquire) == 0)
}

/// Sets the entry of `fd` and returns the old one. `None` if there is no memory for it or the number is too
/// large.
pub fn set(fd: i32, entry: Entry) -> Option<Entry> {
    Some(Entry::owners(cell_or_new(fd)?.swap(entry.word(), Ordering::AcqRel)))
}

/// The same only if the old one is `seen`; whether it was.
pub(crate) fn replace(fd: i32, seen: Entry, entry: Entry) -> Option<bool> {
    let cell = cell_or_new(fd)?;
    let marked = cell.load(Ordering::Relaxed) & MARKS;
    let replaced = cell.compare_exchange(
        seen.word() | marked,
        entry.word() | marked & ELSEWHERE,
        Ordering::AcqRel,
        Ordering::Relaxed,
    );
    Some(replaced.is_ok())
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
    (Entry::owners(word) == Entry::Foreign && word as u32 != 0).then_some(Reason(word as u32))
}

/// Empties the entry of `fd` and returns what it was. Cheap for numbers that never had one.
pub fn clear(fd: i32) -> Entry {
    match cell(fd) {
        Some(cell) if cell.load(Ordering::Relaxed) != 0 => Entry::owners(cell.swap(0, Ordering::SeqCst)),
        _ => Entry::Empty,
    }
}

/// All non-empty entries with their numbers, as the process has them that owns this memory.
pub fn entries() -> impl Iterator<Item = (i32, Entry)> {
    let all = Table::here().0.words().map(|(fd, cell)| (fd, believed(cell.load(Ordering::Acquire), fd)));
    all.filter(|(_, entry)| *entry != Entry::Empty)
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
