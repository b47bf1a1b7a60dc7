//! `smc_bench sweep`: messages from a byte to a mebibyte, and what connections cost that send none; `smc_bench buffers`: SMC
//! with buffers of several sizes.

use std::process::ExitCode;

use clap::Args;

use super::run::{Job, run};
use super::shared::{Common, Own, change};
use crate::compare::presets::Choice;
use crate::compare::study::Axis;
use crate::compare::world::World;
use crate::compare::{PathChoice, QUICK_PATHS, select};
use crate::idle;
use uperf::profile::{Refusal, refuse_unused};

/// The variable that a sweep sets.
const SIZE: &str = "size";

/// What to sweep.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    own: Own,
    #[command(flatten)]
    paths: PathChoice,
    #[command(flatten)]
    common: Common,
}

impl Options {
    /// Measures and shows.
    pub(crate) fn run(&self, world: &mut dyn World) -> anyhow::Result<ExitCode> {
        let profiles = ["ping", "stream"].map(str::to_owned).into();
        let usual = Choice { profiles, connections: vec![1], ..Choice::usual() };
        let choice = change(&self.own, &self.common, usual)?;
        if choice.variables.contains_key(SIZE) {
            let sentence = "`sweep` sets the variable `size` itself: leave --set size out";
            return Err(Refusal::usage(sentence).into());
        }
        for profile in &choice.profiles {
            refuse_unused(std::slice::from_ref(profile), &[(SIZE.into(), "1".into())].into())?;
        }
        if choice.connections.len() > 1 || choice.servers.len() > 1 {
            let sentence = "`sweep` measures sizes, for one number of connections and one kind of server";
            return Err(Refusal::usage(sentence).into());
        }
        let (paths, baseline, notes) = select(&self.paths, &QUICK_PATHS, world)?;
        let (plan, idle) = (choice.sweep(&paths, baseline), Some(idle::Settings::brief()));
        let job = Job { axis: Axis::Size, notes, idle, ..Job::new("Sizes of messages", plan) };
        run(job, &self.common.shown, world)
    }
}

/// What to measure with buffers of each size.
#[derive(Args, Clone, Debug)]
pub(crate) struct Buffers {
    #[command(flatten)]
    own: Own,
    #[command(flatten)]
    common: Common,
}

impl Buffers {
    /// Measures and shows.
    pub(crate) fn run(&self, world: &mut dyn World) -> anyhow::Result<ExitCode> {
        let usual = Choice { profiles: vec!["str-readx30k".into()], ..Choice::usual() };
        let plan = change(&self.own, &self.common, usual)?.buffers();
        let job = Job { axis: Axis::Buffer, ..Job::new("Sizes of SMC's buffers", plan) };
        run(job, &self.common.shown, world)
    }
}
