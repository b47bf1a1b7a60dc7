//! The loop of an epoll server: waits, wakes the strands that something happened to, and takes orders in between.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::PoisonError;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};

use super::task::{Common, Left, Task};
use super::{Board, Order};
use crate::profile::model::Until;
use crate::result::Usage;
use crate::strand::clock::thread_usage;
use crate::strand::control::UNLIMITED;
use crate::strand::listeners::Listeners;
use crate::strand::plan::Plan;
use crate::strand::steps::{Program, Step, turns};
use crate::strand::workers::{Event, Events};

/// Orders have come.
pub(super) const WAKER: Token = Token(usize::MAX);
/// What can be accepted may be for any strand that shares the port.
const LISTENER: Token = Token(usize::MAX - 1);
/// Events taken per wait; more only arrive with the next.
const EVENTS: usize = 256;
/// The least that a server reads at once.
const READ: usize = 64 * 1024;

/// See the module.
pub(super) struct EventLoop {
    poll: Poll,
    orders: Receiver<Order>,
    board: Board,
    events: Events,
    programs: Vec<Vec<Step>>,
    lengths: Vec<u64>,
    buffer: Vec<u8>,
    tasks: Vec<Task>,
    done: Vec<bool>,
    /// Strands that could go on at once.
    ready: Vec<usize>,
    /// What this thread had used when each transaction began, and when it last ended for a strand.
    usage: Vec<Option<(Usage, Usage)>>,
}

impl EventLoop {
    pub(super) fn new(
        plan: &Plan,
        poll: Poll,
        listeners: Vec<Listeners>,
        events: Events,
        (orders, board): (Receiver<Order>, Board),
    ) -> io::Result<Self> {
        let program = Program::new(&plan.transactions);
        let lengths =
            plan.transactions.iter().zip(&program.transactions).map(|(transaction, steps)| match transaction
                .until
            {
                Until::Iterations(iterations) => iterations.saturating_mul(turns(steps)),
                Until::Duration(_) => UNLIMITED,
            });
        let lengths = lengths.collect();
        let mut tasks = vec![];
        for (number, listeners) in listeners.iter().enumerate() {
            for socket in listeners.sockets_that(false) {
                poll.registry().register(
                    &mut SourceFd(&socket.as_raw_fd()),
                    Token(number),
                    Interest::READABLE,
                )?;
            }
            tasks.push(Task::new(Token(number), listeners, program.slots));
        }
        for socket in listeners.first().map(|first| first.sockets_that(true)).unwrap_or_default() {
            poll.registry().register(&mut SourceFd(&socket.as_raw_fd()), LISTENER, Interest::READABLE)?;
        }
        Ok(Self {
            poll,
            orders,
            board,
            events,
            usage: vec![None; program.transactions.len()],
            programs: program.transactions,
            lengths,
            buffer: vec![0; program.buffer.max(READ)],
            done: vec![false; tasks.len()],
            ready: vec![],
            tasks,
        })
    }

    /// Serves until all strands have come to their end.
    pub(super) fn serve(mut self) {
        let outcome = self.wait_and_drive();
        for (strand, task) in self.tasks.iter_mut().enumerate() {
            let mut report = std::mem::take(&mut task.report);
            if let Err(error) = &outcome {
                report.failure.get_or_insert(format!("the epoll server failed: {error}"));
            }
            // One thread served all: what it used stands with the first strand, so that sums are right.
            for (transaction, usage) in
                report.transactions.iter_mut().zip(&self.usage).filter(|_| strand == 0)
            {
                transaction.usage = usage.map(|(before, after)| after - before).unwrap_or_default();
            }
            (self.events)(Event::Done { strand, report: Box::new(report) });
        }
    }

    fn wait_and_drive(&mut self) -> io::Result<()> {
        let mut happened = mio::Events::with_capacity(EVENTS);
        while !self.done.iter().all(|&done| done) {
            let patience = (!self.ready.is_empty()).then_some(Duration::ZERO);
            if let Err(error) = self.poll.poll(&mut happened, patience)
                && error.kind() != io::ErrorKind::Interrupted
            {
                return Err(error);
            }
            for event in &happened {
                match event.token() {
                    WAKER => self.take_orders(),
                    LISTENER => (0..self.tasks.len()).for_each(|strand| self.drive(strand)),
                    Token(strand) => {
                        self.tasks[strand].wake(event.is_read_closed());
                        self.drive(strand);
                    }
                }
            }
            for strand in std::mem::take(&mut self.ready) {
                self.drive(strand);
            }
        }
        Ok(())
    }

    fn take_orders(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::End { strand, transaction, end } => {
                    self.tasks[strand].end(transaction, end);
                    self.drive(strand);
                }
                Order::Release(transaction) => {
                    for strand in 0..self.tasks.len() {
                        self.tasks[strand].release(transaction);
                        self.drive(strand);
                        (self.events)(Event::Released { strand, transaction });
                    }
                }
                Order::Stop => self.tasks.iter_mut().for_each(Task::stop),
                Order::Shut => self.tasks.iter_mut().for_each(Task::shut),
            }
        }
        (0..self.tasks.len()).for_each(|strand| self.drive(strand));
    }

    /// Lets a strand do what it can, and notes the thread's usage where it enters or leaves a transaction.
    fn drive(&mut self, strand: usize) {
        if self.done[strand] {
            return;
        }
        let task = &mut self.tasks[strand];
        let before = (task.inside(), task.report.transactions.len());
        let mut common = Common {
            registry: self.poll.registry(),
            buffer: &mut self.buffer,
            programs: &self.programs,
            lengths: &self.lengths,
        };
        let usage = if task.inside().is_none() { Some(thread_usage()) } else { None };
        match task.drive(&mut common) {
            Left::Waiting => {}
            Left::Ready if self.ready.contains(&strand) => {}
            Left::Ready => self.ready.push(strand),
            Left::Done => self.done[strand] = true,
        }
        let after = (task.inside(), task.report.transactions.len());
        if before == after {
            return;
        }
        let now = thread_usage();
        for transaction in before.1..after.1 {
            let (_, end) = self.usage[transaction].get_or_insert((usage.unwrap_or(now), now));
            *end = now;
        }
        if let Some(begun) = after.0 {
            self.usage[begun].get_or_insert((now, now));
        }
        self.board.lock().unwrap_or_else(PoisonError::into_inner)[strand] = task.counts;
    }
}
