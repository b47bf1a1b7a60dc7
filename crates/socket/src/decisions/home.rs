//! A connection goes back to TCP: both directions, at whatever byte each of them is. Owns: who may say so,
//! and when a socket is libc's again with nothing of ours beside it.
//!
//! Either end moves both directions: it ends the turn of who sends there, its own and the peer's, which is in
//! memory like everything else. So it does not matter whether the peer sleeps, is stopped, or never calls
//! again. What was published before is read from the rings, what comes later from TCP; each end is done with
//! the rings when it has read its own, which it finds at a call, or is asked for.

use crate::conn::Conn;
use crate::end::End;
use crate::flag::{self, Flags};
use crate::held::hold;
use crate::here::fabric;
use crate::phase::{Event, Phase};
use crate::{doorbell, ready, records, watch};
use fabric::Reason;
use sync::Ordering;
use sync::Ordering as Shared;

/// What the rings or the doorbell have yet to tell somebody, which TCP would not.
const UNTOLD: Flags = flag::RESET
    .and(flag::RESET_TOLD)
    .and(flag::PROVOKED)
    .and(flag::BROKEN)
    .and(flag::SIGNAL_DRIVEN)
    .and(flag::PEEK_OFFSET);

/// Takes the connection of `fd` off shared memory, as far as that goes at once; the tools show `reason`.
/// Whether nothing of it is left there. (What is not shared stays as it is: see [`crate::decide::refuse`].)
pub fn take(fd: i32, reason: Reason) -> bool {
    let Some(held) = hold(fd) else { return false };
    End::of(&held).is_some_and(|end| send(&held, &end, reason) && notice(&held, &end))
}

/// Moves both directions to TCP for good, and rings whoever waits for the rings; the tools show `reason`.
/// `false` where somebody is stopped in the middle of a copy, or has been interrupted there.
pub(crate) fn send(conn: &Conn, end: &End, reason: Reason) -> bool {
    if conn.phase() != Phase::Smc || conn.has(UNTOLD) {
        return false;
    }
    end.view.header().note_home(reason.0);
    if !end.end_turn(end.side) {
        return false;
    }
    end.ring_peer(&end.outgoing.words().data_wait.0);
    let is_all = end.end_turn(end.side.peer());
    if is_all {
        end.ring_peer(&end.incoming.words().space_wait.0);
    }
    tell_own(conn, end);
    is_all
}

/// The same where nothing else would do: who is in the middle of a copy, and has no core for the moment, is
/// waited for. (Seen at the exec of one client of 2 590, on a busy machine.)
pub(crate) fn send_in_time(conn: &Conn, end: &End, reason: Reason) {
    send_within(conn, end, reason, 1000);
}

/// The same for a call that is not to wait: a copy takes a tenth of a millisecond.
pub(crate) fn send_soon(conn: &Conn, end: &End, reason: Reason) {
    send_within(conn, end, reason, 5);
}

/// In so many milliseconds.
fn send_within(conn: &Conn, end: &End, reason: Reason, moments: u32) {
    const MOMENT_NS: u32 = 1_000_000;
    let is_over = || conn.phase() != Phase::Smc || conn.has(UNTOLD);
    let _ = (0..moments).any(|_| {
        let is_sent = send(conn, end, reason);
        if !is_sent && !is_over() {
            os::poll::pause_ns(MOMENT_NS);
        }
        is_sent || is_over()
    });
}

/// This side's direction is on TCP for good, by this call's doing: whoever waits here for room in the ring,
/// in whatever process and way, looks again.
pub(crate) fn tell_own(conn: &Conn, end: &End) {
    if !notice(conn, end) {
        doorbell::kick(conn, end);
        end.wake_napping();
    }
}

/// A call meets a direction that is on TCP for good: from here on the socket is libc's, if nothing is left in
/// the ring; else its sets hear of room on TCP. Whether it is.
#[cold]
pub(crate) fn notice(conn: &Conn, end: &End) -> bool {
    if conn.phase() != Phase::Smc || !ready::is_on_tcp_for_good(end) {
        return conn.phase() == Phase::Plain;
    }
    if may_leave(conn, end) {
        return leave(conn, end);
    }
    if !conn.has(flag::TOLD_OUTSIDE)
        && let Some(_turn) = conn.interest.turn.take()
    {
        conn.mark(flag::TOLD_OUTSIDE);
        fabric().rows().note_homeward(conn.row(), conn.cookie());
        records::convert(conn);
    }
    false
}

/// Whether nothing is left to be had from the ring, or to be told of it. (Both directions stay as they are
/// from then on, so this stays true.)
fn may_leave(conn: &Conn, end: &End) -> bool {
    let is_ours = !conn.is_stale() && !conn.has(UNTOLD) && !os::confined::is_confined();
    // (What is said to a next program may come back.)
    let is_read = end.incoming.has_ended_for_good() && end.is_all_read();
    // (Who has closed will not read what lies there: we are to hear of it.)
    let is_heard = end.theirs().closed.load(Shared::Acquire) == 0 || end.outgoing.used() == Ok(0);
    is_ours && is_read && is_heard
}

fn leave(conn: &Conn, end: &End) -> bool {
    let Some(_turn) = conn.interest.turn.take() else { return false };
    if conn.phase() != Phase::Smc {
        return conn.phase() == Phase::Plain;
    }
    conn.mark(flag::DEMOTED);
    fabric().rows().dissolve_side(conn.row(), conn.cookie(), end.side);
    conn.transition(Event::Demoted);
    fabric().went_home(end.side, end.view.header());
    watch::unwatch(conn);
    records::convert(conn);
    // Sleepers of this process look again and go to libc.
    if conn.interest.has_blocked(Ordering::Acquire) {
        doorbell::kick(conn, end);
    }
    end.wake_napping();
    true
}
