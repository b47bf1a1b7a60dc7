//! How a sleeper makes sure to be rung. Owns: the doorbell's meaning.
//!
//! One doorbell per side serves blocked readers, blocked writers, poll and every epoll set. It mirrors a
//! level: readable whenever something a sleeper of this process waits for may have come true. Whoever drains
//! it must call [`rearm`], which asks again for all sleepers and rings for those whose wish has come true
//! meanwhile.

use crate::conn::Conn;
use crate::end::End;
use crate::flag;
use crate::push;
use crate::ready::{has_data, has_space, may_write};
use crate::sleepers::{is_shared, sleeps_another};
use core::cell::Cell;
use os::epoll::bits;
use shm::bell::Wanted;
use sync::Ordering;
use sync::Ordering as Shared;

/// Drains the doorbell if need be, asks to be rung for everything that sleepers of this side wait for, and
/// rings for them at once if it is there already. `mine_rx` and `mine_tx` say what the caller itself waits
/// for: it looks for itself and is not rung for. Returns whether the doorbell was rung: then it tells the
/// caller nothing.
pub(crate) fn rearm(conn: &Conn, end: &End, mine_rx: bool, mine_tx: bool) -> bool {
    rearm_for(conn, end, mine_rx, mine_tx, false)
}

/// The same by somebody who has drained the doorbell, and waits for nothing himself.
pub(crate) fn rearm_drained(conn: &Conn, end: &End) -> bool {
    rearm_for(conn, end, false, false, true)
}

fn rearm_for(conn: &Conn, end: &End, mine_rx: bool, mine_tx: bool, is_drained: bool) -> bool {
    let others = Cell::new((false, false));
    let awaits_space = Cell::new(false);
    let wanted = || {
        let private_rx =
            conn.interest.rx_waiters.load(Ordering::Acquire) + conn.interest.epoll_in.load(Ordering::Acquire);
        let private_tx = conn.interest.tx_waiters.load(Ordering::Acquire)
            + conn.interest.epoll_out.load(Ordering::Acquire);
        let others_rx = sleeps_another(conn, end, private_rx, &end.mine().rx.0, mine_rx);
        let others_tx = sleeps_another(conn, end, private_tx, &end.mine().tx.0, mine_tx);
        if mine_rx && others_rx {
            let _ = push::let_out_for_others(end);
        }
        others.set((others_rx, others_tx));
        let is_edge = conn.interest.epoll_edge.load(Ordering::Acquire) > 0;
        awaits_space.set(is_edge && crate::interest::registration::awaits_space(conn, end));
        (data_wanted(conn, others_rx || mine_rx), others_tx || mine_tx || awaits_space.get())
    };
    conn.interest.bell.rearm(end.words(), end, wanted, |was_rung| {
        let (others_rx, others_tx) = others.get();
        // The kernel looks again before it wakes a waiter for an edge: drained, the edge would be lost to who
        // sleeps for it.
        let has_edge = (was_rung || is_drained || awaits_space.get())
            && conn.interest.epoll_edge.load(Ordering::Acquire) > 0
            && crate::interest::set::hand_edges_over(conn, end);
        let shut = end.mine().closed.load(Shared::SeqCst);
        (others_rx && (has_data(conn, end) || shut & shm::ClosedBy::READ != 0))
            || (others_tx && (may_write(conn, end) || shut & shm::ClosedBy::WRITE != 0))
            // (Blocked calls go to libc then; of sets the kernel's record of TCP tells.)
            || (others_tx
                && crate::ready::is_on_tcp_for_good(end)
                && conn.interest.tx_waiters.load(Ordering::Acquire) > u32::from(mine_tx))
            || has_edge
            || (conn.has(flag::HELD_OPEN)
                && is_another_blocked(conn, u32::from(mine_rx) + u32::from(mine_tx)))
    })
}

