//! Readiness: what the rings say, and what TCP was seen to say. Owns: when a peer counts as gone, and what
//! follows for the bytes that it will never read.

use crate::conn::Conn;
use crate::end::End;
use crate::flag::{self, Flags};
use crate::phase::Phase;
use crate::{Outcome, far, held, kept, push, resting, table, watch};
use fabric::slot::SlotView;
use os::epoll::bits;
use os::time::Cycles;
use os::{Errno, diag, net};
use shm::layout::PEEKS_FROM_OFFSET;
use shm::ring::PeerMisbehaved;
use shm::{ClosedBy, Side};
use sync::Ordering;
use sync::Ordering as Shared;

/// A stream of which so much was read has a receiver for which TCP takes more than of a fresh one.
const MUCH: u64 = 512 * 1024;
/// A read of so much has time to look for that.
pub(crate) const MUCH_AT_ONCE: usize = 32 * 1024;
/// So much: what the kernel's autotuning comes to within some megabytes. (Over loopback a connection takes
/// 4.3 MB at first, 5.4 to 14 MB after 5 to 20 MB, 6.5 to 8.6 MB with this; Linux 6.18.)
const MORE: i32 = 2 * 1024 * 1024;

/// Whether the ring has `wanted` bytes for a reader, or the next ones are libc's to read. (Others on TCP the
/// kernel tells of.) The reader's cache is left alone: it belongs to whoever has the turn.
#[inline]
pub(crate) fn has_bytes(end: &End, wanted: usize) -> bool {
    has_bytes_or(end, wanted, || {
        push::note_held(end);
        false
    })
}

/// The same; `of_held` says it where some are held back.
#[inline]
fn has_bytes_or(end: &End, wanted: usize, of_held: impl FnOnce() -> bool) -> bool {
    let are_there = match end.incoming.used() {
        Ok(0) => end.is_read_by_libc() || end.view.bytes_in_word() > 0,
        Ok(bytes) => bytes >= wanted.min(end.incoming.size() / 2) || end.incoming.has_ended(),
        Err(PeerMisbehaved) => true,
    };
    are_there || (end.incoming.is_holding() && of_held())
}

/// SO_RCVLOWAT, whichever process has set it.
#[inline]
pub(crate) fn low_water(conn: &Conn, end: &End) -> usize {
    let of_all = end.mine().low_water.load(Shared::Relaxed) & !PEEKS_FROM_OFFSET;
    let wanted = if of_all == 0 { conn.stream.rcvlowat.load(Ordering::Relaxed) } else { of_all };
    wanted as usize
}

/// Whether readiness calls report input: SO_RCVLOWAT bytes.
#[inline]
pub(crate) fn has_data(conn: &Conn, end: &End) -> bool {
    let wanted = low_water(conn, end);
    has_bytes_or(end, wanted, || has_held_data(conn, end, wanted))
}

/// (Who waits for a signal makes no call that could look again.)
#[cold]
fn has_held_data(conn: &Conn, end: &End, wanted: usize) -> bool {
    let is_out = conn.has(flag::SIGNAL_DRIVEN) && push::let_out_if_due(conn, end);
    has_bytes(end, wanted) && is_out
}

/// Whether this side's direction is on TCP for good: there the kernel tells of room.
#[inline]
pub(crate) fn is_on_tcp_for_good(end: &End) -> bool {
    end.outgoing.has_ended_for_good()
}

/// Whether a writer would get on in the ring: a third of it is free, as TCP has it, and all that is on TCP
/// was read.
#[inline]
pub(crate) fn has_space(conn: &Conn, end: &End) -> bool {
    let Ok(free) = end.outgoing.free() else { return true };
    if conn.has(flag::LIMITED) || end.outgoing.has_ended() {
        return has_special_space(conn, end, free);
    }
    free >= end.outgoing.size() / 3
}

#[cold]
fn has_special_space(conn: &Conn, end: &End, free: usize) -> bool {
    let size = end.outgoing.size();
    if end.outgoing.has_ended() && !end.outgoing.is_caught_up() {
        false
    } else if conn.has(flag::LIMITED) {
        let limit = limit(end);
        free >= size / 3 && (size - free).saturating_add(limit / 3) <= limit
    } else {
        free >= size / 3
    }
}

