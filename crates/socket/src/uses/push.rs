//! Bytes that are held back: MSG_MORE and TCP_CORK, as TCP has them (tcp(7)). Owns: how long and how many,
//! and who lets them out.
//!
//! TCP sends full segments at once, and a partial one when the program stops holding it, or after 200 ms.
//! Here the bytes lie in the ring already (`shm::hold`), and the writer lets them out by whatever it says
//! next: a send without MSG_MORE, TCP_CORK off, TCP_NODELAY on, shutdown, close. The 200 ms are the reader's
//! to count: rung when bytes are held, it sleeps in slices.

use crate::conn::Conn;
use crate::end::End;
use crate::held::hold;
use crate::{flag, watch};
use os::net::msg;
use os::time::Cycles;
use shm::{ClosedBy, Ring};
use sync::Ordering as Shared;

/// TCP's own limit (TCP_RTO_MIN, include/net/tcp.h, after which a partial segment is sent as a probe).
const LONGEST: Cycles = Cycles::from_ms(200);
/// What TCP sends at once: a segment of the loopback device.
const SEGMENT: usize = 65_483;

/// Whether a send with `flags` holds back what it writes.
#[inline]
pub(crate) fn holds(conn: &Conn, fd: i32, flags: i32) -> bool {
    flags & msg::MORE != 0 || (conn.has(flag::CORKED) && is_still_corked(conn, fd))
}

/// (Another process that has the socket may have changed it.)
#[cold]
fn is_still_corked(conn: &Conn, fd: i32) -> bool {
    if !conn.is_exclusive() && !os::confined::is_confined() {
        conn.see_cork(fd);
    }
    conn.has(flag::CORKED)
}

/// When that is due.
pub(crate) fn due() -> u64 {
    Cycles::now().plus(LONGEST).word()
}

/// Whether so much is held that TCP would have sent it.
pub(crate) fn is_segment(ring: &Ring) -> bool {
    ring.held_bytes() >= SEGMENT.min(ring.size() / 4) as u64
}

/// Lets out what this side holds back.
#[inline]
pub(crate) fn push(end: &End) {
    if end.outgoing.is_holding() && end.outgoing.let_out() {
        end.ring_peer(&end.outgoing.words().data_wait.0);
    }
}

/// The reader sees that bytes are held back: its waits are to look again.
#[inline]
pub(crate) fn note_held(end: &End) {
    if end.incoming.is_holding() {
        watch::note_held();
    }
}

/// A waiter was rung, and others wait as well, who were not: he may go before what is held back is due, and
/// nobody would look. So it is let out now. Whether there was any.
#[must_use]
pub(crate) fn let_out_for_others(end: &End) -> bool {
    end.incoming.is_holding() && end.incoming.let_out()
}

/// Lets out what the peer has held back for long enough, or will never let out; whether there was any, of
/// which other sleepers of this side are to be told. (A time that it could not have said is over. Who waits
/// for a signal makes no call that could look again.)
#[must_use]
pub(crate) fn let_out_if_due(conn: &Conn, end: &End) -> bool {
    /// Counters of two cores may differ by a little.
    const SAID_AT_MOST: Cycles = LONGEST.times(2);
    let left = Cycles::from_word(end.incoming.due()).since(Cycles::now());
    let has_ended = end.theirs().closed.load(Shared::Acquire) & (ClosedBy::WRITE | ClosedBy::CLOSE) != 0;
    let is_over = left == Cycles::NONE || left > SAID_AT_MOST;
    let is_due = is_over || has_ended || conn.has(flag::TCP_ENDED | flag::SIGNAL_DRIVEN);
    let is_out = is_due && end.incoming.let_out();
    if is_out {
        conn.interest.bell.kick(end);
    }
    is_out
}

/// TCP_CORK was set, or cleared, on `fd`.
pub fn note_cork(fd: i32, on: bool) {
    crate::options::note_cork_is_used();
    let Some(conn) = hold(fd) else { return };
    if on {
        conn.mark(flag::CORKED);
    } else {
        conn.unmark(flag::CORKED);
        now(fd);
    }
}

/// TCP_NODELAY was set on `fd`: TCP sends what it holds, even when it is corked.
pub fn now(fd: i32) {
    // (Held while the peer is rung: see `shm::lent`.)
    if let Some(conn) = hold(fd)
        && let Some(end) = End::still_of(&conn)
    {
        push(&end);
    }
}
