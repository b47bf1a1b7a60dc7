//! What ioctl and splice ask of a stream, and what fcntl and setsockopt tell it. Owns: the copies of the
//! program's settings.

use crate::conn::Conn;
use crate::decide::{in_use, tied};
use crate::detour;
use crate::end::End;
use crate::held::hold;
use crate::interest::events::INPUT;
use crate::phase::Phase;
use crate::{flag, push, ready, records};
use os::net;
use shm::layout::PEEKS_FROM_OFFSET;
use sync::Ordering;
use sync::Ordering as Shared;

/// FIONREAD: bytes a read would return now.
pub fn readable_bytes(fd: i32) -> Option<usize> {
    let conn = in_use(fd)?;
    let end = End::of(&conn)?;
    Some(readable_on(&conn, &end, fd))
}

pub(super) fn readable_on(conn: &Conn, end: &End, fd: i32) -> usize {
    if end.incoming.is_holding() {
        let _ = push::let_out_if_due(conn, end);
    }
    let bytes = end.incoming.used().unwrap_or(0) + end.view.bytes_in_word();
    // After the peer has moved to TCP the rest is there.
    let rest = if end.incoming.has_ended() { net::readable_bytes(fd) } else { 0 };
    bytes + rest
}

/// Whether bytes in the ring come before whatever TCP has (urgent data, say).
pub fn has_ring_bytes(fd: i32) -> bool {
    let end = in_use(fd).and_then(|conn| End::of(&conn));
    end.is_some_and(|end| end.incoming.used().is_ok_and(|bytes| bytes > 0) || end.view.bytes_in_word() > 0)
}

/// Bytes a send of `wanted` would take now without waiting. Fewer are noted, as by a send that found no more
/// space.
pub(super) fn space_on(conn: &Conn, end: &End, fd: i32, wanted: usize) -> usize {
    let is_outside = conn.is(Phase::Intent) || end.outgoing.has_ended() && !end.outgoing.is_caught_up();
    let space = match conn.phase() {
        _ if is_outside => super::overflow::room(conn, end, fd),
        _ if conn.has(flag::LIMITED) => {
            end.outgoing.unread().map_or(0, |used| ready::limit(end).saturating_sub(used))
        }
        _ => end.outgoing.unread().map_or(0, |unread| end.outgoing.size() - unread),
    };
    if space < wanted {
        let by_tcp = is_outside && ready::writes_outside(conn, end);
        super::overflow::note_stall(conn, end, by_tcp);
        super::overflow::note_for_waits(conn, end);
    }
    space.min(wanted)
}

/// How long a write may wait for room (SO_SNDTIMEO), in milliseconds; -1 for as long as it takes.
pub fn send_limit_ms(fd: i32) -> i32 {
    let ns = hold(fd).map_or(0, |conn| conn.timeout_ns(fd, os::net::opt::SO_SNDTIMEO));
    if ns == 0 { -1 } else { i32::try_from(ns.div_ceil(1_000_000)).unwrap_or(i32::MAX) }
}

/// O_NONBLOCK changed on the open file description.
pub fn note_nonblocking(fd: i32, on: bool) {
    if let Some(conn) = hold(fd) {
        conn.see_nonblocking(on);
        if let Some(end) = End::of(&conn) {
            end.tell_nonblocking(on);
        }
    }
}

/// SO_RCVTIMEO or SO_SNDTIMEO is about to be set on some socket.
pub fn note_timeout_is_used() {
    crate::options::note_timeout_is_used();
}

/// SO_RCVTIMEO or SO_SNDTIMEO (`name`) was set: behind a filter of system calls the kernel cannot be asked
/// for it, and of a negative one (`None`) it tells nothing.
pub fn note_timeout(fd: i32, name: i32, ns: Option<u64>) {
    if let Some(conn) = hold(fd) {
        conn.see_timeout(name, ns);
    }
}

/// SO_PEEK_OFF was set.
pub fn note_peek_offset(fd: i32) {
    crate::options::note_peek_offset_is_used();
    if let Some(conn) = hold(fd) {
        conn.see_peek_offset(fd);
        if conn.has(flag::PEEK_OFFSET)
            && let Some(end) = End::still_of(&conn)
        {
            end.mine().low_water.fetch_or(PEEKS_FROM_OFFSET, Shared::AcqRel);
        }
    }
}

/// SO_PEEK_OFF, where it is set on a shared connection: a look for another purpose than the program's begins
/// at the first byte, and leaves it as it is.
pub fn peek_offset(fd: i32) -> Option<usize> {
    let conn = hold(fd)?;
    let end = End::of(&conn)?;
    let is_set =
        conn.has(flag::PEEK_OFFSET) || end.mine().low_water.load(Shared::Relaxed) & PEEKS_FROM_OFFSET != 0;
    if is_set { net::peek_offset(fd) } else { None }
}

/// SO_SNDBUF or SO_RCVBUF was set.
pub fn note_buffers(fd: i32) {
    crate::options::note_buffers_are_used();
    if let Some(conn) = hold(fd)
        && conn.phase() == Phase::Smc
        && let Some(end) = End::still_of(&conn)
    {
        detour::see_buffers(&conn, &end, fd);
    }
}

/// SO_RCVLOWAT changed.
pub fn note_rcvlowat(fd: i32) {
    crate::options::note_rcvlowat_is_used();
    if let Some(conn) = hold(fd) {
        conn.see_rcvlowat(fd);
        // Whoever else has the socket goes by the same.
        if let Some(end) = End::still_of(&conn) {
            let set = conn.stream.rcvlowat.load(Ordering::Relaxed) & !PEEKS_FROM_OFFSET;
            let other = end.mine().low_water.load(Shared::Relaxed) & PEEKS_FROM_OFFSET;
            end.mine().low_water.store(set | other, Shared::Release);
            if conn.is(Phase::Smc) && ready::has_data(&conn, &end) {
                records::raise_edges(&conn, &end, INPUT);
            }
        }
    }
}

/// Whether `fd` moves its bytes through shared memory now (sendfile, splice and the like are ours to do).
pub fn is_shared(fd: i32) -> bool {
    in_use(fd).is_some()
}

/// Whether a call that writes may find anything but room: it is to wait, or nobody will read.
pub fn may_refuse(fd: i32) -> bool {
    let Some((conn, end)) = tied(fd) else { return false };
    if conn.is(Phase::Smc) {
        ready::ask_for_peer(&conn, &end, fd);
    }
    let closed = [end.mine(), end.theirs()].map(|side| side.closed.load(Shared::SeqCst));
    !conn.is(Phase::Smc)
        || closed != [0, 0]
        || conn.has(flag::TCP_ENDED | flag::TCP_GONE | flag::RESET)
        || end.outgoing.has_ended()
        || !ready::has_space(&conn, &end)
}
