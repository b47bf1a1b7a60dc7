//! The program as people run it: the demonstration, the small commands, a comparison with real sockets and short runs, what
//! was saved shown again, and what is said to a command line that makes no sense.

use std::fs;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Saved by version 1 of the format; later versions go on reading it, or say that they do not.
const SAVED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/study-1.json");
/// Nothing to configure, no rights to have: both paths work everywhere.
const BRIEFLY: [&str; 7] = ["compare", "--paths", "tcp-loopback,unix", "--conns", "2", "--seconds", "0.05"];

fn run(args: &[&str]) -> Output {
    let registry = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
    command.args(args).stdin(Stdio::null()).env("SMC_REGISTRY_DIR", registry.path());
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Shorter than the real one in every respect.
#[test]
fn the_demonstration_shows_every_way_that_works_here() {
    let shown = run(&["demo", "--seconds", "0.3", "--rounds", "1", "--conns", "3"]);
    let (said, told) = (text(&shown.stdout), text(&shown.stderr));
    assert!(shown.status.success(), "{said}{told}");
    assert!(told.contains("round 1 of 1: ") && told.contains(" left"), "no news on the way: {told}");
    for word in ["rr1c-200x1000", "str-readx30k", "tcp-loopback", "unix"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    if said.contains("smc was left out: neither smc_run nor libsmc-preload.so is here") {
        println!("skipped: smc is not here");
        return;
    }
    assert!(said.contains("While it ran, smcss showed:\nState "), "{said}");
    // On a machine that is busy enough smcss comes too late for some; those that it saw all used SMC-D.
    let last = said.lines().last().unwrap_or_default();
    let counts =
        last.strip_suffix(" connections over smc used SMC-D").and_then(|both| both.split_once(" of "));
    assert!(counts.is_some_and(|(used, all)| used == all && used != "0"), "{said}");
}

#[test]
fn a_sweep_ends_with_idle_connections() {
    let args =
        ["sweep", "--profile", "ping", "--paths", "tcp-loopback", "--seconds", "0.02", "--rounds", "1"];
    let shown = run(&args);
    let said = text(&shown.stdout);
    assert!(shown.status.success(), "{said}{}", text(&shown.stderr));
    assert!(said.contains("size=1048576") && said.contains("idle connections"), "{said}");
    let is_row = |line: &str| line.trim_start().starts_with("tcp-loopback") && line.contains("KiB");
    assert!(said.lines().any(is_row), "{said}");
}

#[test]
fn built_in_profiles_can_be_seen_and_given_to_uperf() {
    let list = text(&run(&["profile", "list"]).stdout);
    assert!(list.contains("rr1c-200x1000") && list.contains("count=640") && list.contains("h=127.0.0.1"));
    let own = run(&["profile", "show", "ping"]);
    assert!(text(&own.stdout).contains("warm-up") && own.stderr.is_empty());
    let uperfs = run(&["profile", "show", "ping", "--for-uperf"]);
    let file = text(&uperfs.stdout);
    assert!(file.starts_with("<?xml") && !file.contains("warm-up"), "{file}");
    let said = text(&uperfs.stderr);
    assert!(said.contains("size=64") && !said.contains("warmup"), "{said}");
}

#[test]
fn a_master_says_what_it_does_if_it_is_asked_to() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = free.local_addr().expect("bound").port().to_string();
    drop(free);
    let said = text(&run(&["-m", "ping", "-P", &port, "--var", "nprocs=3", "-v"]).stderr);
    let first = format!("smc_bench: asking the slaves at port {port} for the other ends of 3 strands");
    assert_eq!(said.lines().next(), Some(first.as_str()), "{said}");
}

#[test]
fn nonsense_is_answered_with_one_sentence_and_status_2() {
    let nonsense = "x|rr|worker|-a|-v|-m|-z|-s -m x|-m x -P 70000|-s -S ssl|-m ping --var sise=4|-m x --var novalue|\
        -m x -i 0|-m x -i 1h|buffers --paths unix|\
        buffers --set sise=4|buffers --conns many|demo --conns 1|demo --seconds never|profile show pings|to|report|\
        app nosuch|sweep --set size=4|sweep --rounds 0|compare --profile ping --set sise=4|compare --quick --full|\
        compare --only idle|compare --suite goals --conns 1|compare --suite dreams|compare --conns 0|\
        compare --conns 1,,2|compare --paths pigeon|compare --seconds 0|compare --seconds -1|compare --set size|\
        compare --rounds 0|sweep --profile rr1c-200x1000|sweep --conns 1,2|compare --json - --csv -|\
        report nosuch.json --html x --markdown x";
    for args in nonsense.split('|') {
        let output = run(&args.split_whitespace().collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(2), "{args}");
        let said = text(&output.stderr);
        assert!(output.stdout.is_empty() && said.starts_with("smc_bench: "), "{args}: {said}");
        assert!(said.lines().count() == 1 && !said.contains("error: "), "{args}: {said}");
    }
    let said = |args: &[&str]| text(&run(args).stderr);
    let sise = said(&["-m", "ping", "--var", "sise=4"]);
    assert_eq!(sise, "smc_bench: the profile ping has no variable `sise`: did you mean `size`?\n");
    let app = "invalid value 'x' for '<NAME>' [possible values: redis, nginx, postgres, memcached]";
    assert_eq!(said(&["app", "x"]), format!("smc_bench: {app}: see --help\n"));
    let round = said(&["compare", "--round", "1"]);
    let similar = "unexpected argument '--round' found; a similar argument exists: '--rounds'";
    assert!(round.contains(similar), "{round}");
    let seconds = said(&["idle", "--seconds", "-1"]);
    assert!(seconds.contains(": a number of seconds from 0.01 to 3600 is wanted"), "{seconds}");
    // Said of each place where it stands, it would be said four times.
    let size = said(&["compare", "--profile", "ping", "--set", "size=abc"]);
    assert_eq!(size.lines().count(), 1, "{size}");
}

/// Not even the name under which it was to be written.
#[test]
fn a_file_that_may_not_grow_costs_one_sentence() {
    let mut shell = Command::new("sh");
    let folder = tempfile::tempdir().expect("a folder");
    let line = "trap '' XFSZ; ulimit -f 0; exec \"$0\" report \"$1\" --json x.json";
    shell.args(["-c", line, env!("CARGO_BIN_EXE_smc_bench"), SAVED]).current_dir(folder.path());
    let said = text(&shell.output().expect("a shell").stderr);
    let told = "smc_bench: cannot write x.json: File too large (os error 27); the results are in the text all the same\n";
    assert_eq!((said.as_str(), fs::read_dir(folder.path()).expect("it is there").count()), (told, 0));
}

/// A disk that is full takes neither what is said nor what is shown; the status tells.
#[test]
fn a_full_disk_is_told_once_and_by_the_status() {
    let full = || fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let status = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
        command.args(args).stdin(Stdio::null()).stdout(full()).stderr(full());
        command.status().expect("it starts").code()
    };
    assert_eq!(status(&["compare", "--paths", "pigeon"]), Some(2));
    assert_eq!(status(&["-m", "nosuch"]), Some(1));
    let mut list = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
    let said = list.args(["profile", "list"]).stdout(full()).output().expect("it starts");
    let told = "smc_bench: cannot print the results: No space left on device (os error 28)\n";
    assert_eq!((said.status.code(), text(&said.stderr).as_str()), (Some(1), told));
}

