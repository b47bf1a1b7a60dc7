//! Processes that are closed to others of their own user: daemons that changed their ids, and whatever made
//! itself undumpable. Memory cannot be had from them: TCP, and the code says that it is the program's own
//! doing.

use crate::{LIMIT, PROGRAM, good, load, server};
use isthmus_tests::{Bed, Mode, free_port, sys};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Root may look into every process.
fn as_ordinary_user(mut c: Command) -> Command {
    if sys::euid() == 0 {
        c.uid(65534).gid(65534);
    }
    c
}

#[test]
fn an_undumpable_client_is_told_from_a_missing_registry() {
    if !Mode::wanted().contains(&Mode::Smc) {
        return;
    }
    let bed = Bed::new("closed", Mode::Smc);
    let numbers = [u64::from(free_port()), 20];
    let mut c = as_ordinary_user(load(bed.server(PROGRAM), &["churn", "server"], &numbers));
    let s = server(&bed, &mut c, numbers[0], "server");
    let mut c = as_ordinary_user(load(bed.client(PROGRAM), &["churn", "client"], &numbers));
    good(&bed, "client", bed.run(c.env("BAR_CLOSED", "1"), "client", LIMIT));
    good(&bed, "server", s.finish(Duration::from_secs(20)));
    let mut tool = as_ordinary_user(bed.tool_command("smcd").expect("tools"));
    let stats = tool.args(["-d", "stats"]).output().expect("smcd").stdout;
    let stats = String::from_utf8_lossy(&stats);
    let counted = |name: &str| stats.lines().any(|line| line.split_whitespace().next() == Some(name));
    assert!(counted("OPTUNSUPP") && !counted("[unknown]") && !counted("NOSMCDDEV"), "{stats}");
}
