//! `smc_bench idle`: what connections cost that do nothing.

use std::process::ExitCode;

use clap::Args;

use crate::compare::idle_table;
use crate::idle::{Settings, measure};
use crate::path::Path;
use crate::report;

/// How many connections, and in which form to print.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    settings: Settings,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

impl Options {
    /// Measures and prints.
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let idle = measure(&self.settings, &[Path::TcpLoopback, Path::Smc])?;
        let text = if self.json {
            serde_json::to_string_pretty(&idle)?
        } else {
            let notes = idle.notes.iter().cloned();
            [report::extra(&idle_table::table(&idle))].into_iter().chain(notes).collect::<Vec<_>>().join("\n")
        };
        report::print(&(text + "\n"))?;
        Ok(ExitCode::SUCCESS)
    }
}
