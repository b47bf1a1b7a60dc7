//! A number that is closed while another thread is in a call on it. Owns: that the call goes on looking at
//! its own socket, as in the kernel, where a call keeps the socket open that it found at first. (A sleep by
//! number does not: the kernel looks the number up anew when something wakes it.)
//!
//! The socket gets a number of ours until its last call is over. A call for which there is none any more
//! ends with EBADF.

use crate::conn::Conn;
use crate::flag;
use crate::here::Part as _;
use crate::table::{self, Entry};
use shm::slab::Index;
use sync::{AtomicU64, Ordering, fence};

/// Sockets that are kept open at once: a program has seldom so many threads in blocked calls.
const PLACES: usize = 1024;

/// For each the number of the connection above that of the descriptor, which is never 0.
pub(crate) struct Kept([AtomicU64; PLACES]);

impl Kept {
    pub(crate) const fn new() -> Self {
        Kept([const { AtomicU64::new(0) }; PLACES])
    }
}

fn places() -> &'static [AtomicU64; PLACES] {
    &Kept::here().0
}

fn word(index: Index, fd: i32) -> u64 {
    u64::from(index.0) << 32 | u64::from(fd.unsigned_abs())
}

fn is_of(word: u64, index: Index) -> bool {
    word != 0 && word >> 32 == u64::from(index.0)
}

fn kept_number(index: Index) -> Option<i32> {
    let words = places().iter().map(|place| place.load(Ordering::Acquire));
    words.into_iter().find(|word| is_of(*word, index)).map(|word| word as u32 as i32)
}

/// A number of `conn` stands in the table no more, and is about to be closed; another thread is in a call.
/// `fd`, if there is anything that the call may wait for.
#[cold]
pub(crate) fn note_closed(conn: &Conn, index: Index, fd: Option<i32>) {
    if let Some(fd) = fd
        && !os::confined::is_confined()
        && kept_number(index).is_none()
        && let Ok(kept) = os::fd::duplicate_internal(fd)
    {
        let word = word(index, kept);
        let enter =
            |place: &AtomicU64| place.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        match places().iter().any(enter) {
            true => conn.mark(flag::HELD_OPEN),
            false => os::fd::close(kept),
        }
    }
    conn.mark(flag::KEPT);
    fence(Ordering::SeqCst);
}

/// The number by which a call that began with `fd` finds its socket now; -1 if it has none any more.
#[inline]
pub(crate) fn number(conn: &Conn, index: Index, fd: i32) -> i32 {
    if conn.has(flag::KEPT) && !is_in_the_table(index, fd) { kept_number(index).unwrap_or(-1) } else { fd }
}

/// Whether the number of a call on `conn` is no socket of ours any more. One that has neither slept nor moved
/// anything begins now, as far as anybody can tell, and is about what has the number now: a thread whose file
/// was replaced, and which was then sent a signal, is to find the other file if the signal came before its
/// sleep (OpenJDK's close).
#[inline]
pub(crate) fn is_another_file(conn: &Conn, fd: i32) -> bool {
    conn.has(flag::KEPT) && !matches!(table::get(fd), Entry::Conn(_))
}

/// Whether `fd` is a number of ours for some socket.
pub(crate) fn is_one(fd: i32) -> bool {
    let mut words = places().iter().map(|place| place.load(Ordering::Acquire));
    words.any(|word| word != 0 && word as u32 as i32 == fd)
}

fn is_in_the_table(index: Index, fd: i32) -> bool {
    table::get(fd) == Entry::Conn(index)
}

/// A call that began with `fd` is over: if it is the last, and its own number is the program's still, none of
/// ours is needed.
#[cold]
pub(crate) fn end_if_over(conn: &Conn, index: Index, fd: i32) {
    if is_in_the_table(index, fd) && !conn.is_in_other_calls() {
        conn.unmark(flag::KEPT.and(flag::HELD_OPEN));
        give_back(|word| is_of(word, index));
    }
}

/// The number by which the socket was kept open, if it was.
#[inline]
pub(crate) fn held_open(conn: &Conn, index: Index) -> Option<i32> {
    if conn.has(flag::HELD_OPEN) { kept_number(index) } else { None }
}

/// Nobody is in a call on the connection any more, and it has no descriptor.
#[inline]
pub(crate) fn let_go(conn: &Conn, index: Index) {
    if conn.has(flag::KEPT) {
        give_back(|word| is_of(word, index));
    }
}

/// In a fork child: the threads that were in those calls are the parent's.
pub(crate) fn forget() {
    give_back(|word| word != 0);
}

#[cold]
fn give_back(is_over: impl Fn(u64) -> bool) {
    for place in places() {
        let word = place.load(Ordering::Acquire);
        if is_over(word) && place.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            os::fd::close(word as u32 as i32);
        }
    }
}
