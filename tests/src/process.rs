//! Programs under test as child processes. Invariant: every child leads a process group of its own that is
//! killed when its handle is dropped, and nothing waits without a limit: a hang is a failure with the output
//! shown.

use crate::sys;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How a program ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Exit status; None when it had to be killed after its time was up.
    pub status: Option<ExitStatus>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Outcome {
    /// Exit status 0.
    pub fn ok(&self) -> bool {
        self.status.is_some_and(|s| s.success())
    }

    /// Panics with everything known unless the program succeeded.
    pub fn must(self, what: &str) -> Outcome {
        assert!(self.ok(), "{what} failed: {self}");
        self
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = self.status.map_or("hung and was killed".to_string(), |s| s.to_string());
        write!(f, "{end}\n--- stdout\n{}\n--- stderr\n{}", tail(&self.out), tail(&self.err))
    }
}

fn tail(text: &str) -> &str {
    let from = text.len().saturating_sub(4000);
    let from = (from..=text.len()).find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    text[from..].trim_end()
}

/// A running child and the files its output goes to.
#[derive(Debug)]
pub struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    /// Starts `command` with stdin from /dev/null and output into files of `dir` whose names start with
    /// `name`.
    pub fn start(command: &mut Command, dir: &Path, name: &str) -> Running {
        let (out, err) = (dir.join(format!("{name}.out")), dir.join(format!("{name}.err")));
        let create = |p: &Path| File::create(p).expect("make an output file");
        let child = command
            .stdin(Stdio::null())
            .stdout(create(&out))
            .stderr(create(&err))
            .process_group(0)
            .spawn()
            .unwrap_or_else(|e| panic!("start {command:?}: {e}"));
        Running { child, out, err }
    }

    /// The process id.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Sends a signal to the process alone.
    pub fn signal(&self, signal: i32) {
        let _ = sys::kill(self.pid(), signal);
    }

    /// Whether it still runs.
    pub fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits up to `limit`, then kills; returns how it ended.
    pub fn finish(mut self, limit: Duration) -> Outcome {
        let end = Instant::now() + limit;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(3)),
                Ok(None) => break None,
                Err(e) => panic!("nobody knows how {} ended: {e}", self.pid()),
            }
        };
        Outcome { status, ..self.output() }
    }

    /// What it has printed so far.
    pub fn output(&self) -> Outcome {
        let text = |p: &Path| {
            let mut bytes = Vec::new();
            let _ = File::open(p).and_then(|mut f| f.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Outcome { status: None, out: text(&self.out), err: text(&self.err) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = sys::kill(-self.pid(), libc::SIGKILL);
        let _ = self.child.wait();
    }
}

/// The first of `names` found in PATH or the usual system directories.
pub fn installed(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let dirs = path.split(':').chain(["/usr/sbin", "/sbin", "/usr/bin", "/usr/local/go/bin"]).map(Path::new);
    dirs.flat_map(|d| names.iter().map(move |n| d.join(n))).find(|p| p.is_file())
}

/// Polls `done` until it holds or `limit` is over; says whether it held.
pub fn within(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if done() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
