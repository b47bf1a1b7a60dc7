//! The kernel's records of a registration: one of the TCP socket, one of the doorbell. Owns: that they say
//! at least what the program asks for, and what becomes of them when the verdict falls, the socket is closed
//! or the set is.

use crate::conn::Conn;
use crate::end::End;
use crate::held::hold_index;
use crate::interest::events::{self, FLAGS, INPUT, READ_SIDE, WRITE_SIDE};
use crate::interest::registration::{self, Registration, Source, of_conn};
use crate::interest::set::Set;
use crate::phase::Phase;
use crate::{doorbell, flag, ready, release, sleepers};
use os::Errno;
use os::epoll::{Op, bits, ctl as kernel_ctl};
use shm::ClosedBy;
use shm::interest::Seen;
use shm::layout::{CHANGED, TELLS_REST};
use shm::slab::Index;
use sync::Ordering as Shared;
use sync::Ordering;

/// What the kernel is to report about the TCP socket.
#[inline(always)]
pub(crate) fn tcp_events(conn: &Conn, events: u32) -> u32 {
    if !conn.is(Phase::Smc) {
        return events;
    }
    let hangup = match events {
        // (What two processes have in one set each would take out what the other asks for.)
        _ if events & (READ_SIDE | WRITE_SIDE) == 0
            && (events & bits::EXCLUSIVE != 0 || !conn.is_exclusive()) =>
        {
            0
        }
        // Who does not read is told of the end once: only then it may be that nobody reads any more, or that
        // a peer was killed, which TCP would have told everybody. (Who has shut down reading is told nothing
        // else from then on.)
        _ if events & READ_SIDE == 0 && (conn.has(flag::TCP_ENDED) || has_shut_reading(conn)) => 0,
        // EPOLLEXCLUSIVE does not go with EPOLLRDHUP; TCP says EPOLLIN at its end as well.
        _ if events & bits::EXCLUSIVE != 0 => bits::IN,
        _ if events & INPUT == 0 => bits::RDHUP,
        // EPOLLIN besides: after a move back to TCP (urgent data) the bytes are there.
        _ => bits::RDHUP | bits::IN,
    };
    let told = events & (FLAGS | bits::PRI) | hangup;
    if events & WRITE_SIDE != 0 { told | room_outside(conn, events) } else { told }
}

/// The same of the record of `registration`. One that carries the program's own data asks for nothing that
/// the program did not; before any wait was seen, for just that.
pub(crate) fn record_events(conn: &Conn, registration: &Registration, events: u32) -> u32 {
    match registration.tells_own_data() {
        false => tcp_events(conn, events),
        true if registration.is_unseen() => events,
        true => outright_events(conn, events),
    }
}

/// Of one that tells the program outright.
pub(crate) fn outright_events(conn: &Conn, events: u32) -> u32 {
    tcp_events(conn, events) & (events | FLAGS)
}

#[cold]
fn has_shut_reading(conn: &Conn) -> bool {
    End::of(conn).is_some_and(|end| end.mine().closed.load(Shared::Relaxed) & ClosedBy::READ != 0)
}

/// What the kernel is to report of room, if that is on TCP.
#[inline]
fn room_outside(conn: &Conn, events: u32) -> u32 {
    match conn.view() {
        Some(view) if view.outgoing(conn.side()).has_ended() => told_outside(conn, events),
        _ => 0,
    }
}

#[cold]
fn told_outside(conn: &Conn, events: u32) -> u32 {
    let has_room = End::of(conn).is_some_and(|end| ready::writes_outside(conn, &end));
    if has_room { events & WRITE_SIDE } else { 0 }
}

fn bell_events(events: u32) -> u32 {
    bits::IN | events & FLAGS
}

/// Puts the doorbell into the set and rings it if there is something to report already.
pub(crate) fn attach_bell(conn: &Conn, index: Index, registration: &Registration) {
    let Some(end) = End::of(conn).filter(|_| !registration.is_unseen()) else { return };
    if registration.is_outright() {
        return attach_rest(conn, &end, index, registration);
    }
    let events = registration.events();
    let cookie = registration.cookie(index, Source::Bell);
    let epfd = registration.epfd();
    let put = |op| move |bell| kernel_ctl(epfd, op, bell, bell_events(events), cookie);
    if let Some(bell) = registration.interest.bell() {
        let _ = put(Op::Mod)(bell);
    } else if registration.interest.attach(end.my_bell(), put(Op::Add)) == Err(Errno::EEXIST) {
        if !is_anothers(end.my_bell(), conn, registration) {
            // Of a connection before this one (`leave_to_kernel`).
            let _ = put(Op::Mod)(end.my_bell());
            return tell(conn, &end, registration);
        }
        registration.interest.detach();
        // A duplicate in the same set: the kernel tells records apart by descriptor number.
        if let Ok(bell) = os::fd::duplicate_internal(end.my_bell()) {
            let _ = registration.interest.attach(bell, put(Op::Add));
        }
    }
    tell(conn, &end, registration);
}

