//! `smc_bench idle`: what connections cost that do nothing.

use std::process::ExitCode;

use clap::Args;

use super::run::{Job, run};
use super::shared::Shown;
use crate::cell::seconds;
use crate::compare::plan::Plan;
use crate::compare::world::World;
use crate::idle::Settings;

/// How many connections, for how long.
#[derive(Args)]
pub(crate) struct Options {
    /// Connections, all between the same two processes
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    conns: u32,
    /// How long to watch them idle
    #[arg(long, default_value_t = 2.0, value_parser = seconds, allow_negative_numbers = true)]
    seconds: f64,
    /// Transactions (200 bytes there, 1000 back) over each before that
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    transactions: u32,
    #[command(flatten)]
    shown: Shown,
}

impl Options {
    /// Measures and shows.
    pub(crate) fn run(&self, world: &mut dyn World) -> anyhow::Result<ExitCode> {
        let Self { conns, seconds, transactions, .. } = *self;
        let idle = Some(Settings { conns, seconds, transactions });
        let job = Job { idle, ..Job::new("Connections that do nothing", Plan::default()) };
        run(job, &self.shown, world)
    }
}
