//! A call that has found nothing to do, and does not wait. Owns: what it is told; and that a program which
//! waits where nobody sees it (`unseen`) goes on with TCP, for the ring would not wake it.

use super::{Receive, Step, Transmit};
use crate::{Outcome, decide, flag, kept, ready, told, unseen};
use os::Errno;
use os::net::msg;
use os::poll::bits;

impl Receive<'_> {
    /// Looks by which number the socket is found now. Whether the call has done nothing yet, and its number
    /// is another file's.
    pub(super) fn begins_anew(&mut self) -> bool {
        let is_another = self.got == 0 && !self.stay.has_slept() && kept::is_another_file(self.conn, self.fd);
        self.fd = kept::number(self.conn, self.conn.index(), self.fd);
        is_another
    }

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
    /// The same of a call that writes.
    pub(super) fn begins_anew(&mut self) -> bool {
        let is_another =
            self.sent == 0 && !self.stay.has_slept() && kept::is_another_file(self.conn, self.fd);
        self.fd = kept::number(self.conn, self.conn.index(), self.fd);
        is_another
    }

    /// There may be room later.
    pub(super) fn not_now(&mut self) -> Step {
        if !self.blocking.is_said && !self.is_refused_room && unseen::waits_elsewhere(self.conn, self.fd) {
            self.is_refused_room = true;
            decide::refuse_unseen(self.conn, self.fd);
            return Step::Retry;
        }
        self.would_block()
    }

    /// As TCP has it: a reset is told once, by whichever call comes first; then, and after our own shutdown,
    /// EPIPE.
    pub(super) fn broken(&mut self) -> Outcome {
        if self.sent == 0 && !self.conn.has(flag::RESET_TOLD) {
            let is_known = self.conn.has(flag::RESET);
            let told = if is_known { 0 } else { os::poll::peek(self.fd, bits::RDHUP) };
            if told & bits::ERR != 0 {
                // (Now: once its error is told, whoever hears of the end would take it for a reset to tell.)
                ready::note_tcp(self.conn, &self.end, self.fd, u32::from(told as u16));
            }
            if self.conn.has(flag::RESET) {
                return told::tell_reset(self.conn, self.fd);
            }
            if told & bits::ERR != 0 {
                // The kernel's error comes before EPIPE, and it alone knows which.
                return Outcome::Forward;
            }
        }
        self.is_broken = true;
        self.is_pipe_broken = self.flags & msg::NOSIGNAL == 0 && self.sent == 0;
        Outcome::Fail(Errno::EPIPE)
    }
}
