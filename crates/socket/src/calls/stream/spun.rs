//! The short wait of a call before it sleeps. Owns: that the call is written down before it gives its core
//! away, and what a signal does to it that comes then.

use super::{Receive, Step, Transmit};
use crate::Outcome;
use crate::abandoned::address;
use crate::wait::{self, Limit, Wish};
use os::Errno;
use os::held_back::Interrupted;
use os::net::opt;

impl Receive<'_> {
    /// A short wait before a sleep. Before the core is given away the call is written down.
    pub(super) fn spin(&mut self, wish: Wish) -> Result<bool, Interrupted> {
        let (entry, fd, stay) = (address(self), self.fd, &mut self.stay);
        wait::spin(self.conn, &self.end, wish, || {
            stay.begin_awake(self.conn, fd, entry);
        })
    }

    /// A handler ran before the sleep: what it does to the call is as if it had run in it.
    #[cold]
    pub(super) fn interrupted(&mut self, Interrupted { restarts }: Interrupted) -> Step {
        let fd = self.fd;
        let limit =
            *self.limit.get_or_insert_with(|| Limit::after_ns(self.conn.timeout_ns(fd, opt::SO_RCVTIMEO)));
        match restarts && limit.with_moved(self.got).is_never() {
            true => Step::Retry,
            false if self.total == 0 => self.leave(Outcome::Done(0)),
            false => self.leave(Outcome::Fail(Errno::EINTR)),
        }
    }
}

impl Transmit<'_> {
    /// As the receiver's.
    pub(super) fn spin(&mut self) -> Result<bool, Interrupted> {
        let (entry, fd, stay) = (address(self), self.fd, &mut self.stay);
        wait::spin(self.conn, &self.end, Wish::Space, || {
            stay.begin_awake(self.conn, fd, entry);
        })
    }

    /// As the receiver's.
    #[cold]
    pub(super) fn interrupted(&mut self, Interrupted { restarts }: Interrupted) -> Step {
        let fd = self.fd;
        let limit =
            *self.limit.get_or_insert_with(|| Limit::after_ns(self.conn.timeout_ns(fd, opt::SO_SNDTIMEO)));
        match restarts && limit.with_moved(self.sent).is_never() {
            true => Step::Retry,
            false => self.leave(Outcome::Fail(Errno::EINTR)),
        }
    }
}
