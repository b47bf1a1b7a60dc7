//! `smc_bench compare`, `sweep` and `buffers`: several paths side by side, in one run, on one machine.
//!
//! [`presets`] and [`goals`] choose, [`plan`] orders, [`measure`] runs by way of an [`Executor`], [`quiet`] watches the
//! host meanwhile, and the result is a [`study::Study`]. [`summary`] and [`verdict`] read it, `crate::report` shows it.
//! Nothing below this file starts a process or prints a result, so all of it is tested with an executor that runs nothing.

pub(crate) mod digits;
pub(crate) mod goals;
pub(crate) mod machine;
pub(crate) mod measure;
pub(crate) mod metric;
#[cfg(test)]
pub(crate) mod mock;
pub(crate) mod options;
pub(crate) mod plan;
pub(crate) mod presets;
pub(crate) mod procfs;
pub(crate) mod progress;
pub(crate) mod quiet;
mod run;
pub(crate) mod stats;
pub(crate) mod study;
pub(crate) mod summary;
pub(crate) mod verdict;

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::Context;

use self::options::{Common, Compare, Sized};
use self::run::{Job, run};
use self::study::Axis;
use crate::cell::Executor;
use crate::path::Path;
use crate::paths::Pairs;

/// In the order of a report; whatever does not work here is left out of a preset.
const ALL_PATHS: [Path; 6] =
    [Path::TcpVeth, Path::TcpLoopback, Path::Unix, Path::Sockmap, Path::AfSmc, Path::Smc];
/// Those of the quick preset.
const QUICK_PATHS: [Path; 4] = [Path::TcpVeth, Path::TcpLoopback, Path::Unix, Path::Smc];

/// Whatever can measure, and knows what it can measure here.
pub(crate) trait World: Executor {
    /// Whether this host has `path`; else one sentence why not.
    fn available(&mut self, path: Path) -> Result<(), String>;
}

impl World for Pairs {
    fn available(&mut self, path: Path) -> Result<(), String> {
        Pairs::available(self, path)
    }
}

/// `smc_bench compare`.
pub(crate) fn compare(options: &Compare, world: &mut dyn World) -> anyhow::Result<ExitCode> {
    let choice = options.choice();
    if options.suite.is_some() {
        let pace =
            goals::Pace { duration: choice.duration, rounds: choice.rounds, warm_up: choice.warm_up() };
        let (plan, goals) = goals::suite(&pace, options.common.baseline.unwrap_or(Path::TcpVeth));
        let job = Job { title: "Goals", axis: Axis::Connections, plan, goals, notes: vec![] };
        return run(job, &options.common, world);
    }
    let usual: &[Path] = if options.quick { &QUICK_PATHS } else { &ALL_PATHS };
    let (paths, baseline, notes) = paths(&options.common, usual, world)?;
    let plan = choice.plan(&paths, baseline);
    let job = Job {
        title: "Ways between two processes of one host",
        axis: Axis::Connections,
        plan,
        goals: vec![],
        notes,
    };
    run(job, &options.common, world)
}

/// `smc_bench sweep`.
pub(crate) fn sweep(options: &Sized, world: &mut dyn World) -> anyhow::Result<ExitCode> {
    let (paths, baseline, notes) = paths(&options.common, &QUICK_PATHS, world)?;
    let plan = options.choice(&["ping", "stream"], &[1]).sweep(&paths, baseline);
    run(
        Job { title: "Sizes of messages", axis: Axis::Size, plan, goals: vec![], notes },
        &options.common,
        world,
    )
}

/// `smc_bench buffers`.
pub(crate) fn buffers(options: &Sized, world: &mut dyn World) -> anyhow::Result<ExitCode> {
    let plan = options.choice(&["str-readx30k"], &[1, 10, 50]).buffers();
    let job = Job { title: "Sizes of SMC's buffers", axis: Axis::Buffer, plan, goals: vec![], notes: vec![] };
    run(job, &options.common, world)
}

/// What to compare, what against, and why something of `usual` is left out.
fn paths(
    common: &Common,
    usual: &[Path],
    world: &mut dyn World,
) -> anyhow::Result<(Vec<Path>, Path, Vec<String>)> {
    let mut notes = vec![];
    let mut paths = common.paths.clone();
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
    let baseline = common.baseline.or(usual).or(paths.first().copied());
    let baseline = baseline.with_context(|| format!("no path can be measured here: {}", notes.join("; ")))?;
    if !paths.contains(&baseline) {
        paths.insert(0, baseline);
    }
    Ok((paths, baseline, notes))
}

#[cfg(test)]
mod tests;