/// Whether the set of `registration` has the doorbell by another one of the same connection.
fn is_anothers(bell: i32, conn: &Conn, registration: &Registration) -> bool {
    let set = registration.set.load(Ordering::Relaxed);
    of_conn(conn).any(|(_, other)| {
        !core::ptr::eq(other, registration)
            && other.set.load(Ordering::Relaxed) == set
            && other.interest.bell() == Some(bell)
    })
}

/// What a registration has to report is new.
fn tell(conn: &Conn, end: &End, registration: &Registration) {
    // (Of a set that another process may have, somebody may sleep on it without our knowledge.)
    match set_of(registration).is_some_and(Set::may_be_shared) {
        true => announce(conn, end, registration),
        false => tell_waiters(conn, end, registration, None),
    }
}

/// In a set whose waiters do not look at rings: what is left in this one, of which TCP knows nothing, is
/// told by the doorbell, which has something to read until all of that was read ([`silence_rest`]).
#[cold]
fn attach_rest(conn: &Conn, end: &End, index: Index, registration: &Registration) {
    detach_bell(conn, registration, true);
    let events = registration.events();
    // (ONESHOT is one report, so it is all this record's.)
    let asked = if events & bits::ONESHOT != 0 { events } else { events & (READ_SIDE | FLAGS) };
    if asked & !FLAGS == 0 || end.incoming.used() == Ok(0) || os::confined::leaves_nothing() {
        return;
    }
    let data = registration.cookie(index, Source::Bell);
    let put = |op| move |bell| kernel_ctl(registration.epfd(), op, bell, asked, data);
    if registration.interest.attach(end.my_bell(), put(Op::Add)) == Err(Errno::EEXIST) {
        let _ = put(Op::Mod)(end.my_bell());
    }
    end.mine().set_sharers.fetch_or(TELLS_REST, Shared::AcqRel);
    doorbell::kick(conn, end);
}

/// The ring was read to its end.
fn silence_rest(conn: &Conn) {
    if let Some(end) = End::of(conn)
        && end.mine().set_sharers.load(Shared::Relaxed) & TELLS_REST != 0
    {
        conn.interest.bell.silence(end.words(), &end);
    }
}

/// Another process that has a set in common with this one asks anew: what tells of a rest there is not to go
/// on with what was asked before.
pub(crate) fn forget_rest(conn: &Conn, epfd: i32) {
    if let Some(end) = End::of(conn)
        && end.mine().set_sharers.load(Shared::Relaxed) & TELLS_REST != 0
        && conn.interest.registrations.load(Ordering::Acquire) == 0
    {
        let _ = kernel_ctl(epfd, Op::Del, end.my_bell(), 0, 0);
    }
}

/// Takes the doorbell of a registration out of the set.
pub(crate) fn detach_bell(conn: &Conn, registration: &Registration, from_kernel: bool) {
    if let Some(bell) = registration.interest.detach() {
        if from_kernel {
            let _ = kernel_ctl(registration.epfd(), Op::Del, bell, 0, 0);
        }
        // (One that was given up has no number of its own any more.)
        if End::of(conn).is_some_and(|end| end.my_bell() >= 0 && end.my_bell() != bell) {
            os::fd::close(bell);
        }
    }
}

/// Another process that has a set in common with this one has changed what it asks of `conn`, and taken the
/// connection back to TCP: what the set says is the kernel's from then on. Whether that is so.
#[inline]
pub(crate) fn is_changed_elsewhere(conn: &Conn, registration: &Registration) -> bool {
    // (Asked first: in most processes nobody else has any set.)
    let may_be_shared = registration.era.load(Ordering::Relaxed) != crate::era::now();
    may_be_shared && !conn.has(flag::CHANGED_SETS) && has_changed(conn)
}

