//! Readiness: what the rings say, and how a sleeper makes sure to be rung. Owns: the doorbell's meaning.
//!
//! One doorbell per side serves blocked readers, blocked writers, poll and every epoll set. It mirrors a level: readable
//! whenever something a sleeper of this process waits for may have come true. Whoever drains it must call [`rearm`],
//! which asks again for all sleepers and rings for those whose wish has come true meanwhile.

use crate::conn::{Conn, End};
use crate::flag;
use crate::phase::Phase;
use crate::watch;
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};
use os::epoll::bits;
use shm::bell::Wanted;
use shm::layout::Traffic;
use shm::ring::PeerMisbehaved;
use shm::sync::Ordering as Shared;

/// Most bytes written before the server has answered: what a fresh TCP send buffer surely takes if it never does.
pub(crate) const EARLY_MAX: usize = 16 * 1024;

/// Whether a reader would get `wanted` bytes (or must look at TCP). The reader's cache is left alone: it belongs to
/// whoever has the turn.
#[inline]
pub(crate) fn has_bytes(end: &End, wanted: usize) -> bool {
    match end.incoming.used() {
        Ok(0) => end.incoming.is_at_end(),
        Ok(bytes) => bytes >= wanted.min(end.incoming.size() / 2) || end.incoming.has_ended(),
        Err(PeerMisbehaved) => true,
    }
}

/// Whether readiness calls report input: SO_RCVLOWAT bytes.
#[inline]
pub(crate) fn has_data(conn: &Conn, end: &End) -> bool {
    has_bytes(end, conn.rcvlowat.load(Ordering::Relaxed) as usize)
}

/// Whether a writer would get on: a third of the ring is free, as TCP has it.
#[inline]
pub(crate) fn has_space(conn: &Conn, end: &End) -> bool {
    match end.outgoing.free() {
        Ok(free) if conn.phase() == Phase::Intent => free + EARLY_MAX > end.outgoing.size(),
        Ok(free) => free >= end.outgoing.size() / 3,
        Err(PeerMisbehaved) => true,
    }
}

/// Whether the peer said that it stops writing but goes on reading.
pub(crate) fn is_half_closed_by_peer(end: &End) -> bool {
    let closed = end.theirs().closed.load(Shared::Acquire);
    closed & shm::ClosedBy::WRITE != 0 && closed & shm::ClosedBy::CLOSE == 0
}

/// Whether nobody will read what is written from now on: the peer closed, shut both directions down, or was seen to be
/// gone by TCP. The end of the peer's stream alone says nothing where the peer had announced it.
pub(crate) fn is_peer_gone(conn: &Conn, end: &End) -> bool {
    use shm::ClosedBy as By;
    let said = end.theirs().closed.load(Shared::SeqCst);
    said & By::CLOSE != 0
        || said & (By::READ | By::WRITE) == By::READ | By::WRITE
        || conn.has(flag::TCP_GONE)
        || (conn.has(flag::TCP_ENDED) && said & By::WRITE == 0)
}

/// Whether a writer gets on: there is space, or an error to be told.
pub(crate) fn may_write(conn: &Conn, end: &End) -> bool {
    has_space(conn, end) || is_peer_gone(conn, end)
}

/// What lies in the ring will never be read. TCP's answer to such bytes is a reset, and one byte on the TCP socket gets just
/// that: from then on the kernel tells everybody (poll, epoll, the next call) what it would have told anyway.
pub(crate) fn provoke_reset(conn: &Conn, end: &End, fd: i32) {
    if conn.has(flag::PROVOKED) || end.outgoing.used() == Ok(0) {
        return;
    }
    // Who said that he will not read has told his kernel by the time that his FIN is here. (A send to a socket that has been
    // reset would take the error away that the program is to see.)
    let has_closed = end.theirs().closed.load(Shared::SeqCst) & shm::ClosedBy::CLOSE != 0;
    let told = os::poll::peek(fd, os::poll::bits::RDHUP);
    let has_fin = told & os::poll::bits::RDHUP != 0 && !is_our_own_doing(end, fd, 0);
    let has_ended = has_closed || conn.has(flag::TCP_GONE) || has_fin;
    if has_ended && told & (os::poll::bits::ERR | os::poll::bits::HUP) == 0 {
        conn.mark(flag::PROVOKED);
        let _ = os::net::send_bytes(fd, &[0], os::net::msg::NOSIGNAL | os::net::msg::DONTWAIT);
    }
}

