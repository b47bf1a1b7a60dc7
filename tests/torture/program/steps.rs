//! The steps of one end of a connection, taken one by one until one would block. Invariant: what is sent and
//! checked depends on the board's counts alone.

use crate::board::{BEGUN, CUT, ERROR, JUDGED};
use crate::connection::{Connection, FINALE, Flow};
use crate::ends;
use crate::mid;
use crate::run::run;
use crate::script::Step;
use crate::style::{Wait, Want};
use crate::transfer;
use isthmus_tests::sys::{self, Errno};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

impl Connection {
    fn steps(&self, list: usize) -> &[Step] {
        if list == FINALE { &self.plan().finale } else { &self.plan().lanes[list] }
    }

    /// Goes on with a list of steps for as long as it can.
    pub(crate) fn advance(&self, list: usize) -> Flow {
        loop {
            let at = self.mine.step(list);
            let Some(step) = self.steps(list).get(at).copied() else { return Flow::Finished };
            if at >= self.until.load(SeqCst) {
                return Flow::Finished;
            }
            self.mine.doing(list as u64 + 1);
            match self.step(list, at, step) {
                None => self.mine.set_step(list, at + 1),
                Some(Flow::Moved) => return Flow::Moved,
                Some(flow) => return flow,
            }
        }
    }

    /// One step; `None` when it is done.
    fn step(&self, list: usize, at: usize, step: Step) -> Option<Flow> {
        match step {
            Step::Send(until) => self.send(until),
            Step::Recv(until) => self.receive(until),
            Step::Idle(us) => {
                rest(us);
                None
            }
            Step::Mid(mid) => {
                self.mine.set_step(list, at + 1);
                Some(mid::happens(self, mid))
            }
            Step::ShutWrite => match sys::shutdown(self.fd(), libc::SHUT_WR) {
                Ok(_) => None,
                Err(e) => Some(self.broken("shutdown", e)),
            },
            Step::Eof => self.to_the_end(),
            Step::End(ending) => Some(ends::leave(self, ending)),
        }
    }

    fn send(&self, until: u64) -> Option<Flow> {
        while self.mine.sent() < until {
            let rest = (until - self.mine.sent()) as usize;
            match transfer::write(self, self.outgoing, rest) {
                Ok(0) => {
                    self.fault("zero", "a write of some bytes answers 0");
                    return Some(Flow::Over);
                }
                Ok(n) => self.mine.add_sent(n),
                Err(e) => return self.after("write", e, Want::WRITE),
            }
        }
        None
    }

    fn receive(&self, until: u64) -> Option<Flow> {
        while self.mine.received() < until {
            match transfer::read(self, (until - self.mine.received()) as usize) {
                Ok(bytes) if bytes.is_empty() => return Some(self.early_end(until)),
                Ok(bytes) => {
                    if !self.judge(&bytes) {
                        return Some(Flow::Over);
                    }
                }
                Err(e) => return self.after("read", e, Want::READ),
            }
        }
        None
    }

    /// Reads to the end of file, which must come after the last byte.
    fn to_the_end(&self) -> Option<Flow> {
        loop {
            match transfer::read(self, 1) {
                Ok(bytes) if bytes.is_empty() => {
                    let (got, sent) = (self.mine.received(), self.theirs.sent());
                    if got < sent && !self.excused() {
                        self.fault("lost", &format!("end of file after {got} bytes of {sent}"));
                    }
                    return None;
                }
                Ok(bytes) => {
                    if !self.judge(&bytes) {
                        return Some(Flow::Over);
                    }
                }
                Err(e) => return self.after("read", e, Want::READ),
            }
        }
    }

    /// Checks bytes that were read, and that somebody has sent so many.
    fn judge(&self, bytes: &[u8]) -> bool {
        let offset = self.mine.received();
        self.mine.add_received(bytes.len());
        if let Err(wrong) = self.incoming.check(offset, bytes) {
            let place = format!("offset {} of a read of {}: ", offset + wrong.at as u64, bytes.len());
            self.fault(wrong.class, &(place + &wrong.found));
            return false;
        }
        true
    }

    /// End of file where more bytes should come.
    fn early_end(&self, until: u64) -> Flow {
        let (got, sent) = (self.mine.received(), self.theirs.sent());
        if !self.may_break() {
            self.fault("lost", &format!("end of file after {got} bytes of {until}, nobody left"));
        } else if got < sent && !self.excused() {
            self.fault("lost", &format!("clean end with bytes missing: {got} of {sent}"));
        }
        Flow::Over
    }

    /// An error was told on this socket. Another thread may be about to say so.
    fn excused(&self) -> bool {
        let excused = || self.mine.is(ERROR | JUDGED) || self.mine.is(CUT);
        if !excused() && self.plan().threads {
            std::thread::sleep(Duration::from_millis(300));
        }
        excused()
    }

    fn may_break(&self) -> bool {
        let unaccepted = !self.theirs.is(BEGUN) && run().board.server_broke(self.script.port());
        unaccepted || self.theirs.is(CUT | JUDGED) || self.mine.is(CUT | JUDGED)
    }

    fn after(&self, what: &str, e: Errno, want: Want) -> Option<Flow> {
        match e.0 {
            libc::EINTR => Some(Flow::Wait(want)),
            libc::EAGAIN if self.plan().wait != Wait::Block => Some(Flow::Wait(want)),
            _ => Some(self.broken(what, e)),
        }
    }

    /// A call failed: allowed if an end has broken the connection.
    pub(crate) fn broken(&self, what: &str, e: Errno) -> Flow {
        self.mine.flag(ERROR);
        let known = matches!(e.0, libc::ECONNRESET | libc::EPIPE | libc::ENOTCONN);
        if !known || !self.may_break() {
            self.fault("reset", &format!("{what} fails with {e}, nobody broke the connection"));
        }
        Flow::Over
    }
}

/// Does nothing for some microseconds; a sleep would be longer than what is asked for if that is little.
pub(crate) fn rest(us: u64) {
    let time = Duration::from_micros(us);
    if us >= 200 {
        return std::thread::sleep(time);
    }
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}
