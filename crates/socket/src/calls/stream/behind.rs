//! The rest of a call whose direction went back to TCP under it. Owns: that a blocking call moves as much,
//! and waits for as long, as the kernel's would.
//!
//! A call that has moved nothing, and not waited, is libc's as it came. One that has moved something is not:
//! it would be lost from its result. Nor is one that has waited, where libc would begin to wait anew: for its
//! whole time once more, or not at all, if O_NONBLOCK was set meanwhile.

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
    /// Whether a blocking call has begun in the ring, or to wait, and goes on behind it; or has not begun,
    /// and has no number but ours to go on by.
    pub(super) fn is_cut(&self, outcome: Outcome) -> bool {
        outcome == Outcome::Forward
            && self.may_wait()
            && (self.end.outgoing.has_ended_for_good()
                || self.conn.phase() == Phase::Plain
                || self.is_left_to_reset())
            && (self.sent > 0 || is_kept(self.conn, self.fd) || self.would_wait_otherwise())
    }

    fn would_wait_otherwise(&self) -> bool {
        self.stay.has_slept() && would_wait_otherwise(self.conn, self.fd, self.limit)
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
                    if let Err(errno) = self.await_room() {
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

    /// When it must end, from its first wait on.
    pub(super) fn limit(&mut self) -> Limit {
        let (conn, fd) = (self.conn, self.fd);
        *self.limit.get_or_insert_with(|| Limit::after_ns(conn.timeout_ns(fd, opt::SO_SNDTIMEO)))
    }

    fn await_room(&mut self) -> Result<(), Errno> {
        let (conn, fd) = (self.conn, self.fd);
        if !self.blocking.is_true(conn, fd) {
            return Err(Errno::EAGAIN);
        }
        let limit = self.limit();
        let entry = address(self);
        self.stay.begin(conn, fd, entry);
        awaited(conn, fd, bits::OUT, limit.with_moved(self.sent)).map(drop)
    }
}

/// Whether what the call began with is closed, and the socket has a number of ours.
fn is_kept(conn: &Held, fd: i32) -> bool {
    conn.has(flag::HELD_OPEN) && kept::is_one(kept::number(conn, conn.index(), fd))
}

/// Whether libc would wait for another time than what is left to a call that has waited already.
#[cold]
fn would_wait_otherwise(conn: &Held, fd: i32, limit: Option<Limit>) -> bool {
    // (Behind a filter that leaves read and write there is no other wait than libc's.)
    !os::confined::is_strict() && (limit.is_some_and(|limit| !limit.is_never()) || is_nonblocking(conn, fd))
}

/// O_NONBLOCK as it is now.
fn is_nonblocking(conn: &Held, fd: i32) -> bool {
    if os::confined::is_confined() { conn.has(flag::NONBLOCKING) } else { os::fd::is_nonblocking(fd) }
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
            let goes_on = told.is_ok_and(|told| told & bits::IN != 0 && told & bits::ERR == 0);
            if !goes_on || net::is_at_mark(self.fd) {
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

    /// Whether the connection has become TCP's under a call that waits, and the call goes on there without
    /// libc: the program has closed its number (it goes on by ours, as in the kernel), or it has waited
    /// already.
    pub(super) fn goes_on_by_tcp(&self) -> bool {
        let is_not_libcs = || {
            (self.flags & msg::PEEK == 0 && is_kept(self.conn, self.fd))
                || (self.stay.has_slept() && would_wait_otherwise(self.conn, self.fd, self.limit))
        };
        (self.conn.phase() == Phase::Plain || self.end.is_read_by_libc()) && self.may_wait() && is_not_libcs()
    }

    /// The same of one that has some bytes: they are its result, whatever TCP says next.
    pub(super) fn is_cut_by_tcp(&self) -> bool {
        self.got > 0 && self.flags & msg::PEEK == 0
    }

    /// Reads from TCP, for as long as it may wait. (A peek is libc's once there is something to see.)
    #[cold]
    pub(super) fn go_on_by_tcp<'a>(
        &mut self,
        rest: &mut Rest<Sink<'a>, impl Iterator<Item = Sink<'a>>>,
    ) -> Outcome {
        while let Some(sink) = rest.next_part() {
            self.fd = kept::number(self.conn, self.conn.index(), self.fd);
            let told = self.told_in_time(bits::IN);
            let got = match (told, self.flags & msg::TRUNC) {
                (Err(errno), _) => Err(errno),
                _ if self.flags & msg::PEEK != 0 => return Outcome::Forward,
                (_, 0) => net::receive(self.fd, sink.cells(), msg::DONTWAIT),
                _ => net::discard(self.fd, sink.len(), msg::DONTWAIT),
            };
            match got {
                Ok(count @ 1..) => {
                    self.got += count;
                    rest.done(sink, count);
                }
                Err(Errno::EAGAIN) if told.is_ok() => {}
                Err(errno) if self.got == 0 => return Outcome::Fail(errno),
                _ => break,
            }
            if self.is_cut_by_tcp() {
                return self.go_on_behind(rest);
            }
        }
        Outcome::Done(self.got)
    }

    fn told_in_time(&mut self, events: i16) -> Result<i16, Errno> {
        let (conn, fd) = (self.conn, self.fd);
        if !self.blocking.is_true(conn, fd) {
            return Some(poll::peek(fd, events)).filter(|told| *told != 0).ok_or(Errno::EAGAIN);
        }
        let limit = *self.limit.get_or_insert_with(|| Limit::after_ns(conn.timeout_ns(fd, opt::SO_RCVTIMEO)));
        let entry = address(self);
        self.stay.begin(conn, fd, entry);
        awaited(conn, fd, events, limit.with_moved(self.got))
    }
}

/// What TCP tells of `events`, once it does; EINTR after a signal whose handler ends the call, EAGAIN at the
/// end of the time.
fn awaited(conn: &Held, fd: i32, events: i16, limit: Limit) -> Result<i16, Errno> {
    let mut fds = [PollFd { fd, events, revents: 0 }];
    loop {
        match poll::wait(&mut fds, limit.slice_ms(-1).ok_or(Errno::EAGAIN)?) {
            Ok(0) => {}
            Ok(_) => return Ok(fds[0].revents),
            // (The kernel would begin anew, and see O_NONBLOCK.)
            Err(Errno::EINTR) if limit.is_never() && os::process::all_handlers_restart() => {
                if is_nonblocking(conn, fd) {
                    return Err(Errno::EAGAIN);
                }
            }
            Err(errno) => return Err(errno),
        }
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