#[cold]
fn has_changed(conn: &Conn) -> bool {
    End::of(conn).is_some_and(|end| end.mine().set_sharers.load(Shared::Relaxed) & CHANGED != 0)
}

/// Such registrations are looked at. (The caller has no turn.)
pub(crate) fn look_at_changed(conn: &Conn) {
    if !of_conn(conn).any(|(_, registration)| is_changed_elsewhere(conn, registration)) {
        return;
    }
    let Some(_turn) = conn.interest.turn.take() else { return };
    for (index, registration) in of_conn(conn) {
        if is_changed_elsewhere(conn, registration) {
            leave_to_others(conn, index, registration);
        }
    }
}

/// Of which set that was nobody says but the kernel: a record that is ours still was not changed, and says
/// from now on what the program asks for, with the program's own data. The other is whoever's who has changed
/// it. (The caller has the turn.)
#[cold]
fn leave_to_others(conn: &Conn, index: Index, registration: &'static Registration) {
    let (is_home, asked) = (conn.is(Phase::Plain), registration.interest.seen());
    // (Whoever has changed it is sending the connection home, and may not have come to it.)
    let is_on_its_way = || {
        End::of(conn)
            .is_some_and(|end| end.incoming.has_ended_for_good() && end.outgoing.has_ended_for_good())
    };
    if !is_home && (registration.is_outright() || !is_on_its_way()) {
        return;
    }
    let fd = registration.record().filter(|_| !registration.tells_own_data());
    let cookie = registration.cookie(index, Source::Tcp);
    let epfd = registration.epfd();
    if let Some(fd) = fd
        && os::epoll::has_record(epfd, fd, cookie) == Some(true)
    {
        let wanted = if asked.is_fired() { bits::ONESHOT } else { asked.events() };
        registration.kernel_events.store(wanted, Ordering::Relaxed);
        note_change(registration);
        put_anew(epfd, fd, wanted, registration.data.load(Ordering::Relaxed));
        if !is_home && !asked.is_fired() {
            return make_outright(conn, index, registration);
        }
        detach_bell(conn, registration, true);
    }
    forget_record(conn, registration);
}

/// Nobody sees the program's waits, and the ring has more to tell of: the doorbell does, with the program's
/// own data. Of a one-shot record it does so alone.
pub(crate) fn tell_rest(conn: &Conn, index: Index, registration: &'static Registration) {
    let events = registration.events();
    if events & bits::ONESHOT != 0
        && let Some(fd) = registration.record()
    {
        let data = registration.data.load(Ordering::Relaxed);
        registration.kernel_events.store(bits::ONESHOT, Ordering::Relaxed);
        note_change(registration);
        put_anew(registration.epfd(), fd, bits::ONESHOT, data);
    }
    make_outright(conn, index, registration);
}

/// The kernel's record of a registration carries the program's own data from now on.
pub(crate) fn make_outright(conn: &Conn, index: Index, registration: &'static Registration) {
    note_change(registration);
    detach_bell(conn, registration, true);
    registration.make_outright();
    if let Some(set) = set_of(registration) {
        set.note_outright();
    }
    attach_bell(conn, index, registration);
}

/// The kernel's record of a registration is about to carry other data: whoever has told of it by the former
/// tells of it by the latter no more.
pub(crate) fn note_change(registration: &Registration) {
    if let Some(set) = set_of(registration) {
        set.note_change();
    }
}

fn set_of(registration: &Registration) -> Option<&'static Set> {
    Set::get(Index(registration.set.load(Ordering::Relaxed)))
}

/// Who waits for the set, or will, learns of a wish: a wait looks at recent members before it sleeps, and a
/// sleeper's count is up before its look. Only if somebody sleeps already must he be woken.
/// `before`: what the program had asked for until now.
pub(crate) fn tell_waiters(conn: &Conn, end: &End, registration: &Registration, before: Option<Seen>) {
    let Some(set) = set_of(registration) else { return };
    set.promote(registration);
    // (Alone in its set it has no place to keep.)
    if set.len() > 1
        && !registration.is_listed()
        && let Some(before) = before
    {
        registration.list_asked_after(conn, end, before, &set.looked_at);
    }
    if set.is_watched() || end.mine().set_sharers.load(Shared::Relaxed) != 0 {
        announce(conn, end, registration);
    }
}

