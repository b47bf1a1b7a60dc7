//! Programs that wait for sockets of libc's functions by the `syscall` instruction itself (Bun; Rust's
//! `polling`, `smol` and `rustix`), where no hook sees it: what comes through memory would wake nobody, and
//! our cookies would be the program's data. Owns: what is known of who waits for a socket, and what holds
//! as long as nobody was seen to.
//!
//! Until a function of libc waits on a set, its records of our sockets are the program's own word, with its
//! own data, and have no doorbell beside them; the first wait takes them all up, before it looks. A call that
//! only a wait can have led to, on a socket that no set was waited on for, and no poll or select has named,
//! says that this program waits elsewhere: the connection is TCP's (`decide::refuse_unseen`). Such are
//! - accept() by a listener that does not block, if it is in a set;
//! - of a connection whose connect() did not block, the first bytes; a question for its error, if it is in a
//!   set; and that room is waited for no longer;
//! - a call that does not block and finds no bytes, or no room, if the connection is in a set that no
//!   function of libc has made, or in none, and the process has an io_uring. (A set that libc has made says
//!   nothing: many programs put a socket into it, try first, and wait then.)

use crate::conn::Conn;
use crate::flag;
use crate::held::{all, hold, hold_index, peek_index};
use crate::here::Part as _;
use crate::interest::registration::{Registration, of_conn};
use crate::interest::set::Set;
use crate::phase::Phase;
use crate::records;
use crate::table::{self, Entry};
use crate::waiters::{ELSEWHERE, IN_A_SET, LOOKED, NO_CLIENT, SEEN};
use shm::slab::Index;
use sync::AtomicU32;
use sync::Ordering::SeqCst;

/// Before a wait on `set`, by a function of libc.
#[inline]
pub(crate) fn note_wait(set: &Set) {
    if !set.waited.is_finished() {
        note_first_wait(set);
    }
}

#[cold]
fn note_first_wait(set: &Set) {
    set.waited.begin();
    let mut is_all = true;
    if set.waited.has_sets() {
        // (In whichever of them.)
        for inner in Set::all().filter(|inner| inner.waited.is_told_by_another()) {
            inner.waited.begin();
            is_all &= is_taken_up(inner);
        }
    }
    is_all &= is_taken_up(set);
    if is_all {
        set.waited.finish();
    }
}

/// Whoever else begins to wait does the same, and has every record ours by then.
fn is_taken_up(set: &Set) -> bool {
    sync::fence(SeqCst);
    if set.waited.has_listeners() {
        let listeners = all().map(|(_, conn)| conn).filter(|conn| conn.is(Phase::Listening));
        listeners
            .filter(|conn| conn.role.waiters.has(IN_A_SET))
            .for_each(|conn| conn.role.waiters.mark(SEEN));
    }
    let (mut is_all, mut in_vain) = (true, 0);
    // (Who takes a member out puts another one in its place, perhaps behind this look: twice none is none.)
    while is_all && in_vain < 2 {
        in_vain += 1;
        for (_, registration) in set.members().filter(|(_, found)| found.is_unseen() && found.is_own()) {
            // (A handler that has interrupted who asks just now leaves it to the next wait.)
            is_all &= registration.hold().is_none_or(|conn| take_up(&conn, registration));
            in_vain = 0;
        }
    }
    is_all
}

/// The set `inner` goes into the set `outer`: who waits there waits for both.
pub(crate) fn note_nested(inner: i32, outer: i32) {
    let set = |epfd| Set::index_of(epfd).and_then(Set::get);
    if let (Some(inner), Some(outer)) = (set(inner), set(outer)) {
        inner.waited.note_nested(&outer.waited);
        sync::fence(SeqCst);
        if outer.waited.has_begun() {
            note_first_wait(inner);
        }
    }
}

/// Whether it is no longer to be done.
fn take_up(conn: &Conn, wanted: &Registration) -> bool {
    let Some(_turn) = conn.interest.turn.take() else { return false };
    let found = of_conn(conn).find(|(_, registration)| core::ptr::eq(*registration, wanted));
    if let Some((index, registration)) = found.filter(|(_, found)| found.is_unseen() && found.is_own()) {
        records::take_up(conn, index, registration);
    }
    true
}

/// Before a fork, whose child would not know what stands in its copy.
pub(crate) fn take_up_all() {
    all()
        .filter(|(_, conn)| has_any(conn))
        .filter_map(|(index, _)| hold_index(index))
        .for_each(|conn| take_up_all_of(&conn));
}

/// Whichever set it is in.
pub(crate) fn take_up_all_of(conn: &Conn) {
    if has_any(conn)
        && let Some(_turn) = conn.interest.turn.take()
    {
        for (index, registration) in of_conn(conn).filter(|(_, found)| found.is_unseen() && found.is_own()) {
            records::take_up(conn, index, registration);
        }
    }
}

/// poll or select names `fd`.
#[inline]
pub(crate) fn note_polled(fd: i32) {
    match table::get(fd) {
        Entry::Conn(index) => {
            if let Some(conn) = peek_index(index) {
                conn.role.waiters.mark(SEEN);
            }
        }
        Entry::Epoll(index) => {
            if let Some(set) = Set::get(index) {
                note_wait(set);
            }
        }
        _ => {}
    }
}