/// Whether the peer said that it stops writing but goes on reading.
pub(crate) fn is_half_closed_by_peer(end: &End) -> bool {
    let closed = end.theirs().closed.load(Shared::Acquire);
    closed & ClosedBy::WRITE != 0 && closed & ClosedBy::CLOSE == 0
}

/// Whether nobody will read what is written from now on: the peer closed, shut both directions down, or was
/// seen to be gone by TCP. The end of the peer's stream alone says nothing where the peer had announced it.
pub(crate) fn is_peer_gone(conn: &Conn, end: &End) -> bool {
    let said = end.theirs().closed.load(Shared::SeqCst);
    has_shut_both_ways(said) || is_peer_closed(conn, said)
}

/// Whether a peer that said so reads what has come, and answers what comes later by a reset.
pub(crate) fn has_shut_both_ways(said: u32) -> bool {
    said & (ClosedBy::READ | ClosedBy::WRITE) == ClosedBy::READ | ClosedBy::WRITE
        && said & ClosedBy::CLOSE == 0
}

/// Whether nobody will read what lies in the ring, either.
fn is_peer_closed(conn: &Conn, said: u32) -> bool {
    said & ClosedBy::CLOSE != 0
        || conn.has(flag::TCP_GONE)
        || (conn.has(flag::TCP_ENDED) && said & ClosedBy::WRITE == 0)
}

/// How many bytes may lie in the ring of a direction whose program has set small buffers: what TCP would take
/// with them. (With 4096 for both that is 12 288, and with 4096 for sending alone 175 589.)
pub(crate) fn limit(end: &End) -> usize {
    /// Of a receiver that has set none (net.ipv4.tcp_rmem).
    const DEFAULT: u32 = 128 * 1024;
    let theirs = match end.theirs().receive_buffer.load(Shared::Relaxed) {
        0 => DEFAULT,
        set => set / 2,
    };
    match end.mine().send_buffer.load(Shared::Relaxed) {
        0 => usize::MAX,
        ours => ours as usize + theirs as usize,
    }
}

/// Whether a writer gets on where the kernel tells of room: its direction is on TCP, and the reader rests,
/// has hardly begun, or reads no more (what is written is the kernel's then, until its reset is here).
#[inline]
pub(crate) fn writes_outside(conn: &Conn, end: &End) -> bool {
    end.outgoing.has_ended() && goes_on_outside(conn, end)
}

#[cold]
fn goes_on_outside(conn: &Conn, end: &End) -> bool {
    conn.is(Phase::Intent)
        || conn.has(flag::LIMITED)
        || end.outgoing.left_to_begin_with() > 0
        || end.outgoing.has_ended_for_good()
        || resting::is_known(end)
        || is_peer_gone(conn, end)
}

/// Whether a writer gets on: there is space, or an error to be told.
#[inline]
pub(crate) fn may_write(conn: &Conn, end: &End) -> bool {
    has_space(conn, end) || (is_peer_gone(conn, end) && !writes_outside(conn, end))
}

/// What lies in the ring will never be read. TCP's answer to such bytes is a reset, and one byte on the TCP
/// socket gets just that: from then on the kernel tells everybody (poll, epoll, the next call) what it would
/// have told anyway.
pub(crate) fn provoke_reset(conn: &Conn, end: &End, fd: i32) {
    if conn.has(flag::PROVOKED) || end.outgoing.used() == Ok(0) || os::confined::is_strict() {
        return;
    }
    // Who said that he will not read has told his kernel by the time that his FIN is here. (A send to a
    // socket that has been reset would take the error away that the program is to see.)
    let has_closed = end.theirs().closed.load(Shared::SeqCst) & ClosedBy::CLOSE != 0;
    let told = os::poll::peek(fd, os::poll::bits::RDHUP);
    let has_fin = told & os::poll::bits::RDHUP != 0 && !is_our_own_doing(end, fd, 0);
    let has_ended = has_closed || conn.has(flag::TCP_GONE) || has_fin;
    let is_told = told & os::poll::bits::HUP != 0;
    if has_ended && !is_told && act(conn, fd, |own| send_into_the_void(conn, own)) {
        conn.mark(flag::PROVOKED);
    }
}

