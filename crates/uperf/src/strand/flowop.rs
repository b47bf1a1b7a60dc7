//! One flowop: bytes over a connection, or a connection made or closed, or time going by.

use std::io;
use std::time::Duration;

use nix::poll::PollFlags;
use nix::sys::sendfile::sendfile64;

use super::clock::{now_ns, thread_cpu_ns};
use super::files::Files;
use super::network::{LOOK_AROUND, Network};
use super::socket::wait;
use super::state::{Stop, Strand};
use super::steps::{Action, Call, Step};
use crate::profile::options::{Options, Size};

/// How long a master waits for a connection: uperf's time for everything.
const PATIENCE: Duration = Duration::from_secs(15);
/// After how many turns of one flowop the master looks at the clock: a pass of many may take seconds.
const GLANCE: u64 = 16;

impl<N: Network> Strand<N> {
    /// A step with its time taken.
    pub(super) fn timed_step(&mut self, index: usize, step: &Step) -> Result<(), Stop> {
        let cpu_before = if self.with_cpu { thread_cpu_ns() } else { 0 };
        let (begin_ns, operations) = (now_ns(), self.recorder.counts.operations);
        let outcome = self.step(step);
        let took_ns = now_ns() - begin_ns;
        let cpu_ns = if self.with_cpu { thread_cpu_ns() - cpu_before } else { 0 };
        let done = self.recorder.counts.operations - operations;
        if done > 0 {
            self.recorder.flowop(index, done, took_ns, cpu_ns);
            if let Some(history) = &mut self.history {
                history.record(took_ns);
            }
        }
        outcome
    }

    pub(super) fn step(&mut self, step: &Step) -> Result<(), Stop> {
        for turn in 1..=step.count {
            if self.is_over() {
                return Err(Stop::Ended);
            }
            match self.once(step) {
                Err(Stop::Failed(_)) if step.canfail => self.recorder.counts.errors += 1,
                outcome => outcome?,
            }
            self.recorder.counts.operations += 1;
            self.turns += 1;
            if turn % GLANCE == 0 && turn < step.count && now_ns() >= self.deadline_ns {
                return Err(Stop::Ended);
            }
        }
        Ok(())
    }

    fn once(&mut self, step: &Step) -> Result<(), Stop> {
        match &step.action {
            Action::Move { call, size, timeout: None } => self.transfer(step, *call, *size),
            Action::Move { call, size, timeout: Some(timeout) } => {
                self.wait_for_bytes(step, *timeout)?;
                self.transfer(step, *call, *size)
            }
            Action::Files { dir, files, chunk } => self.send_files(step, dir, *files, *chunk),
            Action::Connect(opening) => self.connect(step, opening),
            Action::Accept(opening) => self.accept(step, opening),
            Action::Close => self.close(step),
            Action::Think { duration, busy } => self.think(*duration, *busy),
            Action::Nop => Ok(()),
        }
    }

    fn transfer(&mut self, step: &Step, call: Call, size: Size) -> Result<(), Stop> {
        let (wanted, at_once) = match size {
            Size::Fixed(bytes) => (bytes as usize, false),
            Size::Random { max, .. } if call.reads() => (max as usize, true),
            Size::Random { min, max } => (fastrand::u32(min..=max) as usize, false),
        };
        let Some(connection) = self.connections.last(step.slot) else { return Err(missing(step)) };
        let mut done = connection.take_ahead(call, wanted);
        while done < wanted && !(at_once && done > 0) {
            let Some(connection) = self.connections.last(step.slot) else { return Err(missing(step)) };
            match call.make(&connection.socket, &mut self.buffer[done..wanted]) {
                Ok(0) => return Err(self.trouble(step, io::ErrorKind::UnexpectedEof.into())),
                Ok(bytes) => {
                    let counts = &mut self.recorder.counts;
                    *(if call.reads() { &mut counts.received } else { &mut counts.sent }) += bytes as u64;
                    done += bytes;
                }
                Err(error) => {
                    self.obstacle(step, call, error).inspect_err(|_| self.position.bytes = done as u64)?
                }
            }
            if self.is_over() {
                self.position.bytes = done as u64;
                return Err(Stop::Ended);
            }
        }
        Ok(())
    }

    fn send_files(&mut self, step: &Step, dir: &str, count: u32, chunk: Option<u32>) -> Result<(), Stop> {
        if self.files.as_ref().is_none_or(|files| files.dir != dir) {
            self.files = Some(Files::open(dir).map_err(|error| self.trouble(step, error))?);
        }
        for _ in 0..count {
            self.send_file(step, chunk)?;
        }
        Ok(())
    }

