//! Shows a study: as text, as JSON and CSV for programs, as one HTML page with charts.
//!
//! The invariant: everything here is computed from the [`Study`] alone, so a saved one gives the same report again.

mod csv;
mod files;
mod html;
mod json;
mod text;
mod units;

use std::io::{self, Write};

pub(crate) use self::files::Files;
pub(crate) use self::json::load;
pub(crate) use self::text::extra;
use crate::compare::progress::say;
use crate::compare::study::Study;

/// Prints `study` and writes the files that were asked for. False if something could not be written; the sentence about
/// it is on stderr then.
pub(crate) fn show(study: &Study, files: &Files) -> bool {
    let printed = if files.takes_stdout() { Ok(()) } else { print(&text::text(study)) };
    let errors = files.save(study);
    errors.iter().for_each(|error| say(error));
    printed.is_ok() && errors.is_empty()
}

/// To stdout. A reader who has gone, as `head` does, is no error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            say(&format!("cannot print the results: {error}"));
            Err(error)
        }
        _ => Ok(()),
    }
}
