//! Shows a study: as text, as JSON and CSV for programs, as one HTML page with charts.
//!
//! The invariant: everything here is computed from the [`Study`] alone, so a saved one gives the same report again.

mod csv;
mod demo;
mod files;
mod html;
mod json;
mod text;
mod units;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

pub(crate) use self::demo::{smc_line, snapshot, table};
use crate::compare::options::Files;
use crate::compare::progress::say;
use crate::compare::study::Study;

/// What `smc_bench report` takes.
#[derive(Args, Clone, Debug)]
pub(crate) struct Again {
    /// What `--json` saved
    #[arg(required = true, value_name = "FILE")]
    saved: Vec<PathBuf>,
    #[command(flatten)]
    files: Files,
}

/// `smc_bench report`: shows a saved study again.
pub(crate) fn again(options: &Again) -> anyhow::Result<ExitCode> {
    let [saved] = &options.saved[..] else {
        bail!(
            "{} files are {} runs, and numbers of different runs are not comparable: show each by itself",
            options.saved.len(),
            options.saved.len()
        )
    };
    let mut study = json::load(saved)?;
    if let Some(title) = &options.files.title {
        study.title.clone_from(title);
    }
    Ok(if show(&study, &options.files) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints `study` and writes the files that were asked for. False if something could not be written; the sentence about
/// it is on stderr then.
pub(crate) fn show(study: &Study, files: &Files) -> bool {
    let printed = if files.takes_stdout() { Ok(()) } else { print(&text::text(study)) };
    let errors = files.save(study);
    errors.iter().for_each(|error| say(error));
    printed.is_ok() && errors.is_empty()
}

/// A reader who has gone, as `head` does, is no error.
fn print(text: &str) -> io::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            say(&format!("cannot print the results: {error}"));
            Err(error)
        }
        _ => Ok(()),
    }
}
