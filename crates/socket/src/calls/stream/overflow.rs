//! What the ring does not take, as TCP would have taken it. Owns: when a writer stops waiting for its reader,
//! and what its errors are while it writes to TCP.

use super::{Step, Transmit};
use crate::conn::Conn;
use crate::end::End;
use crate::phase::Phase;
use crate::rest::Rest;
use crate::wait::spin_until;
use crate::{Outcome, detour, doorbell, flag, home, ready, records, resting, watch};
use os::Errno;
use os::net::{self, msg};
use os::time::Cycles;
use shm::{Producer, Sending, Supply};

/// For so long a call that may not wait looks whether its reader moves: one that is awake does within a
/// chunk's time, one that was just woken within a turn of the core. Nothing, beside filling the ring.
const LOOK: Cycles = Cycles::from_us(100);

/// The kernel's sendfile writes so much at once (PIPE_DEF_BUFFERS of linux/pipe_fs_i.h, in pages).
const FILE_STEP: usize = 16 * 4096;

impl Transmit<'_> {
    /// Puts what the ring does not take into TCP, if its reader rests. `Ok(false)`: that takes no more,
    /// either, or there is nothing for it.
    #[cold]
    pub(super) fn overflow<S: Supply>(
        &mut self,
        turn: &mut Sending<'_>,
        rest: &mut Rest<S, impl Iterator<Item = S>>,
        total: usize,
    ) -> Result<bool, Outcome> {
        let most = self.allowed_outside().min(self.left_before_pause(total));
        if most == 0 || most < total && self.is_record(total) {
            return Ok(false);
        }
        let producer = turn.producer(self.end.outgoing, &self.conn.stream.tx_cache);
        detour::open(&self.end, &producer);
        self.push_outside(&producer, rest, total.min(self.sent.saturating_add(most)))?;
        Ok(self.sent == total)
    }

    /// How many bytes may go to TCP now: any number before the answer, where the reader rests, or where a
    /// small SO_SNDBUF bounds them; as many as the ring would have taken while the reader has not read the
    /// first.
    fn allowed_outside(&self) -> usize {
        let is_there = self.end.outgoing.has_ended();
        match self.conn.phase() {
            _ if self.overflows => usize::MAX,
            Phase::Intent if is_there => usize::MAX,
            _ if is_there && self.conn.has(flag::LIMITED) => usize::MAX,
            _ if is_there => self.end.outgoing.left_to_begin_with(),
            _ => 0,
        }
    }

    /// The pieces of a call are one write to TCP, which is told that more follows: each for itself would be a
    /// small segment, and small segments stop at a small window until the kernel's timer looks.
    fn push_outside<S: Supply>(
        &mut self,
        producer: &Producer<'_>,
        rest: &mut Rest<S, impl Iterator<Item = S>>,
        until: usize,
    ) -> Result<(), Outcome> {
        self.note_held_outside();
        let mut is_cut = false;
        while self.sent < until {
            let Some(source) = rest.next_part() else { break };
            let piece = source.first(until - self.sent);
            let more = if self.sent + piece.len() < until { msg::MORE } else { 0 };
            match detour::send(producer, self.fd, piece, self.flags | more) {
                Ok(0) => {
                    self.complete(is_cut);
                    return Err(Outcome::Done(self.sent));
                }
                Ok(count) => {
                    is_cut = more != 0 && count == piece.len() || piece.cells().is_none();
                    rest.done(source, count);
                    self.sent += count;
                }
                Err(Errno::EAGAIN | Errno::EINTR) => {
                    self.complete(is_cut);
                    self.is_tcp_full = true;
                    if self.overflows {
                        resting::note_tcp_full(&self.end);
                    }
                    break;
                }
                Err(errno) => return Err(self.failed_outside(errno)),
            }
        }
        Ok(())
    }

    /// TCP waits for more of this call, which does not come now.
    pub(super) fn complete(&self, is_cut: bool) {
        if is_cut && !self.holds && !os::confined::is_confined() {
            net::push(self.fd);
        }
    }

    /// TCP refuses what follows in this call, because nobody reads: the kernel looks for that before a write
    /// begins, and while it waits for room. So what is left counts as sent where one write would have taken
    /// it.
    #[cold]
    pub(super) fn skip<S: Supply>(&mut self, rest: &mut Rest<S, impl Iterator<Item = S>>, total: usize) {
        let has_waited = self.limit.is_some() || os::confined::is_confined();
        if has_waited || total > net::buffer_sizes(self.fd).0 as usize {
            return;
        }
        let until = if S::IS_WHOLE { total } else { self.sent.next_multiple_of(FILE_STEP) };
        while self.sent < until
            && let Some(source) = rest.next_part()
        {
            let count = detour::length(source.first(until - self.sent));
            if count == 0 {
                break;
            }
            rest.done(source, count);
            self.sent += count;
        }
    }

    /// What TCP holds back comes out with what follows it there, or late.
    fn note_held_outside(&self) {
        if self.holds {
            self.conn.mark(flag::HELD_OUTSIDE);
        } else if self.conn.has(flag::HELD_OUTSIDE) {
            self.conn.unmark(flag::HELD_OUTSIDE);
        }
    }

    /// TCP refuses. An error that comes after bytes were taken is the next call's to tell.
    pub(super) fn failed_outside(&mut self, errno: Errno) -> Outcome {
        self.note_refused(errno);
        self.is_broken = errno == Errno::EPIPE;
        match errno {
            Errno::EPIPE => self.is_pipe_broken = self.flags & msg::NOSIGNAL == 0 && self.sent == 0,
            _ if self.sent > 0 => self.conn.mark(flag::RESET | flag::TCP_ENDED | flag::TCP_GONE),
            _ => detour::note_error(self.conn, errno),
        }
        Outcome::Fail(errno)
    }

    /// Nobody reads, TCP says to a call that has begun.
    pub(super) fn note_refused(&mut self, errno: Errno) {
        self.is_refused = self.sent > 0 && matches!(errno, Errno::EPIPE | Errno::ECONNRESET);
    }

    /// There is no space: whether the reader rests, and TCP takes the rest of the call. So it does for a
    /// program that asks in vain again and again without having waited for room: it may throw away what is
    /// not taken, and over TCP megabytes are, whatever the reader does.
    pub(super) fn turns_to_tcp(&mut self, may_wait: bool) -> bool {
        if !detour::may_overflow(self.conn) {
            return false;
        }
        self.overflows = if may_wait {
            resting::is_seen(&self.end)
        } else {
            // (What it has on TCP would hide from a writer in another container that this one was killed.)
            let asks_again = !self.end.view.is_far() && self.conn.stream.asks_in_vain();
            asks_again || resting::is_seen_at_once(&self.end, || self.is_still())
        };
        self.overflows
    }

    /// Whether the reader does not move for a moment.
    fn is_still(&self) -> bool {
        let (from, before) = (Cycles::now(), self.end.outgoing.progress());
        let has_moved = || self.end.outgoing.progress() != before;
        spin_until(|| has_moved() || Cycles::now().since(from) >= LOOK);
        !has_moved()
    }

    /// EAGAIN or a short count; an edge-triggered set is rung when there is space again, as the kernel's
    /// NOSPACE does.
    pub(super) fn would_block(&self) -> Step {
        if ready::has_tcp_ended(self.conn, &self.end, self.fd) {
            ready::note_end(self.conn, &self.end);
            ready::ask_for_half_closed_peer(self.conn, &self.end, self.fd);
            if ready::is_peer_gone(self.conn, &self.end) {
                return Step::Retry;
            }
            watch::watch(self.conn);
        }
        note_stall(self.conn, &self.end, self.is_tcp_full);
        if self.sent == 0 && !self.is_tcp_full {
            self.conn.stream.note_refusal();
        }
        if ready::is_on_tcp_for_good(&self.end) {
            home::notice(self.conn, &self.end);
        }
        note_for_waits(self.conn, &self.end);
        self.leave(Outcome::Fail(Errno::EAGAIN))
    }
}

/// Polls and sets that wait until this socket can be written to: the kernel tells of room on TCP, and a tick
/// of a reader that rests.
pub(super) fn note_for_waits(conn: &Conn, end: &End) {
    if ready::writes_outside(conn, end) {
        records::tell_outside(conn);
    } else {
        detour::await_reader(conn, end, 0);
    }
}

/// A call that may not wait found less space than it had bytes: an edge-triggered set tells when there is
/// more. `by_tcp`: it was TCP that had none.
pub(super) fn note_stall(conn: &Conn, end: &End, by_tcp: bool) {
    if conn.interest.epoll_edge.load(sync::Ordering::Acquire) > 0 {
        conn.note_stall();
        if !by_tcp {
            records::lose_room_outside(conn);
        }
        conn.interest.bell.ask(end.words(), shm::bell::Wanted::No, true);
        if ready::has_space(conn, end) {
            doorbell::kick(conn, end);
        }
    }
}

/// What TCP surely takes where it says that it has room.
pub(super) fn room(conn: &Conn, end: &End, fd: i32) -> usize {
    const SURE: usize = 4096;
    let has_room = ready::writes_outside(conn, end) && os::poll::peek(fd, os::poll::bits::OUT) != 0;
    if has_room { SURE } else { 0 }
}
