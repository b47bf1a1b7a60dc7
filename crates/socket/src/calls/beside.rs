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

/// What is left of those that `fds` asks to read from; how many there are. (What else is ready the next call
/// tells.)
pub fn poll(fds: &mut [PollFd]) -> usize {
    const ASKED: i16 = os::poll::bits::IN | os::poll::bits::RDNORM;
    let mut ready = 0;
    for entry in fds {
        let is_left = entry.fd >= 0 && hold(entry.fd).is_some_and(|conn| has_rest(&conn));
        entry.revents = if is_left { entry.events & ASKED } else { 0 };
        ready += usize::from(entry.revents != 0);
    }
    ready
}

/// The same of the members of a set. An edge is told once, and so is what is asked for once.
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

fn level(member: &Registration) -> Option<u32> {
    let seen = member.interest.seen();
    let asked = seen.events();
    let conn = hold_index(Index(member.conn.load(Ordering::Relaxed)))?;
    if asked & INPUT == 0 || seen.is_fired() || !member.is_live() || !has_rest(&conn) {
        return None;
    }
    let end = End::of(&conn)?;
    let is_edge = asked & bits::ET == 0 || member.take_edge(&conn, &end);
    let is_first = || asked & bits::ONESHOT == 0 || member.interest.fire(seen);
    (is_edge && is_first()).then_some(asked & INPUT)
}
