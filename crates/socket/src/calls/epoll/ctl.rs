//! epoll_ctl. Owns: that its results, and their order, are the kernel's.

use crate::conn::Conn;
use crate::end::End;
use crate::enter::enter_over;
use crate::epoll::lazy;
use crate::held::{Held, hold};
use crate::interest::registration::{self, Registration, Source, Told, decode, of_conn};
use crate::interest::set::Set;
use crate::phase::{Event, Phase};
use crate::records::{
    self, attach_bell, convert, count, drop_registration, outright_events, record_events, recount, tcp_events,
};
use crate::table::{self, Entry};
use crate::waiters::HAD_ROOM;
use crate::{Outcome, answer, claim, decide, flag, home, ready, settle, unseen};
use fabric::Reason;
use os::epoll::{Op, bits, ctl as kernel_ctl};
use os::{Errno, net};
use shm::layout::{CHANGED, SHARERS};
use shm::slab::Index;
use sync::Ordering;
use sync::Ordering as Shared;

/// A TCP socket that goes into a set before it is connected, as proxies do it: whatever it will be, it is
/// ours to watch.
pub fn note_early(fd: i32) {
    // (Asked first, for most that come here are connected, or no sockets. One that is on its way to be
    // connected was decided by connect().)
    if net::peer(fd) == Err(Errno::ENOTCONN)
        && net::is_unconnected_tcp(fd)
        && !net::is_listening(fd)
        && let Some(held) = enter_over(fd, Entry::Empty, Event::Watched)
    {
        held.mark(flag::EARLY);
    }
}

/// A new epoll descriptor. It is known from its birth, whatever it will hold: a duplicate of it, a set around
/// it and a thread that sleeps on it may all be there before the first socket of ours. Without memory it is
/// libc's alone.
pub fn note_created(epfd: i32) {
    if let Entry::Epoll(index) = table::clear(epfd) {
        // Its number was closed without our seeing it.
        records::close_set(index);
    }
    // (Behind a filter no new connection is shared, and memory may be refused.)
    if !os::confined::is_confined() || crate::held::connections().any(|(_, held)| held.is(Phase::Smc)) {
        let _ = Set::of(epfd);
    }
}

/// epoll_ctl on a socket of ours. Results and their order are the kernel's: the TCP socket is asked first.
pub fn ctl(epfd: i32, op: Op, fd: i32, events: u32, data: u64) -> Outcome {
    if let Some(outcome) = lazy::at_once(epfd, op, fd, (events, data)) {
        return outcome;
    }
    loop {
        if let Some(outcome) = ctl_now(epfd, op, fd, events, data) {
            return outcome;
        }
    }
}

/// The same of the socket that the number stands for now; `None` if that is another one by the time that it
/// has its turn: what is asked of the number in the kernel is asked of that one.
fn ctl_now(epfd: i32, op: Op, fd: i32, events: u32, data: u64) -> Option<Outcome> {
    let Some(conn) = hold(fd) else { return Some(Outcome::Forward) };
    let mut is_unseen = false;
    let phase = match conn.phase() {
        Phase::Accepted => claim::decide(&conn, fd),
        Phase::Intent if !decide::is_begun_unseen(&conn) => answer::refresh(&conn, fd),
        Phase::Intent => {
            is_unseen = gives_room_up(&conn, epfd, op, fd, events);
            if is_unseen && op == Op::Mod { decide::refuse_unseen(&conn, fd) } else { Phase::Intent }
        }
        phase => phase,
    };
    if phase == Phase::Accepted && !table::is_of(fd, conn.index()) {
        return None;
    }
    if phase == Phase::Listening && op == Op::Add {
        unseen::note_listener(&conn, epfd);
    }
    if !is_watched_in(phase) {
        return Some(libcs(&conn));
    }
    // (In most processes nobody else has any set: one word says so.)
    let told_by_others = End::of(&conn).map_or(0, |end| end.mine().set_sharers.load(Shared::Relaxed));
    if told_by_others != 0 {
        records::look_at_changed(&conn);
        if op != Op::Add {
            records::forget_rest(&conn, epfd);
        }
    }
    if Set::index_of(epfd).and_then(Set::get).is_some_and(|set| is_for_others_too(&conn, set)) {
        tell_others(&conn, epfd, op, fd);
    }
    let asked = ask(&conn, epfd, op, fd, events, data)?;
    if is_unseen && op == Op::Add && asked.is_ok() {
        // (Now that the set can be told of what is left in memory.)
        decide::refuse_unseen(&conn, fd);
    }
    if asked == Err(Errno::ENOMEM) && is_home(&conn, Reason::MEM) {
        // The kernel needs less memory for it than we do: the connection is TCP's instead.
        return Some(libcs(&conn));
    }
    Some(asked.unwrap_or_else(Outcome::Fail))
}