/// A record is about to be made in `set`. (The caller has the turn. Who waits on a set of several processes
/// another one may know.)
pub(crate) fn begin(set: &Set, registration: &Registration) {
    if !set.waited.has_begun() && !set.may_be_shared() {
        registration.begin_unseen();
    }
}

/// It is a member by now, and the kernel is to be asked. (Whoever has begun to wait meanwhile may not have
/// found it; who finds it from here on waits for the turn.)
pub(crate) fn look_before(set: &Set, registration: &Registration) {
    if registration.is_unseen() {
        sync::fence(SeqCst);
        if set.waited.has_begun() {
            registration.end_unseen();
        }
    }
}

/// It stands. (The caller has the turn. Whoever has begun to wait meanwhile may not have found it.)
pub(crate) fn look_again(conn: &Conn, set: &Set, index: Index, registration: &'static Registration) {
    if registration.is_unseen() {
        sync::fence(SeqCst);
        if set.waited.has_begun() {
            records::take_up(conn, index, registration);
        }
    }
}

/// Whether a set tells of it by the program's own word.
pub(crate) fn has_any(conn: &Conn) -> bool {
    of_conn(conn).any(|(_, registration)| registration.is_unseen() && registration.is_own())
}

/// Whether somebody was seen to wait for it.
pub(crate) fn is_waited_for(conn: &Conn) -> bool {
    conn.role.waiters.has(SEEN) || of_conn(conn).any(|(_, registration)| !registration.tells_own_data())
}

/// A listener goes into a set.
#[cold]
pub(crate) fn note_listener(conn: &Conn, epfd: i32) {
    if let Some(set) = Set::index_of(epfd).and_then(Set::get) {
        conn.role.waiters.mark(IN_A_SET);
        set.waited.note_listener();
        sync::fence(SeqCst);
        if set.waited.has_begun() {
            conn.role.waiters.mark(SEEN);
        }
    }
}

/// A listener that does not block had nothing to accept.
pub fn note_no_client(listener: i32) {
    if let Some(conn) = hold(listener) {
        conn.role.waiters.mark(NO_CLIENT);
    }
}

/// Whether only a wait that nobody saw can have told a listener that does not block when to accept.
pub(crate) fn has_accepted_unseen(listener: i32) -> bool {
    let Some(conn) = hold(listener).filter(|conn| conn.is(Phase::Listening)) else { return false };
    let waiters = &conn.role.waiters;
    if waiters.has(SEEN) || !waiters.has(IN_A_SET | NO_CLIENT) || !os::fd::is_nonblocking(listener) {
        return false;
    }
    waiters.has(IN_A_SET) || is_in_a_set_elsewhere(&conn, listener)
}

/// Whether a call on `conn` that does not block, and finds nothing, is followed by a wait that nobody sees.
#[cold]
pub(crate) fn waits_elsewhere(conn: &Conn, fd: i32) -> bool {
    let is_known = is_waited_for(conn) || has_any(conn) || conn.has(flag::SIGNAL_DRIVEN);
    !is_known && is_in_a_set_elsewhere(conn, fd)
}

/// Whether the socket is in a set on which nobody was seen to wait.
pub(crate) fn is_in_a_set(conn: &Conn, fd: i32) -> bool {
    has_any(conn) || is_in_a_set_elsewhere(conn, fd)
}

/// Whether the socket is in a set that no function of libc has made, or may be waited for by an io_uring.
/// Asked once of a socket, and of few in a process that has neither: some programs do nothing but look.
fn is_in_a_set_elsewhere(conn: &Conn, fd: i32) -> bool {
    let waiters = &conn.role.waiters;
    if !waiters.has(LOOKED) && !os::confined::is_confined() {
        waiters.mark(LOOKED);
        if Searches::here().are_due() && is_found(fd) {
            Searches::here().0.store(FOUND, SeqCst);
            waiters.mark(ELSEWHERE);
        }
    }
    waiters.has(ELSEWHERE)
}

fn is_found(fd: i32) -> bool {
    let mut is_any = false;
    let _ = os::file::each_own_descriptor(|number| {
        if is_any || !table::is_empty(number) {
            return;
        }
        is_any = match os::pipe::is_a_set(number) {
            true => os::epoll::has_number(number, fd) == Some(true),
            false => os::pipe::is_a_ring_of_the_kernel(number),
        };
    });
    is_any
}

/// How often this process has looked for such sets and rings in vain; or [`FOUND`].
pub(crate) struct Searches(AtomicU32);

const FOUND: u32 = u32::MAX;

impl Searches {
    pub(crate) const fn new() -> Self {
        Searches(AtomicU32::new(0))
    }

    /// Each of the first few sockets, then ever fewer; each of them once one was found.
    fn are_due(&self) -> bool {
        const FEW: u32 = 16;
        let before = self.0.load(SeqCst);
        if before == FOUND {
            return true;
        }
        self.0.store((before + 1).min(FOUND - 1), SeqCst);
        before < FEW || before.is_power_of_two()
    }
}
