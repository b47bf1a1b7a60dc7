//! The bars of the data path: integrity, death of either end, flat use of descriptors and memory, many
//! connections at once, and the same verdict at both ends. Invariant: every bound is on counts and bytes,
//! none on time.
//!
//! Sizes are small by default; the full bars: BARS_BYTES=1073741824 BARS_KILLS=1000 BARS_CHURN=10000
//! BARS_CHURN_ROUNDS=20 BARS_MANY=1000 BARS_VERDICTS=100000 BARS_PEERS=2000.

mod budget;
mod closed;
mod fallback;
mod forked;
mod fuzz;
mod hostile;
mod mixed;
mod place;
mod stall;
mod trust;

use isthmus_tests::{Bed, Mode, Outcome, Running, free_port, within};
use std::process::Command;
use std::time::Duration;
use testkit::Random;

const PROGRAM: &str = env!("CARGO_BIN_EXE_bar-load");
const LIMIT: Duration = Duration::from_secs(240);

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

fn load(mut c: Command, words: &[&str], numbers: &[u64]) -> Command {
    c.args(words).args(numbers.iter().map(u64::to_string));
    c
}

/// A server that listens already on `port`.
fn server(bed: &Bed, command: &mut Command, port: u64, name: &str) -> Running {
    let mut server = bed.start(command, name);
    let port = format!(":{port:04X} ");
    let listens = || {
        let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap_or_default();
        table.lines().any(|l| l.contains(&port) && l.contains(" 0A "))
    };
    // (Seen once is enough: while others connect and close, the kernel's list skips sockets now and then.)
    let mut is_seen = false;
    let _ = within(Duration::from_secs(20), || {
        is_seen = listens();
        is_seen || !server.alive()
    });
    assert!(is_seen, "no listener: {command:?} {}", server.output());
    server
}

/// A server of one of the loads; `numbers` begins with its port.
fn serve(bed: &Bed, words: &[&str], numbers: &[u64], name: &str) -> Running {
    server(bed, &mut load(bed.server(PROGRAM), words, numbers), numbers[0], name)
}

fn good(bed: &Bed, what: &str, outcome: Outcome) -> String {
    let fine = outcome.ok() && !outcome.out.contains("BAD");
    assert!(fine, "{what}, {:?}: {outcome}\n--- smcss -a\n{}", bed.mode, bed.connections());
    outcome.out
}

/// Every program of the bed has ended: nothing may be left of their connections, no rows (over TCP either),
/// no new files.
fn assert_nothing_left(bed: &Bed, before: &[String]) {
    let rows = || bed.connections().lines().skip(1).filter(|l| !l.trim().is_empty()).count();
    assert!(within(Duration::from_secs(5), || rows() == 0), "rows are left:\n{}", bed.connections());
    let left: Vec<String> = shared_files().into_iter().filter(|f| !before.contains(f)).collect();
    assert!(left.is_empty(), "left in /dev/shm: {left:?}");
}

/// Names in /dev/shm that may be ours. Other programs use it too.
fn shared_files() -> Vec<String> {
    let names = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    names
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .filter(|n| n.contains("smc") || n.contains("isthmus"))
        .collect()
}

/// Number and total size of the registry's files.
fn registry_size(bed: &Bed) -> (usize, u64) {
    let files: Vec<_> = std::fs::read_dir(bed.registry()).into_iter().flatten().flatten().collect();
    (files.len(), files.iter().filter_map(|f| f.metadata().ok()).map(|m| m.len()).sum())
}

#[test]
fn integrity_both_ways() {
    let bytes = setting("BARS_BYTES", 32 << 20);
    for mode in Mode::wanted_of("integrity") {
        let bed = Bed::new("integrity", mode);
        let port = u64::from(free_port());
        let before = shared_files();
        let s = serve(&bed, &["integrity", "server"], &[port, bytes], "server");
        let c = bed.run(
            &mut load(bed.client(PROGRAM), &["integrity", "client"], &[port, bytes]),
            "client",
            LIMIT,
        );
        let line = good(&bed, "client", c);
        good(&bed, "server", s.finish(Duration::from_secs(20)));
        assert_nothing_left(&bed, &before);
        let over_tcp = last_number(&line);
        // (Behind a reader that rests for a moment, a writer goes on over TCP.)
        assert_eq!(over_tcp < bytes / 4, mode == Mode::Smc, "{mode:?}: {line}");
    }
}

fn last_number(text: &str) -> u64 {
    text.split_whitespace().last().and_then(|w| w.parse().ok()).unwrap_or(u64::MAX)
}

fn kills() -> u64 {
    setting("BARS_KILLS", 60) / 2
}

