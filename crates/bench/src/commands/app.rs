//! `smc_bench app`: a real server with its own load generator, plain and under smc_run.

use std::process::ExitCode;

use clap::Args;

use crate::app::{Settings, compare, table};
use crate::report;

/// Which server, and in which form to print.
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
        let comparison = compare(&self.settings)?;
        let text =
            if self.json { serde_json::to_string_pretty(&comparison)? + "\n" } else { table(&comparison) };
        report::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}