/// Whoever sleeps on the set learns what the registration has to report.
pub(crate) fn announce(conn: &Conn, end: &End, registration: &Registration) {
    doorbell::rearm(conn, end, false, false);
    let is_answered = conn.is(Phase::Smc);
    let level = ready::levels(conn, end, registration.number()) & if is_answered { !0 } else { !WRITE_SIDE };
    if level & (registration.events() | bits::ERR | bits::HUP) != 0 && !registration.is_fired() {
        doorbell::kick(conn, end);
    }
    if let Some(set) = set_of(registration) {
        set.promote(registration);
    }
}

/// What the program did itself wakes whoever waits for any of `events`, as the kernel does it: a set with
/// edges tells the level anew, whatever it has told.
pub(crate) fn raise_edges(conn: &Conn, end: &End, events: u32) {
    if conn.interest.epoll_edge.load(Ordering::Acquire) == 0 {
        return;
    }
    let Some(_turn) = conn.interest.turn.take() else { return };
    for (_, registration) in of_conn(conn) {
        let seen = registration.interest.seen();
        if seen.events() & bits::ET != 0 && seen.events() & events != 0 && !seen.is_fired() {
            registration.list_asked(conn, end);
            registration.give_edge_back();
            tell(conn, end, registration);
        }
    }
}

/// Adds (`by` 1) or removes (-1) a registration's wishes at its connection.
pub(crate) fn count(conn: &Conn, events: u32, by: i32) {
    let [data, space, edge] = events::wishes(events).map(|wish| wish * by);
    sleepers::count_registrations(conn, End::of(conn).as_ref(), data, space, edge);
}

/// One registration's wishes change, from those that stood unless ONESHOT had taken them off.
#[inline]
pub(crate) fn recount(conn: &Conn, from: Seen, to: u32) {
    let [data, space, edge] = events::change(from, to);
    if [data, space, edge] != [0; 3] {
        sleepers::count_registrations(conn, End::of(conn).as_ref(), data, space, edge);
    }
}

/// ONESHOT: exactly one thread gets what was asked for when it was `seen`.
pub(crate) fn fire(conn: &Conn, registration: &Registration, seen: Seen) -> bool {
    let is_first = registration.interest.fire(seen);
    if is_first {
        count(conn, seen.events(), -1);
    }
    is_first
}

/// A ONESHOT record that the kernel spent on nothing is loaded again.
pub(crate) fn reload(conn: &Conn, registration: &Registration, source: Source) {
    if source == Source::Rings || registration.events() & bits::ONESHOT == 0 {
        return;
    }
    // Somebody may be asking right now. (A signal handler that interrupted him does not wait, and finds
    // enough to go by.)
    let _turn = conn.interest.turn.take();
    let Some((index, registration)) = of_conn(conn).find(|(_, other)| core::ptr::eq(*other, registration))
    else {
        return;
    };
    if is_changed_elsewhere(conn, registration) {
        return leave_to_others(conn, index, registration);
    }
    let put = |fd, events| {
        let _ = kernel_ctl(registration.epfd(), Op::Mod, fd, events, registration.cookie(index, source));
    };
    registration.interest.reload(|seen| {
        match (source, registration.interest.bell(), registration.record()) {
            (Source::Tcp, _, Some(fd)) => {
                let events = record_events(conn, registration, seen.events());
                registration.kernel_events.store(events, Ordering::Relaxed);
                put(fd, events);
            }
            (Source::Bell, Some(bell), _) => put(bell, bell_events(seen.events())),
            _ => {}
        }
    });
}

/// Takes a registration off its connection and its doorbell out of the set. The caller has the turn.
///
/// A fork child that only closes its copies must not touch a set it shares with its parent: there the record
/// lives on. What the program itself asks for (`by_program`) it gets.
/// Returns what it had been asked until then.
pub(crate) fn drop_registration(conn: &Conn, gone: &'static Registration, by_program: bool) -> Seen {
    let is_own = gone.is_own();
    if gone.is_parked() && is_own {
        let _ = kernel_ctl(gone.epfd(), Op::Del, gone.fd(), 0, 0);
    }
    // (What tells others of a rest goes on for them.)
    detach_bell(conn, gone, by_program || (is_own && !gone.is_outright()));
    forget_record(conn, gone)
}

