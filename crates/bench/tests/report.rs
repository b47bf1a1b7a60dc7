//! Reports as people ask for them: a saved study shown again, and what is said when something cannot be read or written.

use std::fs;
use std::process::{Command, Output, Stdio};

/// Saved by version 1 of the format; later versions go on reading it, or say that they do not.
const SAVED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/study-1.json");

fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
    command.args(args).stdin(Stdio::null()).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn a_saved_study_is_shown_again_in_every_form() {
    let folder = tempfile::tempdir().expect("a folder for tests");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let [json, csv, html] = ["again.json", "x.csv", "x.html"].map(file);
    let shown = bench(&["report", SAVED, "--json", &json, "--csv", &csv, "--html", &html]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let first = text(&shown.stdout).lines().next().map(str::to_owned);
    let expected = "2 of 100 smc connections stayed on TCP in 2 of 2 runs: 0x03010000 (2)";
    assert_eq!(first.as_deref(), Some(expected));
    assert!(fs::read_to_string(&csv).is_ok_and(|file| file.starts_with("profile,connections,")));
    assert!(fs::read_to_string(&html).is_ok_and(|file| file.starts_with("<!DOCTYPE html>")));
    let again = bench(&["report", &json]);
    assert_eq!(text(&again.stdout), text(&shown.stdout), "what was saved again says the same");
}

#[test]
fn one_form_can_go_to_stdout_alone() {
    let shown = bench(&["report", SAVED, "--json", "-"]);
    assert!(shown.status.success());
    let value: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON and nothing else");
    assert_eq!(value["study"]["samples"].as_array().map(Vec::len), Some(4));
}

#[test]
fn a_full_disk_costs_the_file_and_not_the_results() {
    let shown = bench(&["report", SAVED, "--html", "/dev/full"]);
    assert_eq!(shown.status.code(), Some(1));
    let complaint = text(&shown.stderr);
    assert!(complaint.lines().count() == 1 && complaint.contains("cannot write /dev/full: No space left"));
    assert!(text(&shown.stdout).contains("10.0x"), "{}", text(&shown.stdout));
}

#[test]
fn two_studies_stand_beside_each_other_under_a_warning() {
    let two = bench(&["report", SAVED, SAVED]);
    assert!(
        two.status.success() && text(&two.stdout).starts_with("these are two runs"),
        "{}",
        text(&two.stdout)
    );
    assert!(text(&two.stdout).contains("1.00x") && text(&two.stdout).contains("overlapping"));
    let refused = bench(&["report", SAVED, SAVED, SAVED]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0));
    assert!(text(&refused.stderr).contains("two beside each other"));
}

#[test]
fn what_is_no_study_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder for tests");
    let file = folder.path().join("x.json");
    for (content, complaint) in [("{}", "this is not what --json saves"), ("", "EOF while parsing")] {
        fs::write(&file, content).expect("written");
        let refused = bench(&["report", &file.display().to_string()]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains(complaint), "{}", text(&refused.stderr));
    }
    let refused = bench(&["report", "/nowhere/x.json"]);
    assert!(text(&refused.stderr).contains("cannot read /nowhere/x.json: No such file"));
}
