//! epoll sets that hold our sockets. Owns: the registrations and the translation of what the kernel reports.
//!
//! The program's own kernel set stays the authority: it holds the TCP socket (for FIN, RST and, before the answer, for
//! everything) and the doorbell, both with a cookie of ours as data. After a wait, cookies are turned back: readiness
//! is computed from the rings, the records of one socket are merged, and the program's own data is put in. So nested sets,
//! several waiters, sets shared by fork and signals work as the kernel has them.

use crate::conn::{Conn, End, Phase, flag, hold, hold_index};
use crate::table::{self, Entry};
use crate::{Outcome, client, ready, server};
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use fabric::turn::Turn;
use os::epoll::{Event, Op, bits, ctl as kernel_ctl};
use os::{Errno, net};
use shm::slab::{Index, Slab};

const REGISTRATIONS: u32 = 1 << 18;
const SETS: u32 = 1 << 14;
/// Marks the cookies; no user-space pointer has these upper bits.
const MAGIC: u64 = 0x15C0 << 48;
const FLAGS: u32 = bits::ET | bits::ONESHOT | bits::EXCLUSIVE | bits::WAKEUP;
const READ_SIDE: u32 = bits::IN | bits::RDNORM | bits::RDHUP;
const WRITE_SIDE: u32 = bits::OUT | bits::WRNORM | bits::WRBAND;

static REGISTRATION_TABLE: Slab<Registration> = Slab::new(REGISTRATIONS);
static SET_TABLE: Slab<Set> = Slab::new(SETS);
static SETS_TURN: Turn = Turn::new();
/// Unanswered intents of this process: only then waits are sliced.
static INTENTS: AtomicU32 = AtomicU32::new(0);
static BATCHES: AtomicU64 = AtomicU64::new(1);

/// An epoll set that has (had) sockets of ours.
struct Set {
    /// Descriptors of this process that refer to it.
    fds: AtomicU32,
    /// One of them.
    epfd: AtomicI32,
}

/// A socket in a set.
struct Registration {
    /// Odd while live; counts uses, so that an old cookie is told from a new one.
    generation: AtomicU32,
    set: AtomicU32,
    conn: AtomicU32,
    fd: AtomicI32,
    events: AtomicU32,
    data: AtomicU64,
    /// Next of the same connection, plus one.
    next: AtomicU32,
    /// ONESHOT has been delivered.
    is_fired: AtomicU32,
    /// The process that made it.
    pid: AtomicU32,
    /// The doorbell's number in the set, or a duplicate's; -1 while there is none.
    bell: AtomicI32,
    /// The wait call that delivered it last, and where in its answer.
    batch: AtomicU64,
    place: AtomicU32,
}

/// Which of the two kernel records of a registration an event comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Bell = 0,
    Tcp = 1,
}

impl Registration {
    fn new() -> Self {
        Registration {
            generation: AtomicU32::new(0),
            set: AtomicU32::new(0),
            conn: AtomicU32::new(0),
            fd: AtomicI32::new(-1),
            events: AtomicU32::new(0),
            data: AtomicU64::new(0),
            next: AtomicU32::new(0),
            is_fired: AtomicU32::new(0),
            pid: AtomicU32::new(0),
            bell: AtomicI32::new(-1),
            batch: AtomicU64::new(0),
            place: AtomicU32::new(0),
        }
    }

    fn events(&self) -> u32 {
        self.events.load(Ordering::Acquire)
    }

    fn fd(&self) -> i32 {
        self.fd.load(Ordering::Relaxed)
    }

    fn cookie(&self, index: Index, source: Source) -> u64 {
        let generation = u64::from(self.generation.load(Ordering::Relaxed) & 0xffff);
        MAGIC | generation << 32 | u64::from(index.0) << 1 | source as u64
    }

    fn epfd(&self) -> i32 {
        SET_TABLE
            .get(Index(self.set.load(Ordering::Relaxed)))
            .map_or(-1, |set| set.epfd.load(Ordering::Relaxed))
    }
}

