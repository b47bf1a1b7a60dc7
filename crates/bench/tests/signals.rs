//! Each signal at each phase of a measurement: what was measured by then is in a file that can be read, and the end comes
//! soon. Nothing is left.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// For the end of a run of an hour, on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// With SIGHUP as it is by default, whatever this test runs under, or `--ignore-signal`.
fn start(folder: &Path, hangup: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new("env");
    command
        .args([&format!("{hangup}=HUP"), env!("CARGO_BIN_EXE_smc_bench")])
        .args(arguments)
        .args(["--json", "study.json"])
        .current_dir(folder)
        .env("TMPDIR", folder);
    command.env("SMC_REGISTRY_DIR", folder).stdin(Stdio::null()).stderr(Stdio::piped());
    command.stdout(File::create(folder.join("text")).expect("a file")).spawn().expect("the program starts")
}

fn rounds(rounds: &'static str, seconds: &'static str) -> Vec<&'static str> {
    let fixed =
        ["compare", "--paths", "tcp-loopback", "--profile", "ping", "--conns", "1", "--warm-up", "0.01"];
    fixed.into_iter().chain(["--rounds", rounds, "--seconds", seconds]).collect()
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).expect("it is our child");
}

/// Waits for a line with `word` on standard error.
fn reaches(errors: &mut impl BufRead, word: &str) {
    let found = errors.lines().map_while(Result::ok).any(|line| line.contains(word));
    assert!(found, "it ended before it said {word:?}");
}

/// The file of results.
fn read(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("study.json")).expect("a file");
    serde_json::from_str(&text).expect("JSON, whole")
}

/// Runs in it.
fn runs(saved: &Value) -> usize {
    saved["study"]["samples"].as_array().expect("samples").len()
}

/// What it saved, if it ends soon with 130.
fn saved(mut child: Child, mut errors: impl Read, folder: &Path, case: &str) -> Value {
    let began = Instant::now();
    let mut said = String::new();
    errors.read_to_string(&mut said).expect("text");
    let status = child.wait().expect("it is our child");
    assert!(began.elapsed() < SOON, "{case}: it went on");
    assert_eq!(status.code(), Some(130), "{case}: {said}");
    let saved = read(folder);
    assert_eq!(saved["study"]["ending"], "interrupted", "{case}");
    let shown = std::fs::read_to_string(folder.join("text")).expect("text");
    assert!(shown.contains("interrupted") && !shown.contains("0 of 0"), "{case}: {shown}");
    let left: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").flatten().map(|one| one.file_name()).collect();
    let left: Vec<_> = left.iter().filter(|name| name.to_string_lossy().contains("smc_bench-")).collect();
    assert!(left.is_empty(), "{case}: {left:?}");
    saved
}

/// Sends `signals` once standard error has said `word`; returns how many runs were saved.
fn interrupted(arguments: &[&str], word: &str, signals: &[Signal]) -> usize {
    let case = format!("{signals:?} at {word:?}");
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = start(folder.path(), "--default-signal", arguments);
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    reaches(&mut errors, word);
    for signal in signals {
        // Two of a kind that come at once are one.
        std::thread::sleep(Duration::from_millis(300));
        send(&child, *signal);
    }
    runs(&saved(child, errors, folder.path(), &case))
}

const ONCE: [&[Signal]; 4] = [&[Signal::SIGINT], &[Signal::SIGTERM], &[Signal::SIGHUP], &[Signal::SIGQUIT]];
const AT_ONCE: [&[Signal]; 4] = [
    &[Signal::SIGINT, Signal::SIGINT],
    &[Signal::SIGTERM, Signal::SIGINT],
    &[Signal::SIGHUP],
    &[Signal::SIGQUIT],
];

/// Waits until it is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < SOON, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn while_it_looks_which_ways_there_are() {
    for signal in ONCE.concat() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = start(folder.path(), "--default-signal", &["compare", "--rounds", "1000"]);
        let errors = child.stderr.take().expect("a pipe");
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        until("a way is tried", || std::fs::read_to_string(&children).is_ok_and(|all| !all.is_empty()));
        send(&child, signal);
        saved(child, errors, folder.path(), signal.as_str());
    }
}

