//! uperf's `-X`: a line for each flowop, appended to one file by all strands.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::clock::wall_ns;

/// As uperf. Written in one call, which appends as a whole.
const KEPT: usize = 8192;
/// uperf's number of flowop records; it has no others.
const FLOWOP: u32 = 0;

/// Lines not written yet.
pub(crate) struct History {
    path: PathBuf,
    records: Vec<(u64, u64)>,
    failure: Option<String>,
}

impl History {
    /// For the strand of the calling thread.
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.into(), records: Vec::with_capacity(KEPT), failure: None }
    }

    /// A flowop has just ended that took so long.
    pub(crate) fn record(&mut self, took_ns: u64) {
        self.records.push((wall_ns(), took_ns));
        if self.records.len() == KEPT {
            self.failure = self.flush();
        }
    }

    /// Writes what is kept. A sentence if that failed, now or before.
    pub(crate) fn flush(&mut self) -> Option<String> {
        let (process, thread) = (std::process::id(), nix::unistd::gettid());
        let mut lines = String::new();
        for (end_ns, took_ns) in self.records.drain(..) {
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "{process:6} {thread:6} {FLOWOP:2} {end_ns:15} {took_ns:15}");
        }
        let written = append(&self.path).and_then(|mut file| file.write_all(lines.as_bytes()));
        let failure = written.err().map(|error| format!("cannot write to {}: {error}", self.path.display()));
        self.failure.take().or(failure)
    }
}

fn append(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}
