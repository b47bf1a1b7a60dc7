//! Against a real uperf, if there is one: the program `uperf` on the PATH, or what UPERF names.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::ends::{self, Process, Profile, Slave, finish, number, program, start_master};

fn uperf() -> Option<Command> {
    let name = std::env::var_os("UPERF").unwrap_or_else(|| "uperf".into());
    let found = Command::new(&name).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        println!("no uperf here ($UPERF or PATH): our two ends are not tried against it");
        return None;
    }
    let mut command = Command::new(name);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(command)
}

/// IBM's four as this program hands them to uperf: without a warm-up, which uperf's slave does not survive.
fn profiles() -> Vec<(&'static str, Profile)> {
    let values =
        [("$h", "127.0.0.1"), ("$proto", "tcp"), ("$nprocs", "2"), ("$duration", "1s"), ("$count", "16")];
    let profile = |name| {
        let shown = program().args(["profile", "show", name, "--for-uperf"]).output();
        let text = String::from_utf8(shown.expect("the program starts").stdout).expect("text");
        let text = values.iter().fold(text, |text, (variable, value)| text.replace(variable, value));
        ["nthreads=", "nprocs="].map(|kind| (name, Profile::new(&text.replace("nprocs=", kind))))
    };
    ["rr1c-200x1000", "rr1c-200x30k", "str-readx30k", "str-writex30k"].into_iter().flat_map(profile).collect()
}

#[test]
fn our_master_runs_with_uperfs_slave() {
    let Some(mut uperf) = uperf() else { return };
    let port = ends::free_port();
    let _slave = Process(uperf.args(["-s", "-P", &port.to_string()]).spawn().expect("uperf starts"));
    wait_for(port);
    for (name, profile) in profiles() {
        let run = finish(&mut start_master(port, profile.path(), &["--json", "-"]));
        assert_eq!(run.status, Some(0), "{name}: {}", run.errors);
        assert!(number(&run.json(), "/operations") > 100, "{name}: {}", run.output);
        assert!(run.json()["server"].is_null(), "uperf tells no usage");
    }
}

#[test]
fn uperfs_master_runs_with_our_slave() {
    let Some(_) = uperf() else { return };
    for server in ["threads", "processes", "epoll"] {
        // Threads and processes of the master are one to the slave: each once is enough beyond the first server.
        let every = if server == "threads" { 1 } else { 2 };
        for (name, profile) in profiles().into_iter().step_by(every) {
            let slave = Slave::start(&["--server", server]);
            let Some(mut uperf) = uperf() else { return };
            uperf.args(["-m", profile.path(), "-P", &slave.port.to_string()]);
            let run = finish(&mut Process(uperf.spawn().expect("uperf starts")));
            assert_eq!(run.status, Some(0), "{name} {server}: {}{}", run.output, run.errors);
            assert!(run.output.contains("Run Statistics") && !run.output.contains("** "), "{}", run.output);
            assert!(number(&slave.finish(), "/operations") > 100, "{name} {server}");
        }
    }
}

fn wait_for(port: u16) {
    let begin = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(30), "uperf does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
}
