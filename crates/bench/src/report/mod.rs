//! Shows a study: as text, as JSON and CSV for programs, as one HTML page with charts.
//!
//! The invariant: everything here is computed from the [`Study`] alone, so a saved one gives the same report again.

#[cfg(test)]
mod agreement;
mod csv;
mod files;
mod html;
mod json;
mod markdown;
mod table;
mod text;
mod two;
mod units;

use std::io::{self, Write};

use anyhow::Context;

pub(crate) use self::files::Files;
pub(crate) use self::json::load;
pub(crate) use self::two::beside;
use crate::compare::study::Study;
use uperf::say;

/// Prints `study` and writes the files that were asked for. False if something could not be written; the sentence about
/// it is on stderr then.
pub(crate) fn show(study: &Study, files: &Files) -> bool {
    let printed = if files.takes_stdout() { Ok(()) } else { print(&text::text(study, width())) };
    let printed = printed.map_err(|error| format!("{error:#}"));
    let errors: Vec<String> = printed.err().into_iter().chain(files.save(study)).collect();
    errors.iter().for_each(say);
    errors.is_empty()
}

/// Of the terminal that stdout is, or as COLUMNS has it; a file may have lines of any length.
fn width() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let seen = || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    said.or_else(seen).filter(|columns| *columns > 0).unwrap_or(usize::MAX)
}

/// To stdout. A reader who has gone, as `head` does, is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot print the results")
        }
        _ => Ok(()),
    }
}