fn decode(data: u64) -> Option<(Index, &'static Registration, Source)> {
    if data & (0xffff << 48) != MAGIC {
        return None;
    }
    let index = Index((data as u32) >> 1);
    let registration = REGISTRATION_TABLE.get(index)?;
    Some((index, registration, if data & 1 == 0 { Source::Bell } else { Source::Tcp }))
}

fn is_current(registration: &Registration, data: u64, set: Index) -> bool {
    let generation = registration.generation.load(Ordering::Acquire);
    generation & 1 == 1
        && u64::from(generation & 0xffff) == data >> 32 & 0xffff
        && registration.set.load(Ordering::Relaxed) == set.0
}

fn of_conn(conn: &Conn) -> impl Iterator<Item = (Index, &'static Registration)> {
    let mut next = conn.registrations.load(Ordering::Acquire);
    core::iter::from_fn(move || {
        let index = Index(next.checked_sub(1)?);
        let registration = REGISTRATION_TABLE.get(index)?;
        next = registration.next.load(Ordering::Acquire);
        Some((index, registration))
    })
}

/// A client's intent is unanswered: waits look at it now and then.
pub(crate) fn intent_began() {
    INTENTS.fetch_add(1, Ordering::AcqRel);
}

/// An intent was answered or given up.
pub(crate) fn intent_ended() {
    let _ = INTENTS.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1));
}

/// Longest single sleep of a wait, in milliseconds; -1 for no bound.
pub fn slice_ms() -> i32 {
    if INTENTS.load(Ordering::Acquire) > 0 { crate::wait::SLICE_MS } else { -1 }
}

/// What the kernel is to report about the TCP socket.
fn tcp_events(phase: Phase, events: u32) -> u32 {
    if phase != Phase::Smc {
        return events;
    }
    let hangup = match events {
        // EPOLLEXCLUSIVE does not go with EPOLLRDHUP; TCP says EPOLLIN at its end as well.
        _ if events & READ_SIDE == 0 => 0,
        _ if events & bits::EXCLUSIVE != 0 => bits::IN,
        // EPOLLIN besides: after a move back to TCP (urgent data) the bytes are there.
        _ => bits::RDHUP | bits::IN,
    };
    events & (FLAGS | bits::PRI) | hangup
}

fn bell_events(events: u32) -> u32 {
    bits::IN | events & FLAGS
}