#[test]
fn two_paths_stand_side_by_side_in_every_form() {
    let folder = tempfile::tempdir().expect("a folder for tests");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (json, html) = (file("x.json"), file("x.html"));
    let args = ["--profile", "rr1c-200x1000,str-readx30k", "--rounds", "2", "--json", &json, "--html", &html];
    let shown = run(&[&BRIEFLY[..], &args].concat());
    let told = text(&shown.stdout);
    assert!(shown.status.success(), "{told}{}", text(&shown.stderr));
    for word in ["tcp-loopback", "unix", "rr1c-200x1000", "str-readx30k", "vs tcp-loopback", "machine: "] {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert_eq!(told.contains(" (debug build): smc_bench compare"), cfg!(debug_assertions), "{told}");
    let saved: Value = serde_json::from_str(&fs::read_to_string(json).expect("written")).expect("JSON");
    let samples = saved["study"]["samples"].as_array().expect("a list");
    assert_eq!(samples.len(), 2 * 2 * 2);
    assert!(samples.iter().all(|sample| sample["run"]["operations"].as_u64() > Some(0)), "{samples:?}");
    assert!(fs::read_to_string(html).is_ok_and(|page| page.contains("<svg")));
}

#[test]
fn a_saved_study_is_shown_again_in_every_form() {
    let folder = tempfile::tempdir().expect("a folder for tests");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let [json, csv, html] = ["again.json", "x.csv", "x.html"].map(file);
    let shown = run(&["report", SAVED, "--json", &json, "--csv", &csv, "--html", &html]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let first = text(&shown.stdout).lines().next().map(str::to_owned);
    let expected = "2 of 100 smc connections stayed on TCP in 2 of 2 runs: 0x03010000 (2)";
    assert_eq!(first.as_deref(), Some(expected));
    assert!(fs::read_to_string(&csv).is_ok_and(|file| file.starts_with("profile,connections,")));
    assert!(fs::read_to_string(&html).is_ok_and(|file| file.starts_with("<!DOCTYPE html>")));
    let again = run(&["report", &json]);
    assert_eq!(text(&again.stdout), text(&shown.stdout), "what was saved again says the same");
}

#[test]
fn one_form_can_go_to_stdout_alone() {
    let shown = run(&["report", SAVED, "--json", "-"]);
    assert!(shown.status.success());
    let value: Value = serde_json::from_slice(&shown.stdout).expect("JSON and nothing else");
    assert_eq!(value["study"]["samples"].as_array().map(Vec::len), Some(4));
}

#[test]
fn a_full_disk_costs_the_file_and_not_the_results() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let csv = file.path().to_str().expect("a name");
    let shown = run(&["report", SAVED, "--json", "/dev/full", "--csv", csv]);
    assert_eq!(shown.status.code(), Some(1));
    assert!(fs::read_to_string(csv).is_ok_and(|text| text.starts_with("profile,connections,")));
    let complaint = text(&shown.stderr);
    assert!(complaint.lines().count() == 1 && complaint.contains("cannot write /dev/full: No space left"));
    assert!(text(&shown.stdout).contains("10.0x"), "{}", text(&shown.stdout));
}

#[test]
fn two_studies_stand_beside_each_other_under_a_warning() {
    let two = run(&["report", SAVED, SAVED]);
    let said = text(&two.stdout);
    assert!(two.status.success() && said.starts_with("these are two runs"), "{said}");
    assert!(said.contains("1.00x") && said.contains("overlapping"), "{said}");
    let refused = run(&["report", SAVED, SAVED, SAVED]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0));
    assert!(text(&refused.stderr).contains("two beside each other"));
}

