//! One end of a connection, driven step by step until it would block. Invariant: what is sent and checked
//! depends on the board's counts alone, so any process that has the descriptor can go on with it.

use crate::board::{BEGUN, CUT, DONE, ERROR, End, JUDGED, OVER_TCP, SHARED};
use crate::ends;
use crate::mid;
use crate::run::{fault, run};
use crate::script::{Plan, Script, Side, Step};
use crate::stream::Stream;
use crate::style::{Wait, Want};
use crate::transfer;
use isthmus_tests::sys::{self, Errno, Fd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// List of steps: the lanes are 0 and 1.
pub(crate) const FINALE: usize = 2;

/// What came of driving a list of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Would block.
    Wait(Want),
    /// The list is through.
    Finished,
    /// The connection has another descriptor or process now; wait for nothing.
    Moved,
    /// The connection is over at this end.
    Over,
    /// Another process has seen to the rest.
    Gone,
}

/// One end.
pub(crate) struct Connection {
    pub(crate) script: Script,
    pub(crate) side: Side,
    fd: AtomicI32,
    /// Further descriptors of the same socket.
    pub(crate) copies: Mutex<Vec<Fd>>,
    /// Children to be collected.
    pub(crate) children: Mutex<Vec<i32>>,
    /// Stop before this step of the first lane.
    pub(crate) until: AtomicUsize,
    pub(crate) mine: End,
    pub(crate) theirs: End,
    outgoing: Stream,
    incoming: Stream,
}

impl Connection {
    pub(crate) fn new(number: u64, side: Side, fd: Fd) -> Connection {
        let run = run();
        let mine = run.board.end(number, side);
        mine.own(fd);
        Connection {
            script: Script::of(run.seed, number),
            side,
            fd: AtomicI32::new(fd),
            copies: Mutex::default(),
            children: Mutex::default(),
            until: AtomicUsize::new(usize::MAX),
            mine,
            theirs: run.board.end(number, side.other()),
            outgoing: Stream::new(run.seed, number, side),
            incoming: Stream::new(run.seed, number, side.other()),
        }
    }

    pub(crate) fn fd(&self) -> Fd {
        self.fd.load(SeqCst)
    }

    /// The connection goes on under another descriptor, or in another process.
    pub(crate) fn moved(&self, fd: Fd) {
        self.fd.store(fd, SeqCst);
        self.mine.own(fd);
    }

    pub(crate) fn plan(&self) -> &Plan {
        self.script.plan(self.side)
    }

    pub(crate) fn fault(&self, class: &str, detail: &str) {
        fault(class, Some((self.script.number, self.side)), &detail);
    }

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

    /// Says which way the bytes went, while the socket is there to be asked.
    pub(crate) fn note_carrier(&self) {
        let got = self.mine.received();
        let Some((carried, _)) = sys::tcp_bytes(self.fd()).filter(|_| got >= 2000) else { return };
        self.mine.flag(if carried < got / 2 { SHARED } else { OVER_TCP });
    }

    /// Closes all descriptors of the socket.
    pub(crate) fn close(&self) {
        for copy in std::mem::take(&mut *self.copies.lock().expect("no panic")) {
            let _ = sys::close(copy);
        }
        let _ = sys::close(self.fd.swap(-1, SeqCst));
    }

    /// This end is over.
    pub(crate) fn finish(&self) {
        if self.fd() >= 0 {
            self.note_carrier();
            self.close();
        }
        self.mine.flag(DONE);
        for child in std::mem::take(&mut *self.children.lock().expect("no panic")) {
            let _ = sys::reap(child, 0);
        }
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