/// Whether another thread is in a blocked call: it may sleep on a number that was closed, and is to look
/// where the socket is now.
#[cold]
fn is_another_blocked(conn: &Conn, mine: u32) -> bool {
    let blocked =
        [&conn.interest.rx_waiters, &conn.interest.tx_waiters].map(|count| count.load(Ordering::Acquire));
    blocked[0] + blocked[1] > mine
}

/// How data are to be rung for. (For an edge, space is asked for when a send finds none, and until that has
/// been told.)
fn data_wanted(conn: &Conn, is_slept_for: bool) -> Wanted {
    if conn.has(flag::SIGNAL_DRIVEN) {
        // Every arrival raises the signal, also while earlier bytes are unread.
        return Wanted::Always;
    }
    let is_wanted = is_slept_for || conn.interest.epoll_edge.load(Ordering::Acquire) > 0;
    if is_wanted { Wanted::Once } else { Wanted::No }
}

/// Whether blocked calls rely on the doorbell, or another process does.
pub(crate) fn is_waited_for(conn: &Conn, end: &End) -> bool {
    is_slept_at(conn) || conn.has(flag::SIGNAL_DRIVEN) || is_shared(conn, end)
}

/// Whether a call of this process sleeps at it, poll and select among them.
pub(crate) fn is_slept_at(conn: &Conn) -> bool {
    [&conn.interest.rx_waiters, &conn.interest.tx_waiters].map(|count| count.load(Ordering::SeqCst)) != [0, 0]
}

/// A sleeper of this side goes: whatever it drained may have been meant for others.
pub(crate) fn leave(conn: &Conn, end: &End) {
    if conn.has(flag::SIGNAL_DRIVEN) {
        forget_room(conn, end);
    }
    let private =
        [&conn.interest.rx_waiters, &conn.interest.tx_waiters].map(|count| count.load(Ordering::Acquire));
    if private != [0, 0] || is_shared(conn, end) {
        let _ = push::let_out_for_others(end);
        rearm(conn, end, false, false);
    }
}

/// Room raises a signal where somebody has found none: who asked for it, and has found some, takes that back
/// as he goes. (Who waits for it beside him keeps it asked for.)
#[cold]
pub(crate) fn forget_room(conn: &Conn, end: &End) {
    let is_awaited = || {
        let private = [&conn.interest.tx_waiters, &conn.interest.epoll_out];
        private.map(|count| count.load(Ordering::SeqCst)) != [0, 0]
            || is_shared(conn, end)
            || crate::interest::registration::awaits_space(conn, end)
    };
    if has_space(conn, end) && !is_awaited() {
        conn.interest.bell.forget_space(end.words());
        if is_awaited() {
            rearm(conn, end, false, false);
        }
    }
}

/// Whether a registration for `events` needs nothing to be rung: the words are armed, and nothing rung is
/// pending. Of an edge, `awaits_space` says whether space is among what it waits for.
pub(crate) fn is_armed_for(conn: &Conn, end: &End, events: u32, awaits_space: bool) -> bool {
    let wants_data = events & (bits::ET | bits::IN | bits::RDNORM) != 0;
    let wants_space =
        awaits_space || events & bits::ET == 0 && events & (bits::OUT | bits::WRNORM | bits::WRBAND) != 0;
    conn.interest.bell.is_quiet()
        && (!wants_data || end.incoming.words().data_wait.0.is_armed())
        && (!wants_space || end.outgoing.words().space_wait.0.is_armed())
}

/// Whether somebody may have rung the doorbell since it was last drained.
pub(crate) fn may_have_rung(conn: &Conn, end: &End) -> bool {
    conn.interest.bell.may_have_rung(end.words())
}

/// Rings our own doorbell: other sleepers of this process look again.
pub(crate) fn kick(conn: &Conn, end: &End) {
    conn.interest.bell.kick(end);
}

/// Someone saw the doorbell readable: whoever rang, it must be drained.
pub(crate) fn note_rung(conn: &Conn) {
    conn.interest.bell.note_rung();
}