/// Before any wait was seen: whether the set told of room that connect() has made, somewhere else. (Who takes
/// it out of the set may put it back with the same wish, as libevent does when it begins to connect.)
#[cold]
fn gives_room_up(conn: &Conn, epfd: i32, op: Op, fd: i32, events: u32) -> bool {
    let waits_for_room = find(conn, epfd, fd).is_some_and(|(_, found)| found.events() & bits::OUT != 0);
    match op {
        Op::Mod => waits_for_room && events & bits::OUT == 0,
        Op::Add => conn.role.waiters.has(HAD_ROOM) && events & bits::OUT == 0,
        Op::Del => {
            if waits_for_room {
                conn.role.waiters.mark(HAD_ROOM);
            }
            false
        }
    }
}

/// The records are the kernel's own, or become it just now, by what was asked until then: another thread that
/// says so has the turn, and what is asked here comes after that.
fn libcs(conn: &Conn) -> Outcome {
    drop(conn.interest.turn.take());
    Outcome::Forward
}

/// With the turn; `None` if the number has gone to another socket meanwhile. (Whoever closes it waits for the
/// turn before the kernel hears of it.)
fn ask(conn: &Held, epfd: i32, op: Op, fd: i32, events: u32, data: u64) -> Option<Result<Outcome, Errno>> {
    let Some(_turn) = conn.interest.turn.take() else { return Some(Ok(Outcome::Forward)) };
    if !table::is_of(fd, conn.index()) {
        return None;
    }
    // (It may have gone back to TCP while somebody else had the turn.)
    if !is_watched_in(conn.phase()) {
        return Some(Ok(Outcome::Forward));
    }
    Some(match op {
        Op::Add => add(conn, conn.index(), epfd, fd, events, data),
        Op::Mod => modify(conn, epfd, fd, events, data),
        Op::Del => delete(conn, epfd, fd),
    })
}

/// Sends a connection back to TCP; whether nothing of it is left here.
#[cold]
fn is_home(conn: &Held, reason: Reason) -> bool {
    End::of(conn).is_some_and(|end| home::send(conn, &end, reason) && home::notice(conn, &end))
}

/// Whether another process would be told by `set`, too, of what is asked now, and would not know our cookies,
/// or what stands for them by now.
#[inline]
fn is_for_others_too(conn: &Conn, set: &Set) -> bool {
    set.may_be_shared() && is_shared_now(conn, set)
}

#[cold]
fn is_shared_now(conn: &Conn, set: &Set) -> bool {
    // (Whoever waits on a set that he has inherited says so at its members.)
    let is_shared = |conn: &Conn| {
        End::of(conn).is_some_and(|end| end.mine().set_sharers.load(Shared::Relaxed) & SHARERS > 0)
    };
    let is_member_shared = |member: &Registration| member.peek_conn().is_some_and(is_shared);
    set.is_anothers() || is_shared(conn) || set.members().take(4).any(|(_, member)| is_member_shared(member))
}