fn send_into_the_void(conn: &Conn, fd: i32) {
    // (Asked again: a reset may have come since, and the send would take its error away.)
    if os::poll::peek(fd, 0) & os::poll::bits::HUP == 0
        && net::send_bytes(fd, &[0], net::msg::NOSIGNAL | net::msg::DONTWAIT) == Err(Errno::ECONNRESET)
    {
        conn.mark(flag::RESET | flag::TCP_ENDED | flag::TCP_GONE);
    }
}

/// Does something to the connection's socket, and to no other that has got its number meanwhile. Whether it
/// was done.
#[cold]
fn act(conn: &Conn, fd: i32, what: impl FnOnce(i32)) -> bool {
    // (Who closes a number takes it out of the table first, and sees this call.)
    let own = if os::confined::is_confined() { None } else { os::fd::duplicate_internal(fd).ok() };
    let is_its_own = kept::is_one(fd) || is_in_the_table(conn, fd);
    if is_its_own {
        what(own.unwrap_or(fd));
    }
    if let Some(own) = own {
        os::fd::close(own);
    }
    is_its_own
}

/// Whether `fd` has been the socket's all along, asked after a look by it that is to be believed: while the
/// call was busy another thread may have closed the number, and have it again for something else.
#[inline]
pub(crate) fn is_its_own(conn: &Conn, fd: i32) -> bool {
    !conn.has(flag::KEPT) || kept::is_one(fd) || is_in_the_table(conn, fd)
}

/// Whether the number stands for `conn`.
pub(crate) fn is_in_the_table(conn: &Conn, fd: i32) -> bool {
    let table::Entry::Conn(index) = table::get(fd) else { return false };
    held::peek_index(index).is_some_and(|found| core::ptr::eq(found, conn))
}

/// Whether what TCP says of an end is not this connection's: it is not connected yet, or was not a moment
/// ago.
fn is_not_connected(conn: &Conn) -> bool {
    conn.is(Phase::Intent) && !conn.has(flag::ESTABLISHED)
}

/// A writer asks TCP whether the peer is still there, if it has not done so for a moment.
pub(crate) fn ask_for_peer(conn: &Conn, end: &End, fd: i32) {
    if conn.was_tcp_quiet(Cycles::now()) {
        return;
    }
    conn.note_quiet_tcp();
    note_read(conn, end, fd);
    match os::poll::peek(fd, os::poll::bits::RDHUP) {
        0 => {}
        told => note_tcp(conn, end, fd, u32::from(told as u16)),
    }
    ask_for_half_closed_peer(conn, end, fd);
}

/// What moves through memory the kernel does not see. It is told once that this stream is one that is read,
/// and takes more of it then, should its reader rest: wherever a call asks the kernel anyway, or waits.
#[cold]
#[inline(never)]
pub(crate) fn note_read(conn: &Conn, end: &End, fd: i32) {
    let moved = || end.incoming.words().consumer.0.cons.load(Shared::Relaxed);
    // (Another process may be in a call that would wait for as much.)
    let is_alone = || conn.is_exclusive() && !conn.has(flag::LENT | flag::UNCOUNTED);
    if !conn.stream.has_grown.load(Shared::Relaxed) && moved() >= MUCH && is_alone() {
        conn.stream.has_grown.store(true, Shared::Relaxed);
        act(conn, fd, |own| {
            // (A handler that leaves the call by a jump would leave the first of two options set.)
            let _quiet = os::held_back::hold_back();
            net::grow_receive_buffer(own, MORE);
        });
    }
}

/// The same where the peer has ended its stream: TCP has nothing more to say then, but the kernel's list of
/// sockets has. Asked only while unread bytes lie in the ring.
pub(crate) fn ask_for_half_closed_peer(conn: &Conn, end: &End, fd: i32) {
    let is_doubtful =
        is_half_closed_by_peer(end) && !conn.has(flag::TCP_GONE) && end.outgoing.used() != Ok(0);
    if is_doubtful && peer_socket_is_gone(conn, fd) {
        conn.mark(flag::TCP_ENDED | flag::TCP_GONE);
        provoke_reset(conn, end, fd);
    }
}

