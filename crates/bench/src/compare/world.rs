//! The seams between planning and doing: who measures cells, and who measures what no cell tells, a round at a time, so that
//! the loop can look at the host around each.

use std::time::Duration;

use crate::cell::Cell;
use crate::compare::quantity::{Probe, Take};
use crate::idle::{self, Idle};
use crate::path::Path;
use uperf::result::Run;

/// Whatever can measure, and knows what it can measure here: the seam between planning and doing. Whatever plans, counts or
/// prints is tested with one that runs nothing.
pub(crate) trait World {
    /// Measures `cell` once. An error ends this cell, not the run.
    fn run(&mut self, cell: &Cell) -> anyhow::Result<Run>;

    /// Whether this host has `path`; else one sentence why not.
    fn available(&mut self, path: Path) -> Result<(), String>;

    /// What idle connections cost on those of `paths` that can tell.
    fn idle(&mut self, settings: &idle::Settings, paths: &[Path]) -> anyhow::Result<Idle>;

    /// Opens what measures `probe`, in measurements of about `duration`; the error says why it cannot be had.
    fn open(&mut self, probe: Probe, duration: Duration) -> Result<Box<dyn Session>, Missing>;
}

/// Measures the quantities of one probe.
pub(crate) trait Session {
    /// One round of all of them; who goes first alternates. Which round it is, and what others did meanwhile, is filled in by
    /// whoever asked for it. An error ends this probe, not the suite.
    fn round(&mut self, world: &mut dyn World, round: u16) -> anyhow::Result<Vec<Take>>;
}

/// Why a session cannot be had.
#[derive(Debug)]
pub(crate) enum Missing {
    /// A program of somebody else's is not installed: which.
    Absent(anyhow::Error),
    /// Something is wrong.
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Missing {
    fn from(error: anyhow::Error) -> Self {
        Missing::Failed(error)
    }
}
