//! epoll_ctl without system calls. Owns: by how much the kernel's records may exceed what the program asks
//! for.
//!
//! Event loops take their interest in a socket back and forth with every message (redis, libevent, libuv).
//! The records of a plain level-triggered registration stay in the kernel meanwhile: a wish that shrinks
//! leaves them wide, and one that is taken back is parked with them, in case it returns. Should the kernel
//! report what nobody asks for any more, the wait that hears it settles the account. Nothing is left over
//! that a fork, an exec or a duplicate could carry on.

use crate::conn::Conn;
use crate::end::End;
use crate::interest::events::FLAGS;
use crate::interest::registration::{Registration, Source, of_number};
use crate::interest::set::Set;
use crate::phase::Phase;
use crate::records::{self, count, drop_registration, recount, tcp_events};
use crate::table;
use crate::{Outcome, held, inherited};
use os::Errno;
use os::epoll::{Op, ctl as kernel_ctl};
use shm::slab::Index;
use sync::Ordering;

/// Whether the kernel's records of `registration` can stand for `events`: both are level-triggered, nobody
/// else has got a copy of the set since the registration was made, and what they say passes by us.
fn may_stand_for(conn: &Conn, registration: &Registration, events: u32) -> bool {
    conn.is(Phase::Smc)
        && (events | registration.events()) & FLAGS == 0
        && registration.interest.bell().is_some()
        && !registration.tells_own_data()
        && registration.era.load(Ordering::Relaxed) == crate::era::now()
}

/// epoll_ctl as event loops call it with every message: of a record that is in the set, or parked with it, of
/// a connection in shared memory, where nobody else has the set or the connection. `None`: it is to be looked
/// at in full.
///
/// The connection is not held: whoever closes the number waits for the turn when it is out of the table, so
/// with the turn the number's connection stays what it is.
#[inline]
pub(super) fn at_once(epfd: i32, op: Op, fd: i32, (events, data): (u32, u64)) -> Option<Outcome> {
    let set_index = Set::index_of(epfd)?;
    let (_, conn_index) = table::look(fd)?;
    let conn = held::peek_index(conn_index).filter(|conn| conn.is(Phase::Smc))?;
    if inherited::is_due() || Set::get(set_index)?.may_be_shared() {
        return None;
    }
    let _turn = conn.interest.turn.take()?;
    let end = End::of(conn).filter(|_| table::is_of(fd, conn_index) && conn.is(Phase::Smc))?;
    if end.mine().set_sharers.load(Ordering::Relaxed) != 0 {
        return None;
    }
    let (index, registration) = of_number(conn, set_index, fd)?;
    let is_done = match (op, registration.is_parked()) {
        (Op::Del, false) => park(conn, registration),
        (Op::Mod, false) => match modify(conn, index, registration, events, data) {
            Err(errno) => return Some(Outcome::Fail(errno)),
            Ok(is_done) => is_done,
        },
        (Op::Add, true) => revive(conn, index, registration, events, data),
        _ => false,
    };
    is_done.then_some(Outcome::Done(0))
}

/// EPOLL_CTL_MOD: whether it is done. The kernel is asked only for what its record lacks.
pub(super) fn modify(
    conn: &Conn,
    index: Index,
    registration: &Registration,
    events: u32,
    data: u64,
) -> Result<bool, Errno> {
    if !may_stand_for(conn, registration, events) {
        return Ok(false);
    }
    let wanted = tcp_events(conn, events) | registration.kernel_events.load(Ordering::Relaxed);
    if wanted != registration.kernel_events.load(Ordering::Relaxed) {
        let (epfd, cookie) = (registration.epfd(), registration.cookie(index, Source::Tcp));
        registration.interest.begin_asking();
        kernel_ctl(epfd, Op::Mod, registration.fd(), wanted, cookie)
            .inspect_err(|_| registration.interest.end_asking())?;
        registration.kernel_events.store(wanted, Ordering::Relaxed);
    }
    let before = registration.ask(events, data);
    recount(conn, before, events);
    if let Some(end) = End::of(conn) {
        records::tell_waiters(conn, &end, registration, Some(before));
    }
    Ok(true)
}

/// EPOLL_CTL_DEL: whether it is done. The socket must be this descriptor's alone: a record cannot be taken
/// out through another number.
pub(super) fn park(conn: &Conn, registration: &Registration) -> bool {
    if !may_stand_for(conn, registration, 0) || conn.fds() != 1 || !conn.is_exclusive() {
        return false;
    }
    count(conn, registration.interest.ask(0).events(), -1);
    registration.unlist();
    registration.is_parked.store(1, Ordering::Release);
    true
}

/// EPOLL_CTL_ADD of a parked one: whether it is done. If not, nothing of it is left.
pub(super) fn revive(
    conn: &Conn,
    index: Index,
    registration: &'static Registration,
    events: u32,
    data: u64,
) -> bool {
    if modify(conn, index, registration, events, data) == Ok(true) {
        registration.is_parked.store(0, Ordering::Release);
        return true;
    }
    drop_registration(conn, registration, true);
    false
}