/// A writer asks TCP whether the peer is still there, if it has not done so for a moment.
pub(crate) fn ask_for_peer(conn: &Conn, end: &End, fd: i32) {
    if conn.was_tcp_quiet() {
        return;
    }
    conn.note_quiet_tcp();
    match os::poll::peek(fd, os::poll::bits::RDHUP) {
        0 => {}
        told => note_tcp(conn, end, fd, u32::from(told as u16)),
    }
    ask_for_half_closed_peer(conn, end, fd);
}

/// The same where the peer has ended its stream: TCP has nothing more to say then, but the kernel's list of sockets has.
/// Asked only while unread bytes lie in the ring.
pub(crate) fn ask_for_half_closed_peer(conn: &Conn, end: &End, fd: i32) {
    let is_doubtful =
        is_half_closed_by_peer(end) && !conn.has(flag::TCP_GONE) && end.outgoing.used() != Ok(0);
    if is_doubtful && crate::client::peer_socket_is_gone(conn, fd) {
        conn.mark(flag::TCP_ENDED | flag::TCP_GONE);
        provoke_reset(conn, end, fd);
    }
}

/// Whether our own shutdown has ended writing.
pub(crate) fn is_write_shut(end: &End) -> bool {
    end.mine().closed.load(Shared::SeqCst) & shm::ClosedBy::WRITE != 0
}

/// Whether the consumer that just freed bytes should ring a waiting writer: at half empty, not at the first free byte.
#[inline]
pub(crate) fn is_worth_ringing(end: &End) -> bool {
    end.incoming.free().is_ok_and(|free| free >= end.incoming.size() / 2)
}

/// `EPOLLIN` and `EPOLLOUT` as the rings have it, with what TCP was seen to say.
pub(crate) fn levels(conn: &Conn, end: &End, fd: i32) -> u32 {
    let mut level = 0;
    let closed = end.mine().closed.load(Shared::Relaxed);
    let is_read_shut = closed & shm::ClosedBy::READ != 0;
    if is_read_shut || conn.has(flag::TCP_ENDED) || has_input(conn, end, fd) {
        level |= bits::IN | bits::RDNORM;
    }
    if is_read_shut || conn.has(flag::TCP_ENDED) {
        level |= bits::RDHUP;
    }
    if closed & shm::ClosedBy::WRITE != 0 || may_write(conn, end) {
        level |= bits::OUT | bits::WRNORM;
    }
    level |= told_of_gone_peer(conn, end, fd);
    if conn.has(flag::RESET) {
        level |= bits::HUP | if conn.has(flag::RESET_TOLD) { 0 } else { bits::ERR };
    }
    level
}

/// What the kernel says of a connection whose peer is gone with bytes of ours unread: an error, and that it is over.
fn told_of_gone_peer(conn: &Conn, end: &End, fd: i32) -> u32 {
    if conn.phase() != Phase::Smc || !is_peer_gone(conn, end) {
        return 0;
    }
    provoke_reset(conn, end, fd);
    u32::from(os::poll::peek(fd, 0) as u16)
}

/// Bytes in the ring, or on TCP once the peer has moved there.
fn has_input(conn: &Conn, end: &End, fd: i32) -> bool {
    has_data(conn, end) && (!end.incoming.is_at_end() || os::poll::is_readable(fd))
}

/// O_ASYNC changed: the doorbell raises the program's signal at every arrival, as the socket would.
pub fn note_signal_driven(fd: i32, on: bool) {
    // To switch it off where it never was on is no use of the socket.
    if !on && !crate::conn::hold(fd).is_some_and(|conn| conn.has(flag::SIGNAL_DRIVEN)) {
        return;
    }
    let Some(conn) = crate::stream::in_use(fd) else { return };
    let Some(end) = End::of(&conn) else { return };
    let was_on = conn.has(flag::SIGNAL_DRIVEN);
    if on == was_on {
        return;
    }
    os::fd::copy_signal_driven(fd, end.my_bell(), on);
    if on {
        conn.mark(flag::SIGNAL_DRIVEN);
        count_registrations(&conn, Some(&end), 0, 0, 1);
        rearm(&conn, &end, false, false);
    } else {
        conn.unmark(flag::SIGNAL_DRIVEN);
        count_registrations(&conn, Some(&end), 0, 0, -1);
    }
}

/// Who is signalled, or how, changed.
pub fn note_signal_owner(fd: i32) {
    if let Some(conn) = crate::conn::hold(fd).filter(|conn| conn.has(flag::SIGNAL_DRIVEN))
        && let Some(end) = End::of(&conn)
    {
        os::fd::copy_signal_driven(fd, end.my_bell(), true);
    }
}

