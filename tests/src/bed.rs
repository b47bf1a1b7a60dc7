//! The bed a test runs in: which ends are enabled, a registry of its own, and, as root, a network of its own
//! whose loopback counter tells how many bytes really crossed TCP. Invariant: two beds share nothing, and a
//! bed leaves nothing behind.

use crate::containers::Containers;
use crate::dist::Dist;
use crate::mode::Mode;
use crate::process::{Outcome, Running, within};
use crate::scratch::Scratch;
use crate::sys;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// One test's surroundings.
#[derive(Debug)]
pub struct Bed {
    /// Which ends are enabled.
    pub mode: Mode,
    /// Files of this test.
    pub scratch: Scratch,
    /// Whether the calling thread has a network namespace of its own.
    pub own_network: bool,
    dist: Option<Dist>,
    registry: PathBuf,
    loopback: u64,
    /// Where server and client are, if that is not one network.
    containers: Option<Containers>,
}

/// Which end of a bed's connections a program is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Server,
    Client,
}

impl Bed {
    /// Makes a bed; panics with one sentence if the product is needed and missing.
    pub fn new(name: &str, mode: Mode) -> Bed {
        let dist = (mode != Mode::Plain).then(|| Dist::find().unwrap_or_else(|e| panic!("{e}")));
        let scratch = Scratch::new(name);
        let registry = scratch.dir("registry");
        let own_network = sys::own_network().is_ok();
        open_to_all(&scratch);
        let mut bed = Bed { mode, scratch, own_network, dist, registry, loopback: 0, containers: None };
        bed.mark();
        bed
    }

    /// The same with server and client in two containers, the client's 127.0.0.1 leading to the server's.
    /// The calling thread looks at the server's network. `None`, and a word, where that cannot be had.
    pub fn between_containers(name: &str, mode: Mode) -> Option<Bed> {
        let both = Containers::new(&format!("{name}-far"), "")?;
        both.publish_loopback();
        let network = std::fs::File::open(both.network(0)).expect("a network");
        sys::enter_network(&network).expect("root may");
        let (scratch, registry, dist) =
            (Scratch::new(name), both.registry(1, CLIENT), Some(both.dist.clone()));
        open_to_all(&scratch);
        Some(Bed { mode, scratch, own_network: false, dist, registry, loopback: 0, containers: Some(both) })
    }

    /// Whether they are in two.
    pub fn is_far(&self) -> bool {
        self.containers.is_some()
    }

    /// A command for the serving end.
    pub fn server(&self, program: impl AsRef<OsStr>) -> Command {
        self.command(program, self.mode.server(), End::Server)
    }

    /// A command for the connecting end.
    pub fn client(&self, program: impl AsRef<OsStr>) -> Command {
        self.command(program, self.mode.client(), End::Client)
    }

    /// A command that never gets the library.
    pub fn plain(&self, program: impl AsRef<OsStr>) -> Command {
        self.command(program, false, End::Server)
    }

    fn command(&self, program: impl AsRef<OsStr>, enabled: bool, end: End) -> Command {
        if let Some(both) = &self.containers {
            let (at, role) = if end == End::Server { (0, "server") } else { (1, CLIENT) };
            let mut c = both.inside(at, role, enabled, program);
            c.env_remove("RUST_BACKTRACE").current_dir(self.scratch.path());
            return c;
        }
        let mut c = match &self.dist {
            Some(dist) if enabled => {
                let mut c = Command::new(dist.tool("smc_run"));
                c.arg(program);
                c
            }
            _ => Command::new(program),
        };
        c.env("SMC_REGISTRY_DIR", &self.registry)
            .env_remove("LD_PRELOAD")
            .env_remove("RUST_BACKTRACE")
            .current_dir(self.scratch.path());
        c
    }

    /// The library's path, to be put into LD_PRELOAD by hand; None when this bed is plain.
    pub fn library(&self) -> Option<PathBuf> {
        self.dist.as_ref().map(Dist::library)
    }

