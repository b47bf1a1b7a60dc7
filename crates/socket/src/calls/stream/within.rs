//! A signal handler that writes in the middle of its own thread's write. Owns: that what it leaves goes out
//! before anything else of this thread, and that a blocking socket tells nobody EAGAIN.

use super::Transmit;
use crate::phase::Phase;
use crate::rest::Rest;
use crate::{Outcome, afterwards, answer};
use os::Errno;
use os::net::msg;
use shm::Supply;

impl Transmit<'_> {
    /// What a handler left that interrupted this call while it had the turn.
    #[cold]
    pub(super) fn send_afterwards(&mut self) {
        // (What is held is written down once.)
        self.stay.end(self.conn, self.fd);
        afterwards::send(self.conn, |bytes| {
            let mut call = Transmit::new(self.conn, self.end, self.fd, msg::NOSIGNAL);
            call.is_afterwards = true;
            let rest = Rest::of(core::iter::once(shm::Source::from(bytes)));
            let outcome = call.run(rest, bytes.len());
            call.stay.end(self.conn, self.fd);
            match outcome {
                Outcome::Done(count) => Some(count),
                Outcome::Fail(Errno::EAGAIN | Errno::EINTR) => Some(0),
                Outcome::Fail(_) => None,
                Outcome::Forward => answer::send_all(self.fd, bytes).then_some(bytes.len()),
            }
        });
    }

    /// Whether bytes that this thread's handlers have left go first, and cannot be sent now.
    #[cold]
    pub(super) fn is_behind(&mut self) -> bool {
        if self.is_afterwards {
            return false;
        }
        if !self.is_within {
            self.send_afterwards();
        }
        self.is_within = afterwards::is_waiting(self.conn);
        self.is_within
    }

    /// A handler finds its own thread in the middle of a write: on a blocking socket it is told EAGAIN by
    /// nobody.
    #[cold]
    pub(super) fn leave_for_afterwards<S: Supply>(&self, source: Option<S>, refused: Outcome) -> Outcome {
        let may_wait = self.may_wait();
        match source {
            Some(source) if may_wait && !self.is_afterwards && self.conn.phase() == Phase::Smc => {
                match afterwards::leave(self.conn, source) {
                    0 => refused,
                    count => Outcome::Done(self.sent + count),
                }
            }
            _ => refused,
        }
    }
}
