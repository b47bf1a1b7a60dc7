//! One cell on every path with the engine itself: both ends ran, every connection took its path, and nothing is left. A
//! path that this host lacks says so in one sentence, and its test passes.

use std::process::{Command, Stdio};

use serde_json::Value;

const CONNECTIONS: u64 = 3;

fn measured(path: &str, profile: &str) -> Option<Value> {
    let (folder, registry) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
    command.args(["inner", "cell", "--path", path, "--profile", profile, "--seconds", "0.5"]);
    command.args(["--conns", &CONNECTIONS.to_string()]).stdin(Stdio::null());
    command.env("TMPDIR", folder.path()).env("SMC_REGISTRY_DIR", registry.path());
    let output = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(std::fs::read_dir(folder.path()).expect("it is there").next().is_none(), "a folder was left");
    if said.contains(&format!("no {path} here: ")) {
        println!("skipped: {said}");
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(serde_json::from_slice(&output.stdout).expect("JSON and nothing else"))
}

fn is_measured(path: &str, profile: &str) {
    let Some(run) = measured(path, profile) else { return };
    let seen = &run["connections"];
    let over_memory = if path == "smc" { CONNECTIONS } else { 0 };
    assert!(run["transactions"].as_u64().is_some_and(|number| number > 0), "{path} {profile}: {run}");
    assert!(run["server"]["cpu_ns"].as_u64().is_some(), "the slave's part is in it");
    assert_eq!(seen["total"].as_u64(), Some(CONNECTIONS), "{path} {profile}: {seen}");
    if path != "af-smc" {
        assert_eq!(seen["smcd"].as_u64(), Some(over_memory), "{path} {profile}: {seen}");
    }
}

/// A request and its answer, and a stream, which a path may treat differently.
#[test]
fn every_path_is_measured() {
    // (The server of `smc-client` is plain, so what its client has loaded changes nothing.)
    for path in ["tcp-loopback", "tcp-veth", "unix", "smc", "smc-client", "af-smc", "sockmap"] {
        ["rr1c-200x1000", "stream"].iter().for_each(|profile| is_measured(path, profile));
    }
}

/// Each direction has connections of its own, and none of them answers the other.
#[test]
fn both_directions_at_once_are_streams() {
    let of = |profile: &str| measured("tcp-loopback", profile).expect("every host has it");
    let run = of("both-ways");
    assert!(["bytes_sent", "bytes_received"].iter().all(|name| run[name].as_u64() > Some(0)), "{run}");
    assert_eq!((&run["one_way"], &of("ping")["one_way"]), (&Value::Bool(true), &Value::Bool(false)));
}

/// Nobody could look at a connection of one request in time: all that were made are counted.
#[test]
fn connections_of_one_request_are_told_of() {
    for (path, is_smc) in [("smc", true), ("smc-client", false)] {
        let Some(run) = measured(path, "crr-200x1000") else { continue };
        let seen = &run["connections"];
        let transactions = run["transactions"].as_u64().expect("a number");
        assert!(transactions > 0 && seen["total"].as_u64() >= Some(transactions), "{path}: {run}");
        let over_memory = if is_smc { seen["total"].as_u64() } else { Some(0) };
        assert_eq!(seen["smcd"].as_u64(), over_memory, "{path}: {seen}");
    }
}

#[test]
fn bare_moves_bytes_without_sockets_and_says_what_it_cannot_do() {
    for (profile, ways) in [("rr1c-200x1000", 2), ("str-readx30k", 1), ("str-writex30k", 1)] {
        let run = measured("bare", profile).expect("every host has it");
        let is_moved = |name: &&&str| run[**name].as_u64() > Some(0);
        assert_eq!(["bytes_sent", "bytes_received"].iter().filter(is_moved).count(), ways, "{run}");
        assert!(["server", "client"].iter().all(|end| run[end]["cpu_ns"].as_u64() > Some(0)), "{run}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
    command.args(["inner", "cell", "--path", "bare", "--profile", "crr-200x1000"]).stdin(Stdio::null());
    let refused = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("crr-200x1000 does more"), "{said}");
}