/// Whether a connection that others are to be told of, or no wait of ours, is on its way to TCP, with bytes
/// left in the ring.
fn is_leaving(conn: &Conn, set: &Set) -> bool {
    let is_over = || End::of(conn).is_some_and(|end| end.incoming.has_ended_for_good());
    os::confined::leaves_nothing() || is_for_others_too(conn, set) && is_over()
}

/// What a set of several processes is asked is asked of TCP, whose socket says the same to all of them: the
/// connection goes back there.
#[cold]
fn tell_others(conn: &Held, epfd: i32, op: Op, fd: i32) {
    // (Undecided, too: the others' own records would undo what is asked here as they become the kernel's.)
    if let Some(end) = End::of(conn)
        && (op != Op::Add || find(conn, epfd, fd).is_some())
    {
        conn.mark(flag::CHANGED_SETS);
        end.mine().set_sharers.fetch_or(CHANGED, Shared::AcqRel);
    }
    match conn.phase() {
        Phase::Smc => _ = is_home(conn, Reason::OPTUNSUPP),
        Phase::Fresh if op != Op::Del => _ = release_fresh(fd),
        _ if op != Op::Del => {
            decide::refuse(fd);
            // (The server may have been faster.)
            let _ = conn.is(Phase::Smc) && is_home(conn, Reason::OPTUNSUPP);
        }
        _ => {}
    }
}

/// Before a program becomes another one that gets `conn`, and a set of this one's with it.
pub(crate) fn hand_on(conn: &Held) {
    hand_on_in(conn, |registration| registration.is_own() && goes_on_over_exec(registration), true);
}

/// Whether the next program has its set, by whichever number.
fn goes_on_over_exec(registration: &Registration) -> bool {
    let is_number_of = |entry: Entry| matches!(entry, Entry::Epoll(set) if registration.is_in(set));
    let by_another = || table::entries().any(|(fd, entry)| is_number_of(entry) && !os::fd::is_cloexec(fd));
    !os::fd::is_cloexec(registration.epfd()) || by_another()
}

/// A set is about to be passed (SCM_RIGHTS, pidfd_getfd), or has come so: whoever has it, perhaps this
/// process by another number, knows nothing of our records. What is in it goes back to TCP, and so does what
/// is put there from now on.
#[cold]
pub fn note_passed(epfd: i32) {
    let Some(set) = Set::index_of(epfd).and_then(Set::get) else { return };
    leave_to_kernel(set);
    if set.waited.has_sets() {
        // (Which of them are in it nobody has written down.)
        Set::all().filter(|inner| inner.waited.is_in_a_set()).for_each(leave_to_kernel);
    }
}

fn leave_to_kernel(set: &Set) {
    let Some(index) = Set::index_of(set.epfd()) else { return };
    set.note_passed();
    for (fd, conn) in crate::held::connections() {
        if !of_conn(&conn).any(|(_, registration)| registration.is_in(index)) {
            continue;
        }
        match conn.phase() {
            Phase::Fresh => _ = release_fresh(fd),
            Phase::Intent | Phase::Accepted => decide::refuse(fd),
            _ => {}
        }
        // (An intent whose server was faster, too.)
        if conn.is(Phase::Smc) {
            settle::settle_all_of(&conn);
            let _ = End::of(&conn).map(|end| home::send_soon(&conn, &end, Reason::OPTUNSUPP));
            hand_on_in(&conn, |registration| registration.is_in(index), false);
        }
    }
}

/// A number has come by SCM_RIGHTS or pidfd_getfd. Whether that is a set. (Behind a filter nobody is asked.)
#[cold]
pub fn note_received(fd: i32) -> bool {
    let may_ask = || !os::confined::is_confined() && !crate::borrower::is_one();
    let is_set = table::is_empty(fd) && may_ask() && os::pipe::is_a_set(fd);
    if is_set {
        note_created(fd);
        note_passed(fd);
    }
    is_set
}

