//! epoll_ctl. Owns: the two kernel records of a registration (TCP socket and doorbell), and what becomes of them when the
//! verdict falls.

use super::lazy;
use super::registration::{self, Registration, Source, Told, decode, of_conn};
use super::set::Set;
use super::{FLAGS, READ_SIDE, WRITE_SIDE};
use crate::conn::Conn;
use crate::end::End;
use crate::enter::enter;
use crate::held::{hold, hold_index};
use crate::phase::{Event, Phase};
use crate::table::{self, Entry};
use crate::{Outcome, client, doorbell, flag, ready, server, sleepers};
use core::sync::atomic::Ordering;
use os::epoll::{Op, bits, ctl as kernel_ctl};
use os::{Errno, net};
use shm::interest::Seen;
use shm::slab::Index;

/// What the kernel is to report about the TCP socket.
pub(super) fn tcp_events(conn: &Conn, events: u32) -> u32 {
    if conn.phase() != Phase::Smc {
        return events;
    }
    let hangup = match events {
        _ if events & (READ_SIDE | WRITE_SIDE) == 0 => 0,
        // A writer is told of the end once: only then it may be that nobody reads any more.
        _ if events & READ_SIDE == 0 && conn.has(flag::TCP_ENDED) => 0,
        // EPOLLEXCLUSIVE does not go with EPOLLRDHUP; TCP says EPOLLIN at its end as well.
        _ if events & bits::EXCLUSIVE != 0 => bits::IN,
        _ if events & READ_SIDE == 0 => bits::RDHUP,
        // EPOLLIN besides: after a move back to TCP (urgent data) the bytes are there.
        _ => bits::RDHUP | bits::IN,
    };
    events & (FLAGS | bits::PRI) | hangup
}

fn bell_events(events: u32) -> u32 {
    bits::IN | events & FLAGS
}

/// A TCP socket that goes into a set before it is connected, as proxies do it: whatever it will be, it is ours to watch.
pub fn note_early(fd: i32) {
    if net::is_tcp(fd) && net::peer(fd) == Err(Errno::ENOTCONN) && !net::is_listening(fd) {
        let _ = enter(fd, Event::Watched);
    }
}

/// epoll_ctl on a socket of ours. Results and their order are the kernel's: the TCP socket is asked first.
pub fn ctl(epfd: i32, op: Op, fd: i32, events: u32, data: u64) -> Outcome {
    let Some(conn) = hold(fd) else { return Outcome::Forward };
    let phase = match conn.phase() {
        Phase::Accepted => server::decide(&conn, fd),
        Phase::Intent => client::refresh(&conn, fd),
        phase => phase,
    };
    if !matches!(phase, Phase::Smc | Phase::Intent | Phase::Fresh) {
        return Outcome::Forward;
    }
    let Some(_turn) = conn.registrations_turn.take() else { return Outcome::Forward };
    let outcome = match op {
        Op::Add => add(&conn, conn.index(), epfd, fd, events, data),
        Op::Mod => modify(&conn, epfd, fd, events, data),
        Op::Del => delete(&conn, epfd, fd),
    };
    match outcome {
        Ok(outcome) => outcome,
        Err(errno) => Outcome::Fail(errno),
    }
}

fn find(conn: &Conn, epfd: i32, fd: i32) -> Option<(Index, &'static Registration)> {
    let set = Set::index_of(epfd)?;
    of_conn(conn).find(|(_, registration)| {
        registration.set.load(Ordering::Relaxed) == set.0 && registration.fd() == fd
    })
}

