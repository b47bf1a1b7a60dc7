//! What the ring does not take, as TCP would have taken it. Owns: when a writer stops waiting for its reader,
//! and what its errors are while it writes to TCP.

use super::Transmit;
use crate::end::End;
use crate::rest::Rest;
use crate::wait::spin_until;
use crate::{Outcome, detour, flag, ready, records, watch};
use os::Errno;
use os::net::msg;
use os::time::Cycles;
use shm::{Producer, Sending, Supply};

/// For so long a call that may not wait looks whether its reader moves: one that is awake does within a
/// chunk's time, one that was just woken within a turn of the core. Nothing, beside filling the ring.
const LOOK: Cycles = Cycles::from_us(100);

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
        if !self.overflows {
            return Ok(false);
        }
        let before = self.sent;
        let producer = turn.producer(self.end.outgoing, &self.conn.stream.tx_cache);
        detour::open(&self.end, &producer);
        let outcome = self.push_outside(&producer, rest, total);
        if self.sent > before {
            turn.count(self.sent - before);
        }
        outcome
    }

    fn push_outside<S: Supply>(
        &mut self,
        producer: &Producer<'_>,
        rest: &mut Rest<S, impl Iterator<Item = S>>,
        total: usize,
    ) -> Result<bool, Outcome> {
        while self.sent < total {
            let Some(source) = rest.next_part() else { return Ok(true) };
            match detour::send(producer, self.fd, source, self.flags) {
                Ok(0) => return Err(Outcome::Done(self.sent)),
                Ok(count) => {
                    rest.done(source, count);
                    self.sent += count;
                }
                Err(Errno::EAGAIN | Errno::EINTR) => {
                    self.is_tcp_full = true;
                    return Ok(false);
                }
                Err(errno) => return Err(self.failed_outside(errno)),
            }
        }
        Ok(true)
    }

    /// TCP refuses. An error that comes after bytes were taken is the next call's to tell.
    fn failed_outside(&mut self, errno: Errno) -> Outcome {
        match errno {
            Errno::EPIPE => self.is_pipe_broken = self.flags & msg::NOSIGNAL == 0 && self.sent == 0,
            _ if self.sent > 0 => self.conn.mark(flag::RESET | flag::TCP_ENDED | flag::TCP_GONE),
            _ => detour::note_error(self.conn, errno),
        }
        Outcome::Fail(errno)
    }

    /// There is no space: whether the reader rests, and TCP takes the rest of the call. A call that may wait
    /// does so for a while before it is believed.
    pub(super) fn turns_to_tcp(&mut self, may_wait: bool) -> bool {
        if !detour::may_overflow(self.conn) {
            return false;
        }
        let (end, rests) = (&self.end, ready::note_full(&self.end));
        let is_outside = end.outgoing.has_ended();
        let is_fresh = may_wait && rests && !is_outside && ready::has_rested_always(end);
        if is_fresh {
            ready::note_rest(end, false);
        }
        self.overflows =
            if may_wait || is_outside && rests { rests && !is_fresh } else { self.has_seen_rest(rests) };
        self.overflows
    }

    /// A call that may not wait looks for a moment.
    fn has_seen_rest(&self, rests: bool) -> bool {
        let (from, before) = (Cycles::now(), self.end.outgoing.progress());
        let is_over = || Cycles::now().since(from) >= LOOK;
        let has_moved = || self.end.outgoing.progress() != before;
        spin_until(|| has_moved() || is_over());
        // (Where nobody is to spin, what was seen before counts.)
        let rests = !has_moved() && (is_over() || rests);
        if rests {
            ready::note_rest(&self.end, true);
        }
        rests
    }

    /// Polls and sets that wait until this socket can be written to: the kernel tells of room on TCP, and a
    /// tick of a reader that rests.
    pub(super) fn note_for_waits(&self) {
        if ready::writes_outside(&self.end) {
            records::tell_outside(self.conn);
        } else if detour::may_overflow(self.conn) && !ready::may_write(self.conn, &self.end) {
            ready::note_full(&self.end);
            watch::stall(self.conn);
        }
    }
}

/// What TCP surely takes where it says that it has room.
pub(super) fn room(end: &End, fd: i32) -> usize {
    const SURE: usize = 4096;
    let has_room = ready::writes_outside(end) && os::poll::peek(fd, os::poll::bits::OUT) != 0;
    if has_room { SURE } else { 0 }
}
