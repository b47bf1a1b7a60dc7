//! `smc_bench demo`: half a minute that shows what Isthmus does, on the machine of whoever asks.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::install::Install;
use crate::plan::{Cell, Pace};
use crate::smcss::Snapshot;
use crate::socket::Transport;
use crate::worker::ServerKind;
use crate::workload::{REQUEST_RESPONSE, STREAM};
use crate::{crew, plan, report};

/// Rows of the smcss snapshot to show.
const ROWS: usize = 8;

/// How much of it.
#[derive(Args)]
pub(crate) struct Options {
    /// Length of one measured slice in seconds
    #[arg(long, default_value_t = 0.5, value_parser = crate::seconds)]
    seconds: f64,
    /// How often each transport has its turn; medians are printed
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// The larger number of connections
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(2..=1000))]
    conns: u16,
}

/// Measures, then prints the table, the snapshot and the line about SMC-D.
pub(crate) fn demo(options: &Options) -> anyhow::Result<()> {
    let install = Install::find();
    let pace = Pace::new(Duration::from_secs_f64(options.seconds), options.rounds);
    let cells = cells(options.conns, install.has_smc());
    let bar = progress(cells.len() as u64 * u64::from(pace.rounds));
    if bar.is_hidden() {
        eprintln!("measuring {} settings, {} times {} s each", cells.len(), pace.rounds, options.seconds);
    }
    let (mut seen, mut reasons) = (None, BTreeSet::new());
    let lines = plan::interleave(&cells, pace.rounds, &mut |cell| {
        bar.set_message(format!("{:?} x {} over {}", cell.workload.shape, cell.connections, cell.transport));
        let measured = crew::measure(cell, &pace, &install)?;
        bar.inc(1);
        keep_larger(&mut seen, measured.running);
        reasons.extend(measured.reasons);
        Ok(measured.slice)
    })?;
    bar.finish_and_clear();
    println!("{}\n", report::table(&lines));
    for line in closing(&install, seen.as_ref(), &reasons) {
        println!("{line}");
    }
    println!("{}", report::smc_line(&lines));
    Ok(())
}

/// The two workloads, few and many connections, all transports.
fn cells(many: u16, has_smc: bool) -> Vec<Cell> {
    let transports = [Transport::Tcp, Transport::Unix, Transport::Smc];
    let mut cells = vec![];
    for workload in [REQUEST_RESPONSE, STREAM] {
        for connections in [1, many] {
            for transport in transports.into_iter().filter(|t| *t != Transport::Smc || has_smc) {
                cells.push(Cell { workload, connections, transport, server: ServerKind::Pair });
            }
        }
    }
    cells
}

fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}  ({eta} left)");
    let bar = ProgressBar::new(steps);
    // The template is a constant; without it the bar looks plainer, no more.
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

fn keep_larger(seen: &mut Option<Snapshot>, new: Option<Snapshot>) {
    let rows = |snapshot: &Snapshot| snapshot.text.lines().count();
    if let Some(new) = new
        && seen.as_ref().is_none_or(|old| rows(old) < rows(&new))
    {
        *seen = Some(new);
    }
}

fn closing(install: &Install, seen: Option<&Snapshot>, reasons: &BTreeSet<String>) -> Vec<String> {
    let mut lines = vec![];
    if !install.has_smc() {
        lines.push("SMC was not measured: smc_run is not here (`cargo xtask dist` makes it)".into());
    }
    if let Some(seen) = seen {
        lines.push(format!("While it ran, smcss showed:\n{}\n", report::snapshot(&seen.text, ROWS)));
    }
    lines.extend(reasons.iter().map(|reason| format!("not SMC-D: {reason} (`man smcss` explains the code)")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_transports_meet_in_every_setting() {
        assert_eq!(cells(50, true).len(), 12);
        assert!(cells(50, false).iter().all(|cell| cell.transport != Transport::Smc));
    }

    #[test]
    fn the_longest_snapshot_is_kept() {
        let snapshot = |text: &str| Some(Snapshot { text: text.into(), ..Snapshot::default() });
        let mut seen = None;
        for text in ["State", "State\na", "State"] {
            keep_larger(&mut seen, snapshot(text));
        }
        assert_eq!(seen, snapshot("State\na"));
    }
}
