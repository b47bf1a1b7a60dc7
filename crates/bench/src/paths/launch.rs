//! Starts the programs of a run in their surroundings, each under a guard of its own (see [`super::guard`]), and waits
//! for them with a limit, always.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::install::Install;

use super::{abort, tree};

/// Of what a program wrote to standard error, this much is shown when it fails.
const TAIL_LINES: usize = 6;
/// Between two looks whether a program has ended. Far below anything that is measured, far above what it costs.
const PAUSE: Duration = Duration::from_millis(5);

/// Namespaces that another process holds open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Namespaces {
    /// A user namespace that owns the network namespace.
    pub(crate) user: Option<PathBuf>,
    /// The network namespace.
    pub(crate) network: PathBuf,
}

/// The surroundings of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Programs and arguments to put before the program's own: smc_run.
    pub(crate) wrapper: Vec<OsString>,
    /// A library to preload, where there is no smc_run.
    pub(crate) preload: Option<PathBuf>,
    /// Namespaces to enter.
    pub(crate) namespaces: Option<Namespaces>,
    /// Folder of a cgroup to move to.
    pub(crate) cgroup: Option<PathBuf>,
    /// User and group to become.
    pub(crate) user: Option<(u32, u32)>,
    /// Added to the environment.
    pub(crate) environment: BTreeMap<String, String>,
    /// Stop it with SIGINT and some patience, not with SIGKILL.
    pub(crate) gently: bool,
    /// A folder that nobody needs any more when this program is gone.
    pub(crate) scratch: Option<PathBuf>,
}

impl Place {
    /// Where TCP sockets may use SMC.
    pub(crate) fn with_smc(install: &Install) -> anyhow::Result<Self> {
        let (wrapper, preload) = install.with_smc()?;
        let wrapper = wrapper.into_iter().map(Into::into).collect();
        Ok(Self { wrapper, preload: preload.map(Path::to_owned), ..Self::default() })
    }

    /// Starts `program` with `arguments`.
    pub(crate) fn start<I>(&self, program: &Path, arguments: I) -> anyhow::Result<Guarded>
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        let own = std::env::current_exe().context("where is this program?")?;
        let mut command = Command::new(&own);
        command.args(["inner", "guard"]).args(self.for_guard()).arg("--").arg(&own);
        command.args(["inner", "enter"]).args(self.for_enter()).arg("--");
        command.args(&self.wrapper).arg(program).args(arguments);
        // Whatever preloads this very process is no part of the measurement.
        // (And what is measured is shared memory, also where the library would have seen that it does not pay.)
        command.env_remove("LD_PRELOAD").env("SMC_BRIEF", "0").envs(&self.environment);
        Guarded::start(command, program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into())
    }

    fn for_guard(&self) -> Vec<OsString> {
        let mut arguments = vec![];
        arguments.extend(self.gently.then(|| "--gently".into()));
        push(&mut arguments, "--scratch", self.scratch.as_deref());
        arguments
    }

    /// What `inner enter` has to be told.
    pub(super) fn for_enter(&self) -> Vec<OsString> {
        let mut arguments = vec![];
        let namespaces = self.namespaces.as_ref();
        push(&mut arguments, "--user-namespace", namespaces.and_then(|n| n.user.as_deref()));
        push(&mut arguments, "--network", namespaces.map(|n| n.network.as_path()));
        push(&mut arguments, "--cgroup", self.cgroup.as_deref());
        push(&mut arguments, "--preload", self.preload.as_deref());
        if let Some((user, group)) = self.user {
            arguments.extend(["--user".into(), format!("{user}:{group}").into()]);
        }
        arguments
    }
}

fn push(arguments: &mut Vec<OsString>, option: &str, value: Option<&Path>) {
    arguments.extend(value.into_iter().flat_map(|value| [option.into(), value.into()]));
}

/// A program that runs under a guard. Dropping it ends the program and all its descendants, and waits for that.
pub(crate) struct Guarded {
    name: String,
    guard: Child,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
}

impl Guarded {
    fn start(mut command: Command, name: String) -> anyhow::Result<Self> {
        // A group of its own: Ctrl-C is for the program at the top, and guards see the end of their pipe.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut guard = command.spawn().context("cannot start a guard")?;
        let (send, lines) = channel();
        if let Some(out) = guard.stdout.take() {
            std::thread::spawn(move || {
                // Whoever listened may have gone; then so have we.
                BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
            });
        }
        let errors = guard.stderr.take().map(|from| std::thread::spawn(move || read_all(from)));
        Ok(Self { name, guard, lines, errors })
    }

    /// The next line of standard output.
    pub(crate) fn line(&mut self, limit: Duration) -> anyhow::Result<String> {
        let deadline = Instant::now() + limit;
        loop {
            abort::check()?;
            match self.lines.recv_timeout(PAUSE) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(RecvTimeoutError::Timeout) => {
                    bail!("{} said nothing for {} s: ended it", self.name, limit.as_secs())
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let complaint = self.complaint();
                    bail!("{} ended too early{complaint}", self.name)
                }
            }
        }
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.guard.try_wait(), Ok(None))
    }

    /// Processes of the program.
    pub(crate) fn processes(&self) -> Vec<u32> {
        tree::descendants(self.guard.id())
    }

    /// CPU time of all processes of the program so far, see [`tree::cpu_ns`].
    pub(crate) fn cpu_ns(&self) -> u64 {
        tree::cpu_ns(self.guard.id())
    }

    /// What it wrote to standard output until it ended by itself, without the lines that [`Guarded::line`] gave out. An
    /// error if that takes longer than `limit`, or its status is not 0.
    pub(crate) fn finish(mut self, limit: Duration) -> anyhow::Result<String> {
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.guard.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                bail!("{} did not end within {} s: ended it", self.name, limit.as_secs());
            }
            abort::sleep(PAUSE)?;
        };
        let mut out = String::new();
        self.lines.iter().for_each(|line| out.extend([line.as_str(), "\n"]));
        if !status.success() {
            let complaint = self.complaint();
            bail!("{} failed: {status}{complaint}", self.name);
        }
        Ok(out)
    }

    /// Ends it now; what it wrote to standard error, for the message of whoever failed because of it.
    pub(crate) fn complaint(&mut self) -> String {
        self.end();
        let errors = self.errors();
        let lines: Vec<&str> = errors.lines().filter(|line| !line.trim().is_empty()).collect();
        let tail = &lines[lines.len().saturating_sub(TAIL_LINES)..];
        if tail.is_empty() { String::new() } else { format!(": {}", tail.join(" | ")) }
    }

    fn errors(&mut self) -> String {
        self.errors.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }

    fn end(&mut self) {
        if let Some(mut pipe) = self.guard.stdin.take() {
            // A guard that does not listen any more has ended.
            let _ = pipe.write_all(b".");
        }
        // The guard ends for certain: its patience has a limit.
        let _ = self.guard.wait();
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.end();
    }
}

fn read_all(mut from: impl Read) -> String {
    let mut bytes = vec![];
    // What was read before an error counts.
    let _ = from.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
