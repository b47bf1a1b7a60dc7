//! Errors that stand at a connection, and who is told of them. Owns: that a reset is told once, by whichever
//! call comes first, also where the kernel's socket knows nothing of it: it was the ring's bytes that nobody
//! read.

use crate::conn::Conn;
use crate::decide::{in_use, in_use_after_connect};
use crate::end::End;
use crate::phase::Phase;
use crate::{Outcome, flag, ready};
use os::{Errno, net};

/// Why a connection was reset, which it tells once: by the kernel's own error, should there be one (its time
/// limit for unread bytes is over, or somebody destroyed the socket), else ECONNRESET. (EPIPE is the kernel's
/// for a reset behind the end of the stream, which the peer of these bytes was never seen to reach.)
pub(crate) fn tell_reset(conn: &Conn, fd: i32) -> Outcome {
    conn.mark(flag::RESET_TOLD);
    if let Some(end) = End::of(conn) {
        // The kernel's own is to come now, and not after this has been told.
        ready::provoke_reset(conn, &end, fd);
    }
    let kernels = net::take_error(fd);
    Outcome::Fail(kernels.filter(|errno| *errno != Errno::EPIPE).unwrap_or(Errno::ECONNRESET))
}

/// The error that stands at the connection before a call looks at its bytes, told by this.
pub fn take_error(fd: i32) -> Option<Errno> {
    take_reset(fd).or_else(|| in_use(fd).and_then(|_| net::take_error(fd)))
}

/// ECONNRESET, if it is due and the kernel's socket does not know: it was the ring's bytes that nobody read.
pub fn take_reset(fd: i32) -> Option<Errno> {
    let conn = in_use_after_connect(fd).filter(|conn| conn.phase() == Phase::Smc)?;
    let end = End::of(&conn)?;
    if !conn.has(flag::TCP_ENDED | flag::RESET) {
        let told = os::poll::peek(fd, os::poll::bits::RDHUP);
        ready::note_tcp(&conn, &end, fd, u32::from(told as u16));
    }
    if !conn.has(flag::RESET) || conn.has(flag::RESET_TOLD) {
        return None;
    }
    match tell_reset(&conn, fd) {
        Outcome::Fail(errno) => Some(errno),
        _ => None,
    }
}

/// An error that a call was told which then said something else: a reset is told again.
pub fn tell_again(fd: i32, errno: Errno) {
    if errno == Errno::ECONNRESET
        && let Some(conn) = in_use(fd)
        && conn.phase() == Phase::Smc
    {
        conn.mark(flag::RESET | flag::TCP_ENDED | flag::TCP_GONE);
        conn.unmark(flag::RESET_TOLD);
    }
}

/// The turn was refused: a lying lock word ends the connection, re-entry from a signal handler does not.
pub(crate) fn refused(conn: &Conn, end: &End, fd: i32, errno: Errno) -> Outcome {
    if errno == Errno::ECONNRESET { ready::break_off(conn, end, fd) } else { Outcome::Fail(errno) }
}
