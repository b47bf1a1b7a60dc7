//! Where text goes. Owns: what happens when nobody reads it: a closed pipe ends the program without a word.

use std::io::{ErrorKind, Write};

/// Writes `text` to stdout at once; ends the program if that fails.
pub(crate) fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        if error.kind() != ErrorKind::BrokenPipe {
            complain(&format!("Error: cannot write the output: {error}\n"));
        }
        std::process::exit(1);
    }
}

/// Writes `text` to stderr; if that fails there is nobody left to tell.
pub(crate) fn complain(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
