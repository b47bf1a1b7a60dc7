//! A call that has found nothing to do, and does not wait. Owns: what it is told; and that a program which
//! waits where nobody sees it (`unseen`) goes on with TCP, for the ring would not wake it.

use super::{Receive, Step, Transmit};
use crate::{Outcome, decide, flag, ready, told, unseen};
use os::Errno;

impl Receive<'_> {
    /// There may be bytes later. (Who goes on with TCP looks once more for what has come meanwhile.)
    pub(super) fn not_now(&mut self) -> Step {
        ready::note_read(self.conn, &self.end, self.fd);
        if !self.blocking.is_said && !self.is_refused && unseen::waits_elsewhere(self.conn, self.fd) {
            self.is_refused = true;
            decide::refuse_unseen(self.conn, self.fd);
            return Step::Retry;
        }
        self.leave(Outcome::Fail(Errno::EAGAIN))
    }

    /// There never will be.
    pub(super) fn ended(&self) -> Outcome {
        if self.conn.has(flag::RESET) {
            if self.got > 0 || self.conn.has(flag::RESET_TOLD) {
                return Outcome::Done(0);
            }
            return told::tell_reset(self.conn, self.fd);
        }
        Outcome::Forward
    }
}

impl Transmit<'_> {
    /// There may be room later.
    pub(super) fn not_now(&mut self) -> Step {
        if !self.blocking.is_said && !self.is_refused_room && unseen::waits_elsewhere(self.conn, self.fd) {
            self.is_refused_room = true;
            decide::refuse_unseen(self.conn, self.fd);
            return Step::Retry;
        }
        self.would_block()
    }
}
