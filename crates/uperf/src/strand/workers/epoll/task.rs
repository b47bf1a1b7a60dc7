//! One strand of an epoll server: where it stands in its transactions, and what it can do until it would block.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use socket2::Socket;

use super::connection::Connection;
use crate::profile::options::{Options, Protocol, Size};
use crate::strand::clock::now_ns;
use crate::strand::connections::turns_of_step;
use crate::strand::control::{Counts, End, UNLIMITED};
use crate::strand::listeners::Listeners;
use crate::strand::report::{StrandReport, TransactionReport};
use crate::strand::steps::{Action, Call, Step, turns};

/// Turns that a strand takes before others have theirs: a stream that never blocks would leave them none.
const FAIR: u32 = 64;

/// How a strand left off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Something has to happen first.
    Waiting,
    /// It has had its share and could go on.
    Ready,
    /// It has come to the end of its last transaction.
    Done,
}

/// What came of a step.
pub(super) enum Turn {
    /// It is done.
    Taken,
    /// It waits for the other end.
    Blocked,
    /// The transaction is over.
    Ended,
}

/// See the module.
pub(super) struct Task {
    pub(super) token: Token,
    pub(super) listeners: HashMap<Protocol, Arc<Socket>>,
    pub(super) slots: Vec<Vec<Connection>>,
    /// How many transactions may begin.
    pub(super) released: usize,
    ends: HashMap<usize, End>,
    stopped: bool,
    /// The transaction that it is in or waits for.
    pub(super) transaction: usize,
    is_inside: bool,
    limit: u64,
    turns: u64,
    step: usize,
    repeats: u64,
    /// Bytes of the current turn.
    pub(super) done: u64,
    begin_ns: u64,
    pub(super) counts: Counts,
    counts_before: Counts,
    pub(super) report: StrandReport,
}

/// All strands share these.
pub(super) struct Common<'a> {
    pub(super) registry: &'a Registry,
    pub(super) buffer: &'a mut [u8],
    pub(super) programs: &'a [Vec<Step>],
    /// How many turns a transaction has, if it ends by itself.
    pub(super) lengths: &'a [u64],
}

impl Task {
    pub(super) fn new(token: Token, listeners: &Listeners, slots: usize) -> Self {
        Self {
            token,
            listeners: listeners.sockets(),
            slots: std::iter::repeat_with(Vec::new).take(slots).collect(),
            released: 0,
            ends: HashMap::new(),
            stopped: false,
            transaction: 0,
            is_inside: false,
            limit: UNLIMITED,
            turns: 0,
            step: 0,
            repeats: 0,
            done: 0,
            begin_ns: 0,
            counts: Counts::default(),
            counts_before: Counts::default(),
            report: StrandReport::default(),
        }
    }

    pub(super) fn release(&mut self, transaction: usize) {
        self.released = self.released.max(transaction + 1);
    }

    pub(super) fn end(&mut self, transaction: usize, end: End) {
        self.ends.insert(transaction, end);
        if self.is_inside && self.transaction == transaction {
            self.limit = self.limit.min(end.limit());
        }
    }

    pub(super) fn stop(&mut self) {
        self.stopped = true;
        self.limit = 0;
    }

    pub(super) fn shut(&mut self) {
        self.slots.iter_mut().for_each(Vec::clear);
    }

    /// Which transaction it is in.
    pub(super) fn inside(&self) -> Option<usize> {
        self.is_inside.then_some(self.transaction)
    }

    /// Something can be read, written or accepted again.
    pub(super) fn wake(&mut self, is_closed: bool) {
        for connection in self.slots.iter_mut().flatten() {
            connection.may_read = true;
            connection.is_closed |= is_closed;
        }
    }

    /// Does what can be done.
    pub(super) fn drive(&mut self, common: &mut Common<'_>) -> Left {
        for _ in 0..FAIR {
            if !self.is_inside && !self.enter(common) {
                if !self.stopped && self.transaction < common.programs.len() {
                    return Left::Waiting;
                }
                self.shut();
                return Left::Done;
            }
            match self.turn(common) {
                Ok(Turn::Taken) => self.count_turn(&common.programs[self.transaction]),
                Ok(Turn::Blocked) => return Left::Waiting,
                Ok(Turn::Ended) => self.leave(&common.programs[self.transaction]),
                Err(error) => {
                    let step = &common.programs[self.transaction][self.step];
                    self.report.failure = Some(format!("{} at {}: {error}", step.kind, step.place));
                    self.leave(&common.programs[self.transaction]);
                    self.stop();
                }
            }
        }
        Left::Ready
    }

    fn enter(&mut self, common: &Common<'_>) -> bool {
        if self.stopped || self.transaction >= self.released.min(common.programs.len()) {
            return false;
        }
        self.is_inside = true;
        (self.turns, self.step, self.repeats, self.done) = (0, 0, 0, 0);
        let end = self.ends.get(&self.transaction).map_or(UNLIMITED, |end| end.limit());
        self.limit = common.lengths[self.transaction].min(end);
        self.counts_before = self.counts;
        self.begin_ns = now_ns();
        true
    }

    fn leave(&mut self, steps: &[Step]) {
        self.carry(steps);
        let mut report = TransactionReport {
            begin_ns: self.begin_ns,
            end_ns: now_ns(),
            counts: self.counts.since(self.counts_before),
            ..TransactionReport::default()
        };
        report.passes.count = self.turns / turns(steps).max(1);
        self.report.transactions.push(report);
        self.is_inside = false;
        self.transaction += 1;
    }