/// Clients are killed at random moments; the server outlives them all, its descriptors stay flat.
#[test]
fn killed_clients() {
    for mode in [Mode::Plain, Mode::Smc].into_iter().filter(|m| Mode::wanted_of("kill-client").contains(m)) {
        let bed = Bed::new("kill-client", mode);
        let (port, before) = (u64::from(free_port()), shared_files());
        let mut random = Random::new(11);
        let mut server = serve(&bed, &["pump", "server"], &[port], "server");
        let mut registry = None;
        for n in 0..kills() {
            let client =
                bed.start(&mut load(bed.client(PROGRAM), &["pump", "client"], &[port, 0, n]), "client");
            std::thread::sleep(Duration::from_micros(random.below(60_000) as u64));
            client.signal(libc::SIGKILL);
            drop(client.finish(Duration::from_secs(5)));
            if n == kills() / 4 {
                registry = Some(registry_size(&bed));
            }
        }
        let lines =
            || server.output().out.lines().filter(|l| l.contains("good prefix") || l.contains("BAD")).count();
        let mut last = lines();
        // A client killed before it connected leaves no line, so wait until the number rests.
        within(Duration::from_secs(5), || {
            std::thread::sleep(Duration::from_millis(400));
            std::mem::replace(&mut last, lines()) == lines()
        });
        let out = server.output();
        assert!(server.alive() && !out.out.contains("BAD"), "{mode:?}: {out}");
        assert!(out.out.contains("good prefix"), "{mode:?}: no connection was ever made: {out}");
        assert_flat(&out.out, 3);
        assert!(
            registry.is_none_or(|r| registry_size(&bed) <= r),
            "registry grew: {registry:?} {:?}",
            registry_size(&bed)
        );
        drop(server);
        assert_nothing_left(&bed, &before);
    }
}

/// Servers are killed at random moments; the client sees a prefix and an end.
#[test]
fn killed_servers() {
    for mode in [Mode::Plain, Mode::Smc].into_iter().filter(|m| Mode::wanted_of("kill-server").contains(m)) {
        let bed = Bed::new("kill-server", mode);
        let before = shared_files();
        let mut random = Random::new(12);
        let mut registry = None;
        for n in 0..kills() {
            let port = u64::from(free_port());
            let server = serve(&bed, &["pump", "server"], &[port], "server");
            let client =
                bed.start(&mut load(bed.client(PROGRAM), &["pump", "client"], &[port, 0, n]), "client");
            std::thread::sleep(Duration::from_micros(random.below(60_000) as u64));
            server.signal(libc::SIGKILL);
            let outcome = client.finish(Duration::from_secs(20));
            let refused = outcome.out.contains("connect: ");
            assert!(refused || outcome.ok(), "{mode:?}, kill {n}: {outcome}\n{}", bed.connections());
            assert!(!server.output().out.contains("BAD"), "{}", server.output());
            if n == kills() / 4 {
                registry = Some(registry_size(&bed));
            }
        }
        assert!(
            registry.is_none_or(|r| registry_size(&bed) <= r),
            "registry grew: {registry:?} {:?}",
            registry_size(&bed)
        );
        assert_nothing_left(&bed, &before);
    }
}

/// The "fds N resident KIB" lines of a load: after the first third, no growth beyond `slack` descriptors and
/// 2 MiB.
fn assert_flat(text: &str, slack: u64) {
    let value = |line: &str, key: &str| {
        let mut words = line.split_whitespace().skip_while(|w| *w != key).skip(1);
        words.next().and_then(|w| w.parse::<u64>().ok())
    };
    let rows: Vec<(u64, u64)> =
        text.lines().filter_map(|l| Some((value(l, "fds")?, value(l, "resident")?))).collect();
    let (first, last) = (rows[rows.len() / 3], rows[rows.len() - 1]);
    assert!(last.0 <= first.0 + slack, "descriptors grew from {} to {}:\n{text}", first.0, last.0);
    assert!(last.1 <= first.1 + 2048, "memory grew from {} to {} KiB:\n{text}", first.1, last.1);
}

#[test]
fn connections_opened_and_closed() {
    let count = setting("BARS_CHURN", 2000);
    for mode in Mode::wanted_of("churn") {
        let bed = Bed::new("churn", mode);
        let before = shared_files();
        for _ in 0..setting("BARS_CHURN_ROUNDS", 1) {
            let port = u64::from(free_port());
            let s = serve(&bed, &["churn", "server"], &[port, count], "server");
            let c = bed.run(
                &mut load(bed.client(PROGRAM), &["churn", "client"], &[port, count]),
                "client",
                LIMIT,
            );
            assert_flat(&good(&bed, "client", c), SLOTS_BEHIND);
            assert_flat(&good(&bed, "server", s.finish(Duration::from_secs(20))), SLOTS_BEHIND);
        }
        assert_nothing_left(&bed, &before);
    }
}

/// The same of "mapped KIB": after the first third, no growth beyond 4 MiB.
fn assert_mapped_flat(text: &str) {
    let mapped = |line: &str| line.split_once(" mapped ")?.1.trim().parse::<u64>().ok();
    let rows: Vec<u64> = text.lines().filter_map(mapped).collect();
    let (first, last) = (rows[rows.len() / 3], rows[rows.len() - 1]);
    assert!(last <= first + 4096, "address space grew from {first} to {last} KiB:\n{text}");
}