/// Whether whoever is at the other end of `side`'s connection has left bytes of this one's unread, should it
/// have ended: it was killed, or learned of it behind its close.
fn left_unread(view: &SlotView, side: Side) -> bool {
    const A_WORD: u32 = ClosedBy::WRITE | ClosedBy::CLOSE | ClosedBy::EXIT;
    let said = view.header().sides[side.peer() as usize].closed.load(Shared::Acquire);
    let is_without_a_word = said & A_WORD == 0 || said & ClosedBy::UNREAD != 0;
    is_without_a_word && view.outgoing(side).used() != Ok(0)
}

/// A connection is TCP's as this process finds it, and what was written before lies in its memory: a peer
/// that has ended over that has reset it. TCP knows of its end alone, and is to say so. (What it has brought
/// besides would be lost.)
pub(crate) fn tell_of_unread(view: &SlotView, side: Side, fd: i32) {
    use os::poll::bits::{HUP, RDHUP};
    // (The kernel says the same of an end that was shut for reading.)
    let is_shut = view.header().sides[side as usize].closed.load(Shared::Acquire) & ClosedBy::READ != 0;
    let has_ended = || os::poll::peek(fd, RDHUP) & (RDHUP | HUP) == RDHUP;
    if !is_shut && left_unread(view, side) && has_ended() && net::readable_bytes(fd) == 0 {
        net::abort(fd);
    }
}

/// Before a shutdown, which the kernel refuses on a connection that was reset: over TCP a peer that is gone
/// with bytes of ours unread has reset it.
pub(crate) fn ask_for_reset(conn: &Conn, end: &End, fd: i32) {
    if end.outgoing.used() == Ok(0) || os::confined::is_confined() {
        return;
    }
    note_tcp(conn, end, fd, u32::from(os::poll::peek(fd, os::poll::bits::RDHUP) as u16));
    ask_for_half_closed_peer(conn, end, fd);
    if is_peer_closed(conn, end.theirs().closed.load(Shared::SeqCst)) {
        provoke_reset(conn, end, fd);
    }
}

/// Whether our own shutdown has ended writing.
pub(crate) fn is_write_shut(end: &End) -> bool {
    end.mine().closed.load(Shared::SeqCst) & ClosedBy::WRITE != 0
}

/// Whether the consumer that just freed bytes should ring a waiting writer: at half empty, not at the first
/// free byte, and not before all that is on TCP was read.
#[cold]
pub(crate) fn is_worth_ringing(end: &End) -> bool {
    end.incoming.free().is_ok_and(|free| free >= end.incoming.size() / 2)
        && (!end.incoming.has_ended() || end.incoming.is_caught_up())
}

/// `EPOLLIN` and `EPOLLOUT` as the rings have it, with what TCP was seen to say.
pub(crate) fn levels(conn: &Conn, end: &End, fd: i32) -> u32 {
    let mut level = 0;
    let closed = end.mine().closed.load(Shared::Relaxed);
    if closed & (ClosedBy::CLOSE | ClosedBy::ABORT) == ClosedBy::CLOSE | ClosedBy::ABORT {
        // Another process that has the socket dissolved the connection.
        const ALL: u32 = bits::IN | bits::RDNORM | bits::OUT | bits::WRNORM;
        return u32::from(os::poll::peek(fd, ALL as i16) as u16);
    }
    if closed & ClosedBy::READ != 0 || conn.has(flag::TCP_ENDED) {
        level |= bits::IN | bits::RDNORM | bits::RDHUP;
        // The end of both directions. (TCP's report of it may be spent, or was for another question; what the
        // peer sends then is answered by a reset, of which the kernel knows.)
        level |= if closed & ClosedBy::WRITE != 0 { bits::HUP | told_by_kernel(conn, fd) } else { 0 };
    } else if has_input(conn, end, fd) {
        level |= bits::IN | bits::RDNORM;
    }
    if closed & ClosedBy::WRITE != 0 || may_write(conn, end) || has_space_outside(conn, end, fd) {
        conn.stream.forget_refusal();
        level |= bits::OUT | bits::WRNORM;
    }
    level |= told_of_gone_peer(conn, end, fd);
    if conn.has(flag::RESET) {
        level |= bits::HUP | if conn.has(flag::RESET_TOLD) { 0 } else { bits::ERR };
    }
    level
}

