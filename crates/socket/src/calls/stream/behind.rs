//! The rest of a call that has moved some bytes through a ring when its direction went back to TCP. Owns:
//! that a blocking call moves as much as the kernel's would.
//!
//! A call that has moved nothing is libc's as it came. This one is not: what it has moved would be lost from
//! its result.

use super::{Receive, Transmit};
use crate::abandoned::address;
use crate::end::End;
use crate::held::Held;
use crate::phase::Phase;
use crate::rest::Rest;
use crate::table::{self, Entry};
use crate::wait::Limit;
use crate::{Outcome, flag, home, kept, ready};
use os::net::{self, msg, opt};
use os::poll::{PollFd, bits};
use os::{Errno, poll};
use shm::{ClosedBy, Sink, Supply};
use sync::Ordering;

/// Of a supply that lies in no memory of the program's, so much goes at once.
const BOUNCE: usize = 512;

impl Transmit<'_> {
    /// Whether a blocking call has begun in the ring, and goes on behind it; or has not begun, and has no
    /// number but ours to go on by.
    pub(super) fn is_cut(&self, outcome: Outcome) -> bool {
        outcome == Outcome::Forward
            && self.may_wait()
            && (self.end.outgoing.has_ended_for_good()
                || self.conn.phase() == Phase::Plain
                || self.is_left_to_reset())
            && (self.sent > 0 || is_kept(self.conn, self.fd))
    }

    /// Whether the peer reads no more and has not closed: TCP waits for room, and is reset where it finds
    /// some.
    fn is_left_to_reset(&self) -> bool {
        ready::has_shut_both_ways(self.end.theirs().closed.load(Ordering::SeqCst))
    }

    /// What the kernel would say, where the program has closed the number under the call.
    #[cold]
    pub(super) fn broken_without_a_number(&mut self) -> Outcome {
        if !ready::is_peer_gone(self.conn, &self.end) {
            return Outcome::Fail(Errno::EBADF);
        }
        let told = net::take_error(self.fd);
        self.is_pipe_broken = told.is_none() && self.flags & msg::NOSIGNAL == 0;
        Outcome::Fail(told.unwrap_or(Errno::EPIPE))
    }

    /// Sends the rest over TCP. (A signal, an error and the end of its time leave it at what was sent.)
    #[cold]
    pub(super) fn go_on_behind<S: Supply>(
        &mut self,
        rest: &mut Rest<S, impl Iterator<Item = S>>,
        total: usize,
    ) -> Outcome {
        let flags = self.flags & msg::MORE | msg::DONTWAIT | msg::NOSIGNAL;
        let mut is_cut = false;
        while self.sent < total {
            let Some(source) = rest.next_part() else { break };
            self.fd = kept::number(self.conn, self.conn.index(), self.fd);
            let more = if self.sent + source.len() < total { msg::MORE } else { 0 };
            match send(self.fd, source, flags | more) {
                Ok(0) => break,
                Ok(count) => {
                    is_cut = more != 0 && count == source.len() || source.cells().is_none();
                    self.sent += count;
                    rest.done(source, count);
                }
                Err(Errno::EAGAIN) => {
                    self.complete(core::mem::take(&mut is_cut));
                    if !self.has_room_in_time() {
                        let is_signal = self.may_wait() && self.limit.is_some_and(|limit| limit.is_never());
                        let errno = if is_signal { Errno::EINTR } else { Errno::EAGAIN };
                        return self.partial_or(Outcome::Fail(errno));
                    }
                }
                Err(errno) if self.sent == 0 => return self.failed_outside(errno),
                Err(errno) => {
                    self.note_refused(errno);
                    break;
                }
            }
        }
        self.complete(is_cut && self.sent < total);
        Outcome::Done(self.sent)
    }

    fn has_room_in_time(&mut self) -> bool {
        let (conn, fd) = (self.conn, self.fd);
        if !self.blocking.is_true(conn, fd) {
            return false;
        }
        let limit = *self.limit.get_or_insert_with(|| Limit::after_ns(conn.timeout_ns(fd, opt::SO_SNDTIMEO)));
        let entry = address(self);
        self.stay.begin(conn, fd, entry);
        awaited(fd, bits::OUT, limit).is_some()
    }
}

/// Whether what the call began with is closed, and the socket has a number of ours.
fn is_kept(conn: &Held, fd: i32) -> bool {
    conn.has(flag::HELD_OPEN) && kept::is_one(kept::number(conn, conn.index(), fd))
}

/// Puts what TCP takes of `source` there, without waiting; 0 if the source has ended.
fn send(fd: i32, source: impl Supply, flags: i32) -> Result<usize, Errno> {
    match source.cells() {
        Some(cells) => net::transmit(fd, cells, flags),
        None => send_copied(fd, source, flags),
    }
}

/// The same of a supply that has to be copied first; what TCP does not take is copied again.
#[inline(never)]
fn send_copied(fd: i32, source: impl Supply, flags: i32) -> Result<usize, Errno> {
    let mut bytes = [0u8; BOUNCE];
    let count = source.copy_to(Sink::from(&mut bytes[..])).min(BOUNCE);
    let more = if count < source.len() { msg::MORE } else { 0 };
    if count == 0 { Ok(0) } else { net::send_bytes(fd, &bytes[..count], flags | more) }
}