/// The same, the kernel's records being another's to change.
fn forget_record(conn: &Conn, gone: &'static Registration) -> Seen {
    detach_bell(conn, gone, false);
    let asked = gone.interest.withdraw();
    recount(conn, asked, 0);
    if let Some(set) = set_of(gone) {
        set.remove(gone);
        // (Whoever has it next is not to stand in a list of this set's.)
        set.take_untold_in();
    }
    let mut link = &conn.interest.registrations;
    while let Some(index) = link.load(Ordering::Acquire).checked_sub(1).map(Index) {
        let Some(registration) = registration::registrations().get(index) else { break };
        if core::ptr::eq(registration, gone) {
            link.store(gone.next.load(Ordering::Relaxed), Ordering::Release);
            gone.generation.fetch_add(1, Ordering::AcqRel);
            registration::registrations().give_back(index);
            break;
        }
        link = &registration.next;
    }
    asked
}

/// At the last close of a socket in this process, whose number `fd` is open still, if it is known.
pub(crate) fn remove_all(conn: &Conn, fd: Option<i32>) {
    if conn.interest.registrations.load(Ordering::Acquire) == 0 {
        return;
    }
    let Some(_turn) = conn.interest.turn.take() else { return };
    // (Of a fresh one nobody noted the duplicates that it had before a set had it.)
    let is_kept_by_others = conn.is(Phase::Fresh)
        || conn.is(Phase::Smc)
            && End::still_of(conn).is_some_and(|end| release::has_other_holders(conn, &end));
    while let Some((_, registration)) = of_conn(conn).next() {
        match fd.filter(|_| is_kept_by_others && registration.is_own() && !registration.is_parked()) {
            Some(fd) => leave_to_kernel(conn, registration, fd),
            None => _ = drop_registration(conn, registration, false),
        }
    }
}

/// Somebody else goes on with the socket, so the kernel goes on telling the set of it, and nobody here will
/// know what our cookie meant: it tells the program's own data. The doorbell stays where the other process
/// may have the set as well.
fn leave_to_kernel(conn: &Conn, gone: &'static Registration, fd: i32) {
    let may_be_shared = set_of(gone).is_some_and(Set::may_be_shared);
    let asked = gone.interest.seen();
    if gone.fd() == fd && !gone.tells_own_data() && !asked.is_fired() {
        // (To be asked anew is an edge: none for room that was told of. And the other process, if it has the
        // set, has its room in the ring.)
        let is_told = asked.events() & bits::ET != 0 && !gone.is_newly_asked();
        let is_room_told = is_told || may_be_shared && !conn.is(Phase::Fresh);
        note_change(gone);
        let events = if is_room_told { asked.events() & !WRITE_SIDE } else { asked.events() };
        put_anew(gone.epfd(), fd, events, gone.data.load(Ordering::Relaxed));
    }
    detach_bell(conn, gone, !may_be_shared && !gone.is_outright());
    forget_record(conn, gone);
}

/// Whether another living process has made it, in a set on which this one has never waited: the kernel's
/// record says what that one asks by now, which a fork child does not know.
fn is_left_to_its_maker(registration: &Registration) -> bool {
    !registration.is_own() && set_of(registration).is_some_and(Set::is_left_to_its_maker)
}

/// The set of a registration is closed.
fn forget(registration: &'static Registration) {
    if registration.is_live()
        && let Some(conn) = hold_index(Index(registration.conn.load(Ordering::Relaxed)))
        && let Some(_turn) = conn.interest.turn.take()
    {
        drop_registration(&conn, registration, false);
    }
}

/// Our direction is on TCP: the kernel is to tell of room there, where somebody waits for it.
pub(crate) fn tell_outside(conn: &Conn) {
    if conn.interest.registrations.load(Ordering::Acquire) == 0 {
        return;
    }
    let Some(_turn) = conn.interest.turn.take() else { return };
    for (index, registration) in of_conn(conn) {
        let events = record_events(conn, registration, registration.events());
        let before = registration.kernel_events.load(Ordering::Relaxed);
        let is_known = before == events || is_changed_elsewhere(conn, registration);
        let Some(fd) = registration.record() else { continue };
        if is_known || registration.is_parked() || registration.is_fired() {
            continue;
        }
        let epfd = registration.epfd();
        let cookie = registration.cookie(index, Source::Tcp);
        // (First: another thread may hear of it at once, and lose it.)
        registration.kernel_events.store(events, Ordering::Relaxed);
        let told = match kernel_ctl(epfd, Op::Mod, fd, events, cookie) {
            // EPOLLEXCLUSIVE cannot be modified.
            Err(Errno::EINVAL) => kernel_ctl(epfd, Op::Del, fd, 0, 0)
                .and_then(|()| kernel_ctl(epfd, Op::Add, fd, events, cookie)),
            told => told,
        };
        if told.is_err() {
            registration.kernel_events.store(before, Ordering::Relaxed);
        }
    }
}

