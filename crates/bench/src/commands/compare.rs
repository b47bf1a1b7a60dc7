//! `smc_bench compare`: several paths side by side.

use std::process::ExitCode;

use clap::Args;

use super::run::{Job, run};
use super::shared::{Common, Own, change};
use crate::compare::presets::Choice;
use crate::compare::world::World;
use crate::compare::{ALL_PATHS, PathChoice, QUICK_PATHS, goals, select};
use crate::path::Path;
use uperf::profile;

/// What to compare.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Under a minute: two profiles, 1 and 50 connections
    #[arg(long, group = "preset")]
    quick: bool,
    /// As the published studies: four profiles, 1, 10, 50 and 250 connections, 5 rounds
    #[arg(long, group = "preset")]
    full: bool,
    /// A list of what has to be reached, with a verdict for each
    #[arg(long, group = "preset", conflicts_with_all = ["profile", "conns", "server", "paths", "set", "env"])]
    suite: Option<Suite>,
    /// Of that list, what has TEXT in its name
    #[arg(long, value_name = "TEXT", requires = "suite", default_value = "")]
    only: String,
    #[command(flatten)]
    own: Own,
    #[command(flatten)]
    paths: PathChoice,
    #[command(flatten)]
    common: Common,
}

/// Lists of what has to be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Suite {
    /// What SMC has to reach on any machine
    Goals,
}

impl Options {
    /// Measures and shows.
    pub(crate) fn run(&self, world: &mut dyn World) -> anyhow::Result<ExitCode> {
        let choice = self.choice()?;
        match self.suite {
            Some(Suite::Goals) => run(self.goals(&choice)?, &self.common.shown, world),
            None => run(self.comparison(&choice, world)?, &self.common.shown, world),
        }
    }

    fn goals(&self, choice: &Choice) -> Result<Job, profile::Refusal> {
        let (duration, rounds, only) = (choice.duration, choice.rounds, self.only.clone());
        let pace = goals::Pace { duration, rounds, warm_up: choice.warm_up(), only };
        let (plan, goals) = goals::suite(&pace, self.paths.baseline.unwrap_or(Path::TcpVeth));
        if goals.is_empty() {
            return Err(profile::Refusal::usage(
                "no goal has this in its name: leave out --only to see them all",
            ));
        }
        Ok(Job { goals, probing: duration, ..Job::new("What SMC has to reach", plan) })
    }

    fn comparison(&self, choice: &Choice, world: &mut dyn World) -> anyhow::Result<Job> {
        let usual: &[Path] = if self.quick { &QUICK_PATHS } else { &ALL_PATHS };
        let (paths, baseline, notes) = select(&self.paths, usual, world)?;
        let plan = choice.plan(&paths, baseline);
        Ok(Job { notes, ..Job::new("Ways between two processes of one host", plan) })
    }

    /// The preset, changed by whatever else was said.
    fn choice(&self) -> Result<Choice, profile::Refusal> {
        let preset = match (self.quick, self.full || self.suite.is_some()) {
            (true, _) => Choice::quick(),
            (_, true) => Choice::full(),
            _ => Choice::usual(),
        };
        change(&self.own, &self.common, preset)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::compare::mock::Program;
    use clap::Parser;
    use uperf::Server;

    fn parse(args: &[&str]) -> Result<Options, clap::Error> {
        Program::try_parse_from(["compare"].iter().chain(args)).map(|program| program.options)
    }

    #[test]
    fn what_is_said_goes_before_what_a_preset_says() {
        let args = ["--quick", "--conns", "1,10", "--server", "epoll", "--set", "count=4", "--seconds", "2"];
        let choice = parse(&args).expect("a command line").choice().expect("a variable of theirs");
        assert_eq!((choice.connections, choice.servers), (vec![1, 10], vec![Server::Epoll]));
        assert_eq!((choice.duration, choice.budget), (Duration::from_secs(2), None));
        assert_eq!(choice.variables.get("count").map(String::as_str), Some("4"));
        assert_eq!(choice.profiles, Choice::quick().profiles);
    }

    #[test]
    fn waiting_has_a_limit_that_need_not_be_said() {
        let wait = |args: &[&str]| parse(args).expect("a command line").common.shown.wait();
        assert_eq!(wait(&[]), Duration::ZERO);
        assert_eq!(wait(&["--wait"]), Duration::from_secs(600));
        assert_eq!(wait(&["--wait", "30"]), Duration::from_secs(30));
    }
}