/// The same of a connection of which nothing special is known, as of nearly all; else `None`.
#[inline]
pub(crate) fn ordinary_levels(conn: &Conn, end: &End) -> Option<u32> {
    /// Of these [`levels`] has more to say than the rings.
    const SPECIAL: Flags =
        flag::TCP_ENDED.and(flag::TCP_GONE).and(flag::RESET).and(flag::SIGNAL_DRIVEN).and(flag::LIMITED);
    let closed = [end.mine(), end.theirs()].map(|side| side.closed.load(Shared::Relaxed));
    let is_special = !conn.is(Phase::Smc)
        || conn.has(SPECIAL)
        || closed != [0, 0]
        || end.mine().set_sharers.load(Shared::Relaxed) != 0
        || end.incoming.has_ended()
        || end.outgoing.has_ended();
    if is_special {
        return None;
    }
    let mut level = if has_data(conn, end) { bits::IN | bits::RDNORM } else { 0 };
    if has_space(conn, end) {
        conn.stream.forget_refusal();
        level |= bits::OUT | bits::WRNORM;
    }
    Some(level)
}

/// What it tells of a socket to whoever asks for nothing: an error, and that all is over.
#[cold]
fn told_by_kernel(conn: &Conn, fd: i32) -> u32 {
    let told = u32::from(os::poll::peek(fd, 0) as u16) & (bits::ERR | bits::HUP);
    if told != 0 && is_its_own(conn, fd) { told } else { 0 }
}

/// Whether what is written goes to TCP, and that has room.
fn has_space_outside(conn: &Conn, end: &End, fd: i32) -> bool {
    writes_outside(conn, end) && os::poll::peek(fd, os::poll::bits::OUT) & os::poll::bits::OUT != 0
}

/// What the kernel says of a connection whose peer is gone with bytes of ours unread: an error, and that it
/// is over.
fn told_of_gone_peer(conn: &Conn, end: &End, fd: i32) -> u32 {
    if !conn.is(Phase::Smc) || !is_peer_gone(conn, end) {
        return 0;
    }
    if is_peer_closed(conn, end.theirs().closed.load(Shared::SeqCst)) {
        provoke_reset(conn, end, fd);
    }
    told_by_kernel(conn, fd)
}

/// Bytes in the ring, or on TCP once the peer has moved there.
fn has_input(conn: &Conn, end: &End, fd: i32) -> bool {
    match end.incoming.is_at_end() {
        true => end.view.bytes_in_word() > 0 || os::poll::is_readable(fd),
        false => has_data(conn, end),
    }
}

/// Whether what the kernel says follows from our own shutdown for reading alone.
fn is_our_own_doing(end: &End, fd: i32, events: u32) -> bool {
    end.mine().closed.load(Shared::Relaxed) & ClosedBy::READ != 0
        && events & RESET != RESET
        && !net::has_received_fin(fd)
}

/// Whether the peer's stream, or the connection, has ended by what the kernel says.
pub(crate) fn has_tcp_ended(conn: &Conn, end: &End, fd: i32) -> bool {
    net::tcp_input(fd) == net::TcpInput::Ended
        && !is_not_connected(conn)
        && !is_our_own_doing(end, fd, 0)
        && is_its_own(conn, fd)
}

/// Takes note of what the kernel said about the TCP socket.
pub(crate) fn note_tcp(conn: &Conn, end: &End, fd: i32, events: u32) {
    if events & ENDS != 0 && is_its_own(conn, fd) {
        note_reported(conn, end, fd, events);
    }
}

/// What tells of an end. An error alone does not: it may be a message in the error queue (of MSG_ZEROCOPY, of
/// a timestamp), and the connection goes on. Every end brings one of these with it, or right behind it.
const ENDS: u32 = bits::RDHUP | bits::HUP;

/// What a reset looks like.
const RESET: u32 = bits::HUP | bits::ERR;

