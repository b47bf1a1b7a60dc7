//! A process that holds something of the kernel's for us: it says in one line whether it has it, and lets go when the pipe
//! to it ends, whatever ended this program.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use serde::de::DeserializeOwned;

/// Why something cannot be had. The kernel's BPF verifier, for one, answers with pages; of these the first line.
pub(super) fn one_line(error: &anyhow::Error) -> String {
    format!("{error:#}").lines().next().unwrap_or_default().to_owned()
}

/// It runs. Dropping it lets go, and waits for that.
pub(super) struct Holder {
    process: Child,
}

impl Holder {
    /// Starts `smc_bench inner PART`.
    pub(super) fn start(part: &str) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe().context("where is this program?")?);
        command.args(["inner", part]).env_remove("LD_PRELOAD");
        // A group of its own: Ctrl-C is for the program at the top.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(Self { process: command.spawn().context("cannot start a process that holds things")? })
    }

    /// Its only line. It speaks or ends: it does nothing that could take long.
    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let out = self.process.stdout.take().context("it has spoken already")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        serde_json::from_str(&line).context("a process that holds things ended without a word")
    }

    /// Its process id.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // It only waits for the end of that pipe.
        let _ = self.process.wait();
    }
}