/// Whoever gets a set knows nothing of our records: what it says is the kernel's from here on, and of what is
/// left in the ring the doorbell tells until it was read. `over_exec`: also in the next program.
fn hand_on_in(conn: &Held, goes_on: impl Fn(&Registration) -> bool, over_exec: bool) {
    let is_any = of_conn(conn).any(|(_, registration)| goes_on(registration));
    if !is_any || conn.phase() != Phase::Smc || is_home(conn, Reason::OPTUNSUPP) {
        return;
    }
    // (Over exec also where somebody is stopped in the middle of a copy, or the connection was reset: what
    // the set tells the next program is that one's own data. Of a set that is passed this process goes on.)
    let end = End::of(conn);
    if !over_exec && !end.as_ref().is_some_and(ready::is_on_tcp_for_good) {
        return;
    }
    let Some(_turn) = conn.interest.turn.take() else { return };
    for (index, registration) in of_conn(conn).filter(|(_, registration)| goes_on(registration)) {
        if registration.record().is_none() {
            continue;
        }
        // (Both directions are on TCP: what is asked for is the kernel's to tell, and nothing besides.)
        records::put_as_asked(registration);
        let (events, data) = (registration.events(), registration.data.load(Ordering::Relaxed));
        let Some(end) = end.as_ref().filter(|_| !conn.has(flag::RESET)) else {
            // (Whatever is unread: TCP tells of its end until that is told.)
            records::tell_by_tcp_alone(conn, registration);
            continue;
        };
        if !registration.is_outright() && !registration.is_fired() {
            ask_outright(conn, index, registration, (events, data));
            let _ = over_exec.then(|| os::fd::set_cloexec(end.my_bell(), false));
        }
    }
}

fn find(conn: &Conn, epfd: i32, fd: i32) -> Option<(Index, &'static Registration)> {
    registration::of_number(conn, Set::index_of(epfd)?, fd)
}

/// What goes with EPOLLEXCLUSIVE (fs/eventpoll.c): the kernel would not see the rest in our records.
const EXCLUSIVE_OK: u32 =
    bits::EXCLUSIVE | bits::ET | bits::WAKEUP | bits::IN | bits::OUT | bits::ERR | bits::HUP;

fn add(conn: &Conn, conn_index: Index, epfd: i32, fd: i32, events: u32, data: u64) -> Result<Outcome, Errno> {
    // (The kernel says what is wrong, and in which order.)
    if epfd < 0 || (events & bits::EXCLUSIVE != 0 && events & !EXCLUSIVE_OK != 0) {
        return Ok(Outcome::Forward);
    }
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
        registration::registrations().take(os::mem::more, Registration::new).ok_or(Errno::ENOMEM)?;
    registration.begin(set_index, conn_index, fd);
    if is_leaving(conn, set) {
        registration.make_outright();
        set.note_outright();
    } else {
        unseen::begin(set, registration);
    }
    registration.ask(events, data);
    let is_listed = set.add(index);
    unseen::look_before(set, registration);
    let cookie = registration.cookie(index, Source::Tcp);
    let is_told_by_bell = registration.is_outright() && !os::confined::leaves_nothing();
    let kernel_events = match is_told_by_bell && events & bits::ONESHOT != 0 {
        true => bits::ONESHOT,
        false => record_events(conn, registration, events),
    };
    registration.kernel_events.store(kernel_events, Ordering::Relaxed);
    let added =
        if is_listed { kernel_ctl(epfd, Op::Add, fd, kernel_events, cookie) } else { Err(Errno::ENOMEM) };
    if let Err(errno) = added {
        set.remove(registration);
        registration.interest.withdraw();
        registration.generation.fetch_add(1, Ordering::AcqRel);
        registration::registrations().give_back(index);
        if is_new_set {
            // It may be no epoll descriptor at all.
            Set::unmake(set_index, epfd);
        }
        return Err(errno);
    }
    registration.next.store(conn.interest.registrations.load(Ordering::Relaxed), Ordering::Relaxed);
    conn.interest.registrations.store(index.0 + 1, Ordering::Release);
    count(conn, events, 1);
    attach_bell(conn, index, registration);
    if let Some(end) = End::of(conn) {
        registration.list_asked(conn, &end);
    }
    if conn.is(Phase::Intent) {
        // Whether it is connected the kernel says, and nobody else.
        set.owes_kernel.store(1, Ordering::Relaxed);
    }
    unseen::look_again(conn, set, index, registration);
    if table::get(fd) != Entry::Conn(conn_index) {
        // Another thread has closed the number meanwhile: what the kernel has put into the set may be
        // another socket, and nobody would take this record out any more.
        if hold(fd).is_none_or(|other| find(&other, epfd, fd).is_none()) {
            let _ = kernel_ctl(epfd, Op::Del, fd, 0, 0);
        }
        drop_registration(conn, registration, true);
        return Ok(Outcome::Forward);
    }
    Ok(Outcome::Done(0))
}

