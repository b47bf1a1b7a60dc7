//! Who of this process waits for what of a connection. Owns: the counts, private ones and those in the slot,
//! which other processes that hold the side go by.

use crate::conn::Conn;
use crate::end::End;
use crate::flag;
use shm::layout::Traffic;
use sync::Ordering as Shared;
use sync::{AtomicU32, Ordering};

/// Counts blocked calls and polls of this process that sleep for data and for space.
pub(crate) fn count_sleepers(conn: &Conn, end: &End, data: i32, space: i32) {
    for (private, traffic, by) in [
        (&conn.interest.rx_waiters, &end.mine().rx.0, data),
        (&conn.interest.tx_waiters, &end.mine().tx.0, space),
    ] {
        if by != 0 {
            private.fetch_add(by as u32, Ordering::AcqRel);
            count_shared(traffic, by);
        }
    }
}

/// Counts registrations in epoll sets. An edge is asked for in both directions.
pub(crate) fn count_registrations(conn: &Conn, end: Option<&End>, data: i32, space: i32, edge: i32) {
    for (private, by) in [
        (&conn.interest.epoll_in, data),
        (&conn.interest.epoll_out, space),
        (&conn.interest.epoll_edge, edge),
    ] {
        if by != 0 {
            private.fetch_add(by as u32, Ordering::AcqRel);
        }
    }
    if let Some(end) = end {
        count_shared(&end.mine().rx.0, data + edge);
        count_shared(&end.mine().tx.0, space + edge);
    }
}

/// Counts O_ASYNC. It is an edge that nobody sleeps for: the ring itself has raised the signal, whoever
/// drains the doorbell. Others are to keep data asked for; were they to ring anew because there is room, each
/// look would raise a signal, for which the program looks.
pub(crate) fn count_signals(conn: &Conn, end: &End, by: i32) {
    conn.interest.epoll_edge.fetch_add(by as u32, Ordering::AcqRel);
    count_shared(&end.mine().rx.0, by);
}

/// What this process's registrations have counted in the slot: a fork copies them, an exec leaves them
/// behind.
pub(crate) fn count_registrations_again(conn: &Conn, end: &End, times: i32) {
    let of = |counter: &AtomicU32| counter.load(Ordering::Acquire) as i32;
    let edge = of(&conn.interest.epoll_edge);
    let signals = i32::from(conn.has(flag::SIGNAL_DRIVEN));
    count_shared(&end.mine().rx.0, times * (of(&conn.interest.epoll_in) + edge));
    count_shared(&end.mine().tx.0, times * (of(&conn.interest.epoll_out) + edge - signals));
}

fn count_shared(traffic: &Traffic, by: i32) {
    if by != 0 {
        traffic.sleepers.fetch_add(by as u32, Shared::AcqRel);
    }
}

/// Whether others than the asking sleeper sleep for this direction. The slot's count is believed only if
/// another process may hold the side: it is the peer's to overwrite.
pub(crate) fn sleeps_another(conn: &Conn, end: &End, private: u32, traffic: &Traffic, is_mine: bool) -> bool {
    private > u32::from(is_mine)
        || (is_shared(conn, end) && traffic.sleepers.load(Shared::Acquire) > u32::from(is_mine))
}

/// Whether another process may hold this side as well.
pub(crate) fn is_shared(conn: &Conn, end: &End) -> bool {
    !conn.is_exclusive() && end.mine().holders.load(Shared::Acquire) > 1
}
