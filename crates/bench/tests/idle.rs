//! `smc_bench idle` with a few connections: all of them are told of, and nothing is left.

use std::process::{Command, Stdio};

use serde_json::Value;

#[test]
fn a_few_idle_connections_are_counted_and_gone() {
    let (folder, registry) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
    command
        .args(["idle", "--conns", "20", "--seconds", "0.1", "--json", "study.json", "--html", "page.html"])
        .stdin(Stdio::null());
    let results = tempfile::tempdir().expect("a folder");
    command.current_dir(results.path()).env("TMPDIR", folder.path()).env("SMC_REGISTRY_DIR", registry.path());
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| std::fs::read_to_string(results.path().join(name)).expect("it was written");
    let idle: Value = serde_json::from_str(&read("study.json")).expect("JSON");
    let (table, notes) = (&idle["study"]["extras"][0], idle["study"]["notes"].as_array().expect("notes"));
    let rows = table["rows"].as_array().expect("rows");
    assert_eq!(rows.len() + notes.len(), 2, "SMC is measured, or a note says why not: {idle}");
    for row in rows {
        assert_eq!(row[4], if row[0] == "smc" { "20 of 20" } else { "0 of 20" }, "{row}");
        assert!(read("page.html").contains(row[1].as_str().expect("text")), "the page says the same");
    }
    assert_eq!(table["seen"].as_array().map(Vec::len), Some(1), "others were watched");
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
