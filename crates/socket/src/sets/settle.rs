//! The kernel's records are made to say what the program asks for. Owns: that nothing which they say too much
//! is left for a fork, an exec or a duplicate to carry on (see `epoll::lazy`).

use crate::conn::Conn;
use crate::flag;
use crate::held::all;
use crate::interest::events::FLAGS;
use crate::interest::registration::{Registration, Source, of_conn, registrations};
use crate::records::{drop_registration, record_events};
use os::epoll::{Op, bits, ctl as kernel_ctl};
use shm::slab::Index;
use sync::Ordering;

/// The kernel reported what the program does not ask for: its records are made to say what it does.
pub(crate) fn settle(conn: &Conn, registration: &'static Registration) {
    // After a fork the record is another's as well, and exact since then; but for the end, which everybody
    // has heard of.
    if (registration.era.load(Ordering::Relaxed) == crate::era::now() || conn.has(flag::TCP_ENDED))
        && let Some(_turn) = conn.interest.turn.take()
    {
        settle_one(conn, registration);
    }
}

/// The kernel calls a set readable in which a one-shot registration was told of, by what the rings say: its
/// record was not taken off with that, and is not to go on.
pub(crate) fn settle_fired(conn: &Conn, registration: &'static Registration) {
    let may_be_armed = || {
        registration.is_fired()
            && !registration.tells_own_data()
            && registration.kernel_events.load(Ordering::Relaxed) != bits::ONESHOT
            && registration.era.load(Ordering::Relaxed) == crate::era::now()
    };
    if may_be_armed()
        && let Some(_turn) = conn.interest.turn.take()
        && let Some((index, _)) = of_conn(conn).find(|(_, other)| core::ptr::eq(*other, registration))
        && may_be_armed()
        && let Some(fd) = registration.record()
    {
        let (epfd, cookie) = (registration.epfd(), registration.cookie(index, Source::Tcp));
        if kernel_ctl(epfd, Op::Mod, fd, bits::ONESHOT, cookie).is_ok() {
            registration.kernel_events.store(bits::ONESHOT, Ordering::Relaxed);
        }
    }
}

/// As [`settle`], with the turn taken. The registration may have gone, and come back for another socket,
/// meanwhile.
fn settle_one(conn: &Conn, registration: &'static Registration) {
    let Some((index, _)) = of_conn(conn).find(|(_, other)| core::ptr::eq(*other, registration)) else {
        return;
    };
    if registration.is_parked() {
        drop_registration(conn, registration, true);
        return;
    }
    let wanted = record_events(conn, registration, registration.events());
    // An exclusive record tells of the end of the stream by EPOLLIN, without end, and cannot be modified.
    let is_exclusive = registration.events() & FLAGS == bits::EXCLUSIVE;
    let is_lazy = registration.events() & FLAGS == 0 || is_exclusive;
    if !is_lazy || wanted == registration.kernel_events.load(Ordering::Relaxed) {
        return;
    }
    let Some(fd) = registration.record() else { return };
    let (epfd, cookie) = (registration.epfd(), registration.cookie(index, Source::Tcp));
    let is_done = match is_exclusive {
        true => {
            kernel_ctl(epfd, Op::Del, fd, 0, 0).and_then(|()| kernel_ctl(epfd, Op::Add, fd, wanted, cookie))
        }
        false => kernel_ctl(epfd, Op::Mod, fd, wanted, cookie),
    };
    if is_done.is_ok() {
        registration.kernel_events.store(wanted, Ordering::Relaxed);
    }
}

/// Before somebody else gets a copy of the socket: the kernel's records say what the program asks for.
pub(crate) fn settle_all_of(conn: &Conn) {
    if conn.interest.registrations.load(Ordering::Acquire) == 0 {
        return;
    }
    let Some(_turn) = conn.interest.turn.take() else { return };
    let mut next = conn.interest.registrations.load(Ordering::Acquire);
    while let Some(index) = next.checked_sub(1).map(Index) {
        let Some(registration) = registrations().get(index) else { return };
        next = registration.next.load(Ordering::Acquire);
        settle_one(conn, registration);
    }
}

/// The same for all sockets, before an exec, and before a fork once the era has changed: what is asked from
/// then on goes to the kernel at once.
pub(crate) fn settle_everything() {
    for (_, conn) in all() {
        settle_all_of(conn);
    }
}