/// A call that may not wait was refused by the ring, and TCP was not asked: of room that is there the kernel
/// tells only who asks it anew.
pub(crate) fn lose_room_outside(conn: &Conn) {
    of_conn(conn).for_each(|(_, registration)| registration.lose_room_outside());
}

/// A fresh socket is about to be connected, with an offer: its registrations get their doorbells.
pub(crate) fn offered(conn: &Conn) {
    let Some(_turn) = conn.interest.turn.take() else { return };
    if let Some(end) = End::of(conn) {
        sleepers::count_registrations_again(conn, &end, 1);
    }
    for (index, registration) in of_conn(conn) {
        attach_bell(conn, index, registration);
    }
}

/// The verdict fell: registrations made before are turned into what the phase needs. The caller has the
/// turn.
pub(crate) fn convert(conn: &Conn) {
    let is_shared = conn.is(Phase::Smc);
    let mut next = conn.interest.registrations.load(Ordering::Acquire);
    while let Some(index) = next.checked_sub(1).map(Index) {
        let Some(registration) = registration::registrations().get(index) else { return };
        next = registration.next.load(Ordering::Acquire);
        if is_changed_elsewhere(conn, registration) {
            leave_to_others(conn, index, registration);
        } else if is_left_to_its_maker(registration) {
            // (It finds out by itself; what the kernel tells here nevertheless is TCP's word.)
            continue;
        } else if registration.is_unseen() {
            // (The kernel's record is TCP's word as it is.)
            if !is_shared {
                drop_registration(conn, registration, true);
            }
        } else if is_shared && registration.is_fired() {
            // (The kernel has taken the record off as it told of it: asked anew, it would have something to
            // tell again. Who asks next asks for what the phase needs.)
            continue;
        } else if is_shared {
            let Some(fd) = registration.record() else { continue };
            let (epfd, events) = (registration.epfd(), registration.events());
            let cookie = registration.cookie(index, Source::Tcp);
            // (Where writes are libc's, nobody sees one that finds no room: the kernel's record has to ask.)
            let is_ours_to_tell = End::of(conn).is_some_and(|end| !ready::is_on_tcp_for_good(&end));
            let is_told = is_ours_to_tell && registration.has_told_of_room(conn);
            let told = if is_told { WRITE_SIDE } else { 0 };
            let kernel_events = record_events(conn, registration, events) & !told;
            // (To ask for room again is an edge of it, which who was refused is owed.)
            let is_edge_of_room = kernel_events & bits::ET != 0 && kernel_events & WRITE_SIDE != 0;
            let is_owed = !is_ours_to_tell && is_edge_of_room && !registration.has_told_of_room(conn);
            let is_asked = is_owed || !stands_already(registration, kernel_events);
            registration.kernel_events.store(kernel_events, Ordering::Relaxed);
            if is_asked {
                put_anew(epfd, fd, kernel_events, cookie);
            }
            if let Some(end) = End::of(conn) {
                tell(conn, &end, registration);
            }
        } else {
            make_plain(conn, index, registration);
        }
    }
    if !is_shared {
        silence_rest(conn);
    }
}

/// The kernel's record of a registration has said the program's own word until now: it says ours, and the
/// doorbell stands beside it. Nobody was told of anything yet. (The caller has the turn.)
pub(crate) fn take_up(conn: &Conn, index: Index, registration: &'static Registration) {
    if let Some(fd) = registration.record() {
        let events = tcp_events(conn, registration.events());
        registration.kernel_events.store(events, Ordering::Relaxed);
        note_change(registration);
        put_anew(registration.epfd(), fd, events, registration.own_cookie(index, Source::Tcp));
    }
    // (After that: who closes a number of it until then waits for the turn.)
    registration.end_unseen();
    if conn.is(Phase::Intent)
        && let Some(set) = set_of(registration)
    {
        set.owes_kernel.store(1, Ordering::Relaxed);
    }
    attach_bell(conn, index, registration);
}

