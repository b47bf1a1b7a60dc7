//! What the program is to see of one record. Owns: that nothing which was heard is lost: it is told, or stays
//! to be told, or is made silent.

use super::ends::{hear_of_end, hear_tcp, with_urgent};
use crate::conn::Conn;
use crate::end::End;
use crate::interest::events::{FLAGS, READ_SIDE, WRITE_SIDE};
use crate::interest::registration::{Registration, Source, Told, of_conn};
use crate::interest::set::Set;
use crate::phase::Phase;
use crate::records::{self, fire, reload};
use crate::{answer, detour, doorbell, flag, home, push, ready, settle};
use os::epoll::bits;
use shm::interest::Seen;
use shm::slab::Index;
use sync::Ordering as Shared;
use sync::{Ordering, fence};

/// What came up while an answer was made.
#[derive(Default)]
pub(super) struct Notes {
    /// What turned out to have nothing to tell and is silent now: the next look finds less.
    pub(super) hushed: u32,
    /// Whom the rings tell of has his turn in their lap.
    pub(super) is_lap: bool,
    /// A doorbell was among what the kernel told since this was last cleared.
    pub(super) has_rung: bool,
    /// The doorbell that ends the kernel's lap was among what the kernel told since this was last cleared.
    pub(super) has_passed_marker: bool,
}

/// What the program is to see of what the rings tell, as they nearly always do: by level, of a connection of
/// which nothing special is known. `None` if [`effective`] is to say it.
///
/// Nothing is held meanwhile: that the registration lives the same life afterwards says that all of it was
/// its connection's.
#[inline]
pub(super) fn ordinary(told: Told) -> Option<(u32, u64)> {
    let registration = told.registration;
    let (seen, data) = told.question()?;
    let is_own = registration.era.load(Ordering::Relaxed) == crate::era::now();
    if seen.events() & (FLAGS | bits::PRI) != 0 || !is_own {
        return None;
    }
    let conn = registration.peek_conn()?;
    let level = ready::ordinary_levels(conn, &End::of(conn)?)? & seen.events();
    fence(Ordering::Acquire);
    let is_its = registration.generation.load(Ordering::Relaxed) == told.generation;
    (is_its && level != 0).then_some((level, data))
}

/// What the program is to see of one record, if anything. Counts what was made silent.
pub(super) fn effective(told: Told, notes: &mut Notes, asleep: u32) -> Option<(u32, u64)> {
    let registration = told.registration;
    let conn = told.conn()?;
    if records::is_changed_elsewhere(&conn, registration) {
        records::look_at_changed(&conn);
        let _ = told.question()?;
        if registration.is_outright() {
            return None;
        }
    }
    if registration.is_parked() {
        settle::settle(&conn, registration);
        return None;
    }
    if told.source != Source::Rings && registration.interest.is_being_asked() {
        // (Who asks changes the kernel's record first. By then it would have told of the new question.)
        drop(conn.interest.turn.take());
    }
    let fd = registration.number();
    if told.source == Source::Tcp {
        hear_tcp(&conn, fd, told.raised, registration.events());
    }
    if conn.is(Phase::Intent) {
        let (seen, data) = told.question()?;
        match answer::refresh(&conn, fd) {
            // Converted to a registration of the bare TCP socket: the kernel will report what is left to
            // report.
            Phase::Plain => return plain_now(fd, seen.events(), data),
            // (Before the answer an end would have been a connect() that failed: see `note_reported`.)
            Phase::Smc if told.source == Source::Tcp => hear_tcp(&conn, fd, told.raised, seen.events()),
            _ => {}
        }
    }
    loop {
        let (seen, data) = told.question()?;
        let end = End::of(&conn).filter(|_| !conn.is(Phase::Plain));
        if let Some(end) = &end
            && ready::is_on_tcp_for_good(end)
            && home::notice(&conn, end)
        {
            return plain_now(fd, seen.events(), data);
        }
        let found = level(&conn, end.as_ref(), told, (seen.events(), fd));
        if told.source == Source::Tcp && told.raised & WRITE_SIDE & !found.unwrap_or(0) != 0 {
            registration.lose_room_outside();
            if let Some(end) = &end {
                detour::await_reader(&conn, end, asleep);
            }
        }
        if let Some(level) = found
            && (seen.events() & bits::ONESHOT == 0 || fire(&conn, registration, seen))
        {
            if seen.events() & bits::ET != 0 {
                give_back_if_asked_anew(registration, seen);
            }
            return Some((level, data));
        }
        if give_back_if_asked_anew(registration, seen) {
            continue;
        }
        if found.is_none() {
            notes.hushed += u32::from(fall_silent(&conn, end.as_ref(), told, asleep));
        }
        if seen.events() & bits::ONESHOT == 0 {
            return None;
        }
        reload(&conn, registration, told.source);
        return None;
    }
}

/// What was found is no answer to what was asked after it was `seen`, and the edge that was taken may be the
/// new question's.
#[inline]
fn give_back_if_asked_anew(registration: &Registration, seen: Seen) -> bool {
    let is_asked_anew = !registration.interest.seen().is_same_question(seen);
    if is_asked_anew {
        registration.give_edge_back();
    }
    is_asked_anew
}