/// After libc has put a number into a set that stood for nothing: another thread may have had it for a new
/// connection by then.
#[cold]
pub fn note_added(epfd: i32, fd: i32, events: u32, data: u64) {
    let Some(conn) = hold(fd) else { return };
    if conn.phase() == Phase::Accepted {
        let _ = claim::decide(&conn, fd);
    }
    if is_watched_in(conn.phase())
        && let Some(_turn) = conn.interest.turn.take()
        && table::get(fd) == Entry::Conn(conn.index())
        && is_watched_in(conn.phase())
        && find(&conn, epfd, fd).is_none()
        && kernel_ctl(epfd, Op::Del, fd, 0, 0).is_ok()
        && !matches!(add(&conn, conn.index(), epfd, fd, events, data), Ok(Outcome::Done(_)))
        && table::get(fd) == Entry::Conn(conn.index())
    {
        let _ = kernel_ctl(epfd, Op::Add, fd, events, data);
    }
}

/// The same of what a set is asked anew, by a thread that found nothing at the number: the kernel's record
/// has the program's data, and says what it asks, but for what is in the ring.
#[cold]
pub fn note_modified(epfd: i32, fd: i32, events: u32, data: u64) {
    let Some(conn) = hold(fd).filter(|conn| is_watched_in(conn.phase())) else { return };
    if let Some(_turn) = conn.interest.turn.take()
        && table::get(fd) == Entry::Conn(conn.index())
        && is_watched_in(conn.phase())
        && let Some((_, registration)) = find(&conn, epfd, fd)
    {
        registration.kernel_events.store(0, Ordering::Relaxed);
        let _ = modify(&conn, epfd, fd, events, data);
    }
}

/// The program asks a set for something that is none of ours, and may be ready: the next wait asks the
/// kernel, whatever the rings have.
pub fn note_asked(epfd: i32) {
    if let Some(set) = Set::index_of(epfd).and_then(Set::get) {
        set.asked_kernel.store(0, Ordering::Relaxed);
    }
}

fn is_watched_in(phase: Phase) -> bool {
    matches!(phase, Phase::Smc | Phase::Intent | Phase::Fresh)
}

/// The set has the bare socket, from before it was ours, or nothing.
#[cold]
fn modify_bare(conn: &Held, epfd: i32, fd: i32, events: u32, data: u64) -> Result<Outcome, Errno> {
    if Set::index_of(epfd).is_none() || events & bits::EXCLUSIVE != 0 {
        return Ok(Outcome::Forward);
    }
    kernel_ctl(epfd, Op::Mod, fd, events, data)?;
    kernel_ctl(epfd, Op::Del, fd, 0, 0)?;
    let added = add(conn, conn.index(), epfd, fd, events, data);
    if !matches!(added, Ok(Outcome::Done(_))) && table::get(fd) == Entry::Conn(conn.index()) {
        let _ = kernel_ctl(epfd, Op::Add, fd, events, data);
    }
    Ok(Outcome::Done(0))
}