fn add(conn: &Conn, conn_index: Index, epfd: i32, fd: i32, events: u32, data: u64) -> Result<Outcome, Errno> {
    if let Some((index, parked)) = find(conn, epfd, fd).filter(|(_, found)| found.is_parked()) {
        if lazy::revive(conn, index, parked, events, data) {
            return Ok(Outcome::Done(0));
        }
    } else if let Some((_, stale)) = find(conn, epfd, fd) {
        // The kernel knows best whether it is still there: closing every descriptor removes it silently.
        kernel_ctl(epfd, Op::Add, fd, tcp_events(conn, events), 0)?;
        let _ = kernel_ctl(epfd, Op::Del, fd, 0, 0);
        drop_registration(conn, stale, true);
    }
    if matches!(table::get(epfd), Entry::Conn(_)) {
        return Ok(Outcome::Forward);
    }
    let (set_index, is_new_set) = Set::of(epfd)?;
    let set = Set::get(set_index).ok_or(Errno::ENOMEM)?;
    let (index, registration) =
        registration::TABLE.take(os::mem::more, Registration::new).ok_or(Errno::ENOMEM)?;
    registration.begin(set_index, conn_index, fd);
    registration.ask(events, data);
    let cookie = registration.cookie(index, Source::Tcp);
    let kernel_events = tcp_events(conn, events);
    registration.kernel_events.store(kernel_events, Ordering::Relaxed);
    let added = if set.add(index) {
        kernel_ctl(epfd, Op::Add, fd, kernel_events, cookie)
    } else {
        Err(Errno::ENOMEM)
    };
    if let Err(errno) = added {
        set.remove(registration);
        registration.interest.withdraw();
        registration.generation.fetch_add(1, Ordering::AcqRel);
        registration::TABLE.give_back(index);
        if is_new_set {
            // It may be no epoll descriptor at all.
            Set::unmake(set_index, epfd);
        }
        return Err(errno);
    }
    registration.next.store(conn.registrations.load(Ordering::Relaxed), Ordering::Relaxed);
    conn.registrations.store(index.0 + 1, Ordering::Release);
    count(conn, events, 1);
    attach_bell(conn, index, registration);
    Ok(Outcome::Done(0))
}

/// Puts the doorbell into the set and rings it if there is something to report already.
fn attach_bell(conn: &Conn, index: Index, registration: &Registration) {
    let Some(end) = End::of(conn) else { return };
    let events = registration.events();
    let cookie = registration.cookie(index, Source::Bell);
    let epfd = registration.epfd();
    let put = |op| move |bell| kernel_ctl(epfd, op, bell, bell_events(events), cookie);
    if let Some(bell) = registration.interest.bell() {
        let _ = put(Op::Mod)(bell);
    } else if registration.interest.attach(end.my_bell(), put(Op::Add)) == Err(Errno::EEXIST) {
        registration.interest.detach();
        // A duplicate in the same set: the kernel tells records apart by descriptor number.
        if let Ok(bell) = os::fd::duplicate_internal(end.my_bell()) {
            let _ = registration.interest.attach(bell, put(Op::Add));
        }
    }
    announce(conn, &end, registration);
}

/// Whoever sleeps on the set learns what the registration has to report.
pub(super) fn announce(conn: &Conn, end: &End, registration: &Registration) {
    doorbell::rearm(conn, end, false, false);
    let is_answered = conn.phase() == Phase::Smc;
    let level = ready::levels(conn, end, registration.fd()) & if is_answered { !0 } else { !WRITE_SIDE };
    if level & (registration.events() | bits::ERR | bits::HUP) != 0 {
        doorbell::kick(conn, end);
    }
    if let Some(set) = Set::get(Index(registration.set.load(Ordering::Relaxed))) {
        set.promote(registration);
    }
}

/// What `events` count for at the connection: data, space, edges.
#[inline]
fn wishes(events: u32) -> [i32; 3] {
    let is_edge = events & bits::ET != 0;
    [!is_edge && events & READ_SIDE != 0, !is_edge && events & WRITE_SIDE != 0, is_edge].map(i32::from)
}

/// Adds (`by` 1) or removes (-1) a registration's wishes at its connection.
pub(super) fn count(conn: &Conn, events: u32, by: i32) {
    let [data, space, edge] = wishes(events).map(|wish| wish * by);
    sleepers::count_registrations(conn, End::of(conn).as_ref(), data, space, edge);
}

/// One registration's wishes change, from those that stood unless ONESHOT had taken them off.
#[inline]
pub(super) fn recount(conn: &Conn, from: Seen, to: u32) {
    let (old, new) = (wishes(if from.is_fired() { 0 } else { from.events() }), wishes(to));
    let [data, space, edge] = [new[0] - old[0], new[1] - old[1], new[2] - old[2]];
    if [data, space, edge] != [0; 3] {
        sleepers::count_registrations(conn, End::of(conn).as_ref(), data, space, edge);
    }
}

