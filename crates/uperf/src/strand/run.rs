//! A strand at work: its transactions one after the other, each repeated until its passes are done or its time is up.
//!
//! The loop around the socket calls costs one clock reading, one histogram entry and a few additions per pass. Who ends
//! a transaction: iterations end by themselves; a duration is ended by the master between two turns, and at the slave by
//! [`Control::end`](super::control::Control::end) or by the master's closing.

use nix::sys::prctl::set_timerslack;

use super::clock::now_ns;
use super::connections::turns_of_step;
use super::control::{BeginNs, UNLIMITED};
use super::network::Network;
use super::plan::{Peer, Role};
use super::report::StrandReport;
use super::state::{Position, Stop, Strand};
use super::steps::{Action, Step, turns};
use crate::profile::model::{Transaction, Until};

impl<N: Network> Strand<N> {
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

    /// Books what was moved beyond the last common turn on the connections, for the next transaction. Only a slave gets
    /// there: the master, which ends the transaction, does so between two turns.
    fn carry(&mut self, steps: &[Step]) {
        if self.is_master() {
            return;
        }
        let agreed = self.control.agreed(self.transaction).filter(|_| self.plan.peer == Peer::Ours);
        let mut earlier = 0;
        for (index, step) in steps.iter().enumerate() {
            let done = |taken| turns_of_step(taken, turns(steps), earlier, step.count);
            let whole = agreed.map_or(0, |agreed| done(self.turns).saturating_sub(done(agreed)));
            let unfinished = if index == self.position.step { self.position.bytes } else { 0 };
            let bytes = step.bytes().unwrap_or(0) * whole + unfinished;
            earlier += step.count;
            if matches!(step.action, Action::Connect(_))
                && whole > 0
                && self.connections.last(step.slot).is_some()
            {
                self.connections.made_ahead(step.slot);
            }
            let Action::Move { call, .. } = step.action else { continue };
            if let Some(connection) = self.connections.last(step.slot) {
                match (call.reads(), agreed) {
                    (true, _) => connection.read_ahead += bytes,
                    (false, Some(_)) => connection.written_ahead += bytes,
                    // Where uperf stands nobody knows: it begins anew, and waits for all that we write.
                    (false, None) => {}
                }
            }
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
}
