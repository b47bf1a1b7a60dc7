//! Behind a filter of system calls that leaves us none of our own (`confine`): what is left unread in memory,
//! of which the kernel knows nothing, beside the program's own poll, select and epoll_wait. Owns: that no
//! call is made here. Where nothing is left, the call is libc's, as the program made it.

use crate::conn::Conn;
use crate::end::End;
use crate::held::{hold, hold_index};
use crate::interest::events::INPUT;
use crate::interest::registration::Registration;
use crate::interest::set::Set;
use crate::phase::Phase;
use crate::records;
use os::epoll::{Event, bits};
use os::poll::PollFd;
use shm::slab::Index;
use sync::Ordering;

/// Whether that is so of this process.
#[inline]
pub fn is_so() -> bool {
    os::confined::leaves_nothing()
}

fn has_rest(conn: &Conn) -> bool {
    conn.phase() == Phase::Smc && End::of(conn).is_some_and(|end| !end.is_all_read())
}

/// Whether something is left of those that `fds` asks to read from. The program's own call, which is not to
/// wait then, says what else is ready, and [`add`] the rest.
pub fn is_any(fds: &[PollFd]) -> bool {
    fds.iter().any(|entry| rest_of(entry) != 0)
}

fn rest_of(entry: &PollFd) -> i16 {
    let is_left = |fd: i32| match Set::index_of(fd).and_then(Set::get) {
        Some(set) => set.members().any(|(_, member)| is_asked_for(member)),
        None => hold(fd).is_some_and(|conn| has_rest(&conn)),
    };
    let asked = entry.events & (os::poll::bits::IN | os::poll::bits::RDNORM);
    if asked != 0 && entry.fd >= 0 && is_left(entry.fd) { asked } else { 0 }
}

/// Adds what is left to the kernel's answer; how many have events then.
pub fn add(fds: &mut [PollFd]) -> usize {
    fds.iter_mut().for_each(|entry| entry.revents |= rest_of(entry));
    fds.iter().filter(|entry| entry.revents != 0).count()
}

/// What is left of the members of a set. An edge is told once, and so is what is asked for once. (A set
/// inside it is not looked at.)
pub fn wait(epfd: i32, events: &mut [Event]) -> usize {
    let Some(set) = Set::index_of(epfd).and_then(Set::get) else { return 0 };
    let mut told = 0;
    for (_, member) in set.members() {
        if told == events.len() {
            break;
        }
        if let Some(level) = level(member) {
            events[told] = Event { events: level, data: member.data.load(Ordering::Relaxed) };
            told += 1;
        }
    }
    told
}

/// Puts together the first `told` of `events`, from memory, and the `got` behind them, from the kernel: whom
/// both have told of stands there once.
pub fn merge(events: &mut [Event], told: usize, got: usize) -> usize {
    let mut kept = told;
    for at in told..told + got {
        let Event { events: level, data } = events[at];
        match events[..told].iter().position(|event| ({ event.data }) == data) {
            Some(place) => events[place].events |= level,
            None => {
                events[kept] = Event { events: level, data };
                kept += 1;
            }
        }
    }
    kept
}

fn is_asked_for(member: &Registration) -> bool {
    let seen = member.interest.seen();
    let conn = hold_index(Index(member.conn.load(Ordering::Relaxed)));
    seen.events() & INPUT != 0
        && !seen.is_fired()
        && member.is_live()
        && conn.is_some_and(|conn| has_rest(&conn))
}

fn level(member: &Registration) -> Option<u32> {
    let seen = member.interest.seen();
    if !is_asked_for(member) {
        return None;
    }
    let conn = hold_index(Index(member.conn.load(Ordering::Relaxed)))?;
    let (asked, end) = (seen.events(), End::of(&conn)?);
    let is_edge = asked & bits::ET == 0 || member.take_edge(&conn, &end);
    let is_first = || asked & bits::ONESHOT == 0 || records::fire(&conn, member, seen);
    (is_edge && is_first()).then_some(asked & INPUT)
}