    fn send_file(&mut self, step: &Step, chunk: Option<u32>) -> Result<(), Stop> {
        let chosen = fastrand::usize(..self.files.as_ref().map_or(1, |files| files.files.len()));
        let mut offset = 0;
        loop {
            let Some((file, size)) = self.files.as_ref().and_then(|files| files.files.get(chosen)) else {
                return Ok(());
            };
            let left = size.saturating_sub(u64::try_from(offset).unwrap_or(0));
            if left == 0 {
                return Ok(());
            }
            let count = left.min(chunk.map_or(left, u64::from));
            let Some(connection) = self.connections.last(step.slot) else { return Err(missing(step)) };
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            match sendfile64(&*connection.socket, file, Some(&mut offset), count) {
                // The file has become shorter since.
                Ok(0) => return Ok(()),
                Ok(bytes) => self.recorder.counts.sent += bytes as u64,
                Err(error) => self.obstacle(step, Call::Write, error.into())?,
            }
            if self.is_over() {
                return Err(Stop::Ended);
            }
        }
    }

    /// A call did not move anything: Ok if it is worth another try.
    fn obstacle(&mut self, step: &Step, call: Call, error: io::Error) -> Result<(), Stop> {
        match error.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            io::ErrorKind::WouldBlock => {
                if self.is_over() || now_ns() >= self.deadline_ns {
                    return Err(Stop::Ended);
                }
                let what = if call.reads() { PollFlags::POLLIN } else { PollFlags::POLLOUT };
                let Some(connection) = self.connections.last(step.slot) else { return Err(missing(step)) };
                let waited = wait(&*connection.socket, what, LOOK_AROUND);
                waited.map(|_| ()).map_err(|error| self.trouble(step, error))
            }
            _ => Err(self.trouble(step, error)),
        }
    }

    /// Whether `error` is the natural end of the transaction or a failure. A slave ends when the master closes.
    fn trouble(&self, step: &Step, error: io::Error) -> Stop {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof};
        let closed = [BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof];
        let is_closed = closed.contains(&error.kind());
        if self.is_over() || (is_closed && (!self.is_master() || now_ns() >= self.deadline_ns)) {
            return Stop::Ended;
        }
        if error.kind() == UnexpectedEof {
            return failed(step, "the other end closed the connection");
        }
        failed(step, &error.to_string())
    }

    fn wait_for_bytes(&mut self, step: &Step, timeout: Duration) -> Result<(), Stop> {
        let Some(connection) = self.connections.last(step.slot) else { return Err(missing(step)) };
        match wait(&*connection.socket, PollFlags::POLLIN, timeout) {
            Ok(true) => Ok(()),
            Ok(false) if self.is_over() => Err(Stop::Ended),
            Ok(false) => Err(failed(step, &format!("nothing came within {timeout:?}"))),
            Err(error) => Err(self.trouble(step, error)),
        }
    }

    fn connect(&mut self, step: &Step, opening: &Options) -> Result<(), Stop> {
        if self.connections.take_made(step.slot) {
            return Ok(());
        }
        match self.network.connect(opening) {
            Ok(socket) => self.connections.open(step.slot, socket, &self.control),
            Err(error) => return Err(self.trouble(step, error)),
        }
        Ok(())
    }

    fn accept(&mut self, step: &Step, opening: &Options) -> Result<(), Stop> {
        if self.connections.take_made(step.slot) {
            return Ok(());
        }
        let begin_ns = now_ns();
        loop {
            match self.network.accept(opening) {
                Ok(Some(socket)) => {
                    self.connections.open(step.slot, socket, &self.control);
                    if !self.is_over() {
                        return Ok(());
                    }
                    // Whoever connected has begun the next transaction.
                    self.connections.made_ahead(step.slot);
                    return Err(Stop::Ended);
                }
                Ok(None) => {}
                Err(error) => return Err(self.trouble(step, error)),
            }
            let now_ns = now_ns();
            if self.is_over() || now_ns >= self.deadline_ns || self.control.has_moved_on(self.transaction) {
                return Err(Stop::Ended);
            }
            if self.is_master() && Duration::from_nanos(now_ns - begin_ns) > PATIENCE {
                return Err(failed(step, &format!("no connection came within {} s", PATIENCE.as_secs())));
            }
        }
    }

    /// As in uperf, closing more than was opened ends the transaction: a connect before it was allowed to fail.
    fn close(&mut self, step: &Step) -> Result<(), Stop> {
        if self.connections.close(step.slot, &self.control) { Ok(()) } else { Err(Stop::Ended) }
    }

    fn think(&mut self, duration: Duration, busy: bool) -> Result<(), Stop> {
        let until_ns = now_ns().saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        if !busy {
            return self.sleep_until(until_ns.min(self.deadline_ns));
        }
        while now_ns() < until_ns.min(self.deadline_ns) {
            if self.is_over() {
                return Err(Stop::Ended);
            }
            std::hint::spin_loop();
        }
        Ok(())
    }
}

/// A failure of `step`, as a sentence.
fn failed(step: &Step, why: &str) -> Stop {
    Stop::Failed(format!("{} at {}: {why}", step.kind, step.place).into())
}

fn missing(step: &Step) -> Stop {
    failed(step, "no connection is open for it")
}