#[test]
fn what_is_no_study_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder for tests");
    let file = folder.path().join("x.json");
    for (content, complaint) in [("{}", "this is not what --json saves"), ("", "EOF while parsing")] {
        fs::write(&file, content).expect("written");
        let refused = run(&["report", &file.display().to_string()]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains(complaint), "{}", text(&refused.stderr));
    }
    let refused = run(&["report", "/nowhere/x.json"]);
    assert!(text(&refused.stderr).contains("cannot read /nowhere/x.json: No such file"));
}

#[test]
fn a_few_idle_connections_are_counted_and_gone() {
    let [folder, registry, results] = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
    command.args("idle --conns 20 --seconds 0.1 --json study.json --html page.html".split(' '));
    command.current_dir(results.path()).env("TMPDIR", folder.path()).env("SMC_REGISTRY_DIR", registry.path());
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let read = |name: &str| fs::read_to_string(results.path().join(name)).expect("it was written");
    let idle: Value = serde_json::from_str(&read("study.json")).expect("JSON");
    let (table, notes) = (&idle["study"]["extras"][0], idle["study"]["notes"].as_array().expect("notes"));
    let rows = table["rows"].as_array().expect("rows");
    assert_eq!(rows.len() + notes.len(), 2, "SMC is measured, or a note says why not: {idle}");
    for row in rows {
        assert_eq!(row[4], if row[0] == "smc" { "20 of 20" } else { "0 of 20" }, "{row}");
        assert!(read("page.html").contains(row[1].as_str().expect("text")), "the page says the same");
    }
    assert_eq!(table["seen"].as_array().map(Vec::len), Some(1), "others were watched");
    assert!(fs::read_dir(folder.path()).expect("it is there").next().is_none(), "a folder was left");
}

#[test]
fn more_connections_than_descriptors_are_refused_in_one_sentence() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 64; exec \"$0\" idle --conns 100", env!("CARGO_BIN_EXE_smc_bench")]);
    let output = shell.stdin(Stdio::null()).output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("raise `ulimit -Hn`"), "{said}");
}
