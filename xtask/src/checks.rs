//! The checks that other programs do for us: rustfmt, clippy, rustdoc, loom, miri, cargo-deny and the tests.

use std::time::Duration;

use crate::exec::{self, Run};
use crate::workspace::{PRELOAD, Workspace};
use crate::{leftovers, ordinary_user};

/// Loom explores schedules until this many preemptions per run; two find every ordering bug known to the
/// ring's tests.
pub(crate) const LOOM_PREEMPTIONS: &str = "2";

/// No crate is published, and private items are documented for those who work here: links to them are
/// welcome.
const RUSTDOCFLAGS: &str = "-D warnings -A rustdoc::private-intra-doc-links";

/// `cargo fmt --check`.
pub(crate) fn fmt(ws: &Workspace) -> anyhow::Result<()> {
    cargo(ws, "run `cargo fmt` and commit the result", &["fmt", "--all", "--check"])
}

/// Clippy over everything. The preload library apart, with the profile it is built with.
pub(crate) fn lint(ws: &Workspace) -> anyhow::Result<()> {
    let hint = "follow clippy's advice; an allow needs `reason = \"...\"`";
    let all = ["clippy", "--workspace", "--exclude", PRELOAD, "--all-targets", "--", "-D", "warnings"];
    cargo(ws, hint, &all)?;
    cargo(ws, hint, &["clippy", "--package", PRELOAD, "--profile", "dist", "--", "-D", "warnings"])
}

/// Documentation, links between items included.
pub(crate) fn doc(ws: &Workspace) -> anyhow::Result<()> {
    let hint = "mend the link or the missing documentation that rustdoc names";
    let all: &[&str] = &["doc", "--workspace", "--exclude", PRELOAD, "--no-deps", "--document-private-items"];
    let preload: &[&str] =
        &["doc", "--package", PRELOAD, "--profile", "dist", "--no-deps", "--document-private-items"];
    for args in [all, preload] {
        let run = Run::cargo(hint)
            .args(args)
            .with(|c| _ = c.current_dir(ws.root()).env("RUSTDOCFLAGS", RUSTDOCFLAGS));
        run.go()?;
    }
    Ok(())
}

/// Every interleaving of the shared memory room that loom can reach within its bound.
pub(crate) fn loom(ws: &Workspace) -> anyhow::Result<()> {
    Run::cargo("loom prints the schedule that fails; LOOM_LOG=1 shows each step")
        .args(["test", "--package", "shm", "--release", "--lib", "--target-dir"])
        .args([ws.target().join("loom")])
        .limit(Duration::from_secs(8 * 60))
        .with(|c| {
            c.current_dir(ws.root()).env("RUSTFLAGS", "--cfg loom");
            if std::env::var_os("LOOM_MAX_PREEMPTIONS").is_none() {
                c.env("LOOM_MAX_PREEMPTIONS", LOOM_PREEMPTIONS);
            }
        })
        .go()
}

/// The unit tests of the rooms without system calls under miri, where it is installed: no reference, pointer
/// or race in them is undefined behaviour.
pub(crate) fn miri(ws: &Workspace) -> anyhow::Result<()> {
    let asked = std::process::Command::new("cargo").args(["+nightly", "miri", "--version"]).output();
    if !asked.is_ok_and(|run| run.status.success()) {
        println!(
            "miri is not installed (`rustup +nightly component add miri rust-src` adds it): nothing done"
        );
        return Ok(());
    }
    Run::new("rustup", "miri names the line and the rule that it breaks")
        .args(["run", "nightly", "cargo", "miri", "test", "--lib", "--target-dir"])
        .args([ws.target().join("miri")])
        .args(["--package", "wire", "--package", "proto", "--package", "shm"])
        .limit(Duration::from_secs(20 * 60))
        .with(|c| {
            c.current_dir(ws.root()).env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
            // (Tables and the tests' memory are never given back.)
            c.env("MIRIFLAGS", "-Zmiri-ignore-leaks");
        })
        .go()
}

