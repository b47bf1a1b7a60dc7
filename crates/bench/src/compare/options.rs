//! The command lines of `compare`, `sweep` and `buffers`, and what they choose.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cell::Server;
use crate::compare::presets::Choice;
use crate::path::Path;

/// How long `--wait` waits if it is not told: ten minutes, the length of a build.
const WAIT: &str = "600";

/// What `smc_bench compare` takes.
#[derive(Args, Clone, Debug)]
pub(crate) struct Compare {
    /// Under a minute: two profiles, 1 and 50 connections
    #[arg(long, group = "preset")]
    pub(crate) quick: bool,
    /// As the published studies: four profiles, 1, 10, 50 and 250 connections, 5 rounds
    #[arg(long, group = "preset")]
    pub(crate) full: bool,
    /// A list of what has to be reached, with a verdict for each
    #[arg(long, group = "preset", conflicts_with_all = ["profile", "conns", "server", "paths", "set", "env"])]
    pub(crate) suite: Option<Suite>,
    #[command(flatten)]
    pub(crate) own: Own,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Lists of what has to be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Suite {
    /// What SMC has to reach on any machine
    Goals,
}

/// What `smc_bench sweep` and `smc_bench buffers` take.
#[derive(Args, Clone, Debug)]
pub(crate) struct Sized {
    #[command(flatten)]
    pub(crate) own: Own,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What to measure.
#[derive(Args, Clone, Debug)]
pub(crate) struct Own {
    /// Built-in profiles or files
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    profile: Vec<String>,
    /// Numbers of connections at once
    #[arg(long, value_delimiter = ',', value_name = "N,...", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    conns: Vec<u32>,
    /// How the server serves them
    #[arg(long, value_delimiter = ',', value_name = "KIND,...")]
    server: Vec<Server>,
    /// A variable for the profiles; may be given again
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// A variable for the environment of both ends; may be given again
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
}

/// What all comparisons take.
#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    /// What to compare [default: whatever works here]
    #[arg(long, value_delimiter = ',', value_name = "PATH,...")]
    pub(crate) paths: Vec<Path>,
    /// What the others are measured against [default: tcp-veth, else tcp-loopback, else the first path]
    #[arg(long, value_name = "PATH")]
    pub(crate) baseline: Option<Path>,
    /// Length of one measurement in seconds
    #[arg(long, value_parser = crate::seconds)]
    seconds: Option<f64>,
    /// How often each path has its turn; medians are shown
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Seconds before each measurement that are not counted [default: half of --seconds, 1 at most]
    #[arg(long, value_parser = crate::seconds)]
    warm_up: Option<f64>,
    /// Wait until nobody else uses the CPU, so many seconds in all at most
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = WAIT, value_parser = crate::seconds)]
    wait: Option<f64>,
    #[command(flatten)]
    pub(crate) files: Files,
}

/// Where results go, besides the text.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Files {
    /// Every number, for `smc_bench report` and other programs; - is stdout, in place of the text
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// A row per metric
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// One page with charts that needs no other file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Heading of the report
    #[arg(long)]
    pub(crate) title: Option<String>,
}

impl Compare {
    /// The preset, changed by whatever else was said.
    pub(crate) fn choice(&self) -> Choice {
        let preset = match (self.quick, self.full || self.suite.is_some()) {
            (true, _) => Choice::quick(),
            (_, true) => Choice::full(),
            _ => Choice::usual(),
        };
        self.common.change(self.own.change(preset))
    }
}

impl Sized {
    /// `usual`, changed by whatever was said.
    pub(crate) fn choice(&self, profiles: &[&str], connections: &[u32]) -> Choice {
        let profiles = profiles.iter().map(|name| (*name).to_owned()).collect();
        let usual = Choice { profiles, connections: connections.to_vec(), ..Choice::usual() };
        self.common.change(self.own.change(usual))
    }
}

impl Own {
    fn change(&self, choice: Choice) -> Choice {
        let or = |said: &Vec<String>, usual| if said.is_empty() { usual } else { said.clone() };
        let map =
            |pairs: &[(String, String)]| -> BTreeMap<String, String> { pairs.iter().cloned().collect() };
        Choice {
            profiles: or(&self.profile, choice.profiles),
            connections: if self.conns.is_empty() { choice.connections } else { self.conns.clone() },
            servers: if self.server.is_empty() { choice.servers } else { self.server.clone() },
            variables: map(&self.set),
            environment: map(&self.env),
            ..choice
        }
    }
}

impl Common {
    fn change(&self, choice: Choice) -> Choice {
        Choice {
            duration: self.seconds.map_or(choice.duration, Duration::from_secs_f64),
            rounds: self.rounds.unwrap_or(choice.rounds),
            warm_up: self.warm_up.map(Duration::from_secs_f64).or(choice.warm_up),
            // Who says how long and how often has said how long it may take.
            budget: choice.budget.filter(|_| self.seconds.is_none() && self.rounds.is_none()),
            ..choice
        }
    }

    /// How long to wait for a quiet host.
    pub(crate) fn wait(&self) -> Duration {
        self.wait.map_or(Duration::ZERO, Duration::from_secs_f64)
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("NAME=VALUE is wanted".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        compare: Compare,
    }

    fn parse(args: &[&str]) -> Result<Compare, clap::Error> {
        let args = ["compare"].iter().chain(args);
        Program::try_parse_from(args).map(|program| program.compare)
    }

    #[test]
    fn what_is_said_goes_before_what_a_preset_says() {
        let args = ["--quick", "--conns", "1,10", "--server", "epoll", "--set", "size=4", "--seconds", "2"];
        let choice = parse(&args).expect("a command line").choice();
        assert_eq!((choice.connections, choice.servers), (vec![1, 10], vec![Server::Epoll]));
        assert_eq!((choice.duration, choice.budget), (Duration::from_secs(2), None));
        assert_eq!(choice.variables.get("size").map(String::as_str), Some("4"));
        assert_eq!(choice.profiles, Choice::quick().profiles);
    }

    #[test]
    fn waiting_has_a_limit_that_need_not_be_said() {
        let wait = |args: &[&str]| parse(args).expect("a command line").common.wait();
        assert_eq!(wait(&[]), Duration::ZERO);
        assert_eq!(wait(&["--wait"]), Duration::from_secs(600));
        assert_eq!(wait(&["--wait", "30"]), Duration::from_secs(30));
    }

    #[test]
    fn nonsense_is_refused() {
        let nonsense: [&[&str]; 8] = [
            &["--quick", "--full"],
            &["--suite", "goals", "--conns", "1"],
            &["--suite", "dreams"],
            &["--conns", "0"],
            &["--paths", "pigeon"],
            &["--seconds", "0"],
            &["--set", "size"],
            &["--rounds", "0"],
        ];
        for args in nonsense {
            assert!(parse(args).is_err(), "{args:?}");
        }
    }
}
