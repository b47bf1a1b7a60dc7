//! Programs in network namespaces of their own, and the host daemon between them: their bytes go through
//! shared memory where both ends ask for that and the daemon lets them, over TCP elsewhere, and arrive whole
//! always.
//!
//! Needs root, a BPF file system, cgroups of version 2, `ip`, `nft` and Python, and a daemon that was built
//! with clang; says what is missing.

use crate::support::{LIMIT, python, script};
use isthmus_tests::dist::Dist;
use isthmus_tests::scratch::Scratch;
use isthmus_tests::{Running, installed, within};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Two containers' worth of network, and a daemon. All of it ends with the value.
pub(crate) struct Field {
    pub(crate) scratch: Scratch,
    pub(crate) dist: Dist,
    python: PathBuf,
    pub(crate) cgroup: PathBuf,
    /// Network namespaces, by pairs: a server's and a client's.
    pub(crate) namespaces: Vec<String>,
    policy: &'static str,
    pub(crate) daemon: Option<Running>,
    /// For how many milliseconds programs that are started now wait for the daemon: a neighbour may keep it
    /// off the cores for a while.
    pub(crate) patience: u32,
}

/// Counts of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) memory: u32,
    pub(crate) tcp: u32,
    pub(crate) wrong: u32,
}

pub(crate) const ALL_BY_MEMORY: fn(u32) -> Counts = |memory| Counts { memory, tcp: 0, wrong: 0 };
pub(crate) const ALL_BY_TCP: fn(u32) -> Counts = |tcp| Counts { memory: 0, tcp, wrong: 0 };