/// cargo-deny, where it is installed. Advisories need the network: `cargo deny check advisories` is for the
/// release.
pub(crate) fn deny(ws: &Workspace) -> anyhow::Result<()> {
    let installed = std::process::Command::new("cargo-deny").arg("--version").output();
    if !installed.is_ok_and(|run| run.status.success()) {
        println!(
            "cargo-deny is not installed: licences and sources not checked (`cargo install cargo-deny` adds it)"
        );
        return Ok(());
    }
    cargo(
        ws,
        "deny.toml says what is allowed and why",
        &["deny", "--log-level", "error", "check", "bans", "licenses", "sources"],
    )
}

/// All tests that run as the calling user, in the workspace's default members.
pub(crate) fn test(ws: &Workspace) -> anyhow::Result<()> {
    test_part(ws, None, &[])
}

/// The same without what the ordinary user has tested before, and rounds of the torture of so many seconds.
pub(crate) fn test_in_ci(ws: &Workspace) -> anyhow::Result<()> {
    const TORTURE_SECONDS: &str = "12";
    let turn = crate::parity::turn(ws);
    let settings = [
        (crate::parity::TURN, turn.as_str()),
        ("TORTURE_SECONDS", TORTURE_SECONDS),
        ordinary_user::PARITY_THREADS,
    ];
    test_part(ws, ordinary_user::part_of_the_caller(), &settings)
}

/// Compiles what [`test_in_ci`] runs, and lets others go first.
pub(crate) fn compile_tests(ws: &Workspace) -> anyhow::Result<()> {
    Run::new("nice", "the compiler's message above names the place")
        .args(["-n", "19"])
        .args([exec::cargo()])
        .args(["test", "--no-run", "--quiet"])
        .with(|c| _ = c.current_dir(ws.root()))
        .go()
}

fn test_part(ws: &Workspace, part: Option<&str>, settings: &[(&str, &str)]) -> anyhow::Result<()> {
    let run = Run::cargo("run the named test alone: `cargo test -p PACKAGE NAME -- --nocapture`")
        .args(["test"])
        .with(|c| {
            c.current_dir(ws.root()).env("ISTHMUS_DIST", ws.dist());
            c.envs(part.map(|part| (ordinary_user::PART, part)));
            c.envs(settings.iter().copied());
        });
    leftovers::none_after(|| run.go())
}

/// What `tests/bars` does in small with every change, in full: bytes, kills, connections opened, at once, and
/// verdicts.
const FULL_BARS: [(&str, &str); 6] = [
    ("BARS_BYTES", "1073741824"),
    ("BARS_KILLS", "1000"),
    ("BARS_CHURN", "10000"),
    ("BARS_CHURN_ROUNDS", "20"),
    ("BARS_MANY", "1000"),
    ("BARS_VERDICTS", "100000"),
];

/// The bars of the data path at full size, against what `dist` lays out now.
pub(crate) fn bars(ws: &Workspace) -> anyhow::Result<()> {
    crate::dist::dist(ws)?;
    Run::cargo("run one bar alone: `BARS_KILLS=1000 cargo test -p isthmus-tests --test bars NAME`")
        .args(["test", "--package", "isthmus-tests", "--test", "bars", "--", "--test-threads", "1"])
        .limit(Duration::from_secs(60 * 60))
        .with(|c| _ = c.current_dir(ws.root()).env("ISTHMUS_DIST", ws.dist()).envs(FULL_BARS))
        .go()
}

/// Loads of tests/soak.
const SOAKS: u64 = 10;

/// The loads that go on and on, for two thirds of the time, and the torture for the rest, with a seed by the
/// clock.
pub(crate) fn soak(ws: &Workspace, minutes: u64) -> anyhow::Result<()> {
    crate::dist::dist(ws)?;
    let each = (minutes * 40 / SOAKS).max(5);
    Run::cargo(
        "run one load alone: `SOAK_SECONDS=60 cargo test -p isthmus-tests --test soak NAME -- --nocapture`",
    )
    .args([
        "test",
        "--package",
        "isthmus-tests",
        "--test",
        "soak",
        "--",
        "--test-threads",
        "1",
        "--nocapture",
    ])
    .limit(Duration::from_secs(4 * SOAKS * each + 30 * 60))
    .with(|c| {
        c.current_dir(ws.root()).env("ISTHMUS_DIST", ws.dist()).env("ISTHMUS_MODES", "smc");
        c.env("SOAK_SECONDS", each.to_string());
    })
    .go()?;
    let seed = std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs() % 1_000_000);
    torture(ws, (minutes * 10).max(5), &[seed], false)
}

