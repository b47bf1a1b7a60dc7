//! A daemon that is no help: it marks no connections, does not answer, or is not where somebody says. Owns:
//! what `smcd device` says of it, and what `smcss` shows of connections that could have been shared.

use crate::far::{ALL_BY_TCP, Field};
use crate::far_shown::{stop, talk, told};
use crate::support::{LIMIT, python};
use isthmus_tests::dist::Dist;
use isthmus_tests::scratch::Scratch;
use isthmus_tests::{Running, within};
use std::path::Path;
use std::process::Command;

const STOP: i32 = 19;
const LISTENER: &str = "import socket, time
end = socket.create_server(('127.0.0.1', 7998))
print('listens', flush=True)
time.sleep(600)";

/// One without anything that it would mark connections by, at a socket below `folder`.
fn start(dist: &Dist, folder: &Path) -> Running {
    let policy = folder.join("unmarked.toml");
    std::fs::write(&policy, "").expect("written");
    let mut command = Command::new(dist.tool("ismd"));
    command.arg("--config").arg(&policy).arg("--socket").arg(folder.join("run/s"));
    command.args(["--metrics", "", "--pins", ""]).env_remove("NOTIFY_SOCKET");
    let mut daemon = Running::start(&mut command, folder, "unmarked");
    assert!(within(LIMIT, || !daemon.alive() || folder.join("run/s").exists()), "{}", daemon.output());
    daemon
}

/// `smcd device`, with a socket of somebody's: exit code, table, and what is said beside it.
fn devices(dist: &Dist, registries: &Path, socket: &Path) -> (Option<i32>, String, String) {
    let mut command = Command::new(dist.tool("smcd"));
    command.arg("device").env_remove("LD_PRELOAD").env("SMC_REGISTRY_DIR", registries);
    let output = command.env("ISMD_SOCKET", socket).output().expect("it starts");
    let [table, beside] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into());
    (output.status.code(), table, beside)
}

#[test]
fn smcd_says_of_a_daemon_what_it_lacks_and_shows_what_there_is() {
    let dist = Dist::find().unwrap_or_else(|error| panic!("{error}"));
    let scratch = Scratch::new("unhelped");
    let (registries, socket) = (scratch.dir("registries"), scratch.path().join("run/s"));
    let ask = |socket: &Path| devices(&dist, &registries, socket);
    let nowhere = scratch.path().join("nowhere");
    let (code, table, beside) = ask(&nowhere);
    assert_eq!(code, Some(1));
    assert!(table.contains("isthmus-ism"), "{table}");
    assert_eq!(
        beside,
        format!("Error: there is no daemon at {}: No such file or directory\n", nowhere.display())
    );
    let daemon = start(&dist, scratch.path());
    let (code, table, beside) = ask(&socket);
    assert_eq!(code, Some(0), "{beside}");
    assert!(table.contains("isthmus-ism") && beside.starts_with("Note: the daemon marks no"), "{beside}");
    daemon.signal(STOP);
    let (code, table, beside) = ask(&socket);
    assert_eq!(code, Some(1));
    assert!(table.contains("isthmus-ism"), "{table}");
    assert_eq!(beside, format!("Error: the daemon at {} does not answer\n", socket.display()));
}

#[test]
fn without_the_mark_connections_show_the_codes_that_the_limitations_have() {
    let Some(mut field) = Field::new("far-unmarked", "") else { return };
    field.daemon = None;
    std::fs::remove_file(field.socket()).expect("the other one's");
    let _daemon = start(&field.dist, field.scratch.path());
    // (Without a listener there is no registry in which the client could write down why.)
    let python = python().expect("there was one before");
    let mut listener = field.inside(1, "talking", true, python);
    listener.args(["-c", LISTENER]);
    let listener = Running::start(&mut listener, field.scratch.path(), "listener");
    assert!(within(LIMIT, || listener.output().out.contains("listens")), "{}", listener.output());
    let ends = talk(&field, 1, "stop");
    for (namespace, role, code) in [(0, "answering", "0x03010000"), (1, "talking", "0x03030001")] {
        let text = told(&field, "smcss", &["-a"], Some(&field.registry(namespace, role)));
        let is_shown = |line: &str| line.starts_with("ACTIVE") && line.contains(&format!(" TCP {code}"));
        assert!(text.lines().any(is_shown), "{role}: {text}");
    }
    assert_eq!(stop(&field, "stop", ends), [ALL_BY_TCP(1); 2]);
}