/// The same of what the kernel reported by a record in an epoll set: that is the socket's, whoever has the
/// number now.
pub(crate) fn note_reported(conn: &Conn, end: &End, fd: i32, events: u32) {
    let is_old_news = || {
        let may_be = conn.has(flag::EARLY) && is_in_the_table(conn, fd);
        may_be && os::poll::peek(fd, os::poll::bits::RDHUP) == 0
    };
    if events & ENDS == 0 || is_not_connected(conn) || is_our_own_doing(end, fd, events) || is_old_news() {
        return;
    }
    note_end(conn, end);
    if events & bits::HUP != 0 {
        conn.mark(flag::TCP_GONE);
    }
}

/// Whether TCP brings bytes while the ring is empty and its producer does not say that it is there: it says
/// so before the first such byte is sent, and goes back after the last was read, so the ring's words lie.
/// `told` is what the kernel said of the socket just now.
pub(crate) fn is_contradicted_by_tcp(conn: &Conn, end: &End, fd: i32, told: u32) -> bool {
    let is_not_there = || end.incoming.used() == Ok(0) && !end.incoming.is_at_end();
    let has_bytes = || match told & ENDS {
        0 => net::tcp_input(fd) == net::TcpInput::Data,
        bits::RDHUP => net::has_bytes_before_end(fd),
        _ => false,
    };
    // Asked of TCP with the turn: another reader might take the bytes in between, and the producer go back.
    let is_contradicted = |_turn| has_bytes() && is_not_there() && is_its_own(conn, fd);
    conn.is(Phase::Smc) && is_not_there() && end.receive_turn(conn, false).is_ok_and(is_contradicted)
}

/// TCP has ended. A peer that went without a word and left our bytes unread was killed, or closed the last
/// copy of its socket without knowing: TCP would have sent a reset.
pub(crate) fn note_end(conn: &Conn, end: &End) {
    if conn.has(flag::TCP_ENDED) {
        return;
    }
    if left_unread(end.view, end.side) {
        conn.mark(flag::RESET | flag::TCP_GONE);
    }
    conn.mark(flag::TCP_ENDED);
    if is_half_closed_by_peer(end) && end.outgoing.used() != Ok(0) {
        watch::watch(conn);
    }
}

/// The same of a peer who said behind its end that bytes are unread.
pub(crate) fn note_unread(conn: &Conn, end: &End) {
    if end.theirs().closed.load(Shared::Acquire) & ClosedBy::UNREAD != 0 {
        note_end(conn, end);
    }
}

/// Whether the kernel says that the peer's socket has no descriptor any more.
pub(crate) fn peer_socket_is_gone(conn: &Conn, fd: i32) -> bool {
    if os::confined::is_confined() {
        return false;
    }
    if far::is_far(conn) {
        return !far::has_peer(conn);
    }
    let ends = net::local(fd).and_then(|local| Ok((local, net::peer(fd)?)));
    if !is_its_own(conn, fd) {
        return false;
    }
    let (Ok((local, peer)), Some(view)) = (ends, conn.view()) else { return true };
    let header = view.header();
    let cookie = match conn.side() {
        Side::Client => &header.server_cookie,
        Side::Server => &header.client_cookie,
    };
    let expected = cookie.load(Shared::Relaxed);
    match diag::lookup_beside(fd, peer.unmapped(), local.unmapped()) {
        // (A server signs a moment after its verdict is seen.)
        Ok(found) => (expected != 0 && found.cookie != expected) || found.inode == 0,
        // Not to be able to ask is no answer.
        Err(errno) => errno == Errno::ENOENT,
    }
}

/// The peer lied: its connection ends with a reset, here and there.
pub(crate) fn break_off(conn: &Conn, end: &End, fd: i32) -> Outcome {
    conn.mark(flag::BROKEN | flag::RESET | flag::RESET_TOLD | flag::TCP_ENDED | flag::TCP_GONE);
    end.mine().closed.fetch_or(ClosedBy::ABORT, Shared::Release);
    end.wake_napping_peer();
    act(conn, fd, net::abort);
    Outcome::Fail(Errno::ECONNRESET)
}
