//! What the program tests share: running a scenario in every mode against the oracle, waiting for servers,
//! and looking at `smcss` while connections live.

use isthmus_tests::{Bed, Mode, Outcome, Running, installed, within};
use std::fmt::Debug;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The programs of `names`, or None after saying which is missing.
pub(crate) fn programs<const N: usize>(names: [&str; N]) -> Option<[PathBuf; N]> {
    let found = names.map(|n| (n, installed(&[n])));
    if let Some((missing, _)) = found.iter().find(|(_, p)| p.is_none()) {
        println!("skipped: {missing} not installed");
        assert!(std::env::var_os("CI_REQUIRE_PROGRAMS").is_none(), "{missing} is required and not installed");
        return None;
    }
    Some(found.map(|(_, p)| p.expect("checked above")))
}

/// The system's own Python where there is one: wrappers found first in PATH are slow shell scripts.
pub(crate) fn python() -> Option<PathBuf> {
    let system = PathBuf::from("/usr/bin/python3");
    if system.is_file() { Some(system) } else { programs(["python3"]).map(|[p]| p) }
}

/// A file of `tests/e2e/programs`.
pub(crate) fn script(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/programs")).join(name)
}

/// Runs a scenario plainly, then in every wanted mode, and compares the results. If only the plain mode is
/// wanted it runs twice, which tells whether the scenario itself is reproducible.
pub(crate) fn same_in_all_modes<T: PartialEq + Debug>(name: &str, scenario: impl Fn(&mut Bed) -> T) {
    let oracle = scenario(&mut Bed::new(name, Mode::Plain));
    let alone = Mode::wanted() == [Mode::Plain];
    for mode in Mode::wanted_of(name).into_iter().filter(|m| alone || *m != Mode::Plain) {
        let result = scenario(&mut Bed::new(name, mode));
        assert!(result == oracle, "{name}, {mode:?}:\n{result:#?}\nover TCP:\n{oracle:#?}");
    }
}

/// Starts a server and waits until it listens on `port`.
pub(crate) fn serve(bed: &Bed, command: &mut Command, port: u16) -> Running {
    let mut server = bed.start(command, "server");
    let up = within(Duration::from_secs(30), || !server.alive() || listening(port));
    assert!(up && server.alive(), "the server does not listen on {port}: {command:?}\n{}", server.output());
    server
}

/// Whether somebody listens on `port`, found without connecting.
pub(crate) fn listening(port: u16) -> bool {
    let has = |path| {
        let table = std::fs::read_to_string(path).unwrap_or_default();
        let want = format!(":{port:04X}");
        table.lines().any(|l| {
            let mut f = l.split_whitespace().skip(1);
            f.next().is_some_and(|a| a.ends_with(&want)) && f.nth(1) == Some("0A")
        })
    };
    has("/proc/thread-self/net/tcp") || has("/proc/thread-self/net/tcp6")
}

/// Runs a client to its end while looking at `smcss`; returns the last output that showed SMC-D, or the last
/// one.
pub(crate) fn watch(bed: &Bed, command: &mut Command, name: &str) -> (Outcome, String) {
    let mut client = bed.start(command, name);
    let (mut seen, begin) = (String::new(), Instant::now());
    while client.alive() && begin.elapsed() < LIMIT {
        let now = bed.connections();
        if now.contains("SMCD") || !seen.contains("SMCD") {
            seen = now;
        }
        std::thread::sleep(Duration::from_millis(30));
    }
    if client.alive() {
        eprintln!("{name} hangs; connections:\n{}", bed.connections());
    }
    (client.finish(Duration::ZERO), seen)
}

/// Runs a client that must succeed and returns its output.
pub(crate) fn output(bed: &Bed, command: &mut Command, name: &str) -> String {
    bed.run(command, name, LIMIT).must(&format!("{name}, {:?}", bed.mode)).out
}

/// In the enabled mode, `smcss` must have shown SMC-D while the connections lived; in others it must not.
pub(crate) fn assert_shown(bed: &Bed, seen: &str) {
    match bed.mode {
        Mode::Plain => {}
        Mode::Smc => assert!(seen.contains("SMCD"), "smcss shows no SMC-D:\n{seen}"),
        _ => assert!(!seen.contains("SMCD"), "smcss shows SMC-D with one end enabled:\n{seen}"),
    }
}

/// FNV-1a of some bytes, to compare large outputs by one number.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

/// Reproducible file content of `n` bytes.
pub(crate) fn content(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 31 + (i >> 8) * 17 + 3) as u8).collect()
}
