//! The program as people run it: the demonstration, the small commands, and what is said to a command line that makes no
//! sense.

use std::process::{Command, Output, Stdio};

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
    assert!(
        said.lines().any(|line| line.trim_start().starts_with("tcp-loopback") && line.contains("KiB")),
        "{said}"
    );
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
        compare --rounds 0";
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
    assert!(
        round.contains("unexpected argument '--round' found; a similar argument exists: '--rounds'"),
        "{round}"
    );
    let seconds = said(&["idle", "--seconds", "-1"]);
    assert!(seconds.contains(": a number of seconds from 0.01 to 3600 is wanted"), "{seconds}");
    // Said of each place where it stands, it would be said four times.
    let size = said(&["compare", "--profile", "ping", "--set", "size=abc"]);
    assert_eq!(size.lines().count(), 1, "{size}");
}

/// A disk that is full takes neither what is said nor what is shown; the status tells.
#[test]
fn a_full_disk_is_told_once_and_by_the_status() {
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
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
