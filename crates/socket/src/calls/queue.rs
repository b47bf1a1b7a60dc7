//! What lies between the two programs, as TCP would tell it. Owns: the line in the ring that stands for the
//! peer's kernel.
//!
//! A ring is the sender's buffer and the receiver's at once. TCP tells them apart: SIOCOUTQ counts what the
//! peer's kernel has not acknowledged, and close() with SO_LINGER waits for that, never for the peer's
//! program to read. Here everything counts as received that leaves a writer room (two thirds of the ring): a
//! few unread bytes are none in the queue, a ring that stops its writer holds some.

use crate::end::End;
use crate::held::hold;
use crate::phase::Phase;
use crate::{flag, options, ready};
use os::net;

/// SO_LINGER was set on some socket.
pub fn note_linger_is_used() {
    options::note_linger_is_used();
}

/// SIOCOUTQ and SIOCOUTQNSD: bytes that the peer's kernel would not have yet.
pub fn unacknowledged(fd: i32) -> Option<usize> {
    let conn = crate::decide::in_use(fd)?;
    let ring = End::of(&conn)?.outgoing;
    let taken = ring.size() - ring.size() / 3;
    let held = ring.unread().ok()?.saturating_sub(ring.used().ok()?);
    let outside = if ring.has_ended() { net::queued_bytes(fd) } else { 0 };
    // (A writer that waits until what it began with on TCP was read, too, has something in the queue.)
    let is_stopped = ring.has_ended()
        && !ring.has_ended_for_good()
        && ring.left_to_begin_with() == 0
        && !ring.is_caught_up();
    let begun = if is_stopped { ring.begun_with().min(ring.size()) } else { 0 };
    // (Some of that the kernel may not have acknowledged: it counts once.)
    Some(ring.used().ok()?.saturating_sub(taken) + held + outside.max(begun.saturating_sub(taken)))
}

/// TCP_INQ was set on some socket.
pub fn note_inq_is_used() {
    options::note_inq_is_used();
}

/// What a message says of the bytes that are left, where TCP_INQ is on; a FIN behind them is one more.
pub fn left_to_read(fd: i32) -> Option<usize> {
    if !options::is_inq_used() || os::confined::is_confined() {
        return None;
    }
    crate::decide::in_use(fd).filter(|_| net::tells_queue(fd))?;
    unread(fd).map(|(bytes, has_ended)| bytes + usize::from(has_ended))
}

/// What a shared connection has to read, by memory and by TCP, and whether a FIN is behind it; `None` of any
/// other.
pub fn unread(fd: i32) -> Option<(usize, bool)> {
    crate::stream::readable_bytes(fd).map(|bytes| (bytes, net::has_received_fin(fd)))
}

/// For how many milliseconds a close of `fd` waits until it can be written to again; `None` for one that does
/// not wait.
pub fn linger_ms(fd: i32) -> Option<i32> {
    if !options::is_linger_used() {
        return None;
    }
    let conn = hold(fd).filter(|conn| conn.phase() == Phase::Smc && conn.fds() == 1)?;
    let end = End::of(&conn)?;
    let is_shared = end.mine().holders.load(sync::Ordering::Acquire) > 1;
    // (Bytes that this end has not read make it a reset, which waits for nothing.)
    let is_pointless =
        end.incoming.used() != Ok(0) || ready::has_space(&conn, &end) || conn.has(flag::TCP_GONE);
    // (What is on TCP the kernel's own close waits for.)
    let is_pointless = is_pointless || end.outgoing.has_ended();
    if is_shared || is_pointless {
        return None;
    }
    net::linger_seconds(fd).map(|seconds| seconds.min(i32::MAX / 1000) * 1000)
}
