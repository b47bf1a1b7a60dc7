//! A receive that has found nothing, and does not wait. Owns: what it is told.

use super::{Receive, Step};
use crate::{Outcome, decide, flag, told, unseen};
use os::Errno;

impl Receive<'_> {
    /// There may be something later. A program that waits where nobody sees it (`unseen`) would not be woken
    /// by the ring: it goes on with TCP, and looks once more for what has come meanwhile.
    pub(super) fn not_now(&mut self) -> Step {
        let is_told = self.blocking.is_said || self.conn.has(flag::SIGNAL_DRIVEN) || self.is_refused;
        if !is_told && unseen::is_unseen() {
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
