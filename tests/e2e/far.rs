//! Programs in network namespaces of their own, and the host daemon between them: their bytes go through
//! shared memory where both ends ask for that and the daemon lets them, over TCP elsewhere, and arrive whole
//! always.
//!
//! Needs Python beside what the containers of the library do (tests/src/containers.rs); says what is missing.

use crate::support::{LIMIT, python, script};
use isthmus_tests::containers::Containers;
pub(crate) use isthmus_tests::containers::{does, must};
use isthmus_tests::{Running, within};
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// Two containers' worth of network, and a daemon, for scripts.
pub(crate) struct Field {
    containers: Containers,
    python: PathBuf,
}

impl Deref for Field {
    type Target = Containers;

    fn deref(&self) -> &Containers {
        &self.containers
    }
}

impl DerefMut for Field {
    fn deref_mut(&mut self) -> &mut Containers {
        &mut self.containers
    }
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

impl Field {
    /// `None`, and a word, where something is missing.
    pub(crate) fn new(name: &str, policy: &'static str) -> Option<Field> {
        let python = python()?;
        Some(Field { containers: Containers::new(name, policy)?, python })
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
        let mut command = self.inside(namespace, arguments[0], is_enabled, &self.python);
        command.arg(script(name_of_script)).args(arguments);
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

/// How much of it: of a setting, if there is one.
fn size(name: &str, small: u32) -> u32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(small)
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

pub(crate) fn counts(end: Running, what: &str) -> Counts {
    let outcome = end.finish(LIMIT).must(what);
    let line = outcome.out.lines().rev().find(|line| line.starts_with("memory ")).expect("counts");
    let numbers: Vec<u32> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [memory, tcp, wrong] = numbers[..] else { panic!("{line}") };
    Counts { memory, tcp, wrong }
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

/// Live connections go on, new ones use what is left, and where there is a daemon again it is used again:
/// killed, or ended and followed by another build.
#[test]
fn a_daemon_that_is_killed_or_upgraded_again_and_again_breaks_nothing() {
    let Some(mut field) = Field::new("far-killed", "") else { return };
    let stop = field.at("stop").display().to_string();
    let live = ["answering", "talking"].into_iter().enumerate();
    let live = live.map(|(at, role)| {
        let end = field.end(at, true, &[role, "10.5.0.1", "7301", "4", "n", &stop]);
        let word = if at == 0 { "listens" } else { "talks" };
        assert!(within(LIMIT, || end.output().out.contains(word)), "{}", end.output());
        end
    });
    let live: Vec<Running> = live.collect();
    let server = field.end(0, true, &["serving", "10.5.0.1", "7300", "0", "n"]);
    assert!(within(LIMIT, || server.output().out.contains("listens")));
    let client = field.end(1, true, &["coming", "10.5.0.1", "7300", "0", "n", &stop]);
    for nth in 0..size("FAR_KILLS", 6) {
        let so_far = client.output().out.len();
        if nth % 2 == 0 {
            field.restart_daemon("")
        } else {
            field.upgrade_daemon()
        }
        assert!(within(LIMIT, || client.output().out.len() > so_far), "after {nth}: {}", client.output());
    }
    std::fs::write(&stop, "").expect("a file");
    for end in live {
        assert_eq!(counts(end, "what was there before"), ALL_BY_MEMORY(4));
    }
    let [of_server, of_client] = [server, client].map(|end| counts(end, "under a dying daemon"));
    assert_eq!(of_server, of_client, "the ends disagree");
    assert!(of_client.wrong == 0 && of_client.memory > 0, "{of_client:?}");
    assert_eq!(field.pair(&WAYS[3], (true, true), 6, "server"), [ALL_BY_MEMORY(6); 2]);
}

/// Pairs of namespaces in which everything is called the same.
#[test]
fn containers_with_the_same_addresses_never_get_each_others_connections() {
    let Some(mut field) = Field::new("far-same", "") else { return };
    let base = field.namespaces[0].clone();
    (1..4).for_each(|more| assert!(field.add_pair(&format!("{base}{more}")), "a pair more"));
    let count = size("FAR_SAME", 80);
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
