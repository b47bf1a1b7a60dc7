//! `smc_bench -m`: reads a profile, agrees with the slaves, directs the strands, and tells what came of it.
//!
//! [`agree`] is the handshake, [`direct`] the run, [`groups`] what is known about each group of strands. The order of a
//! run is uperf's: all strands wait at a gate before each transaction; the slaves are told, then the gate opens.

mod agree;
mod direct;
mod ending;
mod groups;
mod host;
mod interrupt;
mod output;
mod sum;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;

use crate::exit::Exit;
use crate::profile::model::Profile;
use crate::strand::Detail;
use direct::Conductor;
use host::{Nic, nics};
use output::{Printer, json};
use sum::kinds;

pub(crate) use agree::{from_info, to_info};
pub(crate) use groups::accepts;
pub(crate) use output::Tables;
pub(crate) use sum::{Slave, Summary, TransactionSum};

/// What the command line asks of a master.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Control port of the slaves.
    pub(crate) port: u16,
    /// Between two lines of progress.
    pub(crate) interval: Duration,
    /// What the strands measure beside transactions.
    pub(crate) detail: Detail,
    /// What is printed at the end.
    pub(crate) tables: Tables,
    /// Lines of `-R` instead of tables.
    pub(crate) raw: bool,
    /// Where a [`crate::result::Run`] goes; `-` is standard output, which then has nothing else.
    pub(crate) json: Option<PathBuf>,
    /// Say on standard error what is going on.
    pub(crate) verbose: bool,
}

/// Runs `profile`. An error is one that kept the run from beginning.
pub(crate) fn run(profile: &Profile, options: &Options) -> anyhow::Result<Exit> {
    let mut printer = Printer::new(options, profile);
    let tell = |news: &str| {
        if options.verbose {
            eprintln!("smc_bench: {news}");
        }
    };
    let strands: u32 = profile.groups.iter().map(|group| group.strands).sum();
    tell(&format!("asking the slaves at port {} for the other ends of {strands} strands", options.port));
    let conductor = Conductor::new(profile, options, &mut printer)?;
    tell("all strands stand at the gate of the first transaction");
    let summary = conductor.conduct(&mut printer);
    tell("all strands have ended, or were left");
    printer.finish(&summary);
    if let Some(path) = &options.json {
        json::write(path, &summary, options)
            .with_context(|| format!("cannot write to {}", path.display()))?;
    }
    if let Some(failure) = &summary.failure {
        eprintln!("smc_bench: {failure}");
    }
    Ok(summary.exit)
}
