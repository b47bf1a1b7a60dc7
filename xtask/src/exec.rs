//! Child programs: said aloud, bounded in time, and never left behind.
//!
//! This process adopts orphans (PR_SET_CHILD_SUBREAPER), so a daemon started by a test can be found and ended
//! even after its parent is gone. Only descendants are ever signalled, each by its id.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, WaitOptions};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Every command gets a bound; this one suits a clean build of the workspace on two cores.
const DEFAULT_LIMIT: Duration = Duration::from_secs(30 * 60);

/// For a process that has been told to end, before it counts as left behind.
const GRACE: Duration = Duration::from_millis(300);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Adopts orphans and turns Ctrl-C into "end every descendant, then fail in the ordinary way", so that
/// temporary files are removed by their owners.
pub(crate) fn supervise() {
    // Refused only by kernels older than 3.4; then orphans go to init and the check below finds none.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
    thread::spawn(move || {
        for _ in &mut signals {
            INTERRUPTED.store(true, Ordering::SeqCst);
            kill_descendants();
        }
    });
}

/// One command to run.
pub(crate) struct Run {
    command: Command,
    limit: Duration,
    hint: &'static str,
}

/// The cargo that runs this task.
pub(crate) fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

impl Run {
    /// Prepares `program`; `hint` tells the reader of a failure what to do about it.
    pub(crate) fn new(program: impl AsRef<OsStr>, hint: &'static str) -> Self {
        Self { command: Command::new(program), limit: DEFAULT_LIMIT, hint }
    }

    /// The same for the cargo that runs this task.
    pub(crate) fn cargo(hint: &'static str) -> Self {
        Self::new(cargo(), hint)
    }

    /// Appends arguments.
    pub(crate) fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(mut self, args: I) -> Self {
        self.command.args(args);
        self
    }

    /// Replaces the time limit.
    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Adjusts directory, environment or user.
    pub(crate) fn with(mut self, adjust: impl FnOnce(&mut Command)) -> Self {
        adjust(&mut self.command);
        self
    }

    /// Runs it with our own output; fails with the hint.
    pub(crate) fn go(mut self) -> anyhow::Result<()> {
        let said = said(&self.command);
        eprintln!("   $ {said}");
        let child = self.command.spawn().with_context(|| format!("cannot start `{said}`: {}", self.hint))?;
        let status = self.await_child(child, &said)?;
        if !status.success() {
            bail!("`{said}` failed ({status}).\n   How to fix it: {}", self.hint);
        }
        Ok(())
    }

    /// Runs it and returns its standard output; fails with the hint.
    pub(crate) fn output(mut self) -> anyhow::Result<Vec<u8>> {
        let said = said(&self.command);
        eprintln!("   $ {said}");
        let command = self.command.stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start `{said}`: {}", self.hint))?;
        let mut pipe = child.stdout.take().context("no pipe from the child")?;
        let reader = thread::spawn(move || {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut pipe, &mut bytes).map(|_| bytes)
        });
        let status = self.await_child(child, &said)?;
        let bytes = reader.join().map_err(|_| anyhow::anyhow!("the reader of `{said}` panicked"))??;
        if !status.success() {
            bail!("`{said}` failed ({status}).\n   How to fix it: {}", self.hint);
        }
        Ok(bytes)
    }

    fn await_child(&self, mut child: Child, said: &str) -> anyhow::Result<ExitStatus> {
        let deadline = Instant::now() + self.limit;
        loop {
            if let Some(status) = child.try_wait()? {
                interrupted()?;
                return Ok(status);
            }
            if Instant::now() >= deadline {
                kill_descendants();
                child.wait()?;
                bail!("`{said}` took longer than {} s and was ended: {}", self.limit.as_secs(), self.hint);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Fails after Ctrl-C; long tasks ask between their steps.
pub(crate) fn interrupted() -> anyhow::Result<()> {
    if INTERRUPTED.load(Ordering::SeqCst) {
        bail!("interrupted");
    }
    Ok(())
}

/// Ends whatever is still below us and returns what it was. To be called while no command runs.
pub(crate) fn end_descendants() -> Vec<String> {
    end_descendants_but(&[])
}

/// The same, sparing the processes with these ids. What is just ending gets [`GRACE`] to do so.
pub(crate) fn end_descendants_but(spared: &[i32]) -> Vec<String> {
    await_end_of(spared, GRACE, |_| ());
    let others = descendants().into_iter().filter(|d| !spared.contains(&d.pid) && !d.is_zombie);
    let strays = others.map(|d| format!("{} (pid {})", d.name, d.pid)).collect();
    await_end_of(spared, 10 * GRACE, Descendant::kill);
    strays
}

/// Does `act` to each descendant but the spared, and collects the dead, until none is left or `patience`
/// ends.
fn await_end_of(spared: &[i32], patience: Duration, act: fn(&Descendant)) {
    let deadline = Instant::now() + patience;
    loop {
        // (Of any process group: rustix's waitpid(None) means our own.)
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        let left: Vec<Descendant> = descendants().into_iter().filter(|d| !spared.contains(&d.pid)).collect();
        if left.is_empty() || Instant::now() >= deadline {
            return;
        }
        left.iter().for_each(act);
        thread::sleep(Duration::from_millis(5));
    }
}

/// Ids of all that is below us now.
pub(crate) fn descendant_ids() -> Vec<i32> {
    descendants().iter().map(|descendant| descendant.pid).collect()
}

fn kill_descendants() {
    descendants().iter().for_each(Descendant::kill);
}

struct Descendant {
    pid: i32,
    parent: i32,
    name: String,
    is_zombie: bool,
}

impl Descendant {
    fn kill(&self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // Gone already is as good.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

/// All processes below this one, parents before their children, from /proc.
fn descendants() -> Vec<Descendant> {
    let mut rest = processes();
    let mut family = vec![];
    let mut parents = vec![std::process::id().cast_signed()];
    while let Some(parent) = parents.pop() {
        let (children, others) = rest.into_iter().partition(|p: &Descendant| p.parent == parent);
        rest = others;
        parents.extend(children.iter().map(|p: &Descendant| p.pid));
        family.extend(children);
    }
    family
}

fn processes() -> Vec<Descendant> {
    let Ok(entries) = fs::read_dir("/proc") else { return vec![] };
    entries
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok())
        .filter_map(|stat| parse_stat(&stat))
        .collect()
}

/// proc(5): `pid (comm) state ppid ...`, where comm may itself hold blanks and parentheses.
fn parse_stat(stat: &str) -> Option<Descendant> {
    let (head, tail) = stat.rsplit_once(')')?;
    let (pid, name) = head.split_once(" (")?;
    let mut fields = tail.split_whitespace();
    let is_zombie = fields.next()? == "Z";
    Some(Descendant {
        pid: pid.parse().ok()?,
        parent: fields.next()?.parse().ok()?,
        name: name.into(),
        is_zombie,
    })
}

fn said(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(name).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::parse_stat;

    #[test]
    fn a_name_may_hold_blanks_and_parentheses() {
        let p = parse_stat("17 (a) b (c) Z 4 17 17").expect("well formed");
        assert_eq!((p.pid, p.parent, p.name.as_str(), p.is_zombie), (17, 4, "a) b (c", true));
    }

    #[test]
    fn half_a_line_is_no_process() {
        assert!(parse_stat("17 (a").is_none());
        assert!(parse_stat("17 (a) S").is_none());
    }
}