/// A process that meets one peer after the other keeps nothing of those that have ended.
#[test]
fn successive_peers() {
    let count = setting("BARS_PEERS", 300);
    for mode in [Mode::Plain, Mode::Smc].into_iter().filter(|m| Mode::wanted_of("peers").contains(m)) {
        for peers in ["servers", "clients"] {
            let bed = Bed::new("peers", mode);
            let before = shared_files();
            let outcome = bed.run(&mut load(bed.client(PROGRAM), &["peers", peers], &[count]), peers, LIMIT);
            let text = good(&bed, peers, outcome);
            assert_flat(&text, 4);
            assert_mapped_flat(&text);
            bed.assert_carrier(count * 4 * 8000, &text);
            assert_nothing_left(&bed, &before);
        }
    }
}

/// Descriptors of two slots. The client does not wait for the end of connections that it closes unused, so
/// how many the server is behind at the most is the scheduler's to say, and may show late (in 150 000
/// connections it never did after the first 50 000).
const SLOTS_BEHIND: u64 = 4;

#[test]
fn many_connections_at_once() {
    let count = setting("BARS_MANY", 1000);
    for mode in Mode::wanted_of("many") {
        let bed = Bed::new("many", mode);
        let (port, before) = (u64::from(free_port()), shared_files());
        let s = serve(&bed, &["many", "server"], &[port], "server");
        let c = bed.run(&mut load(bed.client(PROGRAM), &["many", "client"], &[port, count]), "client", LIMIT);
        let line = good(&bed, "client", c);
        let shared =
            line.split(" in shared").next().and_then(|l| l.split(' ').next_back()?.parse::<u64>().ok());
        match mode {
            Mode::Smc => assert!(shared.is_some_and(|n| n > 0), "{line}"),
            _ => assert_eq!(shared, Some(0), "{mode:?}: {line}"),
        }
        drop(s);
        assert_nothing_left(&bed, &before);
    }
}

/// Eight clients, all four mixes: no foreign byte at either end, and the same carrier at both.
#[test]
fn verdicts_agree() {
    let each = setting("BARS_VERDICTS", 2000) / 4 / 8;
    for mode in Mode::wanted_of("verdict") {
        let bed = Bed::new("verdict", mode);
        let (port, before) = (u64::from(free_port()), shared_files());
        let mut s = serve(&bed, &["verdict", "server"], &[port], "server");
        let clients: Vec<Running> = (0..8)
            .map(|n| {
                let mut c = load(bed.client(PROGRAM), &["verdict", "client"], &[port, each, n]);
                bed.start(&mut c, &format!("client{n}"))
            })
            .collect();
        let ends: Vec<String> = clients.into_iter().map(|c| good(&bed, "client", c.finish(LIMIT))).collect();
        let told = within(Duration::from_secs(20), || s.output().out.lines().count() as u64 >= 8 * each);
        let served = s.output();
        assert!(told && s.alive() && !served.out.contains("BAD"), "{mode:?}: server: {served}");
        compare_carriers(mode, &ends.concat(), &served.out);
        drop(s);
        assert_nothing_left(&bed, &before);
    }
}

/// Both ends name a carrier per client port. Ports may be used twice, so lists are compared.
fn compare_carriers(mode: Mode, clients: &str, server: &str) {
    let rows = |text: &str| {
        let mut v: Vec<(String, String)> = text
            .lines()
            .filter_map(|l| l.split_once(' '))
            .filter(|(port, _)| port.parse::<u16>().is_ok())
            .map(|(p, c)| (p.to_string(), c.to_string()))
            .collect();
        v.sort();
        v
    };
    let (c, s) = (rows(clients), rows(server));
    let differ: Vec<_> = c.iter().zip(&s).filter(|(a, b)| a != b).take(5).collect();
    assert!(c.len() == s.len() && differ.is_empty(), "{mode:?}: client and server disagree: {differ:?}");
    let shared = c.iter().filter(|(_, how)| how == "shm").count();
    let known = c.iter().filter(|(_, how)| how != "unknown").count();
    assert!(c.iter().all(|(_, how)| how != "mixed"), "{mode:?}: a connection used both carriers");
    match mode {
        Mode::Smc => {
            assert!(shared * 2 > known, "only {shared} of {known} connections used shared memory")
        }
        _ => assert_eq!(shared, 0, "{mode:?}: shared memory with one end"),
    }
}

/// Connections at rest cost nothing, in whatever call their owners wait.
#[test]
fn idle_connections_use_no_cpu() {
    for mode in Mode::wanted_of("idle") {
        let bed = Bed::new("idle", mode);
        let port = u64::from(free_port());
        let s = serve(&bed, &["idle", "server"], &[port], "server");
        let c = bed.run(&mut load(bed.client(PROGRAM), &["idle", "client"], &[port]), "client", LIMIT);
        for line in [good(&bed, "client", c), good(&bed, "server", s.finish(LIMIT))] {
            assert!(last_number(&line) <= 20, "{mode:?}: {line} ms of processor time in an idle second");
        }
    }
}
