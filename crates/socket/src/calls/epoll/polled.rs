//! Sets that somebody waits for by other means than a wait of ours: poll, select, a set around it. Owns: that
//! such a set is readable for what it has to tell, and for nothing else where poll asks.

use super::ends::hear_tcp;
use super::telling::hush;
use super::wait::{arm, kick};
use crate::end::End;
use crate::interest::events::READ_SIDE;
use crate::interest::registration::Registration;
use crate::interest::set::Set;
use crate::phase::Phase;
use crate::ready::levels;
use crate::{answer, doorbell, flag, settle, unseen};
use os::epoll::bits;
use sync::Ordering as Shared;

/// Before a set goes into another one, `outer`.
pub fn prepare_to_be_nested(epfd: i32, outer: i32) {
    if Set::index_of(epfd).is_some() {
        unseen::note_nested(epfd, outer);
        prepare_to_be_polled(epfd);
    }
}

/// Before somebody sleeps on the set by other means: its members are armed, and what is there already makes
/// it readable.
pub(crate) fn prepare_to_be_polled(epfd: i32) {
    let Some(set) = Set::index_of(epfd).and_then(Set::get) else { return };
    set.note_watched();
    set.arm_each(|registration| {
        let is_there = arm(registration, 0);
        if is_there {
            kick(registration);
        }
        is_there
    });
}

/// Whether a descriptor that the kernel calls readable has something to tell. A set of ours may not: a
/// doorbell is rung for whatever others wait for, and a record may say more than the program asks for. Those
/// are made silent, and the kernel is asked again.
pub(crate) fn has_something(epfd: i32) -> bool {
    let Some(set) = Set::index_of(epfd).and_then(Set::get) else { return true };
    if set.members().any(|(_, registration)| has_news(registration)) {
        return true;
    }
    // (Each may take a member out.)
    set.members().for_each(|(_, registration)| silence(registration));
    os::poll::is_readable(epfd)
}

/// Whether the rings, or a doorbell that speaks for other processes too, have something to tell. (What TCP
/// has, the kernel will say.)
fn has_news(registration: &Registration) -> bool {
    let Some(conn) = registration.hold() else { return false };
    if conn.is(Phase::Intent) {
        answer::refresh(&conn, registration.number());
    }
    let Some(end) = End::of(&conn) else { return false };
    if registration.is_outright() || end.mine().set_sharers.load(Shared::Relaxed) > 0 {
        return true;
    }
    let events = registration.events();
    let is_there = || levels(&conn, &end, registration.number()) & (events | bits::ERR | bits::HUP) != 0;
    if !registration.is_pending(&conn, &end) {
        return false;
    }
    if events & bits::ET == 0 || is_there() {
        return true;
    }
    // An edge of nothing is over once it was looked at, as in the kernel.
    registration.take_edge(&conn, &end);
    let has_come = is_there();
    if has_come {
        registration.give_edge_back();
        doorbell::kick(&conn, &end);
    }
    has_come
}

fn silence(registration: &'static Registration) {
    let Some(conn) = registration.hold() else { return };
    if let fd @ 0.. = registration.number()
        && registration.events() & READ_SIDE == 0
        && conn.is(Phase::Smc)
        && !conn.has(flag::TCP_ENDED)
    {
        // (It may be an end, of which the record tells those, too, who did not ask for it.)
        let told = os::poll::peek(fd, os::poll::bits::RDHUP);
        hear_tcp(&conn, fd, u32::from(told as u16), registration.events());
    }
    settle::settle(&conn, registration);
    settle::settle_fired(&conn, registration);
    if let Some(end) = End::of(&conn).filter(|end| conn.interest.bell.may_have_rung(end.words())) {
        hush(&conn, &end, registration, 0);
    }
}