fn modify(conn: &Held, epfd: i32, fd: i32, events: u32, data: u64) -> Result<Outcome, Errno> {
    if events & bits::EXCLUSIVE != 0 {
        // (It can only be asked for with EPOLL_CTL_ADD, the kernel says.)
        return Ok(Outcome::Forward);
    }
    let Some((index, registration)) = find(conn, epfd, fd) else {
        return modify_bare(conn, epfd, fd, events, data);
    };
    if registration.is_parked() {
        return Err(Errno::ENOENT);
    }
    if lazy::modify(conn, index, registration, events, data)? {
        return Ok(Outcome::Done(0));
    }
    let set = Set::get(Index(registration.set.load(Ordering::Relaxed)));
    if set.is_some_and(|set| !registration.is_outright() && is_leaving(conn, set)) {
        records::note_change(registration);
        kernel_ctl(epfd, Op::Mod, fd, outright_events(conn, events), data)?;
        ask_outright(conn, index, registration, (events, data));
        return Ok(Outcome::Done(0));
    }
    // (Of one whose records carry it.)
    let cookie = if registration.tells_own_data() { data } else { registration.cookie(index, Source::Tcp) };
    let kernel_events = record_events(conn, registration, events);
    let stood = registration.kernel_events.swap(kernel_events, Ordering::Relaxed);
    registration.interest.begin_asking();
    kernel_ctl(epfd, Op::Mod, fd, kernel_events, cookie).inspect_err(|_| {
        registration.interest.end_asking();
        registration.kernel_events.store(stood, Ordering::Relaxed);
    })?;
    let before = registration.ask(events, data);
    recount(conn, before, events);
    if let Some((set, end)) = set.zip(End::of(conn)) {
        registration.list_asked_after(conn, &end, before, &set.looked_at);
    }
    attach_bell(conn, index, registration);
    if let Some(set) = set {
        unseen::look_again(conn, set, index, registration);
    }
    Ok(Outcome::Done(0))
}

/// What is asked is asked by a record that carries the program's own data.
fn ask_outright(conn: &Conn, index: Index, registration: &'static Registration, (events, data): (u32, u64)) {
    registration.kernel_events.store(outright_events(conn, events), Ordering::Relaxed);
    recount(conn, registration.ask(events, data), events);
    records::make_outright(conn, index, registration);
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

/// Whether `fd` is in a set and neither connected nor listening.
pub fn is_fresh(fd: i32) -> bool {
    hold(fd).is_some_and(|conn| conn.phase() == Phase::Fresh)
}

/// A fresh socket turns out to be none of ours: it listens, or is connected without an offer. Whether the
/// number was one's.
pub fn release_fresh(fd: i32) -> bool {
    let Some(conn) = hold(fd) else { return false };
    let Some(_turn) = conn.interest.turn.take() else { return false };
    let is_fresh = conn.phase() == Phase::Fresh;
    if is_fresh {
        conn.transition(Event::Refused);
        convert(&conn);
    }
    is_fresh
}

/// The registration whose cookie the kernel reported in `set`, if it still stands. (A cookie of another
/// process, which has put it there since a fork, means nothing here, and is nothing for the program.)
pub(super) fn meant(data: u64, set: Index) -> Option<Option<Told>> {
    let Some((_, registration, source)) = decode(data) else {
        let is_anothers = registration::is_cookie(data) && Set::get(set).is_some_and(Set::may_be_shared);
        return is_anothers.then_some(None);
    };
    let life = registration.life_meant_by(data, set);
    Some(life.map(|generation| Told { registration, generation, source, raised: 0 }))
}