/// The fuzzer that is a peer, at length, and the scribblers with more time for each of their plans.
pub(crate) fn hostile(ws: &Workspace, seconds: u64, seed: Option<u64>) -> anyhow::Result<()> {
    crate::dist::dist(ws)?;
    let by_clock = || std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs() % 1_000_000);
    let seed = seed.unwrap_or_else(by_clock);
    println!("seed {seed}: `cargo xtask hostile --seed {seed}` begins with the same round");
    Run::cargo("run one round alone: `FUZZ_SECONDS=0 FUZZ_SEED=N cargo test -p isthmus-tests --test bars whoever_lies`")
        .args(["test", "--package", "isthmus-tests", "--test", "bars", "--", "--test-threads", "1", "--nocapture"])
        .args(["fuzz::", "hostile::", "place::"])
        .limit(Duration::from_secs(seconds + 60 * 60))
        .with(|c| {
            c.current_dir(ws.root()).env("ISTHMUS_DIST", ws.dist()).env("ISTHMUS_MODES", "smc");
            c.env("FUZZ_SECONDS", seconds.to_string()).env("FUZZ_SEED", seed.to_string());
            c.env("BARS_SCRIBBLE_MS", "1000").env("BARS_SCRIBBLE_SEED", seed.to_string());
        })
        .go()
}

/// So many scripts of random socket calls, over TCP and over the library.
pub(crate) fn calls(ws: &Workspace, seeds: u64, first: Option<u64>) -> anyhow::Result<()> {
    crate::dist::dist(ws)?;
    let by_clock = || std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs() % 1_000_000);
    Run::cargo("run one script alone: `cargo test -p isthmus-tests --test calls -- SEED`")
        .args(["test", "--package", "isthmus-tests", "--test", "calls"])
        .limit(Duration::from_secs(15 * 60 + seeds))
        .with(|c| {
            c.current_dir(ws.root()).env("ISTHMUS_DIST", ws.dist()).env("ISTHMUS_MODES", "smc");
            c.env("CALLS_SEEDS", seeds.to_string());
            c.env("CALLS_FIRST", first.unwrap_or_else(by_clock).to_string());
        })
        .go()
}

/// So many random schedules over the simulated kernel; a failure names its seed.
pub(crate) fn sim(ws: &Workspace, seeds: u64) -> anyhow::Result<()> {
    Run::cargo("run one schedule alone: `SIM_SEED=1 cargo test --release -p sim random -- --nocapture`")
        .args(["test", "--release", "--package", "sim", "random", "--", "--nocapture"])
        .limit(Duration::from_secs(15 * 60 + seeds / 20))
        .with(|c| _ = c.current_dir(ws.root()).env("SIM_SEEDS", seeds.to_string()))
        .go()
}

/// The torture at length, round after round: a round is one seed, with spinning or without, or over plain
/// TCP.
pub(crate) fn torture(ws: &Workspace, seconds: u64, seeds: &[u64], plain: bool) -> anyhow::Result<()> {
    if !plain {
        crate::dist::dist(ws)?;
    }
    let rounds = if plain { "plain" } else { "spin,nospin" };
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    let count = (seeds.len() * rounds.split(',').count()) as u64;
    Run::cargo("run one round alone: `TORTURE_SEED=1 TORTURE_ROUNDS=spin cargo test -p isthmus-tests --test torture`")
        .args(["test", "--package", "isthmus-tests", "--test", "torture"])
        .limit(Duration::from_secs(count * (2 * seconds + 300) + 15 * 60))
        .with(|c| {
            c.current_dir(ws.root()).env("ISTHMUS_DIST", ws.dist());
            c.env("TORTURE_SECONDS", seconds.to_string()).env("TORTURE_SEED", seeds.join(","));
            c.env("TORTURE_ROUNDS", rounds);
        })
        .go()
}

fn cargo(ws: &Workspace, hint: &'static str, args: &[&str]) -> anyhow::Result<()> {
    Run::cargo(hint).args(args).with(|c| _ = c.current_dir(ws.root())).go()
}