pub(crate) fn does(line: &str) -> bool {
    let sh = Command::new("sh").args(["-c", line]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    sh.is_ok_and(|status| status.success())
}

pub(crate) fn must(line: &str) {
    assert!(does(line), "failed: {line}");
}

fn unified() -> Option<PathBuf> {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(PathBuf::from);
    roots.into_iter().find(|root| root.join("cgroup.procs").exists())
}

impl Field {
    /// `None`, and a word, where something is missing.
    pub(crate) fn new(name: &str, policy: &'static str) -> Option<Field> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let dist = Dist::find().unwrap_or_else(|error| panic!("{error}"));
        let tools = ["ip", "nft"].iter().all(|tool| installed(&[tool]).is_some());
        let (Some(python), Some(root), true) = (python(), unified(), tools) else {
            println!("skipped: the host tier needs python3, ip, nft and cgroups of version 2");
            return None;
        };
        let own = format!("far{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let (scratch, cgroup) = (Scratch::new(name), root.join(format!("isthmus-{own}")));
        let pins = scratch.dir("pins");
        scratch.dir("run");
        let is_ready = isthmus_tests::sys::euid() == 0
            && does(&format!("mount -t bpf bpf {}", pins.display()))
            && std::fs::create_dir(&cgroup).is_ok();
        let mut field = Field {
            scratch,
            dist,
            python,
            cgroup,
            namespaces: vec![],
            policy,
            daemon: None,
            patience: 20_000,
        };
        if !is_ready || !field.start_daemon() {
            println!("skipped: the host tier needs root, and a kernel and a daemon that mark connections");
            return None;
        }
        if !field.add_pair(&own) {
            println!("skipped: the host tier needs `ip netns`, veth, bridges and nftables");
            return None;
        }
        Some(field)
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// The daemon's socket, in a folder of its own.
    pub(crate) fn socket(&self) -> PathBuf {
        self.at("run").join("s")
    }

    pub(crate) fn daemon_pid(&self) -> i32 {
        self.daemon.as_ref().expect("it runs").pid()
    }

    /// Whether it marks connections.
    fn start_daemon(&mut self) -> bool {
        let policy = self.scratch.file("ismd.toml", self.policy);
        let mut command = Command::new(self.dist.tool("ismd"));
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

    /// kill -9, and another one with another policy.
    pub(crate) fn restart_daemon(&mut self, policy: &'static str) {
        (self.daemon, self.policy) = (None, policy);
        assert!(self.start_daemon(), "it marks connections again");
    }

    /// Two namespaces with the same addresses as any other two, joined by a bridge in the server's. Whether
    /// the kernel has what that takes.
    fn add_pair(&mut self, name: &str) -> bool {
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

    /// The registry of an end.
    pub(crate) fn registry(&self, namespace: usize, role: &str) -> PathBuf {
        self.scratch.dir(&format!("registry{namespace}{role}"))
    }

    /// One end, in a namespace; `is_enabled`: it has the library, and looks for the daemon.
    pub(crate) fn end(&self, namespace: usize, is_enabled: bool, arguments: &[&str]) -> Running {
        self.program(namespace, is_enabled, "ends.py", arguments)
    }

    /// The same of another script.
    pub(crate) fn program(
        &self,
        namespace: usize,
        is_enabled: bool,
        name_of_script: &str,
        arguments: &[&str],
    ) -> Running {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("end{}", NEXT.fetch_add(1, Ordering::Relaxed));
        // (In a container, and for another user, it is another one, too.)
        let registry = self.registry(namespace, arguments[0]);
        let socket = self.socket();
        let library = if is_enabled { self.dist.library() } else { PathBuf::new() };
        let enter = "echo $$ > \"$1\" && shift && exec ip netns exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", enter, "sh"]).arg(self.cgroup.join("cgroup.procs"));
        command.arg(&self.namespaces[namespace]).arg("env").arg(assigned("LD_PRELOAD", &library));
        command
            .arg(format!("SMC_ISMD_PATIENCE={}", self.patience))
            .arg(assigned("SMC_ISMD", &socket))
            .arg(assigned("SMC_REGISTRY_DIR", &registry));
        command.arg(&self.python).arg(script(name_of_script)).args(arguments);
        command.env_remove("LD_PRELOAD");
        Running::start(&mut command, self.scratch.path(), &name)
    }

    /// Both ends' counts of `count` connections, the server's first.
    pub(crate) fn pair(
        &self,
        way: &Way,
        (server, client): (bool, bool),
        count: u32,
        role: &str,
    ) -> [Counts; 2] {
        let (count, listen, connect) =
            (count.to_string(), way.listen.1.to_string(), way.connect.1.to_string());
        let server = self.end(0, server, &[role, way.listen.0, &listen, &count, "n"]);
        assert!(within(LIMIT, || server.output().out.contains("listens")), "{}", server.output());
        let client = self.end(way.client, client, &["client", way.connect.0, &connect, &count, "n"]);
        [server, client].map(|end| counts(end, way.name))
    }
}

/// From where to where.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    client: usize,
    listen: (&'static str, u16),
    connect: (&'static str, u16),
}

pub(crate) const WAYS: [Way; 6] = [
    Way { name: "loopback", client: 0, listen: ("127.0.0.1", 7100), connect: ("127.0.0.1", 7100) },
    Way { name: "loopback v6", client: 0, listen: ("::1", 7101), connect: ("::1", 7101) },
    Way { name: "bridge", client: 1, listen: ("10.5.0.1", 7102), connect: ("10.5.0.1", 7102) },
    Way { name: "bridge v6", client: 1, listen: ("fd05::1", 7103), connect: ("fd05::1", 7103) },
    Way { name: "DNAT", client: 1, listen: ("10.5.0.1", 7000), connect: ("10.5.0.1", 9000) },
    Way { name: "OUTPUT DNAT", client: 0, listen: ("10.5.0.1", 7000), connect: ("127.0.0.1", 9001) },
];

fn assigned(name: &str, value: &Path) -> String {
    format!("{name}={}", value.display())
}

pub(crate) fn counts(end: Running, what: &str) -> Counts {
    let outcome = end.finish(LIMIT).must(what);
    let line = outcome.out.lines().rev().find(|line| line.starts_with("memory ")).expect("counts");
    let numbers: Vec<u32> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [memory, tcp, wrong] = numbers[..] else { panic!("{line}") };
    Counts { memory, tcp, wrong }
}

impl Drop for Field {
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

#[test]
fn enabled_ends_of_one_kernel_share_memory_whatever_lies_between_them() {
    let Some(field) = Field::new("far", "") else { return };
    for way in &WAYS {
        let both = field.pair(way, (true, true), 24, "server");
        assert_eq!(both, [ALL_BY_MEMORY(24); 2], "{}", way.name);
    }
}

#[test]
fn where_one_end_is_not_enabled_it_is_tcp() {
    let Some(field) = Field::new("far-one", "") else { return };
    for way in &WAYS {
        for enabled in [(true, false), (false, true), (false, false)] {
            let ends = field.pair(way, enabled, 6, "server");
            assert_eq!(ends, [ALL_BY_TCP(6); 2], "{} {enabled:?}", way.name);
        }
    }
}

#[test]
fn who_serves_in_children_shares_memory_too() {
    let Some(field) = Field::new("far-fork", "") else { return };
    assert_eq!(field.pair(&WAYS[2], (true, true), 12, "forking"), [ALL_BY_MEMORY(12); 2]);
}

#[test]
fn without_the_daemon_or_against_its_policy_it_is_tcp() {
    let Some(mut field) = Field::new("far-refused", "[[rule]]\nallow = false\n") else { return };
    assert_eq!(field.pair(&WAYS[2], (true, true), 6, "server"), [ALL_BY_TCP(6); 2], "refused");
    field.daemon = None;
    assert_eq!(field.pair(&WAYS[3], (true, true), 6, "server"), [ALL_BY_TCP(6); 2], "nobody there");
}

/// Live connections go on, new ones use what is left, and where there is a daemon again it is used again.
#[test]
fn a_daemon_that_is_killed_again_and_again_breaks_nothing() {
    let Some(mut field) = Field::new("far-killed", "") else { return };
    let count = 300;
    let text = count.to_string();
    let server = field.end(0, true, &["server", "10.5.0.1", "7300", &text, "n"]);
    assert!(within(LIMIT, || server.output().out.contains("listens")));
    let mut client = field.end(1, true, &["client", "10.5.0.1", "7300", &text, "n"]);
    let mut kills = 0;
    while client.alive() && kills < 20 {
        field.daemon = None;
        assert!(field.start_daemon(), "it marks connections again");
        kills += 1;
    }
    for end in [server, client] {
        let Counts { memory, tcp, wrong } = counts(end, "under a dying daemon");
        assert_eq!((memory + tcp, wrong), (count, 0), "after {kills} kills");
    }
    assert_eq!(field.pair(&WAYS[3], (true, true), 6, "server"), [ALL_BY_MEMORY(6); 2]);
}

/// Pairs of namespaces in which everything is called the same.
#[test]
fn containers_with_the_same_addresses_never_get_each_others_connections() {
    let Some(mut field) = Field::new("far-same", "") else { return };
    let base = field.namespaces[0].clone();
    (1..4).for_each(|more| assert!(field.add_pair(&format!("{base}{more}")), "a pair more"));
    let count = 80;
    let text = count.to_string();
    let start = |role: &str, namespace: usize| {
        let name = format!("pair{}", namespace / 2);
        field.end(namespace, true, &[role, "10.5.0.1", "7400", &text, &name])
    };
    let servers: Vec<Running> = (0..4).map(|pair| start("server", 2 * pair)).collect();
    assert!(within(LIMIT, || servers.iter().all(|server| server.output().out.contains("listens"))));
    let clients: Vec<Running> = (0..4).map(|pair| start("client", 2 * pair + 1)).collect();
    let all: Vec<Counts> =
        servers.into_iter().chain(clients).map(|end| counts(end, "same addresses")).collect();
    assert_eq!(all, [ALL_BY_MEMORY(count); 8]);
}
