//! What a wait hears of TCP: the end of a connection, urgent data. Owns: that it is told along with what the
//! rings say.

use crate::conn::Conn;
use crate::end::End;
use crate::interest::events::READ_SIDE;
use crate::interest::registration::Registration;
use crate::ready;
use os::epoll::bits;
use os::net;
use shm::ClosedBy;
use sync::Ordering as Shared;

/// The end of the peer's stream is told along with what the rings say, as the kernel tells it: where the peer
/// has announced it, and where the answer is the first to a question that may be answered but once. `fd` is a
/// number of the socket.
#[inline]
pub(super) fn hear_of_end(conn: &Conn, end: &End, registration: &Registration, (events, fd): (u32, i32)) {
    let said = end.theirs().closed.load(Shared::Relaxed);
    if said & (ClosedBy::WRITE | ClosedBy::CLOSE | ClosedBy::EXIT) != 0 {
        ready::note_tcp(conn, end, fd, u32::from(os::poll::peek(fd, os::poll::bits::RDHUP) as u16));
    } else if events & (bits::ET | bits::ONESHOT) != 0 && registration.is_newly_asked() {
        ready::ask_for_peer(conn, end, fd);
    }
}

pub(super) fn hear_tcp(conn: &Conn, fd: i32, raised: u32, events: u32) {
    let Some(end) = End::of(conn) else { return };
    ready::note_reported(conn, &end, fd, end_of_stream(fd, raised, events));
    if raised & bits::IN != 0 && ready::is_contradicted_by_tcp(conn, &end, fd, raised) {
        ready::break_off(conn, &end, fd);
    }
}

/// EPOLLIN from a TCP socket that carries no data means its end; from others it is taken as it is.
fn end_of_stream(fd: i32, raised: u32, events: u32) -> u32 {
    let is_bare_in = events & bits::EXCLUSIVE != 0 && raised & bits::IN != 0;
    if is_bare_in && net::tcp_input(fd) == net::TcpInput::Ended { raised | bits::RDHUP } else { raised }
}

/// Urgent data is told of with what the rings say. (An edge by the kernel's record, with all that is to be
/// read: it would be two edges.)
#[cold]
pub(super) fn with_urgent(level: u32, events: u32, fd: i32) -> u32 {
    match u32::from(os::poll::peek(fd, bits::PRI as i16) as u16) & bits::PRI {
        0 => level,
        _ if events & bits::ET != 0 => level & !READ_SIDE,
        urgent => level | urgent,
    }
}