/// The doorbell outlives the connection: its next one must not raise this one's signals.
pub(crate) fn end_signals(conn: &Conn) {
    if conn.has(flag::SIGNAL_DRIVEN)
        && let Some(end) = End::of(conn)
        && !is_shared(conn, &end)
    {
        os::fd::stop_signals(end.my_bell());
    }
}

/// Whether what the kernel says follows from our own shutdown for reading alone.
fn is_our_own_doing(end: &End, fd: i32, events: u32) -> bool {
    end.mine().closed.load(Shared::Relaxed) & shm::ClosedBy::READ != 0
        && events & bits::ERR == 0
        && !os::net::has_received_fin(fd)
}

/// Whether the peer's stream, or the connection, has ended by what the kernel says.
pub(crate) fn has_tcp_ended(end: &End, fd: i32) -> bool {
    os::net::tcp_input(fd) == os::net::TcpInput::Ended && !is_our_own_doing(end, fd, 0)
}

/// Takes note of what the kernel said about the TCP socket.
pub(crate) fn note_tcp(conn: &Conn, end: &End, fd: i32, events: u32) {
    if is_our_own_doing(end, fd, events) {
        return;
    }
    if events & (bits::RDHUP | bits::HUP | bits::ERR) != 0 {
        note_end(conn, end);
    }
    if events & (bits::HUP | bits::ERR) != 0 {
        conn.mark(flag::TCP_GONE);
    }
}

/// Whether TCP brings bytes while the ring is empty and its producer never said that it moved there: the marker is
/// stored before the first such byte is sent, so the ring's words lie.
pub(crate) fn is_contradicted_by_tcp(conn: &Conn, end: &End, fd: i32) -> bool {
    conn.phase() == Phase::Smc
        && os::net::tcp_input(fd) == os::net::TcpInput::Data
        && end.incoming.used() == Ok(0)
        && !end.incoming.is_at_end()
}

/// TCP has ended. A peer that went without a word and left our bytes unread was killed: TCP would have sent a reset.
pub(crate) fn note_end(conn: &Conn, end: &End) {
    if conn.has(flag::TCP_ENDED) {
        return;
    }
    let said = end.theirs().closed.load(Shared::Acquire);
    let without_a_word = shm::ClosedBy::WRITE | shm::ClosedBy::CLOSE | shm::ClosedBy::EXIT;
    if said & without_a_word == 0 && end.outgoing.used() != Ok(0) {
        conn.mark(flag::RESET | flag::TCP_GONE);
    }
    conn.mark(flag::TCP_ENDED);
    if is_half_closed_by_peer(end) && end.outgoing.used() != Ok(0) {
        watch::watch(conn);
    }
}

/// Counts blocked calls and polls of this process that sleep for data and for space.
pub(crate) fn count_sleepers(conn: &Conn, end: &End, data: i32, space: i32) {
    for (private, traffic, by) in
        [(&conn.rx_waiters, &end.mine().rx.0, data), (&conn.tx_waiters, &end.mine().tx.0, space)]
    {
        if by != 0 {
            private.fetch_add(by as u32, Ordering::AcqRel);
            count_shared(traffic, by);
        }
    }
}

/// Counts registrations in epoll sets. An edge is asked for in both directions.
pub(crate) fn count_registrations(conn: &Conn, end: Option<&End>, data: i32, space: i32, edge: i32) {
    for (private, by) in [(&conn.epoll_in, data), (&conn.epoll_out, space), (&conn.epoll_edge, edge)] {
        if by != 0 {
            private.fetch_add(by as u32, Ordering::AcqRel);
        }
    }
    if let Some(end) = end {
        count_shared(&end.mine().rx.0, data + edge);
        count_shared(&end.mine().tx.0, space + edge);
    }
}

/// What this process's registrations have counted in the slot: a fork copies them, an exec leaves them behind.
pub(crate) fn count_registrations_again(conn: &Conn, end: &End, times: i32) {
    let of = |counter: &AtomicU32| counter.load(Ordering::Acquire) as i32;
    let edge = of(&conn.epoll_edge);
    count_shared(&end.mine().rx.0, times * (of(&conn.epoll_in) + edge));
    count_shared(&end.mine().tx.0, times * (of(&conn.epoll_out) + edge));
}

fn count_shared(traffic: &Traffic, by: i32) {
    if by != 0 {
        traffic.sleepers.fetch_add(by as u32, Shared::AcqRel);
    }
}

/// Whether others than the asking sleeper sleep for this direction. The slot's count is believed only if another process
/// may hold the side: it is the peer's to overwrite.
fn sleeps_another(conn: &Conn, end: &End, private: u32, traffic: &Traffic, is_mine: bool) -> bool {
    private > u32::from(is_mine)
        || (is_shared(conn, end) && traffic.sleepers.load(Shared::Acquire) > u32::from(is_mine))
}

