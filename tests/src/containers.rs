//! Two network namespaces, as two containers have them, and a host daemon of a test's own between them.
//! Invariant: whoever is started inside has what a container's program has (its network, the daemon's socket,
//! a registry of its own), and all of it ends with the value.
//!
//! Needs root, a BPF file system, cgroups of version 2, `ip`, `nft`, `nsenter`, and a daemon that was built
//! with clang; says what is missing.

use crate::dist::Dist;
use crate::process::{Outcome, Running, installed, within};
use crate::scratch::Scratch;
use crate::sys;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Network namespaces by pairs, and a daemon that knows them.
#[derive(Debug)]
pub struct Containers {
    /// Files of this test.
    pub scratch: Scratch,
    /// What is under test.
    pub dist: Dist,
    /// Whose connections are marked.
    pub cgroup: PathBuf,
    /// As `ip netns` names them, a server's and then a client's, pair by pair.
    pub namespaces: Vec<String>,
    policy: &'static str,
    /// The daemon's program.
    program: PathBuf,
    /// `None` once it was killed.
    pub daemon: Option<Running>,
    /// For how many milliseconds programs that are started now wait for the daemon: a neighbour may keep it
    /// off the cores for a while.
    pub patience: u32,
}

/// Whether a line of shell succeeds.
pub fn does(line: &str) -> bool {
    let sh = Command::new("sh").args(["-c", line]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    sh.is_ok_and(|status| status.success())
}

/// Runs a line of shell that has to succeed.
pub fn must(line: &str) {
    assert!(does(line), "failed: {line}");
}

/// NAME=PATH, for env(1).
pub fn assigned(name: &str, value: &Path) -> String {
    format!("{name}={}", value.display())
}

fn unified() -> Option<PathBuf> {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(PathBuf::from);
    roots.into_iter().find(|root| root.join("cgroup.procs").exists())
}

impl Containers {
    /// A pair. `None`, and a word, where something is missing.
    pub fn new(name: &str, policy: &'static str) -> Option<Containers> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let dist = Dist::find().unwrap_or_else(|error| panic!("{error}"));
        let tools = ["ip", "nft", "nsenter"].iter().all(|tool| installed(&[tool]).is_some());
        let (Some(root), true) = (unified(), tools) else {
            println!("skipped: the host tier needs ip, nft, nsenter and cgroups of version 2");
            return None;
        };
        let own = format!("far{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let (scratch, cgroup) = (Scratch::new(name), root.join(format!("isthmus-{own}")));
        let pins = scratch.dir("pins");
        scratch.dir("run");
        let is_ready = sys::euid() == 0
            && does(&format!("mount -t bpf bpf {}", pins.display()))
            && std::fs::create_dir(&cgroup).is_ok();
        let (program, namespaces, daemon, patience) = (dist.tool("ismd"), vec![], None, 20_000);
        let mut both = Containers { scratch, dist, cgroup, namespaces, policy, program, daemon, patience };
        if !is_ready || !both.start_daemon() {
            println!("skipped: the host tier needs root, and a kernel and a daemon that mark connections");
            return None;
        }
        if !both.add_pair(&own) {
            println!("skipped: the host tier needs `ip netns`, veth, bridges and nftables");
            return None;
        }
        Some(both)
    }

    /// A path of this test's.
    pub fn at(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// The daemon's socket, in a folder of its own.
    pub fn socket(&self) -> PathBuf {
        self.at("run").join("s")
    }

    /// The daemon's process.
    pub fn daemon_pid(&self) -> i32 {
        self.daemon.as_ref().expect("it runs").pid()
    }

    /// Whether it marks connections.
    pub fn start_daemon(&mut self) -> bool {
        let policy = self.scratch.file("ismd.toml", self.policy);
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(policy).arg("--socket").arg(self.socket()).args(["--metrics", ""]);
        command.arg("--pins").arg(self.at("pins")).arg("--cgroup").arg(&self.cgroup);
        let mut daemon = Running::start(command.env_remove("NOTIFY_SOCKET"), self.scratch.path(), "ismd");
        let says = |daemon: &Running, what: &str| daemon.output().err.contains(what);
        within(LIMIT, || !daemon.alive() || says(&daemon, "are marked") || says(&daemon, "not marked"));
        let marks = says(&daemon, "connections are marked");
        within(LIMIT, || !daemon.alive() || self.socket().exists());
        self.daemon = Some(daemon);
        marks
    }

    /// A second one that would pin its programs where this one has: it ends by itself, and says so.
    pub fn second_daemon(&self) -> Outcome {
        let mut command = Command::new(&self.program);
        command.arg("--socket").arg(self.at("run").join("second")).args(["--metrics", ""]);
        command.arg("--pins").arg(self.at("pins")).arg("--cgroup").arg(&self.cgroup);
        command.arg("--config").arg(self.scratch.file("second.toml", ""));
        Running::start(command.env_remove("NOTIFY_SOCKET"), self.scratch.path(), "second").finish(LIMIT)
    }

    /// kill -9, and another one with another policy.
    pub fn restart_daemon(&mut self, policy: &'static str) {
        (self.daemon, self.policy) = (None, policy);
        assert!(self.start_daemon(), "it marks connections again");
    }

    /// Ends it as systemd does, and starts another build.
    pub fn upgrade_daemon(&mut self) {
        let old = self.daemon.take().expect("it runs");
        old.signal(libc::SIGTERM);
        old.finish(LIMIT).must("the daemon that is replaced");
        let is_new = self.program == self.dist.tool("ismd");
        self.program = if is_new { self.another_build() } else { self.dist.tool("ismd") };
        assert!(self.start_daemon(), "it marks connections again");
    }

    /// The same with some bytes behind it, which nobody reads: another file with another hash.
    fn another_build(&self) -> PathBuf {
        let (path, mut bytes) = (self.at("ismd"), std::fs::read(self.dist.tool("ismd")).expect("a program"));
        bytes.extend_from_slice(b"another build");
        std::fs::write(&path, bytes).expect("a program");
        let may_run = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, may_run).expect("it may run");
        path
    }

    /// Two namespaces with the same addresses as any other two, joined by a bridge in the server's. Whether
    /// the kernel has what that takes.
    pub fn add_pair(&mut self, name: &str) -> bool {
        let (a, b, n) = (format!("{name}a"), format!("{name}b"), self.namespaces.len());
        for namespace in [&a, &b] {
            if !does(&format!("ip netns add {namespace} && ip -n {namespace} link set lo up")) {
                return false;
            }
            self.namespaces.push(namespace.clone());
        }
        let (va, vb) = (format!("va{}{n}", std::process::id()), format!("vb{}{n}", std::process::id()));
        let rules = "add table ip n; add chain ip n p { type nat hook prerouting priority -100; }; \
                     add chain ip n o { type nat hook output priority -100; }; \
                     add rule ip n p tcp dport 9000 dnat to 10.5.0.1:7000; \
                     add rule ip n o tcp dport 9001 dnat to 10.5.0.1:7000";
        let has_all = [
            format!("ip link add {va} netns {a} type veth peer name {vb} netns {b}"),
            format!("ip -n {a} link add br0 type bridge && ip -n {a} link set {va} master br0"),
            format!("ip netns exec {a} nft '{rules}'"),
        ];
        if !has_all.iter().all(|line| does(line)) {
            return false;
        }
        must(&format!(
            "ip -n {a} link set {va} up && ip -n {a} link set br0 up && ip -n {b} link set {vb} up"
        ));
        for (namespace, device, at) in [(&a, "br0", 1), (&b, vb.as_str(), 2)] {
            must(&format!("ip -n {namespace} addr add 10.5.0.{at}/24 dev {device}"));
            must(&format!("ip -n {namespace} addr add fd05::{at}/64 dev {device} nodad"));
        }
        true
    }

    /// Has every port from 1 024 on of the first client's own 127.0.0.1 lead to the same port of the
    /// server's: what a container engine does for published ports, for all of them, at both ends. (A peer
    /// that shuts both ways while its window is closed leaves it closed, also over plain TCP: only after
    /// tcp_fin_timeout, by itself a minute, is who sends answered with a reset.)
    pub fn publish_loopback(&self) {
        let [a, b] = [&self.namespaces[0], &self.namespaces[1]];
        let arrive = "add rule ip n p iifname br0 tcp dport 1024-65535 dnat to 127.0.0.1";
        let leave = "add table ip n; add chain ip n o { type nat hook output priority -100; }; \
                     add chain ip n m { type nat hook postrouting priority 100; }; \
                     add rule ip n o ip daddr 127.0.0.1 tcp dport 1024-65535 dnat to 10.5.0.1; \
                     add rule ip n m ip daddr 10.5.0.1 masquerade";
        let may_leave_lo = "echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet \
                            && echo 2 > /proc/sys/net/ipv4/tcp_fin_timeout";
        must(&format!("ip netns exec {a} sh -c '{may_leave_lo} && nft \"{arrive}\"'"));
        must(&format!("ip netns exec {b} sh -c '{may_leave_lo} && nft \"{leave}\"'"));
    }

    /// The network of a namespace, for `nsenter --net`.
    pub fn network(&self, namespace: usize) -> PathBuf {
        Path::new("/run/netns").join(&self.namespaces[namespace])
    }

    /// The registry of an end.
    pub fn registry(&self, namespace: usize, role: &str) -> PathBuf {
        self.scratch.dir(&format!("registry{namespace}{role}"))
    }

    /// The command of a program in a namespace; `is_enabled`: it has the library, and looks for the daemon.
    pub fn inside(
        &self,
        namespace: usize,
        role: &str,
        is_enabled: bool,
        program: impl AsRef<OsStr>,
    ) -> Command {
        // (In a container, and for another user, it is another one, too.)
        let registry = self.registry(namespace, role);
        let library = if is_enabled { self.dist.library() } else { PathBuf::new() };
        let enter = "echo $$ > \"$1\" && shift && exec ip netns exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", enter, "sh"]).arg(self.cgroup.join("cgroup.procs"));
        command.arg(&self.namespaces[namespace]).arg("env").arg(assigned("LD_PRELOAD", &library));
        command.arg(format!("SMC_ISMD_PATIENCE={}", self.patience));
        command.arg(assigned("SMC_ISMD", &self.socket())).arg(assigned("SMC_REGISTRY_DIR", &registry));
        command.arg(program).env_remove("LD_PRELOAD");
        command
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        self.daemon = None;
        for namespace in &self.namespaces {
            does(&format!("ip netns del {namespace}"));
        }
        does(&format!("umount {}", self.at("pins").display()));
        // (The kernel takes a moment to see that the last process has gone.)
        within(LIMIT, || !self.cgroup.exists() || std::fs::remove_dir(&self.cgroup).is_ok());
    }
}
