//! `smc_bench demo`: half a minute that shows what Isthmus does, on the machine of whoever asks.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::run::{Job, measure, status};
use super::shared::Shown;
use crate::cell::seconds;
use crate::compare::presets::Choice;
use crate::compare::verdict::smc_use;
use crate::compare::{PathChoice, QUICK_PATHS, select};
use crate::paths::Pairs;
use crate::report;

/// Rows of smcss to show.
const ROWS: usize = 8;
/// No run begins later, so that all of it takes less than a minute.
const BUDGET: Duration = Duration::from_secs(50);
/// A run of a quarter of a second that takes so much longer hangs.
const PATIENCE: Duration = Duration::from_secs(8);

/// How much of it.
#[derive(Args)]
pub(crate) struct Options {
    /// Length of one measurement in seconds
    #[arg(long, default_value_t = 0.25, value_parser = seconds, allow_negative_numbers = true)]
    seconds: f64,
    /// How often each path has its turn; medians are shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// The larger number of connections
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(2..=1000))]
    conns: u32,
}

impl Options {
    /// Measures, then prints the tables, what smcss showed meanwhile, and the line about SMC-D.
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let (shown, mut pairs) = (Shown::default(), Pairs::new()?.patient(PATIENCE).with_listing());
        let (paths, baseline, notes) = select(&PathChoice::default(), &QUICK_PATHS, &mut pairs)?;
        let plan = self.choice().plan(&paths, baseline);
        let job = Job { notes, ..Job::new("Ways between two processes of this host", plan) };
        let study = measure(job, &shown, &mut pairs)?;
        let is_shown = report::show(&study, &shown.files);
        let shown = |printed| format!("While it ran, smcss showed:\n{}", first_rows(printed, ROWS));
        let listing = pairs.listing().map(shown);
        let closing = listing.into_iter().chain(smc_use(&study));
        let closing: Vec<String> = closing.map(|part| format!("\n{part}\n")).collect();
        report::print(&closing.concat())?;
        Ok(status(&study, is_shown))
    }

    fn choice(&self) -> Choice {
        let (connections, duration) = (vec![1, self.conns], Duration::from_secs_f64(self.seconds));
        Choice { connections, duration, rounds: self.rounds, budget: Some(BUDGET), ..Choice::quick() }
    }
}

/// The header and the first `rows` of what smcss printed.
fn first_rows(printed: &str, rows: usize) -> String {
    let mut lines: Vec<&str> = printed.lines().map(str::trim_end).collect();
    let more = lines.len().saturating_sub(rows + 1);
    lines.truncate(rows + 1);
    let text = lines.join("\n");
    if more > 0 { format!("{text}\n... and {more} more") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::mock::Program;
    use crate::path::Path;
    use clap::Parser;

    #[test]
    fn it_is_planned_for_half_a_minute_and_ends_within_one() {
        let plan =
            Program::<Options>::parse_from(["demo"]).options.choice().plan(&QUICK_PATHS, Path::TcpVeth);
        assert_eq!(plan.runs(), 2 * 2 * 4 * 3);
        assert!(plan.guess_all() < Duration::from_secs(35), "{:?}", plan.guess_all());
        assert!(BUDGET + PATIENCE < Duration::from_secs(60));
    }

    #[test]
    fn a_long_list_is_cut_and_says_so() {
        assert_eq!(first_rows("State  \na\nb\nc", 2), "State\na\nb\n... and 1 more");
        assert_eq!(first_rows("State", 2), "State");
    }
}