impl Receive<'_> {
    /// Whether a blocking call has some bytes of those it waits for, and the rest is libc's to read.
    pub(super) fn is_cut(&self) -> bool {
        let may_go_on = self.flags & msg::PEEK == 0 && self.may_wait();
        self.got > 0 && may_go_on && self.end.incoming.has_ended_for_good() && self.end.is_all_read()
    }

    /// What the kernel would say, where the program has closed the number under the call.
    #[cold]
    pub(super) fn ended_without_a_number(&self) -> Outcome {
        let is_shut = self.end.mine().closed.load(Ordering::Relaxed) & ClosedBy::READ != 0;
        if !is_shut && !self.conn.has(flag::TCP_ENDED) {
            return Outcome::Fail(Errno::EBADF);
        }
        net::take_error(self.fd).map_or(Outcome::Done(0), Outcome::Fail)
    }

    /// Reads the rest from TCP. (A signal, an error, the end of the stream, an urgent mark and the end of its
    /// time leave it at what it has. The kernel knows nothing of what was read before, and would read across
    /// a mark that comes right behind it.)
    #[cold]
    pub(super) fn go_on_behind<'a>(
        &mut self,
        rest: &mut Rest<Sink<'a>, impl Iterator<Item = Sink<'a>>>,
    ) -> Outcome {
        while self.got < self.target() {
            let Some(sink) = rest.next_part() else { break };
            self.fd = kept::number(self.conn, self.conn.index(), self.fd);
            // (An error is told once: by the next call.)
            let told = self.told_in_time(bits::IN | bits::PRI);
            let is_over = told.is_none_or(|told| told & bits::IN == 0 || told & bits::ERR != 0);
            if is_over || net::is_at_mark(self.fd) {
                break;
            }
            let got = match self.flags & msg::TRUNC {
                0 => net::receive(self.fd, sink.cells(), msg::DONTWAIT),
                _ => net::discard(self.fd, sink.len(), msg::DONTWAIT),
            };
            match got {
                Ok(count @ 1..) => {
                    self.got += count;
                    rest.done(sink, count);
                }
                Err(Errno::EAGAIN) => {}
                _ => break,
            }
        }
        Outcome::Done(self.got)
    }

    /// Whether the program has closed the number under a call that waits, and the connection has become
    /// TCP's by that: the call goes on there by ours, as in the kernel.
    pub(super) fn is_kept_by_tcp(&self) -> bool {
        is_kept(self.conn, self.fd)
            && (self.conn.phase() == Phase::Plain || self.end.is_read_by_libc())
            && self.may_wait()
            && self.flags & msg::PEEK == 0
    }

    /// Reads from TCP by our number.
    #[cold]
    pub(super) fn go_on_kept<'a>(
        &mut self,
        rest: &mut Rest<Sink<'a>, impl Iterator<Item = Sink<'a>>>,
    ) -> Outcome {
        while let Some(sink) = rest.next_part() {
            self.fd = kept::number(self.conn, self.conn.index(), self.fd);
            let told = self.told_in_time(bits::IN);
            let got = match (told, self.flags & msg::TRUNC) {
                (None, _) if self.may_wait() => Err(Errno::EINTR),
                (None, _) => Err(Errno::EAGAIN),
                (_, 0) => net::receive(self.fd, sink.cells(), msg::DONTWAIT),
                _ => net::discard(self.fd, sink.len(), msg::DONTWAIT),
            };
            match got {
                Ok(count @ 1..) => {
                    self.got += count;
                    rest.done(sink, count);
                }
                Err(Errno::EAGAIN) if told.is_some() => {}
                Err(errno) if self.got == 0 => return Outcome::Fail(errno),
                _ => break,
            }
            if self.got >= self.target() {
                break;
            }
        }
        Outcome::Done(self.got)
    }

    fn told_in_time(&mut self, events: i16) -> Option<i16> {
        let (conn, fd) = (self.conn, self.fd);
        if !self.blocking.is_true(conn, fd) {
            return Some(poll::peek(fd, events)).filter(|told| *told != 0);
        }
        let limit = *self.limit.get_or_insert_with(|| Limit::after_ns(conn.timeout_ns(fd, opt::SO_RCVTIMEO)));
        let entry = address(self);
        self.stay.begin(conn, fd, entry);
        awaited(fd, events, limit)
    }
}

/// What TCP tells of `events`, once it does; `None` after a signal, or at the end of the time.
fn awaited(fd: i32, events: i16, limit: Limit) -> Option<i16> {
    let mut fds = [PollFd { fd, events, revents: 0 }];
    match poll::wait(&mut fds, limit.slice_ms(-1)?) {
        Ok(count) if count > 0 => Some(fds[0].revents),
        _ => None,
    }
}

/// A call that goes to libc late (it slept, say) must not hit whoever has the number by now.
#[inline]
pub(super) fn still_ours(
    conn: &Held,
    end: &End,
    fd: i32,
    outcome: Outcome,
    without: impl FnOnce() -> Outcome,
) -> Outcome {
    if outcome == Outcome::Forward && !is_still_its(conn, end, fd) {
        return without();
    }
    outcome
}

/// Whether `fd` is the connection's still. The call goes to libc, perhaps because its direction is on TCP.
#[cold]
#[inline(never)]
fn is_still_its(conn: &Held, end: &End, fd: i32) -> bool {
    home::notice(conn, end);
    table::get(fd) == Entry::Conn(conn.index())
}
