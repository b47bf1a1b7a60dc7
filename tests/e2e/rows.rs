//! smcss tells why a connection is not faster: an end with the library has a row, whoever is at the other
//! end, with the code that is true. The programs themselves are the ones that smcss must find; nothing is
//! written down for it.

use crate::support::{python, script, serve};
use isthmus_tests::{Bed, Mode, Running, free_port, installed, sys, within};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PEER_NO_SMC: &str = "TCP 0x03010000";
const NOBODY: u32 = 65534;

fn hold(mut c: Command, role: &str, port: u16) -> Command {
    c.arg(script("hold.py")).args([role, &port.to_string()]);
    c
}

/// Who a command runs as.
fn as_user(mut c: Command, uid: Option<u32>) -> Command {
    if let Some(uid) = uid {
        c.uid(uid).gid(uid);
    }
    c
}

/// What `smcss ARGS` prints for `uid` about `port`: state, local and peer port if told, and everything behind
/// the interface. Sorted, since the rows of two ends come in no order of their ports.
fn rows(bed: &Bed, uid: Option<u32>, args: &[&str], port: u16) -> Vec<String> {
    let tool = bed.tool_command("smcss").expect("this bed has tools");
    read(as_user(tool, uid).args(args), port)
}

fn read(smcss: &mut Command, port: u16) -> Vec<String> {
    let output = smcss.output().expect("smcss starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let mut rows: Vec<String> = text.lines().skip(1).filter_map(|line| row(line, port)).collect();
    rows.sort();
    rows
}

/// `client`, `server` or `listener`, its state and its mode.
fn row(line: &str, port: u16) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_at = |at: usize| words.get(at).is_some_and(|address| address.ends_with(&format!(":{port}")));
    let end = match (is_at(3), is_at(4)) {
        (true, _) if words[0] == "LISTEN" => "listener",
        (true, _) => "server",
        (_, true) => "client",
        _ => return None,
    };
    Some(
        format!("{end} {} {}", words[0], words.get(6..).unwrap_or_default().join(" ")).trim_end().to_string(),
    )
}

/// Waits until smcss shows exactly these rows.
fn assert_rows(bed: &Bed, uid: Option<u32>, args: &[&str], port: u16, wanted: &[&str]) {
    let shows = || rows(bed, uid, args, port) == wanted;
    let what = || format!("{:?}, smcss {args:?} as {uid:?}: {:#?}", bed.mode, rows(bed, uid, args, port));
    assert!(within(Duration::from_secs(20), shows), "{}\nwanted {wanted:#?}", what());
}

fn client(bed: &Bed, python: &Path, port: u16, uid: Option<u32>) -> Running {
    bed.start(&mut as_user(hold(bed.client(python), "client", port), uid), "client")
}

#[test]
fn an_end_whose_peer_has_no_library_has_a_row_that_says_so() {
    let Some(python) = python() else { return };
    for mode in Mode::wanted().into_iter().filter(|mode| *mode != Mode::Plain) {
        let (bed, port) = (Bed::new("rows", mode), free_port());
        let _server = serve(&bed, &mut hold(bed.server(&python), "server", port), port);
        let client = client(&bed, &python, port, None);
        let (of_client, of_server) =
            (format!("client ACTIVE {PEER_NO_SMC}"), format!("server ACTIVE {PEER_NO_SMC}"));
        let (connections, listeners): (&[&str], &[&str]) = match mode {
            Mode::ClientOnly => (&[&of_client], &[]),
            Mode::ServerOnly => (&[&of_server], &["listener LISTEN"]),
            _ => (&["client ACTIVE SMCD", "server ACTIVE SMCD"], &["listener LISTEN"]),
        };
        assert_rows(&bed, None, &[], port, connections);
        let mut all = [connections, listeners].concat();
        all.sort_unstable();
        assert_rows(&bed, None, &["-a"], port, &all);
        assert_rows(&bed, None, &["-l"], port, listeners);
        drop(client);
        assert!(within(Duration::from_secs(20), || !format!("{:?}", rows(&bed, None, &[], port))
            .contains("client")));
    }
}

/// The registry has never been made: nobody with the library listens anywhere.
#[test]
fn a_client_without_a_registry_has_a_row_with_its_program_and_socket() {
    let (Some(python), true) = (python(), Mode::wanted().contains(&Mode::ClientOnly)) else { return };
    let (bed, port) = (Bed::new("rows-socket", Mode::ClientOnly), free_port());
    let _server = serve(&bed, &mut hold(bed.server(&python), "server", port), port);
    let client = client(&bed, &python, port, None);
    assert_rows(&bed, None, &[], port, &[&format!("client ACTIVE {PEER_NO_SMC}")]);
    assert_eq!(std::fs::read_dir(bed.registry()).map_or(0, Iterator::count), 0, "a registry was made");
    let table = bed.tool("smcss", &["--pid"]);
    let line = table.lines().find(|line| line.contains(&format!(":{port} "))).unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(
        (words[0], words[3]),
        (client.pid().to_string().as_str(), format!("{:05}", sys::euid()).as_str())
    );
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", client.pid())).expect("it lives").flatten();
    let has_inode =
        |target: &Path| target == Path::new(&format!("socket:[{}]", words[4].trim_start_matches('0')));
    assert!(descriptors.filter_map(|d| std::fs::read_link(d.path()).ok()).any(|t| has_inode(&t)), "{table}");
    assert!(bed.tool("smcss", &["--json"]).contains("\"reason_text\": \"Peer does not support SMC\""));
}

