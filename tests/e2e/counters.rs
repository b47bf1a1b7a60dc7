//! The counters of `smcd stats` only grow: whoever is killed, closes or half-closes, what was moved stays
//! counted, once.

use crate::reasons::{assert_counted, assert_rows, bed, meet};
use crate::support::{python, script, serve};
use isthmus_tests::{Bed, Mode, Running, free_port, within};
use std::path::PathBuf;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);
/// What a greeting of one byte, 100 requests of 1000 bytes and their echoes move, at both ends.
const BYTES: u64 = 200_001;

struct Pair {
    bed: Bed,
    server: Running,
    client: Running,
}

fn pair(name: &str, how: &str) -> Option<Pair> {
    let (python, true) = (python()?, Mode::wanted().contains(&Mode::Smc)) else { return None };
    let (bed, port) = (Bed::new(name, Mode::Smc), free_port());
    let command = |program: PathBuf, role: &str, enabled: fn(&Bed, &PathBuf) -> std::process::Command| {
        let mut command = enabled(&bed, &program);
        command.arg(script("traffic.py")).args([role, &port.to_string(), how]);
        command
    };
    let server = serve(&bed, &mut command(python.clone(), "server", |bed, python| bed.server(python)), port);
    let client = bed.start(&mut command(python, "client", |bed, python| bed.client(python)), "client");
    let is_done = within(LONG, || client.output().out.contains("done"));
    assert!(is_done && bed.connections().contains("SMCD"), "{}\n{}", client.output(), bed.connections());
    Some(Pair { bed, server, client })
}

impl Pair {
    /// Bytes sent and received, requests sent.
    fn counted(&self) -> [u64; 3] {
        let text = self.bed.tool("smcd", &["-a", "stats", "json"]);
        ["TX_BYTES", "RX_BYTES", "TX_CNT"].map(|key| {
            let number = text.split(&format!("\"SMC_{key}\":")).nth(1).unwrap_or_default();
            number.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).unwrap_or(0)
        })
    }

    /// For a while, and however the ends stand: neither fewer nor more.
    #[track_caller]
    fn assert_counted(&self, when: &str) {
        for _ in 0..30 {
            let [sent, received, requests] = self.counted();
            assert_eq!((sent, received), (BYTES, BYTES), "{when}");
            assert!(requests >= 200, "{when}: {requests}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

const KILL: i32 = 9;

#[test]
fn a_killed_client_takes_nothing_back() {
    let Some(pair) = pair("counters-client", "") else { return };
    pair.assert_counted("both live");
    pair.client.signal(KILL);
    pair.assert_counted("the client is dead, the server keeps its end");
    // The server ends in order, and adds what both have moved.
    pair.server.signal(2);
    let is_over = || !pair.bed.connections().contains("SMCD");
    assert!(within(LONG, is_over), "{}", pair.bed.connections());
    pair.assert_counted("both are gone");
}

#[test]
fn a_killed_server_takes_nothing_back() {
    let Some(pair) = pair("counters-server", "") else { return };
    pair.server.signal(KILL);
    pair.assert_counted("the server is dead, the client keeps its end");
    pair.client.signal(2);
    let is_over = || !pair.bed.connections().contains("SMCD");
    assert!(within(LONG, is_over), "{}", pair.bed.connections());
    pair.assert_counted("both are gone");
}

#[test]
fn a_half_closed_connection_counts_while_it_lives() {
    let Some(pair) = pair("counters-half", "half") else { return };
    pair.assert_counted("the client has shut its sending side down");
}

/// A connect that failed is no connection, whether or not anybody enabled listens somewhere.
#[test]
fn a_connect_that_is_refused() {
    let Some((bed, python)) = bed("reasons-refused") else { return };
    let ends = meet(&bed, &python, "", "");
    assert_rows(&bed, &ends, &["client SMCD", "listener", "server SMCD"]);
    let try_it =
        format!("import socket; print(socket.socket().connect_ex((\"127.0.0.1\", {})))", free_port());
    let mut command = bed.tool_command("smc_run").expect("this bed has tools");
    command.arg("-d").arg(&python).args(["-c", &try_it]).env_remove("LD_PRELOAD");
    let refused = bed.run(&mut command, "refused", LONG);
    assert_eq!(refused.out.trim(), "111", "{refused}");
    assert!(!refused.err.contains("stays on TCP"), "{refused}");
    assert_counted(&bed, &[], &[]);
}

/// A reset that cannot be remembered is none, and says so.
#[test]
fn a_reset_that_is_refused() {
    let Some(pair) = pair("counters-reset", "stay") else { return };
    let reset = || {
        let mut tool = pair.bed.tool_command("smcd").expect("this bed has tools");
        let said = tool.args(["stats", "reset"]).output().expect("smcd");
        (said.status.code(), String::from_utf8_lossy(&said.stderr).into_owned())
    };
    let place = pair.bed.registry().join(format!(".smcstats.u{}", isthmus_tests::sys::euid()));
    std::fs::create_dir(&place).expect("our own folder");
    let (code, told) = reset();
    assert!(code == Some(255) && told.contains("cannot use"), "{code:?} {told}");
    std::fs::remove_dir(&place).expect("empty");
    assert_eq!(reset(), (Some(0), String::new()));
}