/// epoll_ctl on a socket of ours. Results and their order are the kernel's: the TCP socket is asked first.
pub fn ctl(epfd: i32, op: Op, fd: i32, events: u32, data: u64) -> Outcome {
    let Some(conn) = hold(fd) else { return Outcome::Forward };
    let phase = match conn.phase() {
        Phase::Accepted => server::decide(&conn, fd),
        Phase::Intent => client::refresh(&conn, fd),
        phase => phase,
    };
    if !matches!(phase, Phase::Smc | Phase::Intent) {
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

fn set_of(epfd: i32) -> Option<Index> {
    match table::get(epfd) {
        Entry::Epoll(index) => Some(index),
        _ => None,
    }
}

fn set_for(epfd: i32) -> Option<Index> {
    // Two threads may add the first two sockets of a set at once.
    let _turn = SETS_TURN.take()?;
    if let Some(index) = set_of(epfd) {
        return Some(index);
    }
    if !SET_TABLE.has_memory() {
        REGISTRATION_TABLE.adopt(os::mem::map_private(REGISTRATION_TABLE.memory_len()).ok()?);
        SET_TABLE.adopt(os::mem::map_private(SET_TABLE.memory_len()).ok()?);
    }
    let (index, set) = SET_TABLE.take(|| Set { fds: AtomicU32::new(0), epfd: AtomicI32::new(-1) })?;
    set.fds.store(1, Ordering::Relaxed);
    set.epfd.store(epfd, Ordering::Relaxed);
    table::set(epfd, Entry::Epoll(index))?;
    Some(index)
}

fn find(conn: &Conn, epfd: i32, fd: i32) -> Option<(Index, &'static Registration)> {
    let set = set_of(epfd)?;
    of_conn(conn).find(|(_, registration)| {
        registration.set.load(Ordering::Relaxed) == set.0 && registration.fd() == fd
    })
}

fn add(conn: &Conn, conn_index: Index, epfd: i32, fd: i32, events: u32, data: u64) -> Result<Outcome, Errno> {
    if let Some((_, stale)) = find(conn, epfd, fd) {
        // The kernel knows best whether it is still there: closing every descriptor removes it silently.
        kernel_ctl(epfd, Op::Add, fd, tcp_events(conn.phase(), events), 0)?;
        let _ = kernel_ctl(epfd, Op::Del, fd, 0, 0);
        drop_registration(conn, stale, true);
    }
    if matches!(table::get(epfd), Entry::Conn(_)) {
        return Ok(Outcome::Forward);
    }
    let is_new_set = set_of(epfd).is_none();
    let set = set_for(epfd).ok_or(Errno::ENOMEM)?;
    let (index, registration) = REGISTRATION_TABLE.take(Registration::new).ok_or(Errno::ENOMEM)?;
    registration.generation.fetch_add(1, Ordering::AcqRel);
    registration.set.store(set.0, Ordering::Relaxed);
    registration.conn.store(conn_index.0, Ordering::Relaxed);
    registration.fd.store(fd, Ordering::Relaxed);
    registration.data.store(data, Ordering::Relaxed);
    registration.events.store(events, Ordering::Release);
    registration.is_fired.store(0, Ordering::Relaxed);
    registration.bell.store(-1, Ordering::Relaxed);
    registration.pid.store(os::process::cached_pid(), Ordering::Relaxed);
    let cookie = registration.cookie(index, Source::Tcp);
    if let Err(errno) = kernel_ctl(epfd, Op::Add, fd, tcp_events(conn.phase(), events), cookie) {
        registration.generation.fetch_add(1, Ordering::AcqRel);
        REGISTRATION_TABLE.give_back(index);
        if is_new_set {
            // It may be no epoll descriptor at all.
            table::clear(epfd);
            SET_TABLE.give_back(set);
        }
        return Err(errno);
    }
    registration.next.store(conn.registrations.load(Ordering::Relaxed), Ordering::Relaxed);
    conn.registrations.store(index.0 + 1, Ordering::Release);
    attach_bell(conn, index, registration);
    Ok(Outcome::Done(0))
}

/// Puts the doorbell into the set and rings it if there is something to report already.
fn attach_bell(conn: &Conn, index: Index, registration: &Registration) {
    let Some(end) = End::of(conn) else { return };
    let events = registration.events();
    let cookie = registration.cookie(index, Source::Bell);
    let epfd = registration.epfd();
    let bell = registration.bell.load(Ordering::Relaxed);
    if bell >= 0 {
        let _ = kernel_ctl(epfd, Op::Mod, bell, bell_events(events), cookie);
    } else {
        let added = kernel_ctl(epfd, Op::Add, end.my_bell(), bell_events(events), cookie);
        let bell =
            if added == Err(Errno::EEXIST) { second_bell(epfd, &end, events, cookie) } else { end.my_bell() };
        registration.bell.store(bell, Ordering::Relaxed);
    }
    count(conn, events, 1);
    announce(conn, &end, registration.fd(), events);
}

/// A duplicate in the same set: the kernel tells records apart by descriptor number.
fn second_bell(epfd: i32, end: &End, events: u32, cookie: u64) -> i32 {
    let Ok(bell) = os::fd::duplicate_internal(end.my_bell()) else { return -1 };
    let _ = kernel_ctl(epfd, Op::Add, bell, bell_events(events), cookie);
    bell
}

fn announce(conn: &Conn, end: &End, fd: i32, events: u32) {
    ready::rearm(conn, end, false, false);
    let is_answered = conn.phase() == Phase::Smc;
    let level = ready::levels(conn, end, fd) & if is_answered { !0 } else { !WRITE_SIDE };
    if level & (events | bits::ERR | bits::HUP) != 0 {
        ready::kick(conn, end);
    }
}

/// Adds (`by` 1) or removes (-1) a registration's wishes at its connection.
fn count(conn: &Conn, events: u32, by: i32) {
    let counted = |is_wished: bool| if is_wished { by } else { 0 };
    let is_edge = events & bits::ET != 0;
    let data = counted(!is_edge && events & READ_SIDE != 0);
    let space = counted(!is_edge && events & WRITE_SIDE != 0);
    ready::count_registrations(conn, End::of(conn).as_ref(), data, space, counted(is_edge));
}

fn modify(conn: &Conn, epfd: i32, fd: i32, events: u32, data: u64) -> Result<Outcome, Errno> {
    let Some((index, registration)) = find(conn, epfd, fd) else { return Ok(Outcome::Forward) };
    let cookie = registration.cookie(index, Source::Tcp);
    kernel_ctl(epfd, Op::Mod, fd, tcp_events(conn.phase(), events), cookie)?;
    uncount(conn, registration);
    registration.data.store(data, Ordering::Relaxed);
    registration.events.store(events, Ordering::Release);
    registration.is_fired.store(0, Ordering::Release);
    attach_bell(conn, index, registration);
    Ok(Outcome::Done(0))
}

/// Takes back the wishes counted at the connection, unless ONESHOT has done so.
fn uncount(conn: &Conn, registration: &Registration) {
    if registration.is_fired.load(Ordering::Acquire) == 0 {
        count(conn, registration.events(), -1);
    }
}

fn delete(conn: &Conn, epfd: i32, fd: i32) -> Result<Outcome, Errno> {
    let Some((_, registration)) = find(conn, epfd, fd) else { return Ok(Outcome::Forward) };
    kernel_ctl(epfd, Op::Del, fd, 0, 0)?;
    drop_registration(conn, registration, true);
    Ok(Outcome::Done(0))
}

/// Takes a registration off its connection and its doorbell out of the set. The caller has the turn.
///
/// A fork child that only closes its copies must not touch a set it shares with its parent: there the record lives on.
/// What the program itself asks for (`by_program`) it gets.
fn drop_registration(conn: &Conn, gone: &'static Registration, by_program: bool) {
    let is_own = gone.pid.load(Ordering::Relaxed) == os::process::cached_pid();
    let bell = gone.bell.swap(-1, Ordering::Relaxed);
    if bell >= 0 {
        if is_own || by_program {
            let _ = kernel_ctl(gone.epfd(), Op::Del, bell, 0, 0);
        }
        if End::of(conn).is_some_and(|end| end.my_bell() != bell) {
            os::fd::close(bell);
        }
    }
    uncount(conn, gone);
    let mut link = &conn.registrations;
    while let Some(index) = link.load(Ordering::Acquire).checked_sub(1).map(Index) {
        let Some(registration) = REGISTRATION_TABLE.get(index) else { return };
        if core::ptr::eq(registration, gone) {
            link.store(gone.next.load(Ordering::Relaxed), Ordering::Release);
            gone.generation.fetch_add(1, Ordering::AcqRel);
            REGISTRATION_TABLE.give_back(index);
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

/// A dup of an epoll descriptor.
pub(crate) fn share_set(index: Index) {
    if let Some(set) = SET_TABLE.get(index) {
        set.fds.fetch_add(1, Ordering::AcqRel);
    }
}

/// A descriptor of a set was closed; with the last one its registrations go.
pub(crate) fn close_set(index: Index) {
    let Some(set) = SET_TABLE.get(index) else { return };
    if set.fds.fetch_sub(1, Ordering::AcqRel) > 1 {
        // The other numbers are in the table; any of them serves for epoll_ctl.
        if let Some((fd, _)) = table::entries().find(|(_, entry)| *entry == Entry::Epoll(index)) {
            set.epfd.store(fd, Ordering::Relaxed);
        }
        return;
    }
    set.epfd.store(-1, Ordering::Relaxed);
    let members = (0..REGISTRATION_TABLE.made()).filter_map(|at| REGISTRATION_TABLE.get(Index(at)));
    for registration in members {
        let is_live = registration.generation.load(Ordering::Acquire) & 1 == 1;
        if !is_live || registration.set.load(Ordering::Relaxed) != index.0 {
            continue;
        }
        if let Some(conn) = hold_index(Index(registration.conn.load(Ordering::Relaxed)))
            && let Some(_turn) = conn.registrations_turn.take()
        {
            drop_registration(&conn, registration, false);
        }
    }
    SET_TABLE.give_back(index);
}

/// The verdict fell: registrations made before are turned into what the phase needs. The caller has the turn.
pub(crate) fn convert(conn: &Conn, _fd: i32) {
    let is_shared = conn.phase() == Phase::Smc;
    let mut next = conn.registrations.load(Ordering::Acquire);
    while let Some(index) = next.checked_sub(1).map(Index) {
        let Some(registration) = REGISTRATION_TABLE.get(index) else { return };
        next = registration.next.load(Ordering::Acquire);
        let (fd, events, epfd) = (registration.fd(), registration.events(), registration.epfd());
        if is_shared {
            let cookie = registration.cookie(index, Source::Tcp);
            let _ = kernel_ctl(epfd, Op::Mod, fd, tcp_events(Phase::Smc, events), cookie);
            if let Some(end) = End::of(conn) {
                announce(conn, &end, fd, events);
            }
        } else {
            let data = registration.data.load(Ordering::Relaxed);
            let fired = registration.is_fired.load(Ordering::Acquire) != 0;
            drop_registration(conn, registration, true);
            let wanted = if fired { bits::ONESHOT } else { events };
            if kernel_ctl(epfd, Op::Mod, fd, wanted, data) == Err(Errno::EINVAL) {
                // EPOLLEXCLUSIVE cannot be modified.
                let _ = kernel_ctl(epfd, Op::Del, fd, 0, 0);
                let _ = kernel_ctl(epfd, Op::Add, fd, wanted, data);
            }
        }
    }
}

/// A socket registered before it is connected stays on TCP: the set already holds it with the program's own data.
pub fn note_early(fd: i32) {
    if net::is_tcp(fd) && net::peer(fd) == Err(Errno::ENOTCONN) {
        table::set(fd, Entry::Foreign);
    }
}

/// Whether waits on `epfd` need translation.
#[inline]
pub fn is_ours(epfd: i32) -> bool {
    matches!(table::get(epfd), Entry::Epoll(_))
}

/// Before a wait and after each slice: looks at unanswered intents in the set.
pub fn tick(epfd: i32) {
    if INTENTS.load(Ordering::Acquire) == 0 {
        return;
    }
    let Some(set) = set_of(epfd) else { return };
    for at in 0..REGISTRATION_TABLE.made() {
        let Some(registration) = REGISTRATION_TABLE.get(Index(at)) else { continue };
        let is_live = registration.generation.load(Ordering::Acquire) & 1 == 1;
        if is_live && registration.set.load(Ordering::Relaxed) == set.0 {
            let fd = registration.fd();
            if let Some(conn) = hold(fd)
                && conn.phase() == Phase::Intent
            {
                client::refresh(&conn, fd);
            }
        }
    }
}

/// Turns the kernel's events into the program's, in place; returns how many remain.
pub fn translate(epfd: i32, events: &mut [Event]) -> usize {
    let Some(set) = set_of(epfd) else { return events.len() };
    let batch = BATCHES.fetch_add(1, Ordering::Relaxed);
    let mut kept = 0;
    for at in 0..events.len() {
        let Event { events: raised, data } = events[at];
        let Some((_, registration, source)) = decode(data) else {
            events[kept] = Event { events: raised, data };
            kept += 1;
            continue;
        };
        if !is_current(registration, data, set) {
            continue;
        }
        let Some((level, data)) = effective(registration, source, raised) else { continue };
        // Another thread may be translating the same registration: its mark is checked before it is believed.
        if registration.batch.load(Ordering::Relaxed) == batch {
            let place = registration.place.load(Ordering::Relaxed) as usize;
            if let Some(seen) = events[..kept].get_mut(place)
                && { seen.data } == data
            {
                seen.events |= level;
                continue;
            }
        }
        registration.batch.store(batch, Ordering::Relaxed);
        registration.place.store(kept as u32, Ordering::Relaxed);
        events[kept] = Event { events: level, data };
        kept += 1;
    }
    kept
}

/// What the program is to see of one kernel record, if anything.
fn effective(registration: &Registration, source: Source, raised: u32) -> Option<(u32, u64)> {
    let conn = hold_index(Index(registration.conn.load(Ordering::Relaxed)))?;
    let fd = registration.fd();
    let (events, data) = (registration.events(), registration.data.load(Ordering::Relaxed));
    if source == Source::Tcp
        && let Some(end) = End::of(&conn)
    {
        ready::note_tcp(&conn, &end, end_of_stream(fd, raised, events));
        if raised & bits::IN != 0 && ready::is_contradicted_by_tcp(&conn, &end, fd) {
            crate::stream::break_off(&conn, &end, fd);
        }
    }
    if conn.phase() == Phase::Intent && client::refresh(&conn, fd) == Phase::Plain {
        // Converted to a registration of the bare TCP socket: the kernel will report what is left to report.
        return plain_now(fd, events, data);
    }
    let end = End::of(&conn)?;
    let mut level = ready::levels(&conn, &end, fd);
    if conn.phase() == Phase::Intent && !conn.has(flag::ESTABLISHED) {
        let is_connected =
            source == Source::Tcp && raised & bits::OUT != 0 && client::is_established(&conn, fd);
        level &= if is_connected { !0 } else { !(READ_SIDE | WRITE_SIDE) };
    }
    level |= if source == Source::Tcp { raised & (bits::ERR | bits::HUP | bits::PRI) } else { 0 };
    level &= events | bits::ERR | bits::HUP;
    if events & bits::ET != 0 {
        ready::ask_for_next_edge(&conn, &end);
    }
    if level == 0 {
        settle_spurious(&conn, &end, registration, source);
        return None;
    }
    if events & bits::ONESHOT != 0 && !fire(&conn, registration) {
        return None;
    }
    Some((level, data))
}

/// EPOLLIN from a TCP socket that carries no data means its end; from others it is taken as it is.
fn end_of_stream(fd: i32, raised: u32, events: u32) -> u32 {
    let is_bare_in = events & bits::EXCLUSIVE != 0 && raised & bits::IN != 0;
    if is_bare_in && net::tcp_input(fd) == net::TcpInput::Ended { raised | bits::RDHUP } else { raised }
}

fn plain_now(fd: i32, events: u32, data: u64) -> Option<(u32, u64)> {
    let ready = u32::from(os::poll::peek(fd, (events & 0xffff) as i16) as u16);
    let level = ready & (events | bits::ERR | bits::HUP);
    // An edge reported here and by the kernel again is one edge too many, which edge-triggered programs tolerate.
    (level != 0 && events & bits::ONESHOT == 0).then_some((level, data))
}

/// Nothing to report after all: the doorbell is made quiet, a spent ONESHOT record is loaded again.
fn settle_spurious(conn: &Conn, end: &End, registration: &Registration, source: Source) {
    if source == Source::Bell {
        ready::note_rung(conn);
        ready::rearm(conn, end, false, false);
    }
    let events = registration.events();
    if events & bits::ONESHOT == 0 || registration.is_fired.load(Ordering::Acquire) != 0 {
        return;
    }
    let Some((index, _, _)) = of_conn(conn)
        .find(|(_, other)| core::ptr::eq(*other, registration))
        .map(|(index, registration)| (index, registration, source))
    else {
        return;
    };
    let cookie = registration.cookie(index, source);
    let _ = match source {
        Source::Bell => {
            let bell = registration.bell.load(Ordering::Relaxed);
            kernel_ctl(registration.epfd(), Op::Mod, bell, bell_events(events), cookie)
        }
        Source::Tcp => kernel_ctl(
            registration.epfd(),
            Op::Mod,
            registration.fd(),
            tcp_events(conn.phase(), events),
            cookie,
        ),
    };
}

/// ONESHOT: exactly one thread gets the record.
fn fire(conn: &Conn, registration: &Registration) -> bool {
    let is_first = registration.is_fired.swap(1, Ordering::AcqRel) == 0;
    if is_first {
        count(conn, registration.events(), -1);
    }
    is_first
}
