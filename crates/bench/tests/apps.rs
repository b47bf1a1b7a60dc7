//! `smc_bench app` with the real programs, as short as it goes: every number is there, every connection is told of, and
//! nothing is left. A program that this host lacks is named with its package, and its test passes.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Runs the comparison in temporary folders and a registry of its own, and hands them over to look into.
fn app(name: &str, options: &[&str]) -> (Output, tempfile::TempDir) {
    let (folder, registry) = (open_folder(), open_folder());
    let mut command = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
    command
        .args(["app", name, "--json", "-", "--seconds", "0.5", "--warm-up", "0.5", "--rounds", "1"])
        .args(options)
        .stdin(Stdio::null());
    command.env("TMPDIR", folder.path()).env("SMC_REGISTRY_DIR", registry.path());
    (command.output().expect("the program starts"), folder)
}

/// PostgreSQL runs as a user of its own and must get through.
fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o1777)).expect("its owner may");
    folder
}

fn is_plausible(line: &Value) -> bool {
    let run = &line["run"];
    let positive = |value: &Value| value.as_f64().is_some_and(|number| number > 0.0);
    positive(&run["transactions"]) && positive(&run["elapsed_ns"]) && positive(&run["server"]["cpu_ns"])
}

/// Over SMC all connections shall use it; over TCP none.
fn runs_over_its_path(line: &Value, connections: u64) -> bool {
    let seen = &line["run"]["connections"];
    let wanted = if line["turn"]["contender"] == 1 { connections } else { 0 };
    seen["smcd"].as_u64() == Some(wanted) && seen["total"].as_u64() == Some(connections)
}

fn compares(name: &str, tests: usize) {
    let (output, folder) = app(name, &["--conns", "4"]);
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("install the package") {
        println!("skipped: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    let comparison: Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    let study = &comparison["study"];
    let lines = study["samples"].as_array().expect("samples");
    let ways = study["plan"]["groups"][0]["contenders"].as_array().map_or(0, Vec::len);
    let is_noted = study["notes"].to_string().contains("whole seconds");
    assert!(is_noted && study["machine"]["cpus"].is_u64(), "{study}");
    assert_eq!(lines.len(), tests * ways, "{comparison}");
    for line in lines {
        assert!(is_plausible(line) && runs_over_its_path(line, 4), "{line}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("it is there").flatten().collect();
    assert!(left.is_empty() && !is_named(folder.path()), "left: {left:?}");
}

/// Whether a process has the folder in its command line.
fn is_named(folder: &Path) -> bool {
    let name = folder.to_string_lossy().into_owned();
    let lines = std::fs::read_dir("/proc").expect("/proc").flatten();
    lines
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(&name))
}

#[test]
fn redis_is_compared() {
    compares("redis", 2);
}

#[test]
fn nginx_is_compared() {
    compares("nginx", 2);
}

#[test]
fn postgres_is_compared() {
    compares("postgres", 1);
}

#[test]
fn memcached_is_compared() {
    compares("memcached", 1);
}

#[test]
fn a_missing_program_is_named_with_its_package() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
    let output = command.args(["app", "redis"]).env("PATH", "").output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("install the package redis-server"), "{said}");
}