#[test]
fn while_it_writes_nothing_ends_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("study.json");
    assert!(Command::new("mkfifo").arg(&file).status().is_ok_and(|made| made.success()));
    let mut child = start(folder.path(), "--default-signal", &rounds("1", "0.05"));
    let shown = || std::fs::read_to_string(folder.path().join("text")).unwrap_or_default();
    until("the text is there, and a reader is waited for", || shown().contains("machine: "));
    for signal in ONCE.concat() {
        send(&child, signal);
        std::thread::sleep(Duration::from_millis(50));
    }
    let text = std::fs::read_to_string(file).expect("all of it");
    assert!(serde_json::from_str::<Value>(&text).is_ok() && child.wait().expect("it is our child").success());
}

#[test]
fn in_the_first_run_a_second_signal_ends_it() {
    for signals in AT_ONCE {
        assert_eq!(interrupted(&rounds("1000", "600"), "round 1 of", signals), 0, "{signals:?}");
    }
}

#[test]
fn between_runs_everything_that_was_measured_is_kept() {
    for signals in ONCE {
        assert!(interrupted(&rounds("1000", "0.05"), "round 3 of", signals) >= 2, "{signals:?}");
    }
}

#[test]
fn connections_that_idle_are_left_at_once() {
    for signals in AT_ONCE {
        let idle = ["idle", "--conns", "5", "--seconds", "600"];
        assert_eq!(interrupted(&idle, "idle connections cost", signals), 0, "{signals:?}");
    }
}

/// What no cell tells is measured behind the cells, of which this part of the suite has none.
#[test]
fn rounds_of_probes_end_after_the_current_one_or_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut there = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
    there.args(["inner", "cell", "--path", "smc", "--profile", "ping", "--seconds", "0.05"]);
    there.env("TMPDIR", folder.path()).env("SMC_REGISTRY_DIR", folder.path());
    if !there.output().is_ok_and(|run| run.status.success()) {
        println!("skipped: smc is not here");
        return;
    }
    let idle = |rounds, seconds| {
        ["compare", "--suite", "goals", "--only", "idle", "--rounds", rounds, "--seconds", seconds]
    };
    for (once, at_once) in ONCE.into_iter().zip(AT_ONCE) {
        interrupted(&idle("1000", "0.05"), "round 2 of 1000 of idle connections", once);
        interrupted(&idle("1", "600"), "round 1 of 1 of idle connections", at_once);
    }
}

#[test]
fn a_real_server_is_left_in_either_way() {
    let redis = |seconds| ["app", "redis", "--conns", "2", "--rounds", "1000", "--seconds", seconds];
    let mut there = Command::new("sh");
    if !there
        .args(["-c", "command -v redis-server redis-benchmark"])
        .status()
        .is_ok_and(|found| found.success())
    {
        println!("skipped: redis is not here");
        return;
    }
    for (once, at_once) in ONCE.into_iter().zip(AT_ONCE) {
        assert!(interrupted(&redis("1"), "round 2 of", once) >= 2, "{once:?}");
        assert_eq!(interrupted(&redis("600"), "round 1 of", at_once), 0, "{at_once:?}");
    }
}

#[test]
fn while_it_waits_for_a_quiet_host() {
    let mut waiting = rounds("1000", "0.05");
    waiting.extend(["--wait", "600"]);
    // It ends with this process, however that ends.
    let mut busy =
        Command::new("sh").args(["-c", "while kill -0 $PPID; do :; done"]).spawn().expect("a shell");
    for signals in ONCE {
        interrupted(&waiting, "round 1 of", signals);
    }
    busy.kill().expect("it is our child");
    busy.wait().expect("it is our child");
}

#[test]
fn where_nobody_reads_any_more_the_file_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
    command.args(rounds("2", "0.05")).args(["--json", "study.json"]).current_dir(folder.path());
    let full = File::options().write(true).open("/dev/full").expect("Linux has it");
    let status = command
        .args(["--html", "/dev/full"])
        .stdin(Stdio::null())
        .stdout(full.try_clone().expect("one more"))
        .stderr(full);
    assert_eq!(status.status().expect("it starts").code(), Some(1), "a full disk is a failure");
    assert_eq!(runs(&read(folder.path())), 2);
}

#[test]
fn who_ignores_a_closed_terminal_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = start(folder.path(), "--ignore-signal", &rounds("4", "0.05"));
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    reaches(&mut errors, "round 2 of");
    send(&child, Signal::SIGHUP);
    assert!(child.wait().expect("it is our child").success());
    assert_eq!(runs(&read(folder.path())), 4);
}
