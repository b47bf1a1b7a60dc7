//! Options that `compare`, `sweep` and `buffers` share, and what they change of a preset.
//!
//! The invariant: what was said on the command line goes before what a preset says.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use uperf::{Server, profile};

use crate::cell::seconds;
use crate::compare::presets::Choice;
use crate::report::Files;

/// How long `--wait` waits if it is not told: ten minutes, the length of a build.
const WAIT: &str = "600";

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

/// How to measure, and where the numbers go.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Common {
    /// Length of one measurement in seconds
    #[arg(long, value_parser = seconds, allow_negative_numbers = true)]
    seconds: Option<f64>,
    /// How often each path has its turn; medians are shown
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Seconds before each measurement that are not counted [default: half of --seconds, 1 at most]
    #[arg(long, value_parser = seconds, allow_negative_numbers = true)]
    warm_up: Option<f64>,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

/// When to begin, and where the numbers go.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Shown {
    /// Wait until nobody else uses the CPU, so many seconds in all at most
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = WAIT, value_parser = seconds, allow_negative_numbers = true)]
    wait: Option<f64>,
    #[command(flatten)]
    pub(crate) files: Files,
}

/// `preset`, changed by whatever was said. Refuses a variable that no profile has.
pub(super) fn change(own: &Own, common: &Common, preset: Choice) -> Result<Choice, profile::Refusal> {
    let choice = common.change(own.change(preset));
    profile::refuse_unused(&choice.profiles, &choice.variables)?;
    for name in &choice.profiles {
        readable(name, &choice.variables)?;
    }
    Ok(choice)
}

/// Refuses what the master would refuse, before anything runs, and once.
fn readable(name: &str, variables: &BTreeMap<String, String>) -> Result<(), profile::Refusal> {
    let usual = [("h", "127.0.0.1"), ("proto", "tcp"), ("nprocs", "1"), ("duration", "1s"), ("warmup", "1s")];
    let usual = usual.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter();
    let all = usual.chain(variables.clone()).map(|(name, value)| (format!("?{name}"), value));
    profile::reconnects(name, &all.collect()).map(drop)
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
    pub(super) fn change(&self, choice: Choice) -> Choice {
        Choice {
            duration: self.seconds.map_or(choice.duration, Duration::from_secs_f64),
            rounds: self.rounds.unwrap_or(choice.rounds),
            warm_up: self.warm_up.map(Duration::from_secs_f64).or(choice.warm_up),
            // Who says how long and how often has said how long it may take.
            budget: choice.budget.filter(|_| self.seconds.is_none() && self.rounds.is_none()),
            ..choice
        }
    }
}

impl Shown {
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
