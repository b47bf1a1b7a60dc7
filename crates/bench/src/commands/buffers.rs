//! `smc_bench buffers`: SMC with buffers of several sizes.

use std::process::ExitCode;

use clap::Args;

use super::run::{Job, run};
use super::shared::{Common, Own, change};
use crate::compare::presets::Choice;
use crate::compare::study::Axis;
use crate::compare::world::World;

/// What to measure with each size.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    own: Own,
    #[command(flatten)]
    common: Common,
}

impl Options {
    /// Measures and shows.
    pub(crate) fn run(&self, world: &mut dyn World) -> anyhow::Result<ExitCode> {
        let usual = Choice { profiles: vec!["str-readx30k".into()], ..Choice::usual() };
        let plan = change(&self.own, &self.common, usual)?.buffers();
        let job = Job { axis: Axis::Buffer, ..Job::new("Sizes of SMC's buffers", plan) };
        run(job, &self.common.shown, world)
    }
}