fn modify(conn: &Conn, epfd: i32, fd: i32, events: u32, data: u64) -> Result<Outcome, Errno> {
    let Some((index, registration)) = find(conn, epfd, fd) else { return Ok(Outcome::Forward) };
    if registration.is_parked() {
        return Err(Errno::ENOENT);
    }
    if lazy::modify(conn, index, registration, events, data)? {
        return Ok(Outcome::Done(0));
    }
    let cookie = registration.cookie(index, Source::Tcp);
    let kernel_events = tcp_events(conn, events);
    kernel_ctl(epfd, Op::Mod, fd, kernel_events, cookie)?;
    registration.kernel_events.store(kernel_events, Ordering::Relaxed);
    recount(conn, registration.ask(events, data), events);
    attach_bell(conn, index, registration);
    Ok(Outcome::Done(0))
}

/// ONESHOT: exactly one thread gets what was asked for when it was `seen`.
pub(super) fn fire(conn: &Conn, registration: &Registration, seen: Seen) -> bool {
    let is_first = registration.interest.fire(seen);
    if is_first {
        count(conn, seen.events(), -1);
    }
    is_first
}

/// A ONESHOT record that the kernel spent on nothing is loaded again.
pub(super) fn reload(conn: &Conn, registration: &Registration, source: Source) {
    if source == Source::Rings || registration.events() & bits::ONESHOT == 0 {
        return;
    }
    // Somebody may be asking right now. (A signal handler that interrupted him does not wait, and finds enough to go by.)
    let _turn = conn.registrations_turn.take();
    let Some((index, _)) = of_conn(conn).find(|(_, other)| core::ptr::eq(*other, registration)) else {
        return;
    };
    let put = |fd, events| {
        let _ = kernel_ctl(registration.epfd(), Op::Mod, fd, events, registration.cookie(index, source));
    };
    registration.interest.reload(|seen| match (source, registration.interest.bell()) {
        (Source::Tcp, _) => put(registration.fd(), tcp_events(conn, seen.events())),
        (_, Some(bell)) => put(bell, bell_events(seen.events())),
        _ => {}
    });
}

fn delete(conn: &Conn, epfd: i32, fd: i32) -> Result<Outcome, Errno> {
    let Some((_, registration)) = find(conn, epfd, fd) else { return Ok(Outcome::Forward) };
    if registration.is_parked() {
        return Err(Errno::ENOENT);
    }
    if lazy::park(conn, registration) {
        return Ok(Outcome::Done(0));
    }
    kernel_ctl(epfd, Op::Del, fd, 0, 0)?;
    drop_registration(conn, registration, true);
    Ok(Outcome::Done(0))
}

/// Takes a registration off its connection and its doorbell out of the set. The caller has the turn.
///
/// A fork child that only closes its copies must not touch a set it shares with its parent: there the record lives on.
/// What the program itself asks for (`by_program`) it gets.
pub(super) fn drop_registration(conn: &Conn, gone: &'static Registration, by_program: bool) {
    let is_own = gone.pid.load(Ordering::Relaxed) == os::process::cached_pid();
    if gone.is_parked() && is_own {
        let _ = kernel_ctl(gone.epfd(), Op::Del, gone.fd(), 0, 0);
    }
    if let Some(bell) = gone.interest.detach() {
        if is_own || by_program {
            let _ = kernel_ctl(gone.epfd(), Op::Del, bell, 0, 0);
        }
        if End::of(conn).is_some_and(|end| end.my_bell() != bell) {
            os::fd::close(bell);
        }
    }
    recount(conn, gone.interest.withdraw(), 0);
    if let Some(set) = Set::get(Index(gone.set.load(Ordering::Relaxed))) {
        set.remove(gone);
    }
    let mut link = &conn.registrations;
    while let Some(index) = link.load(Ordering::Acquire).checked_sub(1).map(Index) {
        let Some(registration) = registration::TABLE.get(index) else { return };
        if core::ptr::eq(registration, gone) {
            link.store(gone.next.load(Ordering::Relaxed), Ordering::Release);
            gone.generation.fetch_add(1, Ordering::AcqRel);
            registration::TABLE.give_back(index);
            return;
        }
        link = &registration.next;
    }
}

