//! What is said of profiles that cannot be run: once, before anything runs, in words that a change must not change unseen.
//! The profiles and the sentences stand in `testdata/bad-profiles.txt`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const ALL: &str = include_str!("../testdata/bad-profiles.txt");

/// Standard error, if nothing was printed and nothing ran.
fn said(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
    let output =
        command.args(arguments).current_dir(folder).stdin(Stdio::null()).output().expect("it starts");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{arguments:?}");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn each_profile_has_its_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases: Vec<&str> = ALL.split("=== ").skip(1).collect();
    assert!(cases.len() >= 40, "{}", cases.len());
    for case in cases {
        let (name, rest) = case.split_once('\n').expect("a name");
        let (profile, sentences) = rest.split_once("---\n").expect("a profile and what is said of it");
        fs::write(folder.path().join("p.xml"), profile.replace("\\e", "\x1b")).expect("written");
        let compared = ["compare", "--profile", "p.xml", "--paths", "tcp-loopback", "--seconds", "0.05"];
        assert_eq!(said(folder.path(), &compared), sentences, "{name}");
        let alone = said(folder.path(), &["-m", "p.xml"]);
        assert_eq!(alone, sentences, "{name}: a master says the same");
        let obeyed = |c: char| c.is_control() && c != '\n';
        assert!(!sentences.contains(obeyed), "{name}: nothing that a terminal obeys");
    }
}

#[test]
fn a_path_or_a_profile_that_is_not_here_is_refused_once() {
    let folder = tempfile::tempdir().expect("a folder");
    for (options, sentence) in [
        // The profile cannot be run over it either, but that is not known before.
        (["--paths", "af-smc", "--profile", "ping"], "af-smc cannot be measured here: "),
        (["--rounds", "1", "--profile", "ping,dreams"], "dreams: neither a file nor a built-in profile"),
    ] {
        let said = said(folder.path(), &[&["compare"], &options[..]].concat());
        assert!(said.starts_with(&format!("smc_bench: {sentence}")) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn who_has_the_port_is_not_guessed() {
    let folder = tempfile::tempdir().expect("a folder");
    let taken = std::net::TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = taken.local_addr().expect("bound").port().to_string();
    let said = said(folder.path(), &["-s", "-P", &port]);
    let words =
        [format!("cannot listen on port {port}"), format!("`ss -ltnp sport = :{port}`"), "--port".into()];
    assert!(words.iter().all(|word| said.contains(word)) && !said.contains("slave"), "{said}");
}