    /// A name that no other bed has.
    pub fn name(&self) -> String {
        self.scratch.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The directory of this bed's registry.
    pub fn registry(&self) -> &std::path::Path {
        &self.registry
    }

    /// Runs a command to its end, or to `limit`; what hangs is shown with its connections before it is
    /// killed.
    pub fn run(&self, command: &mut Command, name: &str, limit: Duration) -> Outcome {
        let mut child = self.start(command, name);
        if within(limit, || !child.alive()) {
            return child.finish(limit);
        }
        let connections = self.connections();
        let mut outcome = child.finish(Duration::ZERO);
        outcome.err.push_str(&format!("\n--- smcss -a when it hung\n{connections}"));
        outcome
    }

    /// Starts a command in the background.
    pub fn start(&self, command: &mut Command, name: &str) -> Running {
        Running::start(command, self.scratch.path(), name)
    }

    /// What `smcss -a` says about this bed.
    pub fn connections(&self) -> String {
        self.tool("smcss", &["-a"])
    }

    /// Output of one of the tools, looking at this bed's registry.
    pub fn tool(&self, name: &str, args: &[&str]) -> String {
        let Some(mut c) = self.tool_command(name) else { return String::new() };
        c.args(args);
        c.output().map_or_else(|e| e.to_string(), |o| String::from_utf8_lossy(&o.stdout).into_owned())
    }

    /// A command for one of the tools, looking at this bed's registry; None when this bed is plain.
    pub fn tool_command(&self, name: &str) -> Option<Command> {
        let mut c = Command::new(self.dist.as_ref()?.tool(name));
        c.env("SMC_REGISTRY_DIR", &self.registry);
        Some(c)
    }

    /// Starts counting loopback bytes from here.
    pub fn mark(&mut self) {
        self.loopback = loopback_bytes();
    }

    /// Bytes that crossed the loopback device since [`Bed::mark`]; None without a network of our own.
    pub fn crossed(&self) -> Option<u64> {
        self.own_network.then(|| loopback_bytes() - self.loopback)
    }

    /// SMC-D handshakes that `smcd stats json` counts for clients in this bed; its counters outlive the
    /// processes.
    pub fn handshakes(&self) -> u64 {
        let text = self.tool("smcd", &["stats", "json"]);
        let number = text.split("\"SMC_CLNT_V2_SUCC_CNT\":").nth(1).unwrap_or_default();
        number.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).unwrap_or(0)
    }

    /// Asserts that `payload` bytes moved the way the mode says: through shared memory when both ends are
    /// enabled, over TCP otherwise. Bytes are counted in a network of our own, handshakes always; `seen` is
    /// an `smcss` output to show on failure.
    pub fn assert_carrier(&self, payload: u64, seen: &str) {
        self.assert_carried(payload, payload / 4 + (payload / 4).min(MOST_EARLY), seen);
    }

    /// The same of an echo whose client never waits: its half may be on TCP before the server looks.
    pub fn assert_carrier_of_answers(&self, payload: u64, seen: &str) {
        self.assert_carried(payload, payload / 4 * 3, seen);
    }

    fn assert_carried(&self, payload: u64, most: u64, seen: &str) {
        let handshakes = self.handshakes();
        if self.mode != Mode::Smc {
            assert_eq!(handshakes, 0, "{:?}: SMC-D with one end enabled\n{seen}", self.mode);
            let crossed = self.crossed().unwrap_or(payload);
            assert!(crossed >= payload, "{:?}: only {crossed} bytes of {payload} crossed TCP", self.mode);
            return;
        }
        assert!(handshakes > 0, "smcd stats counts no SMC-D connection\n{}\n{seen}", self.connections());
        let crossed = self.crossed().unwrap_or(0);
        assert!(crossed < most, "{crossed} bytes crossed TCP for {payload} of payload\n{seen}");
    }
}

/// The client's registry among those of containers.
const CLIENT: &str = "client";

/// What one client may put on TCP before the server's first look.
const MOST_EARLY: u64 = 256 * 1024;

/// Servers that drop root, such as nginx workers, must reach the registry.
fn open_to_all(scratch: &Scratch) {
    use std::os::unix::fs::PermissionsExt;
    let open = std::fs::Permissions::from_mode(0o1777);
    let _ = std::fs::set_permissions(scratch.path(), open.clone());
    let _ = std::fs::set_permissions(scratch.path().join("registry"), open);
}

/// Bytes received by `lo` in the calling thread's network namespace.
fn loopback_bytes() -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let line = table.lines().find_map(|l| l.trim().strip_prefix("lo:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// A port nobody listens on now, below the range that the kernel takes clients' ports from: there a
/// connection of another test could be faster than the server that is meant to listen.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    const FIRST: u32 = 10_000;
    let span = first_client_port().saturating_sub(FIRST).max(1);
    for _ in 0..span {
        let spread = std::process::id().wrapping_mul(131).wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(FIRST + spread % span).expect("a port");
        if is_free(port) {
            return port;
        }
    }
    panic!("every port from {FIRST} on is taken");
}

/// Whether a server could listen there. It is only bound to, with SO_REUSEADDR: a child that another test
/// forks just now has a copy until its exec, and a copy that listens would keep the server from its port, and
/// be taken for it.
fn is_free(port: u16) -> bool {
    let socket = sys::socket(libc::AF_INET, libc::SOCK_CLOEXEC);
    let bound = sys::setopt(socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)
        .and_then(|_| sys::bind_v4(socket, [127, 0, 0, 1], port));
    let _ = sys::close(socket);
    bound.is_ok()
}

fn first_client_port() -> u32 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    range.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(32_768)
}
