//! A comparison as people run it, with real sockets and short runs. What signals leave is the business of `signals`.

use std::fs;
use std::process::{Command, Stdio};

/// Nothing to configure, no rights to have: both paths work everywhere.
const BRIEFLY: [&str; 7] = ["compare", "--paths", "tcp-loopback,unix", "--conns", "2", "--seconds", "0.05"];

fn compare(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
    command.args(BRIEFLY).args(args).stdin(Stdio::null());
    command
}

#[test]
fn two_paths_stand_side_by_side_in_every_form() {
    let folder = tempfile::tempdir().expect("a folder for tests");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (json, html) = (file("x.json"), file("x.html"));
    let args = ["--profile", "rr1c-200x1000,str-readx30k", "--rounds", "2", "--json", &json, "--html", &html];
    let shown = compare(&args).output().expect("the program starts");
    let text = String::from_utf8(shown.stdout).expect("text");
    assert!(shown.status.success(), "{text}{}", String::from_utf8_lossy(&shown.stderr));
    for word in ["tcp-loopback", "unix", "rr1c-200x1000", "str-readx30k", "vs tcp-loopback", "machine: "] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let saved: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(json).expect("written")).expect("JSON");
    let samples = saved["study"]["samples"].as_array().expect("a list");
    assert_eq!(samples.len(), 2 * 2 * 2);
    assert!(samples.iter().all(|sample| sample["run"]["operations"].as_u64() > Some(0)), "{samples:?}");
    assert!(fs::read_to_string(html).is_ok_and(|page| page.contains("<svg")));
}

#[test]
fn a_profile_that_is_not_there_is_said_and_fails() {
    let shown = compare(&["--profile", "rr1c-200x1000,dreams", "--rounds", "1"]).output().expect("it starts");
    let text = String::from_utf8(shown.stdout).expect("text");
    assert_eq!(shown.status.code(), Some(1), "{text}");
    let said = String::from_utf8(shown.stderr).expect("text");
    assert!(text.is_empty() && said.lines().count() == 1, "before anything runs, and once: {text}{said}");
    assert!(said.starts_with("smc_bench: dreams: neither a file nor a built-in profile"), "{said}");
}
