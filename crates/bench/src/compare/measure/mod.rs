//! The loop: every turn of every round, one after the other, with a look at the host before and during each.
//!
//! The invariant: whatever happens, what was measured is returned. A cell that fails is not tried again and takes
//! nothing else with it; a stop takes effect between two runs.

mod probes;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::cell::Cell;
use crate::compare::plan::{Plan, Turn};
use crate::compare::quantity::Probe;
use crate::compare::quiet::{Glance, Host, Interference, settle};
use crate::compare::study::{Ending, Failure, Sample};
use crate::compare::world::World;

pub(crate) use self::probes::Taken;

/// How long to look at the host before a run: a fifth of the run, within these. Shorter than 50 ms is five ticks.
pub(crate) const WINDOW: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(250));

/// What the loop needs of the world.
pub(crate) struct Bench<'a> {
    /// Measures cells, and opens sessions.
    pub(crate) world: &'a mut dyn World,
    /// Is looked at.
    pub(crate) host: &'a mut dyn Host,
    /// Asked between runs whether to end.
    pub(crate) stop: &'a dyn Fn() -> bool,
    /// Told before every run, and when a cell failed.
    pub(crate) tell: &'a mut dyn FnMut(&News<'_>),
    /// How long to wait for a quiet host, all waits together.
    pub(crate) wait: Duration,
}

/// What there is to tell.
pub(crate) enum News<'a> {
    /// A run begins.
    Begins(&'a Step),
    /// A cell failed, in one sentence.
    Failed(&'a Cell, &'a str),
    /// A round of a probe begins.
    Probes(Probe, u16),
    /// It came to nothing, in one sentence.
    Lacks(Probe, &'a str),
}

/// Where the loop is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    /// What begins.
    pub(crate) cell: Cell,
    /// From 0.
    pub(crate) round: u16,
    /// Runs that are over, skipped ones included.
    pub(crate) done: usize,
    /// Probably to the end of the last one.
    pub(crate) left: Duration,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// In the order in which they ran.
    pub(crate) samples: Vec<Sample>,
    /// In the order in which they failed.
    pub(crate) failures: Vec<Failure>,
    /// How it ended.
    pub(crate) ending: Ending,
}

impl Bench<'_> {
    /// Runs all of `plan`.
    pub(crate) fn measure(&mut self, plan: &Plan) -> Measured {
        let (mut measured, mut failed, mut pace) = (Measured::default(), BTreeSet::new(), Pace::new(plan));
        for round in 0..plan.rounds {
            let begin = self.host.now();
            for turn in plan.round(round) {
                if let Some(ending) = self.must_end(plan) {
                    measured.ending = ending;
                    return measured;
                }
                if let Some(cell) = plan.cell(turn).filter(|_| !failed.contains(&turn)) {
                    let left = pace.left(self.host.now());
                    (self.tell)(&News::Begins(&Step { cell: cell.clone(), round, done: pace.runs, left }));
                    match self.run(&cell) {
                        Ok((run, interference)) => {
                            measured.samples.push(Sample { turn, round, interference, run });
                        }
                        Err(_) if (self.stop)() => {
                            measured.ending = Ending::Interrupted;
                            return measured;
                        }
                        Err(error) => {
                            let reason = one_line(&error);
                            (self.tell)(&News::Failed(&cell, &reason));
                            failed.insert(turn);
                            measured.failures.push(Failure { turn, round, reason });
                        }
                    }
                }
                pace.did(plan, turn);
            }
            let now = self.host.now();
            let is_last = round + 1 == plan.rounds;
            if !is_last && plan.budget.is_some_and(|budget| now + (now - begin) > budget) {
                measured.ending = Ending::OutOfTime;
                return measured;
            }
        }
        measured
    }

    /// A run that hung may have used up the time of all others.
    fn must_end(&self, plan: &Plan) -> Option<Ending> {
        let is_late = plan.budget.is_some_and(|budget| self.host.now() > budget);
        if (self.stop)() { Some(Ending::Interrupted) } else { is_late.then_some(Ending::OutOfTime) }
    }

    /// One run, and what others did from the look before it to its end.
    fn run(&mut self, cell: &Cell) -> anyhow::Result<(uperf::result::Run, Option<Interference>)> {
        let window = (cell.duration / 5).clamp(WINDOW.0, WINDOW.1);
        let (run, seen) = self.watched(window, |world| world.run(cell));
        Ok((run?, seen))
    }

    /// Does `work`, and what others did from a look of `window` before it to its end.
    pub(crate) fn watched<T>(
        &mut self,
        window: Duration,
        work: impl FnOnce(&mut dyn World) -> T,
    ) -> (T, Option<Interference>) {
        let seen = settle(self.host, window, &mut self.wait, self.stop);
        let done = work(self.world);
        (done, self.since(seen))
    }

    /// What others did from the look before a run until now.
    fn since(&mut self, seen: Option<(Glance, Interference)>) -> Option<Interference> {
        let after = self.host.look();
        seen.zip(after).and_then(|((before, calm), after)| {
            // Only the look before the run can tell whether anybody waits because of others.
            let Interference { pressure, runnable, .. } = calm;
            Some(Interference { pressure, runnable, ..Interference::between(&before, &after)? })
        })
    }
}

fn one_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Guesses how long the rest takes, from how wrong the guesses were so far.
struct Pace {
    runs: usize,
    guessed: Duration,
    all: Duration,
}

impl Pace {
    fn new(plan: &Plan) -> Self {
        Self { runs: 0, guessed: Duration::ZERO, all: plan.guess_all() }
    }

    fn did(&mut self, plan: &Plan, turn: Turn) {
        self.runs += 1;
        self.guessed += plan.guess(turn);
    }

    fn left(&self, elapsed: Duration) -> Duration {
        let rest = self.all.saturating_sub(self.guessed);
        if self.guessed.is_zero() {
            return rest;
        }
        rest.mul_f64(elapsed.as_secs_f64() / self.guessed.as_secs_f64())
    }
}

#[cfg(test)]
mod tests;
