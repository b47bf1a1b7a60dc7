//! `smc_bench inner guard`: the process between this program and a program that it measures.
//!
//! Owns the promise that nothing outlives a run. Its standard input is a pipe whose other end only the program at the
//! top holds, so that however that one ends (Ctrl-C, SIGKILL), the guard reads the end of the pipe; a byte in it says
//! that the program is not wanted any more. Then it stops what it guards, and every descendant, daemons included: as a
//! subreaper it inherits whoever loses its parent.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use super::tree;

/// How long a guarded program may take to end by itself after its stop signal; PostgreSQL's fast shutdown needs 0.2 s.
const FAREWELL: Duration = Duration::from_secs(5);
/// Between two looks at what is left of the descendants.
const PAUSE: Duration = Duration::from_millis(2);
/// Exit status if the program was stopped.
const STOPPED: u8 = 124;

/// What to guard.
#[derive(Args)]
pub(crate) struct Options {
    /// Stop the program with SIGINT and wait for it, before everything is killed
    #[arg(long)]
    gently: bool,
    /// A folder to remove when the program at the top has gone away
    #[arg(long)]
    scratch: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    program: Vec<OsString>,
}

/// Runs the program until it ends, or until standard input does. Exit status: the program's, 128 and the signal that
/// killed it, or 124.
pub(crate) fn guard(options: &Options) -> anyhow::Result<ExitCode> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .context("cannot become a subreaper")?;
    let [program, arguments @ ..] = options.program.as_slice() else { bail!("nothing to guard") };
    let child = Command::new(program).args(arguments).stdin(Stdio::null()).spawn();
    let mut child = child.with_context(|| format!("cannot start {}", program.to_string_lossy()))?;
    let end = end_of(&mut child)?;
    if options.gently && !matches!(end, End::Itself(_)) {
        stop_gently(&child)?;
    }
    end_descendants();
    if let (End::Abandoned, Some(scratch)) = (&end, &options.scratch) {
        // Several guards may have the same folder, and the first one has removed it.
        let _ = std::fs::remove_dir_all(scratch);
    }
    Ok(match end {
        End::Itself(status) => exit_code(status),
        End::Unwanted | End::Abandoned => ExitCode::from(STOPPED),
    })
}

/// Why a program ends.
enum End {
    /// It did by itself.
    Itself(ExitStatus),
    /// The program at the top said so.
    Unwanted,
    /// The program at the top has gone.
    Abandoned,
}

fn end_of(child: &mut Child) -> anyhow::Result<End> {
    let pidfd = rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let stdin = std::io::stdin();
    loop {
        let mut fds = [PollFd::new(&pidfd, PollFlags::IN), PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            outcome => outcome.context("cannot wait for the program")?,
        };
        if !fds[0].revents().is_empty() {
            return Ok(End::Itself(child.wait()?));
        }
        if !fds[1].revents().is_empty() {
            let said = stdin.lock().read(&mut [0]).unwrap_or(0);
            return Ok(if said > 0 { End::Unwanted } else { End::Abandoned });
        }
    }
}

/// Some programs leave more than processes behind when they are killed: PostgreSQL a shared memory segment.
fn stop_gently(child: &Child) -> anyhow::Result<()> {
    let pid = Pid::from_child(child);
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    // Gone already is as good.
    let _ = rustix::process::kill_process(pid, Signal::INT);
    let patience = Timespec::try_from(FAREWELL).context("a farewell of some seconds")?;
    // However this ends: whatever is left is killed next.
    let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&patience));
    Ok(())
}

/// Kills and reaps until there is no child, own or inherited.
fn end_descendants() {
    let deadline = Instant::now() + FAREWELL;
    while has_children() && Instant::now() < deadline {
        for pid in tree::descendants(std::process::id()) {
            if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
                // Gone already is as good.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// Reaps whoever has ended.
fn has_children() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => continue,
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

fn exit_code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}