/// What there is to tell of `events`, of the socket that has the number `fd`.
#[inline]
fn level(conn: &Conn, end: Option<&End>, told: Told, (events, fd): (u32, i32)) -> Option<u32> {
    let Told { registration, source, raised, .. } = told;
    let Some(end) = end else {
        // Not connected yet, or TCP's again with a record that nobody can change any more: TCP's word is all
        // there is.
        let level = raised & (events | bits::ERR | bits::HUP);
        return (source == Source::Tcp && level != 0).then_some(level);
    };
    if source != Source::Tcp && !conn.has(flag::TCP_ENDED) {
        hear_of_end(conn, end, registration, (events, fd));
    }
    let is_new = events & bits::ET == 0 || registration.take_edge(conn, end) || source == Source::Tcp;
    let mut level = ready::levels(conn, end, fd);
    if conn.is(Phase::Intent) && !conn.has(flag::ESTABLISHED) {
        let is_connected =
            source == Source::Tcp && raised & bits::OUT != 0 && answer::is_established(conn, fd);
        level &= if is_connected { !0 } else { !(READ_SIDE | WRITE_SIDE) };
    }
    match source {
        Source::Tcp => level |= raised & (bits::ERR | bits::HUP | bits::PRI),
        // (Urgent data is on TCP, and so is all that comes after it.)
        _ if events & bits::PRI != 0 && end.incoming.has_ended() => level = with_urgent(level, events, fd),
        _ => {}
    }
    level &= events | bits::ERR | bits::HUP;
    if !is_new || level == 0 {
        return None;
    }
    if end.mine().set_sharers.load(Shared::Relaxed) > 0 {
        // Another process may sleep on a copy of the set.
        doorbell::rearm(conn, end, false, false);
    }
    Some(level)
}

/// A report that has nothing to tell is not to come again. Whether it will not.
fn fall_silent(conn: &Conn, end: Option<&End>, told: Told, asleep: u32) -> bool {
    let Some(end) = end else { return false };
    match told.source {
        Source::Bell => hush(conn, end, told.registration, asleep),
        Source::Tcp => {
            settle::settle(conn, told.registration);
            false
        }
        // An edge for what was read before it could be reported; it is taken.
        Source::Rings => true,
    }
}

/// Drains a doorbell that has nothing to tell. Waits of this set ask again before they sleep, which a busy
/// program seldom does: until then nobody is to ring. Others that rely on the doorbell are looked for after
/// the drain. Whether it is silent.
pub(super) fn hush(conn: &Conn, end: &End, registration: &Registration, asleep: u32) -> bool {
    doorbell::note_rung(conn);
    conn.interest.bell.silence(end.words(), end);
    let set = Set::get(Index(registration.set.load(Ordering::Relaxed)));
    let are_others = others_go_by_it(conn, end, registration, asleep);
    if are_others && push::let_out_for_others(end) {
        doorbell::kick(conn, end);
        return false;
    }
    let may_matter = are_others || set.is_none_or(Set::is_watched);
    !(may_matter && doorbell::rearm_drained(conn, end))
}

/// Whether somebody else relies on the doorbell than the one set, and its wait that counts as so many
/// sleepers.
fn others_go_by_it(conn: &Conn, end: &End, registration: &Registration, asleep: u32) -> bool {
    let set = Set::get(Index(registration.set.load(Ordering::Relaxed)));
    let is_other = |(_, other): (Index, &'static Registration)| !core::ptr::eq(other, registration);
    of_conn(conn).any(is_other)
        || doorbell::is_waited_for(conn, end)
        || set.is_none_or(|set| set.is_watched_beside(asleep))
}

/// What a doorbell stands for was told by the rings, and will be for as long as it is there: where nobody
/// else goes by it, it need not be named by the kernel each time as well. (Every wait asks anew before it
/// sleeps.)
#[cold]
pub(super) fn silence_told(told: Told, asleep: u32) {
    let registration = told.registration;
    if registration.events() & FLAGS == 0
        && let Some(conn) = told.conn()
        && let Some(end) = End::of(&conn)
        && !others_go_by_it(&conn, &end, registration, asleep)
    {
        doorbell::note_rung(&conn);
        conn.interest.bell.silence(end.words(), &end);
        // (Who has come meanwhile may have been rung by what was just drained.)
        if others_go_by_it(&conn, &end, registration, asleep) {
            doorbell::rearm_drained(&conn, &end);
        }
    }
}

fn plain_now(fd: i32, events: u32, data: u64) -> Option<(u32, u64)> {
    let ready = u32::from(os::poll::peek(fd, (events & 0xffff) as i16) as u16);
    let level = ready & (events | bits::ERR | bits::HUP);
    // An edge reported here and by the kernel's next answer again is one edge too many, which edge-triggered
    // programs tolerate.
    (level != 0 && events & bits::ONESHOT == 0).then_some((level, data))
}
