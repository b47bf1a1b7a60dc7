//! One thing to measure, and the seam between planning and doing: whatever plans, counts or prints is tested with an
//! [`Executor`] that runs nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::path::Path;
use crate::result::Run;

/// How the slave serves a group's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Server {
    /// One thread per strand, as uperf's slave does
    #[default]
    Threads,
    /// One process per strand
    Processes,
    /// One thread for all strands, waiting in epoll
    Epoll,
}

/// One thing to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// Name of a built-in profile, or a file.
    pub(crate) profile: String,
    /// The profile's strands ($nprocs).
    pub(crate) connections: u32,
    /// Which way the bytes go.
    pub(crate) path: Path,
    /// How the slave serves.
    pub(crate) server: Server,
    /// Length of the measured transaction ($duration).
    pub(crate) duration: Duration,
    /// More variables for the profile ($size, $rate, ...).
    pub(crate) variables: BTreeMap<String, String>,
    /// Environment of both ends: SMC_RCVBUF, SMC_SNDBUF and the like.
    pub(crate) environment: BTreeMap<String, String>,
}

/// Whatever can measure a cell.
pub(crate) trait Executor {
    /// Measures `cell` once. An error ends this cell, not the run.
    fn run(&mut self, cell: &Cell) -> anyhow::Result<Run>;
}
