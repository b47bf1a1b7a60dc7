//! A process that holds something of the kernel's for us: it says in one line whether it has it, and lets go when the pipe
//! to it ends, whatever ended this program.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, anyhow};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a holder does: says in its only line where that is which was `made`, or in a sentence why it was not, and holds it
/// until standard input ends.
pub(super) fn hold<H, W: Serialize>(made: anyhow::Result<H>, place: fn(&H) -> W) -> anyhow::Result<()> {
    // The kernel's BPF verifier, for one, answers with pages; of these the first line.
    let first = |error: &anyhow::Error| format!("{error:#}").lines().next().unwrap_or_default().to_owned();
    let said = serde_json::to_string(&made.as_ref().map(place).map_err(first))?;
    writeln!(io::stdout().lock(), "{said}")?;
    if made.is_ok() {
        io::stdin().lock().read_to_end(&mut vec![])?;
    }
    Ok(())
}

/// It runs. Dropping it lets go, and waits for that.
pub(super) struct Holder {
    process: Child,
}

impl Holder {
    /// Starts `smc_bench inner PART...`, and hears where it has what it holds. It speaks or ends: it does nothing that could take
    /// long.
    pub(super) fn start<W, I>(part: I) -> anyhow::Result<(Self, W)>
    where
        W: DeserializeOwned,
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        let mut command = Command::new(std::env::current_exe().context("where is this program?")?);
        command.arg("inner").args(part).env_remove("LD_PRELOAD");
        // A group of its own: Ctrl-C is for the program at the top.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder =
            Self { process: command.spawn().context("cannot start a process that holds things")? };
        let out = holder.process.stdout.take().context("its output is ours")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let said: Result<W, String> =
            serde_json::from_str(&line).context("a process that holds things ended without a word")?;
        Ok((holder, said.map_err(|reason| anyhow!(reason))?))
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
