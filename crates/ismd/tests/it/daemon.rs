//! A daemon of a test's own, in a folder of its own, killed with the value.

use fabric::host::Host;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_ismd");

pub(crate) struct Daemon {
    pub(crate) folder: tempfile::TempDir,
    child: Child,
}

/// Whether something is so, sooner or later.
pub(crate) fn comes_true(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// A folder that every user may look into.
pub(crate) fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("opened");
    folder
}

impl Daemon {
    pub(crate) fn start(policy: &str) -> Daemon {
        Self::start_with_log(policy, Stdio::null())
    }

    pub(crate) fn start_with_log(policy: &str, log: impl Into<Stdio>) -> Daemon {
        let folder = open_folder();
        fs::write(folder.path().join("ismd.toml"), policy).expect("written");
        let child = Self::run(&folder, log.into());
        let daemon = Daemon { folder, child };
        daemon.await_socket();
        daemon
    }

    fn run(folder: &tempfile::TempDir, log: Stdio) -> Child {
        Self::command(folder).stderr(log).spawn().expect("started")
    }

    pub(crate) fn command(folder: &tempfile::TempDir) -> Command {
        let mut command = Command::new(PROGRAM);
        let at = |name| folder.path().join(name);
        command.arg("--config").arg(at("ismd.toml")).arg("--socket").arg(at("run/s"));
        // (Those of a test are told where.)
        command.args(["--pins", ""]).arg("--metrics").arg(at("run.private/m")).args(["--log-level", "debug"]);
        command.env_remove("NOTIFY_SOCKET");
        command
    }

    fn await_socket(&self) {
        let answers = || {
            let client = self.client();
            let is_answer = client.link().each_function(|_| ()).is_ok();
            client.link().leave();
            is_answer
        };
        assert!(comes_true(answers), "the daemon answers");
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("run/s")
    }

    pub(crate) fn metrics(&self) -> PathBuf {
        self.folder.path().join("run.private/m")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("it lives");
    }

    /// kill -9, and a new one.
    pub(crate) fn start_anew(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("dead");
        self.child = Self::run(&self.folder, Stdio::null());
        self.await_socket();
    }

    /// SIGTERM; the exit status.
    pub(crate) fn end(mut self) -> Option<i32> {
        self.signal(rustix::process::Signal::TERM);
        self.child.wait().expect("ended").code()
    }

    pub(crate) fn write_policy(&self, policy: &str) {
        // (In one step: the daemon may still be reading for an earlier signal.)
        let [fresh, path] = ["ismd.toml.new", "ismd.toml"].map(|name| self.folder.path().join(name));
        fs::write(&fresh, policy).expect("written");
        fs::rename(fresh, path).expect("in place");
        self.signal(rustix::process::Signal::HUP);
    }

    /// A process's end of the tier, as the library has it.
    pub(crate) fn client(&self) -> Host {
        os::process::refresh_pid();
        let host = Host::new();
        host.link().set_socket(self.socket().as_os_str().as_bytes());
        // (A neighbour may keep the daemon off the cores for a while.)
        host.link().set_patience(20_000);
        host
    }

    /// Descriptors that it has.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).map_or(0, Iterator::count)
    }

    /// Kibibytes of memory that it has.
    pub(crate) fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it lives");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
