//! `smc_bench report`: shows a saved study again.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use crate::report::{Files, beside, load, show};

/// Which study, and in which forms.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// What `--json` saved; two files stand beside each other
    #[arg(required = true, value_name = "FILE")]
    saved: Vec<PathBuf>,
    #[command(flatten)]
    files: Files,
}

impl Options {
    /// Shows it.
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        self.files.refuse_clash()?;
        let mut study = match &self.saved[..] {
            [saved] => load(saved)?,
            [first, second] => beside(&load(first)?, &load(second)?),
            more => bail!("{} files: one can be shown again, or two beside each other", more.len()),
        };
        if let Some(title) = &self.files.title {
            study.title.clone_from(title);
        }
        Ok(if show(&study, &self.files) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