/// At the last close of a socket in this process.
pub(crate) fn remove_all(conn: &Conn) {
    if conn.registrations.load(Ordering::Acquire) == 0 {
        return;
    }
    let Some(_turn) = conn.registrations_turn.take() else { return };
    while let Some((_, registration)) = of_conn(conn).next() {
        drop_registration(conn, registration, false);
    }
}

/// The set of a registration is closed.
pub(super) fn forget(registration: &'static Registration) {
    if registration.is_live()
        && let Some(conn) = hold_index(Index(registration.conn.load(Ordering::Relaxed)))
        && let Some(_turn) = conn.registrations_turn.take()
    {
        drop_registration(&conn, registration, false);
    }
}

/// A fresh socket is about to be connected, with an offer: its registrations get their doorbells.
pub(crate) fn offered(conn: &Conn) {
    let Some(_turn) = conn.registrations_turn.take() else { return };
    if let Some(end) = End::of(conn) {
        sleepers::count_registrations_again(conn, &end, 1);
    }
    for (index, registration) in of_conn(conn) {
        attach_bell(conn, index, registration);
    }
}

/// The verdict fell: registrations made before are turned into what the phase needs. The caller has the turn.
pub(crate) fn convert(conn: &Conn) {
    let is_shared = conn.phase() == Phase::Smc;
    let mut next = conn.registrations.load(Ordering::Acquire);
    while let Some(index) = next.checked_sub(1).map(Index) {
        let Some(registration) = registration::TABLE.get(index) else { return };
        next = registration.next.load(Ordering::Acquire);
        if is_shared {
            let (epfd, fd, events) = (registration.epfd(), registration.fd(), registration.events());
            let cookie = registration.cookie(index, Source::Tcp);
            let kernel_events = tcp_events(conn, events);
            if kernel_ctl(epfd, Op::Mod, fd, kernel_events, cookie) == Err(Errno::EINVAL) {
                // EPOLLEXCLUSIVE cannot be modified.
                let _ = kernel_ctl(epfd, Op::Del, fd, 0, 0);
                let _ = kernel_ctl(epfd, Op::Add, fd, kernel_events, cookie);
            }
            registration.kernel_events.store(kernel_events, Ordering::Relaxed);
            if let Some(end) = End::of(conn) {
                announce(conn, &end, registration);
            }
        } else {
            make_plain(conn, registration);
        }
    }
}

/// The set holds the bare TCP socket with the program's own data from now on.
fn make_plain(conn: &Conn, registration: &'static Registration) {
    let (epfd, fd, events) = (registration.epfd(), registration.fd(), registration.events());
    let data = registration.data.load(Ordering::Relaxed);
    let wanted = if registration.is_fired() { bits::ONESHOT } else { events };
    drop_registration(conn, registration, true);
    if kernel_ctl(epfd, Op::Mod, fd, wanted, data) == Err(Errno::EINVAL) {
        // EPOLLEXCLUSIVE cannot be modified.
        let _ = kernel_ctl(epfd, Op::Del, fd, 0, 0);
        let _ = kernel_ctl(epfd, Op::Add, fd, wanted, data);
    }
}

/// Whether `fd` is in a set and neither connected nor listening.
pub fn is_fresh(fd: i32) -> bool {
    hold(fd).is_some_and(|conn| conn.phase() == Phase::Fresh)
}

/// A fresh socket turns out to be none of ours: it listens, or is connected without an offer.
pub fn release_fresh(fd: i32) {
    let Some(conn) = hold(fd) else { return };
    let Some(_turn) = conn.registrations_turn.take() else { return };
    if conn.phase() == Phase::Fresh {
        conn.transition(Event::Refused);
        convert(&conn);
    }
}

/// The registration whose cookie the kernel reported in `set`, if it still stands.
pub(super) fn meant(data: u64, set: Index) -> Option<Option<Told>> {
    let (_, registration, source) = decode(data)?;
    let life = registration.life_meant_by(data, set);
    Some(life.map(|generation| Told { registration, generation, source, raised: 0 }))
}
