//! The first writes of a client: its direction begins on TCP (`shm::detour`). Owns: when a large one stops
//! putting bytes there, for the ring is faster, and how long one that a small SO_SNDBUF bounds waits for
//! that.

use super::{Step, Transmit};
use crate::abandoned::address;
use crate::phase::Phase;
use crate::wait::{self, Limit, Wish};
use crate::{Outcome, flag, kept};
use os::net;
use os::{Errno, process};
use shm::ring::ODD;
use sync::Ordering as Shared;

/// So long, in milliseconds, a large write that has begun on TCP waits for its server to look, and to read
/// that: most do within 0.1 ms, those behind somebody who has the core within some slices of it. (Longer, and
/// a thread that has both ends would feel it.)
const PAUSE_MS: u64 = 10;

impl Transmit<'_> {
    /// A blocking socket whose connect() was interrupted: the handshake goes on by itself.
    pub(super) fn await_connect(&mut self) -> Step {
        if !self.blocking.is_true(self.conn, self.fd) {
            return Step::Retry;
        }
        let mut fds = [os::poll::PollFd { fd: self.fd, events: os::poll::bits::OUT, revents: 0 }];
        let limit = self.limit();
        let entry = address(self);
        self.stay.begin(self.conn, self.fd, entry);
        let told = match limit.slice_ms(wait::SLICE_MS) {
            Some(slice) => os::poll::wait(&mut fds, slice),
            None => Err(Errno::EAGAIN),
        };
        match told {
            Ok(_) => Step::Retry,
            Err(Errno::EINTR) if limit.is_never() && os::process::all_handlers_restart() => Step::Retry,
            Err(errno) => self.leave(Outcome::Fail(errno)),
        }
    }

    /// How many bytes of a write that may wait go to TCP before it pauses, for the ring is faster: of a
    /// connection's first ones an eighth of what a ring takes, which is more than a request.
    pub(super) fn left_before_pause(&mut self, total: usize) -> usize {
        self.is_to_pause = false;
        let is_early = self.conn.is(Phase::Intent);
        let (size, left) = (self.end.outgoing.size(), self.end.outgoing.left_to_begin_with());
        let goes_on = self.overflows || !self.may_wait();
        let is_over = self.conn.role.has_paused.load(Shared::Relaxed) != 0 || !is_early && left == 0;
        if goes_on || is_over || os::confined::is_confined() {
            return usize::MAX;
        }
        let most = match (size / 8 - ODD).saturating_sub(size - left) {
            1.. if self.is_record(total) => usize::MAX,
            most => most,
        };
        self.is_to_pause = most < total - self.sent;
        most
    }

    /// The server looks, or the reader has read what came first; or neither does for a while. (TCP would have
    /// taken the bytes: no time limit ends the call here, and no signal.)
    #[cold]
    pub(super) fn pause(&mut self) -> Step {
        self.is_to_pause = false;
        if !self.blocking.is_true(self.conn, self.fd) {
            return Step::Retry;
        }
        self.conn.role.has_paused.store(1, Shared::Relaxed);
        let entry = address(self);
        let call = self.stay.begin(self.conn, self.fd, entry);
        let limit = Limit::after_ns(PAUSE_MS * 1_000_000);
        let sleep = || wait::sleep(self.conn, &self.end, self.fd, Wish::Space, limit, call);
        let (was_early, mut slept) = (self.conn.is(Phase::Intent), sleep());
        if was_early && slept.is_ok() && self.conn.is(Phase::Smc) && !self.end.outgoing.is_caught_up() {
            // It has looked, and reads.
            slept = sleep();
        }
        match slept {
            Ok(()) | Err(Errno::EAGAIN | Errno::EINTR) => Step::Retry,
            Err(errno) => self.leave(Outcome::Fail(errno)),
        }
    }

    /// TCP takes no more, of a write that a small SO_SNDBUF bounds: waits until its reader has read all that
    /// is there, for the ring takes the rest. `None`: the reader does not get that far soon, and TCP tells of
    /// room.
    ///
    /// A reader that has read all that came is waited for: it lacks what the kernel holds back (small
    /// segments stop at a small window, until a timer looks), and more behind that would be held back, too.
    #[cold]
    pub(super) fn catch_up(&mut self, limit: Limit) -> Option<Step> {
        let is_counted = self.end.outgoing.has_ended() && !self.end.outgoing.has_ended_for_good();
        if !self.conn.has(flag::LIMITED) || !self.conn.is(Phase::Smc) || !is_counted {
            return None;
        }
        while limit.slice_ms(-1).is_some() {
            let slice = Limit::after_ns(PAUSE_MS * 1_000_000);
            let entry = address(self);
            let call = self.stay.begin(self.conn, self.fd, entry);
            let slept = wait::sleep(self.conn, &self.end, self.fd, Wish::Space, slice, call);
            self.fd = kept::number(self.conn, self.conn.index(), self.fd);
            match slept {
                Ok(()) => return Some(Step::Retry),
                Err(Errno::EAGAIN) if self.has_reader_read_all() => {}
                Err(Errno::EAGAIN) => return None,
                Err(Errno::EINTR) if limit.is_never() && process::all_handlers_restart() => {}
                Err(errno) => return Some(self.leave(Outcome::Fail(errno))),
            }
        }
        None
    }

    /// Whether what the reader has not read is what the kernel has not brought there.
    fn has_reader_read_all(&self) -> bool {
        if os::confined::is_confined() {
            return false;
        }
        let held_back = net::queued_bytes(self.fd) as u64;
        held_back > 0 && self.end.outgoing.unread_outside().is_some_and(|unread| unread <= held_back)
    }
}