/// A socket that has asked for what only TCP can do is never announced as a listener, so its clients find
/// nobody.
#[test]
fn a_listener_that_clients_do_not_find_is_shown_as_such() {
    let (Some(python), true) = (python(), Mode::wanted().contains(&Mode::Smc)) else { return };
    let (bed, port) = (Bed::new("rows-plain", Mode::Smc), free_port());
    let mut command = hold(bed.server(&python), "server", port);
    let _server = serve(&bed, command.arg("plain"), port);
    let _client = client(&bed, &python, port, None);
    let of_client = format!("client ACTIVE {PEER_NO_SMC}/0x03060000");
    let (listener, of_server) = ("listener LISTEN TCP 0x03060000", "server ACTIVE TCP 0x03060000");
    assert_rows(&bed, None, &["-a"], port, &[&of_client, listener, of_server]);
}

/// Root sees both ends, the ordinary user the own one.
#[test]
fn two_users_see_that_they_do_not_support_each_other() {
    let (Some(python), true) = (python(), Mode::wanted().contains(&Mode::Smc)) else { return };
    if sys::euid() != 0 {
        println!("skipped: switching users needs root");
        return;
    }
    let (bed, port) = (Bed::new("rows-users", Mode::Smc), free_port());
    let _server = serve(&bed, &mut hold(bed.server(&python), "server", port), port);
    let _client = client(&bed, &python, port, Some(NOBODY));
    let connections = [format!("client ACTIVE {PEER_NO_SMC}"), format!("server ACTIVE {PEER_NO_SMC}")];
    let [of_client, of_server] = connections.each_ref().map(String::as_str);
    assert_rows(&bed, None, &["-a"], port, &[of_client, "listener LISTEN", of_server]);
    assert_rows(&bed, Some(NOBODY), &["-a"], port, &[of_client]);
}

/// A process that closes its /proc even to its user. Its listener is in the registry, its connection is
/// nowhere.
#[test]
fn what_cannot_be_looked_at_is_named_to_those_who_want_details() {
    let (Some(python), true) = (python(), Mode::wanted().contains(&Mode::ServerOnly)) else { return };
    let uid = (sys::euid() == 0).then_some(NOBODY);
    let (bed, port) = (Bed::new("rows-hidden", Mode::ServerOnly), free_port());
    let mut command = as_user(hold(bed.server(&python), "server", port), uid);
    let server = serve(&bed, command.arg("undumpable"), port);
    let _client = client(&bed, &python, port, uid);
    assert_rows(&bed, uid, &["-a"], port, &["listener LISTEN"]);
    let tool = bed.tool_command("smcss").expect("this bed has tools");
    let output = as_user(tool, uid).arg("-d").output().expect("smcss starts");
    let note = String::from_utf8_lossy(&output.stderr);
    let wanted = format!("Note: /proc/PID/fd is closed to this user for {} (python3", server.pid());
    assert!(output.status.success() && note.starts_with(&wanted) && note.lines().count() == 1, "{output:?}");
}

/// Seen from the namespace that this process began in; the bed is in one of its own.
#[test]
fn other_network_namespaces_are_looked_into() {
    let (Some(python), true) = (python(), Mode::wanted().contains(&Mode::ClientOnly)) else { return };
    let (bed, port) = (Bed::new("rows-outside", Mode::ClientOnly), free_port());
    let (true, Some(nsenter)) = (bed.own_network, installed(&["nsenter"])) else {
        println!("skipped: entering a namespace needs root and nsenter");
        return;
    };
    let _server = serve(&bed, &mut hold(bed.server(&python), "server", port), port);
    let _client = client(&bed, &python, port, None);
    let wanted = [format!("client ACTIVE {PEER_NO_SMC}")];
    assert_rows(&bed, None, &[], port, &[&wanted[0]]);
    let tool = bed.tool_command("smcss").expect("this bed has tools");
    let mut outside = Command::new(nsenter);
    outside.arg(format!("--net=/proc/{}/ns/net", std::process::id())).arg(tool.get_program());
    outside.env("SMC_REGISTRY_DIR", bed.registry());
    assert_eq!(read(&mut outside, port), wanted);
}

#[test]
fn a_program_with_the_library_switched_off_has_no_row() {
    let (Some(python), true) = (python(), Mode::wanted().contains(&Mode::ClientOnly)) else { return };
    let (bed, port) = (Bed::new("rows-off", Mode::ClientOnly), free_port());
    let _server = serve(&bed, &mut hold(bed.server(&python), "server", port), port);
    let mut command = hold(bed.client(&python), "client", port);
    let _off = bed.start(command.env("SMC_DISABLE", "1"), "off");
    // This one comes later: when it is there, the other would be.
    let _on = client(&bed, &python, port, None);
    assert_rows(&bed, None, &["-a"], port, &[&format!("client ACTIVE {PEER_NO_SMC}")]);
}