/// Whether the kernel's record says this by now. (To be asked again would be an edge.)
fn stands_already(registration: &Registration, kernel_events: u32) -> bool {
    kernel_events & bits::ONESHOT == 0
        && registration.kernel_events.load(Ordering::Relaxed) == kernel_events
        && registration.era.load(Ordering::Relaxed) == crate::era::now()
}

/// The set holds the bare TCP socket with the program's own data from now on.
fn make_plain(conn: &Conn, index: Index, registration: &'static Registration) {
    let epfd = registration.epfd();
    let Some(fd) = registration.record() else {
        // What the kernel says of it has our cookie for ever: the registration stays, to tell what that
        // means.
        return detach_bell(conn, registration, true);
    };
    let data = registration.data.load(Ordering::Relaxed);
    let (cookie, set) = (registration.cookie(index, Source::Tcp), set_of(registration));
    // (What another thread is about to report, it does not report any more, or has taken off by now: asked
    // earlier, ONESHOT would be loaded again behind its report.)
    let asked = drop_registration(conn, registration, true);
    // (Nobody is to be told anything of a one-shot record that was told of. The kernel tells of a hang-up
    // even where nothing is asked for: that means nothing by then, as our cookie does not, and takes the
    // record off.)
    let is_ours_to_hide = asked.is_fired() && !set.is_some_and(Set::may_be_shared);
    let data = if is_ours_to_hide { cookie } else { data };
    let wanted = if asked.is_fired() { bits::ONESHOT } else { asked.events() };
    put_anew(epfd, fd, wanted, data);
}

/// Before a filter behind which no call is ours: the records of the socket say what the program asks for,
/// with its own data, and no doorbell stands beside them. What is left in memory the hooks tell (`beside`).
pub(crate) fn leave_to_program(conn: &Conn) {
    let Some(_turn) = conn.interest.turn.take() else { return };
    for (_, registration) in of_conn(conn) {
        if registration.is_parked() {
            drop_registration(conn, registration, true);
            continue;
        }
        if !registration.tells_own_data() {
            put_as_asked(registration);
        }
        tell_by_tcp_alone(conn, registration);
    }
}

/// No filter stands after all: what is left in memory is told by the doorbell again.
pub(crate) fn tell_rest_again(conn: &Conn) {
    if !conn.is(Phase::Smc) {
        return;
    }
    let Some(_turn) = conn.interest.turn.take() else { return };
    for (index, registration) in of_conn(conn).filter(|(_, registration)| registration.is_outright()) {
        attach_bell(conn, index, registration);
    }
}

/// The kernel's record says what the program asks for, with its own data.
pub(crate) fn put_as_asked(registration: &Registration) {
    let Some(fd) = registration.record() else { return };
    let asked = registration.interest.seen();
    let wanted = if asked.is_fired() { bits::ONESHOT } else { asked.events() };
    registration.kernel_events.store(wanted, Ordering::Relaxed);
    note_change(registration);
    put_anew(registration.epfd(), fd, wanted, registration.data.load(Ordering::Relaxed));
}

/// And no doorbell stands beside it.
pub(crate) fn tell_by_tcp_alone(conn: &Conn, registration: &'static Registration) {
    note_change(registration);
    registration.make_outright();
    if let Some(set) = set_of(registration) {
        set.note_outright();
    }
    detach_bell(conn, registration, true);
}

/// Changes what a set's record asks for, and says.
pub(crate) fn put_anew(epfd: i32, fd: i32, wanted: u32, data: u64) {
    if kernel_ctl(epfd, Op::Mod, fd, wanted, data) == Err(Errno::EINVAL) {
        // EPOLLEXCLUSIVE cannot be modified.
        let _ = kernel_ctl(epfd, Op::Del, fd, 0, 0);
        let _ = kernel_ctl(epfd, Op::Add, fd, wanted, data);
    }
}

/// A descriptor of a set was closed; with the last one its registrations go.
pub(crate) fn close_set(index: Index) {
    if let Some(set) = Set::close_one(index)
        && set.is_left()
    {
        dissolve(index, set);
    }
}

/// Nobody has the set any more, or sleeps on it.
pub(crate) fn dissolve(index: Index, set: &Set) {
    // Each step takes the first one out; a turn that is refused (a signal handler closes the set) must not
    // hold us here.
    for _ in 0..set.len() {
        if let Some((_, registration)) = set.members().next() {
            forget(registration);
            set.remove(registration);
        }
    }
    set.take_untold_in();
    Set::give_back(index);
}