/// Whether another process may hold this side as well.
fn is_shared(conn: &Conn, end: &End) -> bool {
    !conn.is_exclusive() && end.mine().holders.load(Shared::Acquire) > 1
}

/// Drains the doorbell if need be, asks to be rung for everything that sleepers of this side wait for, and rings
/// for them at once if it is there already. `mine_rx` and `mine_tx` say what the caller itself waits for: it looks
/// for itself and is not rung for. Returns whether the doorbell was rung: then it tells the caller nothing.
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
        let private_rx = conn.rx_waiters.load(Ordering::Acquire) + conn.epoll_in.load(Ordering::Acquire);
        let private_tx = conn.tx_waiters.load(Ordering::Acquire) + conn.epoll_out.load(Ordering::Acquire);
        let others_rx = sleeps_another(conn, end, private_rx, &end.mine().rx.0, mine_rx);
        let others_tx = sleeps_another(conn, end, private_tx, &end.mine().tx.0, mine_tx);
        others.set((others_rx, others_tx));
        let is_edge = conn.epoll_edge.load(Ordering::Acquire) > 0;
        awaits_space.set(is_edge && crate::epoll::awaits_space(conn, end));
        (data_wanted(conn, others_rx || mine_rx), others_tx || mine_tx || awaits_space.get())
    };
    conn.bell.rearm(end.words(), end, wanted, |was_rung| {
        let (others_rx, others_tx) = others.get();
        // The kernel looks again before it wakes a waiter for an edge: drained, the edge would be lost to who sleeps for it.
        let has_edge = (was_rung || is_drained || awaits_space.get())
            && conn.epoll_edge.load(Ordering::Acquire) > 0
            && crate::epoll::sleeps_for_edge(conn, end);
        let shut = end.mine().closed.load(Shared::SeqCst);
        (others_rx && (has_data(conn, end) || shut & shm::ClosedBy::READ != 0))
            || (others_tx && (may_write(conn, end) || shut & shm::ClosedBy::WRITE != 0))
            || has_edge
    })
}

/// How data are to be rung for. (For an edge, space is asked for when a send finds none, and until that has been told.)
fn data_wanted(conn: &Conn, is_slept_for: bool) -> Wanted {
    if conn.has(flag::SIGNAL_DRIVEN) {
        // Every arrival raises the signal, also while earlier bytes are unread.
        return Wanted::Always;
    }
    let is_wanted = is_slept_for || conn.epoll_edge.load(Ordering::Acquire) > 0;
    if is_wanted { Wanted::Once } else { Wanted::No }
}

/// Whether blocked calls rely on the doorbell, or another process does.
pub(crate) fn is_waited_for(conn: &Conn, end: &End) -> bool {
    let blocked = [&conn.rx_waiters, &conn.tx_waiters].map(|count| count.load(Ordering::SeqCst));
    blocked != [0, 0] || conn.has(flag::SIGNAL_DRIVEN) || is_shared(conn, end)
}

/// A sleeper of this side goes: whatever it drained may have been meant for others.
pub(crate) fn leave(conn: &Conn, end: &End) {
    let private = [&conn.rx_waiters, &conn.tx_waiters].map(|count| count.load(Ordering::Acquire));
    if private != [0, 0] || is_shared(conn, end) {
        rearm(conn, end, false, false);
    }
}

/// Whether a registration for `events` needs nothing to be rung: the words are armed, and nothing rung is pending. Of an
/// edge, `awaits_space` says whether space is among what it waits for.
pub(crate) fn is_armed_for(conn: &Conn, end: &End, events: u32, awaits_space: bool) -> bool {
    let wants_data = events & (bits::ET | bits::IN | bits::RDNORM | bits::RDHUP) != 0;
    let wants_space =
        awaits_space || events & bits::ET == 0 && events & (bits::OUT | bits::WRNORM | bits::WRBAND) != 0;
    conn.bell.is_quiet()
        && (!wants_data || end.incoming.words().data_wait.0.is_armed())
        && (!wants_space || end.outgoing.words().space_wait.0.is_armed())
}

/// Rings our own doorbell: other sleepers of this process look again.
pub(crate) fn kick(conn: &Conn, end: &End) {
    conn.bell.kick(end);
}

/// Someone saw the doorbell readable: whoever rang, it must be drained.
pub(crate) fn note_rung(conn: &Conn) {
    conn.bell.note_rung();
}
