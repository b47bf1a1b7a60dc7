//! The program as people run it: its output, its errors, and that no worker outlives it.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

fn bench(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
    command.args(args).stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    bench(args).output().expect("the program starts")
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = run(&[args, &["--json", "--seconds", "0.05", "--rounds", "2"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON and nothing else")
}

#[test]
fn every_workload_and_server_counts_operations() {
    for workload in ["rr", "stream", "crr"] {
        for server in ["pair", "epoll"] {
            let lines = json(&[workload, "--conns", "3", "--transport", "tcp,unix", "--server", server]);
            let lines = lines.as_array().expect("a list");
            let names: Vec<_> = lines.iter().map(|line| line["transport"].as_str()).collect();
            assert_eq!(names, [Some("tcp"), Some("unix")]);
            for line in lines {
                assert!(
                    line["median"]["rate"].as_f64().is_some_and(|rate| rate > 0.0),
                    "{workload} {server}: {line}"
                );
                assert_eq!(line["rounds"].as_array().map(Vec::len), Some(2));
            }
        }
    }
}

#[test]
fn odd_sizes_are_served_whole() {
    let lines =
        json(&["rr", "--request", "1", "--response", "100003", "--transport", "tcp", "--server", "epoll"]);
    assert!(lines[0]["median"]["rate"].as_f64().is_some_and(|rate| rate > 0.0));
}

#[test]
fn nonsense_is_refused_with_status_2() {
    for args in [
        &["rr", "--conns", "0"][..],
        &["rr", "--seconds", "never"],
        &["stream", "--transport", "pigeon"],
        &["x"],
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn a_worker_alone_refuses_to_run() {
    let args = ["worker", "server", "rr", "1", "1", "--parent", "1", "--address", "tcp:127.0.0.1:0"];
    let output = run(&args);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("is started by"));
}

#[test]
fn workers_die_with_the_program_that_started_them() {
    let mut program = bench(&["rr", "--conns", "2", "--transport", "tcp", "--seconds", "60"])
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    let workers = wait_for(|| children_of(program.id()), |workers| workers.len() == 4);
    program.kill().expect("it runs");
    program.wait().expect("it ends");
    let left = wait_for(|| workers.iter().filter(|pid| is_alive(pid)).cloned().collect(), Vec::is_empty);
    assert!(left.is_empty(), "{left:?} of {workers:?} still run");
}

/// Looks until `found` or for ten seconds, whichever comes first.
fn wait_for(look: impl Fn() -> Vec<String>, found: impl Fn(&Vec<String>) -> bool) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let seen = look();
        if found(&seen) || Instant::now() > deadline {
            return seen;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn children_of(parent: u32) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let names = processes.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|pid| stat(pid).is_some_and(|(_, ppid)| ppid == parent.to_string())).collect()
}

/// A zombie is dead; who collects it is somebody else's business.
fn is_alive(pid: &str) -> bool {
    stat(pid).is_some_and(|(state, _)| state != "Z")
}

/// State and parent of a process, by proc(5).
fn stat(pid: &str) -> Option<(String, String)> {
    let text = std::fs::read_to_string(PathBuf::from("/proc").join(pid).join("stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned);
    Some((fields.next()?, fields.next()?))
}
