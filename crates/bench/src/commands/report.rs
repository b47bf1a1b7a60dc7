//! `smc_bench report`: shows a saved study again.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use crate::report::{Files, load, show};

/// Which study, and in which forms.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// What `--json` saved
    #[arg(required = true, value_name = "FILE")]
    saved: Vec<PathBuf>,
    #[command(flatten)]
    files: Files,
}

impl Options {
    /// Shows it.
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let [saved] = &self.saved[..] else {
            bail!(
                "{} files are {} runs, and numbers of different runs are not comparable: show each by itself",
                self.saved.len(),
                self.saved.len()
            )
        };
        let mut study = load(saved)?;
        if let Some(title) = &self.files.title {
            study.title.clone_from(title);
        }
        Ok(if show(&study, &self.files) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
