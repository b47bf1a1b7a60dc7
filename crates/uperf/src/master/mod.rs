//! `smc_bench -m`: reads a profile, agrees with the slaves, directs the strands, and tells what came of it.
//!
//! [`agree`] is the handshake, [`direct`] the run, [`groups`] what is known about each group of strands. The order of a
//! run is uperf's: all strands wait at a gate before each transaction; the slaves are told, then the gate opens.

mod agree;
mod conductor;
mod direct;
mod ending;
mod groups;
mod host;
mod interrupt;
mod options;
mod output;
mod sum;

use anyhow::Context;

use crate::exit::Exit;
use crate::profile::model::Profile;
use crate::say::say;
use conductor::Conductor;
use host::{Nic, nics};
use output::{Printer, json};
use sum::kinds;

pub(crate) use agree::{from_info, to_info};
pub(crate) use groups::accepts;
pub(crate) use options::{Options, Tables};
pub(crate) use sum::{Slave, Summary, TransactionSum};

/// Runs `profile`. An error is one that kept the run from beginning.
pub(crate) fn run(profile: &Profile, options: &Options) -> anyhow::Result<Exit> {
    let mut printer = Printer::new(options, profile);
    let tell = |news: &str| {
        if options.verbose {
            say(news);
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
        say(failure);
    }
    if let Some(error) = printer.lost() {
        return Err(error).context("cannot print the results");
    }
    Ok(summary.exit)
}
