//! A strand at work: its transactions one after the other, each repeated until its passes are done or its time is up.
//!
//! The loop around the socket calls costs one clock reading, one histogram entry and a few additions per pass. Who ends
//! a transaction: iterations end by themselves; a duration is ended by the master between two turns, and at the slave by
//! [`Control::end`] or by the master's closing.

use std::sync::Arc;
use std::time::Duration;

use nix::sys::prctl::set_timerslack;

use super::clock::now_ns;
use super::connections::{Connections, Position};
use super::control::{BeginNs, Control, UNLIMITED};
use super::files::Files;
use super::history::History;
use super::network::Network;
use super::plan::{Plan, Role};
use super::recorder::Recorder;
use super::report::StrandReport;
use super::steps::{Program, Step, turns};
use crate::profile::model::{Transaction, Until};

/// Longest sleep before a strand looks whether it was stopped.
const NAP: Duration = Duration::from_millis(50);

/// Why a pass was not finished.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The transaction is over.
    Ended,
    /// Something went wrong: a sentence.
    Failed(Box<str>),
}

/// One strand.
pub(crate) struct Strand<N: Network> {
    plan: Arc<Plan>,
    program: Program,
    pub(super) control: Arc<Control>,
    pub(super) network: N,
    pub(super) connections: Connections,
    pub(super) buffer: Vec<u8>,
    pub(super) recorder: Recorder,
    pub(super) history: Option<History>,
    /// What the last sendfile sent from.
    pub(super) files: Option<Files>,
    /// Taken in the current transaction.
    pub(super) turns: u64,
    /// Which step of a pass was under way, and how far, when the current transaction ended.
    pub(super) position: Position,
    /// When the current transaction is over, at the master.
    pub(super) deadline_ns: u64,
    /// Which transaction it is in.
    pub(super) transaction: usize,
    /// Whether flowops are timed, and with their CPU time.
    pub(super) timed: bool,
    pub(super) with_cpu: bool,
}

impl<N: Network> Strand<N> {
    /// Ready to begin.
    pub(crate) fn new(plan: Arc<Plan>, control: Arc<Control>, network: N) -> Self {
        let program = Program::new(&plan.transactions);
        let detail = &plan.detail;
        Self {
            connections: Connections::new(program.slots),
            buffer: vec![0; program.buffer],
            recorder: Recorder::new(plan.role == Role::Master),
            history: detail.history.as_deref().map(History::new),
            files: None,
            timed: detail.flowops || detail.cpu || detail.history.is_some(),
            with_cpu: detail.cpu,
            program,
            plan,
            control,
            network,
            turns: 0,
            position: Position::default(),
            deadline_ns: UNLIMITED,
            transaction: 0,
        }
    }

    /// Runs all transactions. Its connections are closed when it returns. `at_gate` is told which transaction the strand waits
    /// for, and how many turns of the one before it has taken.
    pub(crate) fn run(mut self, mut at_gate: impl FnMut(usize, u64)) -> StrandReport {
        let mut report = StrandReport::default();
        let plan = self.plan.clone();
        let program = std::mem::take(&mut self.program.transactions);
        for (index, (transaction, steps)) in plan.transactions.iter().zip(&program).enumerate() {
            at_gate(index, self.turns);
            let Some(begin_ns) = self.enter(index, transaction, steps) else { break };
            self.recorder.begin(if self.timed { steps.len() } else { 0 });
            let outcome = self.repeat(transaction, steps, begin_ns);
            self.control.publish(&self.recorder.counts);
            report.transactions.push(self.recorder.end());
            if let Err(Stop::Failed(sentence)) = outcome {
                report.failure = Some(format!("{sentence}, in transaction {}", transaction.name));
                break;
            }
        }
        at_gate(plan.transactions.len(), self.turns);
        self.connections.close_all(&self.control);
        if let Some(history) = &mut self.history {
            report.failure = report.failure.or(history.flush());
        }
        report
    }

    fn enter(&mut self, index: usize, transaction: &Transaction, steps: &[Step]) -> Option<BeginNs> {
        self.turns = 0;
        self.position = Position::default();
        self.transaction = index;
        let limit = match transaction.until {
            Until::Iterations(iterations) => iterations.saturating_mul(turns(steps)),
            Until::Duration(_) => UNLIMITED,
        };
        let begin_ns = self.control.enter(index, limit)?;
        self.deadline_ns = match transaction.until {
            Until::Duration(duration) if self.plan.role == Role::Master => {
                begin_ns.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(UNLIMITED))
            }
            _ => UNLIMITED,
        };
        Some(begin_ns)
    }

    fn repeat(&mut self, transaction: &Transaction, steps: &[Step], begin_ns: BeginNs) -> Result<(), Stop> {
        let outcome = match (transaction.rate, transaction.until) {
            (Some(rate), Until::Duration(_)) if self.is_master() => {
                self.at_rate(steps, begin_ns, 1_000_000_000 / u64::from(rate.get()))
            }
            _ => self.back_to_back(steps),
        };
        self.carry(steps);
        match outcome {
            Err(Stop::Ended) => Ok(()),
            outcome => outcome,
        }
    }

    /// One pass after the other: the end of one is the beginning of the next.
    fn back_to_back(&mut self, steps: &[Step]) -> Result<(), Stop> {
        let mut begin_ns = now_ns();
        while self.turns < self.control.limit() && begin_ns < self.deadline_ns {
            self.pass(steps)?;
            let end_ns = now_ns();
            self.recorder.pass(end_ns - begin_ns);
            begin_ns = end_ns;
            self.control.publish(&self.recorder.counts);
        }
        Ok(())
    }

    /// A pass has its time, planned from the beginning on. Who comes late has taken longer; none is left out. The
    /// timer's own lateness is in it, and kept small.
    fn at_rate(&mut self, steps: &[Step], begin_ns: BeginNs, interval_ns: u64) -> Result<(), Stop> {
        // Else the kernel lets a sleep take up to 50 us longer (prctl(2)). If it refuses, it does.
        let _ = set_timerslack(1);
        let mut planned_ns = begin_ns;
        while self.turns < self.control.limit() && planned_ns < self.deadline_ns {
            self.sleep_until(planned_ns)?;
            self.pass(steps)?;
            let end_ns = now_ns();
            self.recorder.pass(end_ns.saturating_sub(planned_ns));
            planned_ns += interval_ns;
            self.control.publish(&self.recorder.counts);
            if end_ns >= self.deadline_ns {
                break;
            }
        }
        Ok(())
    }

    fn pass(&mut self, steps: &[Step]) -> Result<(), Stop> {
        for (index, step) in steps.iter().enumerate() {
            let outcome = if self.timed { self.timed_step(index, step) } else { self.step(step) };
            if let Err(stop) = outcome {
                self.position.step = index;
                return Err(stop);
            }
        }
        Ok(())
    }

    /// Sleeps in naps, so that it can be stopped.
    pub(super) fn sleep_until(&mut self, until_ns: u64) -> Result<(), Stop> {
        loop {
            let left = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
            if left.is_zero() {
                return Ok(());
            }
            if self.is_over() {
                return Err(Stop::Ended);
            }
            std::thread::sleep(left.min(NAP));
        }
    }

    /// Whether the transaction has been ended, seen from inside a pass.
    pub(super) fn is_over(&self) -> bool {
        self.turns >= self.control.limit()
    }

    pub(super) fn is_master(&self) -> bool {
        self.plan.role == Role::Master
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }
}
