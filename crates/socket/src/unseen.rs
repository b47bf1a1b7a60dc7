//! Programs that wait for sockets of libc's functions by the `syscall` instruction itself (Bun; Rust's
//! `polling`, `smol` and `rustix`), where no hook sees it: what comes through memory would wake nobody, and
//! our cookies would be the program's data. Owns: what holds as long as no wait of this process was seen.
//!
//! Until the first one, a set's records of our sockets are the program's own word, with its own data, and
//! have no doorbell beside them; it takes them all up, before it looks. A call that only a wait can have led
//! to, and that comes before any, says that this program waits elsewhere: that connection is TCP's. Such are
//! accept() by a listener that does not block; of a connection whose connect() did not block the first bytes,
//! a question for its error, and that room is waited for no longer; and a receive that does not block and
//! finds nothing.

use crate::conn::Conn;
use crate::here::Part;
use crate::interest::registration::{Registration, of_conn};
use crate::{held, records, table};
use fabric::turn::Turn;
use shm::slab::Index;
use sync::AtomicBool;
use sync::Ordering::{Acquire, SeqCst};

/// Whether this process has waited by a function of libc, for anything that may be a socket.
pub(crate) struct Waits {
    /// The first of them takes up what was asked until then: what is asked from here on is ours.
    has_begun: AtomicBool,
    /// It has done so.
    is_seen: AtomicBool,
    turn: Turn,
}

impl Waits {
    pub(crate) const fn new() -> Self {
        Waits { has_begun: AtomicBool::new(false), is_seen: AtomicBool::new(false), turn: Turn::new() }
    }
}

/// Whether no wait was seen yet.
#[inline]
pub(crate) fn is_unseen() -> bool {
    !Waits::here().has_begun.load(SeqCst)
}

/// Before a wait on a set, by a function of libc.
#[inline]
pub fn note_wait() {
    if !Waits::here().is_seen.load(Acquire) {
        begin_to_see();
    }
}

/// The same of poll and select, if they look at a socket of ours, or a set.
#[inline]
pub(crate) fn note_wait_for(mut fds: impl Iterator<Item = i32>) {
    if !Waits::here().is_seen.load(Acquire) && fds.any(|fd| !table::is_empty(fd)) {
        begin_to_see();
    }
}

/// Other threads' waits stand behind this one, until every record is ours.
#[cold]
fn begin_to_see() {
    let waits = Waits::here();
    // (A handler that has interrupted the same leaves it at that.)
    let Some(_turn) = waits.turn.take() else { return };
    if !waits.is_seen.load(Acquire) {
        waits.has_begun.store(true, SeqCst);
        if take_up_all() {
            waits.is_seen.store(true, SeqCst);
        }
    }
}

/// Every record is ours before a fork, whose child would not know what stands in its copy, and before a set
/// goes into another one, which is told of it by doorbells.
pub(crate) fn take_up_early() {
    if is_unseen() {
        take_up_all();
    }
}

/// Whether none is left.
fn take_up_all() -> bool {
    held::all().fold(true, |is_all, (_, conn)| take_up(conn) && is_all)
}

/// The same of one connection.
pub(crate) fn take_up(conn: &Conn) -> bool {
    let unseen = || of_conn(conn).filter(|(_, registration)| registration.is_unseen());
    if unseen().next().is_none() {
        return true;
    }
    let Some(_turn) = conn.interest.turn.take() else { return false };
    for (index, registration) in unseen() {
        records::take_up(conn, index, registration);
    }
    true
}

/// A record is about to be made. (The caller has the turn.)
pub(crate) fn begin(registration: &Registration) {
    if is_unseen() {
        registration.begin_unseen();
    }
}

/// It stands. (The caller has the turn. Whoever has begun to wait meanwhile may not have found it.)
pub(crate) fn look_again(conn: &Conn, index: Index, registration: &'static Registration) {
    if registration.is_unseen() && !is_unseen() {
        records::take_up(conn, index, registration);
    }
}
