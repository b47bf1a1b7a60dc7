//! `smc_bench idle` with a few connections: all of them are told of, and nothing is left.

use std::process::{Command, Stdio};

use serde_json::Value;

#[test]
fn a_few_idle_connections_are_counted_and_gone() {
    let (folder, registry) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
    command.args(["idle", "--conns", "20", "--seconds", "0.1", "--json"]).stdin(Stdio::null());
    command.env("TMPDIR", folder.path()).env("SMC_REGISTRY_DIR", registry.path());
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let idle: Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    let (lines, notes) = (idle["lines"].as_array().expect("lines"), idle["notes"].as_array().expect("notes"));
    assert_eq!(lines.len() + notes.len(), 2, "SMC is measured, or a note says why not: {idle}");
    for line in lines {
        assert_eq!(line["seen"]["total"], 20, "{line}");
        assert_eq!(line["seen"]["smcd"], if line["path"] == "smc" { 20 } else { 0 }, "{line}");
    }
    assert!(std::fs::read_dir(folder.path()).expect("it is there").next().is_none(), "a folder was left");
}

#[test]
fn more_connections_than_descriptors_are_refused_in_one_sentence() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 64; exec \"$0\" idle --conns 100", env!("CARGO_BIN_EXE_smc_bench")]);
    let output = shell.stdin(Stdio::null()).output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("raise `ulimit -Hn`"), "{said}");
}
