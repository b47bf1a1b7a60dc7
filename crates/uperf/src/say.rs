//! What this program says on standard error, and until when: nobody who stopped reading ends it.

use std::fmt::Display;
use std::io::Write;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// Says one sentence. That nobody reads it, or that the disk is full, is no reason to end.
pub fn say(sentence: impl Display) {
    let _ = writeln!(std::io::stderr(), "smc_bench: {sentence}");
}

/// The signals that ask for an end; that of a closed terminal only if it is not ignored, as `nohup` has it.
pub fn ending_signals() -> Vec<i32> {
    let status = procfs::process::Process::myself().and_then(|process| process.status());
    let ignores = status.is_ok_and(|status| status.sigign & (1 << (SIGHUP - 1)) != 0);
    [SIGINT, SIGTERM, SIGQUIT].into_iter().chain((!ignores).then_some(SIGHUP)).collect()
}
