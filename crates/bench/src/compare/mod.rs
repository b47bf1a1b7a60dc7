//! `smc_bench compare`, `sweep` and `buffers`: several paths side by side, in one run, on one machine.
//!
//! [`presets`] and [`goals`] choose, [`plan`] orders, [`measure`] runs by way of a [`World`] and of the sessions of
//! [`probe`], [`quiet`] watches the host meanwhile, and the result is a [`study::Study`]. [`summary`], [`judge`] and
//! [`verdict`] read it, `crate::report` shows it.
//! Nothing below this file starts a process or prints a result, so all of it is tested with an executor that runs nothing.

pub(crate) mod digits;
pub(crate) mod goals;
pub(crate) mod idle_table;
pub(crate) mod judge;
pub(crate) mod machine;
pub(crate) mod measure;
pub(crate) mod metric;
#[cfg(test)]
pub(crate) mod mock;
pub(crate) mod plan;
pub(crate) mod presets;
pub(crate) mod probe;
pub(crate) mod procfs;
pub(crate) mod progress;
pub(crate) mod quantity;
pub(crate) mod quiet;
pub(crate) mod stats;
pub(crate) mod study;
pub(crate) mod summary;
pub(crate) mod verdict;
pub(crate) mod world;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;

use crate::cell::Cell;
use crate::compare::quantity::Probe;
use crate::compare::world::{Missing, Session, World};
use crate::idle::{self, Idle};
use crate::path::Path;
use crate::paths::{Pairs, abort};
use uperf::result::Run;

/// In the order of a report; whatever does not work here is left out of a preset.
pub(crate) const ALL_PATHS: [Path; 6] =
    [Path::TcpVeth, Path::TcpLoopback, Path::Unix, Path::Sockmap, Path::AfSmc, Path::Smc];
/// Those of the quick preset.
pub(crate) const QUICK_PATHS: [Path; 4] = [Path::TcpVeth, Path::TcpLoopback, Path::Unix, Path::Smc];

impl World for Pairs {
    fn run(&mut self, cell: &Cell) -> anyhow::Result<Run> {
        Pairs::run(self, cell)
    }

    fn available(&mut self, path: Path) -> Result<(), String> {
        // Who has been asked to end looks no further: nothing will run.
        Pairs::available(self, path).or_else(|why| if abort::asked() { Ok(()) } else { Err(why) })
    }

    fn idle(&mut self, settings: &idle::Settings, paths: &[Path]) -> anyhow::Result<Idle> {
        idle::measure(settings, paths)
    }

    fn open(&mut self, probe: Probe, duration: Duration) -> Result<Box<dyn Session>, Missing> {
        probe::open(probe, duration)
    }
}

/// What to compare with what.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PathChoice {
    /// What to compare [default: whatever works here]
    #[arg(long, value_delimiter = ',', value_name = "PATH,...")]
    pub(crate) paths: Vec<Path>,
    /// What the others are measured against [default: tcp-veth, else tcp-loopback, else the first path]
    #[arg(long, value_name = "PATH")]
    pub(crate) baseline: Option<Path>,
}

/// What to compare, what against, and why something of `usual` is left out.
pub(crate) fn select(
    choice: &PathChoice,
    usual: &[Path],
    world: &mut dyn World,
) -> anyhow::Result<(Vec<Path>, Path, Vec<String>)> {
    let mut notes = vec![];
    let mut paths = choice.paths.clone();
    for &path in paths.iter().chain(&choice.baseline) {
        world.available(path).map_err(|why| anyhow!("{path} cannot be measured here: {why}"))?;
    }
    if paths.is_empty() {
        for &path in usual {
            match world.available(path) {
                Ok(()) => paths.push(path),
                Err(why) => notes.push(format!("{path} was left out: {why}")),
            }
        }
    }
    let mut seen = BTreeSet::new();
    paths.retain(|path| seen.insert(*path));
    let usual = [Path::TcpVeth, Path::TcpLoopback].into_iter().find(|path| paths.contains(path));
    let baseline = choice.baseline.or(usual).or(paths.first().copied());
    let baseline = baseline.with_context(|| format!("no path can be measured here: {}", notes.join("; ")))?;
    if !paths.contains(&baseline) {
        paths.insert(0, baseline);
    }
    Ok((paths, baseline, notes))
}

#[cfg(test)]
mod tests;
