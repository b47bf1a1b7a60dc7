//! How far it is, on stderr: a bar for somebody who watches, a line per round for a file.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::cell::Cell;
use crate::compare::measure::{News, Step};
use crate::compare::plan::Plan;
use uperf::say;

/// Shows a measurement's way.
pub(crate) struct Progress {
    bar: ProgressBar,
    rounds: u16,
    told: Option<u16>,
}

impl Progress {
    /// Says how much there is to do: the plan, and what takes so long behind it.
    pub(crate) fn new(plan: &Plan, probes: Duration) -> Self {
        let cells = plan.round(0).len();
        let rounds = if plan.rounds == 1 { "once".into() } else { format!("{} times", plan.rounds) };
        if cells > 0 {
            let what =
                if cells == 1 { "one combination".into() } else { format!("{cells} combinations, each") };
            say(format_args!("measuring {what} {rounds}: about {}", time(plan.guess_all())));
        }
        if !probes.is_zero() {
            let then = if cells > 0 { "then goals of another kind" } else { "measuring" };
            say(format_args!("{then}: about {}", time(probes)));
        }
        let bar = ProgressBar::new(plan.runs() as u64);
        // The template is a constant; without it the bar looks plainer, no more.
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len}  {wide_msg}") {
            bar.set_style(style);
        }
        Self { bar, rounds: plan.rounds, told: None }
    }

    /// Takes the news of the loop.
    pub(crate) fn tell(&mut self, news: &News<'_>) {
        match news {
            News::Begins(step) => self.begins(step),
            News::Failed(cell, reason) => {
                let sentence = format!("{} could not be measured: {reason}", name(cell));
                self.bar.suspend(|| say(&sentence));
            }
            News::Probes(probe, round) => {
                self.bar.set_message(format!("round {} of {}: {probe}", round + 1, self.rounds));
                if self.bar.is_hidden() {
                    say(format_args!("round {} of {} of {probe}", round + 1, self.rounds));
                }
            }
            News::Lacks(probe, reason) => {
                self.bar.suspend(|| say(format_args!("{probe} not measured: {reason}")));
            }
        }
    }

    fn begins(&mut self, step: &Step) {
        self.bar.set_position(step.done as u64);
        self.bar.set_message(sentence(step, self.rounds));
        if self.bar.is_hidden() && self.told != Some(step.round) {
            say(format_args!("round {} of {}: {} left", step.round + 1, self.rounds, time(step.left)));
            self.told = Some(step.round);
        }
    }

    /// Takes the bar away: what follows is the report.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn sentence(step: &Step, rounds: u16) -> String {
    format!("round {} of {rounds}, {} left: {}", step.round + 1, time(step.left), name(&step.cell))
}

fn name(cell: &Cell) -> String {
    format!("{} x {} over {}", cell.profile, cell.connections, cell.path)
}

/// Whole seconds.
pub(crate) fn time(duration: Duration) -> String {
    humantime::format_duration(Duration::from_secs(duration.as_secs_f64().round() as u64)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::mock::plan;
    use crate::path::Path;

    #[test]
    fn a_step_says_where_it_is_and_how_long_it_takes() {
        let plan = plan(&["rr"], &[50], &[Path::Smc]);
        let cell = plan.cell(plan.round(0)[0]).expect("planned");
        let step = Step { cell, round: 1, done: 1, left: Duration::from_millis(125_400) };
        assert_eq!(sentence(&step, 3), "round 2 of 3, 2m 5s left: rr x 50 over smc");
    }
}