    /// What was written beyond the last common turn is the next transaction's first; what was read waits as it is.
    fn carry(&mut self, steps: &[Step]) {
        let Some(&End::After(agreed)) = self.ends.get(&self.transaction) else { return };
        let mut earlier = 0;
        for (index, step) in steps.iter().enumerate() {
            let done = |taken| turns_of_step(taken, turns(steps), earlier, step.count);
            let whole = done(self.turns).saturating_sub(done(agreed));
            let unfinished = if index == self.step { self.done } else { 0 };
            earlier += step.count;
            if let Action::Move { call, .. } = step.action
                && !call.reads()
                && let Some(connection) = self.slots[step.slot].last_mut()
            {
                connection.written_ahead += step.bytes().unwrap_or(0) * whole + unfinished;
            }
        }
    }

    fn count_turn(&mut self, steps: &[Step]) {
        self.turns += 1;
        self.counts.operations += 1;
        self.repeats += 1;
        self.done = 0;
        if self.repeats >= steps[self.step].count {
            self.repeats = 0;
            self.step = (self.step + 1) % steps.len();
        }
    }

    fn turn(&mut self, common: &mut Common<'_>) -> io::Result<Turn> {
        let Some(step) = common.programs[self.transaction].get(self.step) else { return Ok(Turn::Ended) };
        if self.turns >= self.limit {
            return Ok(Turn::Ended);
        }
        let outcome = match &step.action {
            Action::Move { call, size, .. } if call.reads() => self.read(step, *size, common.buffer),
            Action::Move { call, size, .. } => self.write(step, *call, *size, common),
            Action::Accept(opening) => self.accept(step, opening, common),
            Action::Close if self.slots[step.slot].pop().is_some() => Ok(Turn::Taken),
            Action::Close => Ok(Turn::Ended),
            // Nothing else is let in.
            _ => Ok(Turn::Taken),
        };
        outcome.or_else(|error| match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::NotConnected => {
                Ok(Turn::Ended)
            }
            _ if step.canfail => {
                self.counts.errors += 1;
                Ok(Turn::Taken)
            }
            _ => Err(error),
        })
    }

    /// Reads as much as there is, as servers do: what belongs to the next turns waits for them.
    fn read(&mut self, step: &Step, size: Size, buffer: &mut [u8]) -> io::Result<Turn> {
        let Some(connection) = self.slots[step.slot].last_mut() else { return Err(missing()) };
        let (wanted, at_once) = match size {
            Size::Fixed(bytes) => (u64::from(bytes), false),
            Size::Random { max, .. } => (u64::from(max), true),
        };
        loop {
            let taken = connection.read_ahead.min(wanted - self.done);
            connection.read_ahead -= taken;
            self.counts.received += taken;
            self.done += taken;
            if self.done == wanted || (at_once && self.done > 0) {
                return Ok(Turn::Taken);
            }
            if !connection.may_read {
                return Ok(Turn::Blocked);
            }
            match Call::Read.make(&connection.socket, buffer) {
                Ok(0) => return Ok(Turn::Ended),
                Ok(bytes) => {
                    connection.read_ahead += bytes as u64;
                    // With edges, less than was asked for means that there is no more.
                    connection.may_read = bytes == buffer.len() || connection.is_closed;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => connection.may_read = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn write(&mut self, step: &Step, call: Call, size: Size, common: &mut Common<'_>) -> io::Result<Turn> {
        let Some(connection) = self.slots[step.slot].last_mut() else { return Err(missing()) };
        let wanted = u64::from(match size {
            Size::Fixed(bytes) => bytes,
            // A call that would block is tried again with another size, which is as random.
            Size::Random { min, max } => fastrand::u32(min..=max),
        });
        let ahead = connection.written_ahead.min(wanted.saturating_sub(self.done));
        connection.written_ahead -= ahead;
        self.done += ahead;
        while self.done < wanted {
            let left = usize::try_from(wanted - self.done).unwrap_or(usize::MAX).min(common.buffer.len());
            match call.make(&connection.socket, &mut common.buffer[..left]) {
                Ok(bytes) => {
                    self.counts.sent += bytes as u64;
                    self.done += bytes as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    connection.ask_to_write(true, self.token, common.registry)?;
                    return Ok(Turn::Blocked);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        connection.ask_to_write(false, self.token, common.registry)?;
        Ok(Turn::Taken)
    }

    fn accept(&mut self, step: &Step, opening: &Options, common: &Common<'_>) -> io::Result<Turn> {
        let Some(listener) = self.listeners.get(&opening.protocol) else { return Err(missing()) };
        let socket = match listener.accept() {
            Ok((socket, _)) => socket,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let has_moved_on = self.released > self.transaction + 1;
                return Ok(if has_moved_on { Turn::Ended } else { Turn::Blocked });
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => return Ok(Turn::Blocked),
            Err(error) => return Err(error),
        };
        if opening.tcp_nodelay && opening.protocol == Protocol::Tcp {
            socket.set_tcp_nodelay(true)?;
        }
        socket.set_nonblocking(true)?;
        common.registry.register(&mut SourceFd(&socket.as_raw_fd()), self.token, Interest::READABLE)?;
        self.slots[step.slot].push(Connection {
            socket,
            read_ahead: 0,
            written_ahead: 0,
            may_read: true,
            is_closed: false,
            waits_to_write: false,
        });
        Ok(Turn::Taken)
    }
}

fn missing() -> io::Error {
    io::Error::other("no connection is open for it")
}
