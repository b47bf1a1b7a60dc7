//! Why is it TCP? Every row of that table of LIMITATIONS is provoked here, and smcss, `smc_run -d` and `smcd
//! stats` tell the same of it. Owns: that they agree; which rows smcss shows is the business of `rows`.

use crate::support::{python, script, serve};
use isthmus_tests::{Bed, Mode, Running, free_port, installed, sys, within};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub(crate) const LONG: Duration = Duration::from_secs(20);
/// Of a peer without the library.
pub(crate) const NO_SMC: &str = "0x03010000";
pub(crate) const OPTION: &str = "0x03060000";
pub(crate) const MEMORY: &str = "0x01010000";
const LIMIT: &str = "0x030d0000";
const DECLINED: &str = "0x05000000";
pub(crate) const NO_DEVICE: &str = "0x03030001";
pub(crate) const NOT_OURS: &str = "0x03000000";
const VERSION: &str = "0x030c0000";
const OPERATOR: &str = "0x03000001";
pub(crate) const BRIEF: &str = "0x03000002";
const UNKNOWN: &str = "0x00000000";

/// Two ends, each with what it says on stderr.
pub(crate) struct Ends {
    pub(crate) server: Running,
    pub(crate) client: Running,
    pub(crate) port: u16,
}

/// The bed if the product is to be tested and Python is there.
pub(crate) fn bed(name: &str) -> Option<(Bed, std::path::PathBuf)> {
    let python = python()?;
    Mode::wanted().contains(&Mode::Smc).then(|| (Bed::new(name, Mode::Smc), python))
}

/// `smc_run -d refused.py ROLE PORT HOW`.
pub(crate) fn enabled(bed: &Bed, python: &Path, role: &str, port: u16, how: &str) -> Command {
    let mut command = bed.tool_command("smc_run").expect("this bed has tools");
    command.arg("-d").arg(python).arg(script("refused.py")).args([role, &port.to_string(), how]);
    command.current_dir(bed.scratch.path()).env_remove("LD_PRELOAD");
    command
}

fn plain(bed: &Bed, python: &Path, role: &str, port: u16) -> Command {
    let mut command = bed.plain(python);
    command.arg(script("refused.py")).args([role, &port.to_string()]);
    command
}

pub(crate) fn start(bed: &Bed, port: u16, mut server: Command, mut client: Command) -> Ends {
    let server = serve(bed, &mut server, port);
    let client = bed.start(&mut client, "client");
    Ends { server, client, port }
}

/// Both ends enabled.
pub(crate) fn meet(bed: &Bed, python: &Path, of_server: &str, of_client: &str) -> Ends {
    let port = free_port();
    let server = enabled(bed, python, "server", port, of_server);
    start(bed, port, server, enabled(bed, python, "client", port, of_client))
}

/// Both ends, once it was the server that decided: on a machine that keeps it from the core for longer than
/// a client waits, the client has said that nobody answers.
fn answered_in_time(name: &str, of_server: &str) -> Option<(Bed, Ends)> {
    const TRIES: usize = 8;
    for _ in 0..TRIES {
        let (bed, python) = bed(name)?;
        let ends = meet(&bed, &python, of_server, "");
        assert!(
            within(LONG, || ends.client.output().err.contains("libsmc-preload: ")),
            "{}",
            ends.client.output()
        );
        if !ends.client.output().err.contains(NO_SMC) {
            return Some((bed, ends));
        }
    }
    panic!("the server was never in time");
}

/// `client`, `server` or `listener` and the mode, of every row of `smcss -a` that is about this port.
pub(crate) fn rows(bed: &Bed, port: u16) -> Vec<String> {
    let end = format!(":{port}");
    let table = bed.connections();
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_at = |at: usize| words.get(at).is_some_and(|word| word.ends_with(&end));
        let who = match (is_at(3), is_at(4)) {
            (true, _) if words[0] == "LISTEN" => "listener",
            (true, _) => "server",
            (_, true) => "client",
            _ => return None,
        };
        Some(format!("{who} {}", words.get(6..).unwrap_or_default().join(" ")).trim_end().to_string())
    };
    let mut rows: Vec<String> = table.lines().filter_map(row).collect();
    rows.sort();
    rows
}

/// smcss shows exactly these rows, and each end on TCP has told the code of its own.
#[track_caller]
pub(crate) fn assert_rows(bed: &Bed, ends: &Ends, wanted: &[&str]) {
    assert_shown(bed, ends, wanted);
    assert_told(ends, wanted);
}

#[track_caller]
pub(crate) fn assert_shown(bed: &Bed, ends: &Ends, wanted: &[&str]) {
    let is_so = within(LONG, || rows(bed, ends.port) == wanted);
    let said = format!("client:\n{}\nserver:\n{}", ends.client.output(), ends.server.output());
    assert!(is_so, "smcss: {:#?}\nwanted: {wanted:#?}\n{said}", rows(bed, ends.port));
}

/// What smcss shows of an end that stays on TCP, that end has told under `smc_run -d`: the code before the
/// slash is its own.
#[track_caller]
fn assert_told(ends: &Ends, rows: &[&str]) {
    for row in rows {
        let Some((who, codes)) = row.split_once(" TCP ") else { continue };
        let (end, what) = match who {
            "client" => (&ends.client, "connect stays on TCP"),
            "server" => (&ends.server, "accepted connection stays on TCP"),
            _ => (&ends.server, "listen stays on TCP"),
        };
        assert_says(end, what, codes.split('/').next().unwrap_or_default());
    }
}

/// What an end says on stderr under `smc_run -d`.
#[track_caller]
pub(crate) fn assert_says(end: &Running, what: &str, code: &str) {
    let has = || {
        let said = end.output().err;
        let mut lines = said.lines().filter(|line| line.starts_with("libsmc-preload: "));
        lines.any(|line| line.contains(what) && line.ends_with(&format!("({code})")))
    };
    assert!(within(LONG, has), "wanted \"{what} ... ({code})\":\n{}", end.output());
}

/// Reasons and counts of `smcd -d -a stats` for a role.
pub(crate) fn counted(bed: &Bed, role: &str) -> Vec<String> {
    let text = bed.tool("smcd", &["-d", "-a", "stats"]);
    let from = text.lines().skip_while(|line| line.trim() != role).skip(1);
    let rows = from.take_while(|line| line.starts_with("     "));
    rows.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[track_caller]
pub(crate) fn assert_counted(bed: &Bed, client: &[&str], server: &[&str]) {
    let now = || [counted(bed, "Client"), counted(bed, "Server")];
    assert!(within(LONG, || now() == [client, server]), "{:?}\nwanted {client:?}, {server:?}", now());
}

#[test]
fn two_enabled_ends_use_shared_memory() {
    let Some((bed, python)) = bed("reasons-smcd") else { return };
    let ends = meet(&bed, &python, "", "");
    assert_rows(&bed, &ends, &["client SMCD", "listener", "server SMCD"]);
    assert_counted(&bed, &[], &[]);
    assert!(!ends.client.output().err.contains("libsmc-preload"), "{}", ends.client.output());
}

/// What an operator has taken off shared memory, and what came later.
#[test]
fn a_process_that_its_operator_keeps_on_tcp() {
    let Some((bed, python)) = bed("reasons-operator") else { return };
    let ends = meet(&bed, &python, "", "");
    assert_rows(&bed, &ends, &["client SMCD", "listener", "server SMCD"]);
    let ask = |wanted: &str| {
        let mut tool = bed.tool_command("smc_run").expect("this bed has tools");
        let said = tool.args(["-p", &ends.server.pid().to_string(), wanted]).output().expect("smc_run");
        (said.status.code(), String::from_utf8_lossy(&said.stdout).into_owned())
    };
    let pid = ends.server.pid();
    let done = format!("1 connection of process {pid} went back to TCP, and new ones stay there\n");
    assert_eq!(ask("--tcp"), (Some(0), done));
    // (It tells of what was shared in other words than of what stays on TCP.)
    assert_shown(
        &bed,
        &ends,
        &[&format!("client TCP {OPERATOR}"), "listener", &format!("server TCP {OPERATOR}")],
    );
    assert_says(&ends.client, "connection goes back to TCP: Taken off SMC by its operator", OPERATOR);
    // (The server has no call to make: it would find it out at the next.)
    assert_counted(&bed, &["OPERATOR 1"], &[]);
    assert_eq!(ask("--tcp").0, Some(5), "nothing to do");
    let second = bed.start(&mut enabled(&bed, &python, "client", ends.port, ""), "second");
    assert_says(&second, "connect stays on TCP: Taken off SMC by its operator", OPERATOR);
    drop(second);
    assert_eq!([ask("--smc").0, ask("--smc").0], [Some(0), Some(5)]);
    let third = bed.start(&mut enabled(&bed, &python, "client", ends.port, ""), "third");
    assert!(
        within(LONG, || rows(&bed, ends.port).contains(&"client SMCD".to_string())),
        "{}",
        third.output()
    );
}

#[test]
fn a_peer_without_the_library() {
    let Some((bed, python)) = bed("reasons-plain") else { return };
    let port = free_port();
    let server = enabled(&bed, &python, "server", port, "");
    let ends = start(&bed, port, server, plain(&bed, &python, "client", port));
    assert_rows(&bed, &ends, &["listener", &format!("server TCP {NO_SMC}")]);
    assert_says(&ends.server, "accepted connection stays on TCP: Peer does not support SMC", NO_SMC);
    assert_counted(&bed, &[], &["PEER_NO_SMC 1"]);
    // The other way round, with the registry that is there now.
    let port = free_port();
    let server = plain(&bed, &python, "server", port);
    let ends = start(&bed, port, server, enabled(&bed, &python, "client", port, ""));
    assert_rows(&bed, &ends, &[&format!("client TCP {NO_SMC}")]);
    assert_says(&ends.client, "connect stays on TCP: Peer does not support SMC", NO_SMC);
    assert_counted(&bed, &["PEER_NO_SMC 1"], &["PEER_NO_SMC 1"]);
}

/// There is no registry yet: nobody enabled listens anywhere, and that is all there is to say.
#[test]
fn a_peer_without_the_library_before_there_is_a_registry() {
    let Some((bed, python)) = bed("reasons-first") else { return };
    let port = free_port();
    let server = plain(&bed, &python, "server", port);
    let ends = start(&bed, port, server, enabled(&bed, &python, "client", port, ""));
    assert_rows(&bed, &ends, &[&format!("client TCP {NO_SMC}")]);
    assert_says(&ends.client, "connect stays on TCP: Peer does not support SMC", NO_SMC);
    assert_eq!(std::fs::read_dir(bed.registry()).map_or(0, Iterator::count), 0, "a registry was made");
}

#[test]
fn a_program_with_the_library_switched_off() {
    let Some((bed, python)) = bed("reasons-off") else { return };
    let port = free_port();
    let mut client = enabled(&bed, &python, "client", port, "");
    client.env("SMC_DISABLE", "1");
    let ends = start(&bed, port, enabled(&bed, &python, "server", port, ""), client);
    assert_rows(&bed, &ends, &["listener", &format!("server TCP {NO_SMC}")]);
    let says = || ends.client.output().err.contains("libsmc-preload: switched off by SMC_DISABLE\n");
    assert!(within(LONG, says), "{}", ends.client.output());
    assert_says(&ends.server, "accepted connection stays on TCP", NO_SMC);
    assert_counted(&bed, &[], &["PEER_NO_SMC 1"]);
}

#[test]
fn a_peer_of_another_user() {
    let Some((bed, python)) = bed("reasons-user") else { return };
    if sys::euid() != 0 {
        println!("skipped: switching users needs root");
        return;
    }
    let port = free_port();
    let mut client = enabled(&bed, &python, "client", port, "");
    client.uid(65534).gid(65534);
    let ends = start(&bed, port, enabled(&bed, &python, "server", port, ""), client);
    let [of_client, of_server] = ["client", "server"].map(|end| format!("{end} TCP {NO_SMC}"));
    assert_rows(&bed, &ends, &[&of_client, "listener", &of_server]);
    assert_says(&ends.client, "connect stays on TCP", NO_SMC);
    assert_says(&ends.server, "accepted connection stays on TCP", NO_SMC);
    assert_counted(&bed, &[], &["PEER_NO_SMC 1"]);
}

#[test]
fn a_client_that_asks_for_what_only_tcp_has() {
    for how in ["fast-open", "sends", "deferred", "stamped", "signed", "repaired"] {
        if how == "repaired" && sys::euid() != 0 {
            println!("skipped: TCP_REPAIR needs root");
            continue;
        }
        let Some((bed, python)) = bed(&format!("reasons-{how}")) else { return };
        let ends = meet(&bed, &python, "", how);
        let rows = [format!("client TCP {OPTION}"), format!("server TCP {NO_SMC}/{OPTION}")];
        assert_rows(&bed, &ends, &[&rows[0], "listener", &rows[1]]);
        assert_says(&ends.client, "connect stays on TCP: Fastopen sockopt not supported", OPTION);
        assert_says(&ends.server, "accepted connection stays on TCP", NO_SMC);
        assert_counted(&bed, &["OPTUNSUPP 1"], &["PEER_NO_SMC 1"]);
    }
}

/// When the server looks, nothing is offered any more: that is what it says, whatever the client's row has.
#[test]
fn a_client_that_takes_its_offer_back() {
    let Some((bed, python)) = bed("reasons-retracts") else { return };
    let ends = meet(&bed, &python, "slow", "retracts");
    assert_says(&ends.client, "connect stays on TCP: Fastopen sockopt not supported", OPTION);
    assert_says(&ends.server, "accepted connection stays on TCP", NO_SMC);
    let rows = [format!("client TCP {OPTION}"), format!("server TCP {NO_SMC}/{OPTION}")];
    assert_rows(&bed, &ends, &[&rows[0], "listener", &rows[1]]);
    assert_counted(&bed, &["OPTUNSUPP 1"], &["PEER_NO_SMC 1"]);
}

/// It has said all it has to say, and nobody has looked: so little is TCP's.
#[test]
fn a_client_that_ends_its_stream_before_the_server_looks() {
    let Some((bed, python)) = bed("reasons-ends") else { return };
    let ends = meet(&bed, &python, "slow", "ends");
    let rows = [format!("client TCP {DECLINED}"), format!("server TCP {NO_SMC}/{DECLINED}")];
    assert_rows(&bed, &ends, &[&rows[0], "listener", &rows[1]]);
    assert_counted(&bed, &["PEERDECL 1"], &["PEER_NO_SMC 1"]);
}

/// Over an address of a device that is not the loopback one, by which its bytes would go all the same.
#[test]
fn a_client_that_is_bound_to_another_device() {
    let Some((bed, python)) = bed("reasons-device") else { return };
    let (Some(ip), true) = (installed(&["ip"]), bed.own_network) else {
        println!("skipped: a device of its own needs root and ip");
        return;
    };
    for args in [
        ["link", "add", "smc2", "type", "veth", "peer", "smc3"].as_slice(),
        &["addr", "add", "198.18.9.5/30", "dev", "smc2"],
        &["link", "set", "smc2", "up"],
        &["link", "set", "smc3", "up"],
    ] {
        let made = Command::new(&ip).args(args).status();
        assert!(made.is_ok_and(|status| status.success()), "{args:?}");
    }
    let port = free_port();
    let at = |role, how| {
        let mut end = enabled(&bed, &python, role, port, how);
        end.env("HOST", "198.18.9.5").env("DEVICE", "smc2");
        end
    };
    let ends = start(&bed, port, at("server", ""), at("client", "device"));
    let rows = [format!("client TCP {OPTION}"), format!("server TCP {NO_SMC}/{OPTION}")];
    assert_rows(&bed, &ends, &[&rows[0], "listener", &rows[1]]);
    assert_says(&ends.client, "connect stays on TCP: Fastopen sockopt not supported", OPTION);
    assert_says(&ends.server, "accepted connection stays on TCP", NO_SMC);
    assert_counted(&bed, &["OPTUNSUPP 1"], &["PEER_NO_SMC 1"]);
}

/// Options are judged by their values: a binding to the loopback device, zero-copy that no call asks for,
/// and a deferral that memory needs no kernel for.
#[test]
fn options_that_need_no_tcp_keep_shared_memory() {
    for (of_server, of_client) in [("deferred", ""), ("deferred-late", ""), ("", "device"), ("", "zero-copy")]
    {
        let Some((bed, python)) = bed(&format!("reasons-{of_server}{of_client}")) else { return };
        let ends = meet(&bed, &python, of_server, of_client);
        assert_rows(&bed, &ends, &["client SMCD", "listener", "server SMCD"]);
    }
}

#[test]
fn a_socket_that_is_passed_on_before_its_first_use() {
    let Some((bed, python)) = bed("reasons-passed") else { return };
    let ends = meet(&bed, &python, "passes", "");
    let [of_client, of_server] = ["client", "server"].map(|end| format!("{end} TCP {OPTION}"));
    assert_rows(&bed, &ends, &[&of_client, "listener", &of_server]);
    assert_says(&ends.server, "accepted connection stays on TCP", OPTION);
    assert_counted(&bed, &["OPTUNSUPP 1"], &["OPTUNSUPP 1"]);
}

#[test]
fn a_client_with_few_descriptors() {
    let Some((bed, python)) = bed("reasons-few") else { return };
    let ends = meet(&bed, &python, "", "few");
    let rows = [format!("client TCP {MEMORY}"), format!("server TCP {NO_SMC}/{MEMORY}")];
    assert_rows(&bed, &ends, &[&rows[0], "listener", &rows[1]]);
    assert_says(&ends.client, "connect stays on TCP: Out of memory", MEMORY);
    assert_counted(&bed, &["MEMORY 1"], &["PEER_NO_SMC 1"]);
}

#[test]
fn what_may_be_shared_is_used_up() {
    let Some((bed, python)) = bed("reasons-memory") else { return };
    let ends = |of_server: &str, of_client: &str| {
        let port = free_port();
        let at = |role, memory: &str| {
            let mut end = enabled(&bed, &python, role, port, "");
            end.env("SMC_MEMORY", memory);
            end
        };
        start(&bed, port, at("server", of_server), at("client", of_client))
    };
    let [of_client, of_server] = ["client", "server"].map(|end| format!("{end} TCP {MEMORY}"));
    let met = ends("1g", "0");
    assert_rows(&bed, &met, &[&of_client, "listener", &format!("server TCP {NO_SMC}/{MEMORY}")]);
    assert_counted(&bed, &["MEMORY 1"], &["PEER_NO_SMC 1"]);
    let met = ends("0", "1g");
    assert_rows(&bed, &met, &[&of_client, "listener", &of_server]);
    assert_counted(&bed, &["MEMORY 2"], &["MEMORY 1", "PEER_NO_SMC 1"]);
}

/// Its memory is closed even to its own user, but not to root.
#[test]
fn a_client_whose_memory_is_closed() {
    let Some((bed, python)) = bed("reasons-undumpable") else { return };
    let port = free_port();
    let [server, client] = [("server", ""), ("client", "undumpable")].map(|(role, how)| {
        let mut end = enabled(&bed, &python, role, port, how);
        if sys::euid() == 0 {
            end.uid(65534).gid(65534);
        }
        end
    });
    let ends = start(&bed, port, server, client);
    let [of_client, of_server] = ["client", "server"].map(|end| format!("{end} TCP {OPTION}"));
    if sys::euid() == 0 {
        assert_rows(&bed, &ends, &[&of_client, "listener", &of_server]);
    }
    assert_says(&ends.client, "connect stays on TCP: Fastopen sockopt not supported", OPTION);
    assert_says(&ends.server, "accepted connection stays on TCP: Fastopen sockopt not supported", OPTION);
    assert_counted(&bed, &["OPTUNSUPP 1"], &["OPTUNSUPP 1"]);
}

/// Its effective user is not its real one: it takes nobody's registry, and counts nowhere.
#[test]
fn a_client_between_two_users() {
    let Some((bed, python)) = bed("reasons-between") else { return };
    if sys::euid() != 0 {
        println!("skipped: switching users needs root");
        return;
    }
    let ends = meet(&bed, &python, "", "between");
    let rows = [format!("client TCP {NOT_OURS}"), format!("server TCP {NO_SMC}/{NOT_OURS}")];
    assert_rows(&bed, &ends, &[&rows[0], "listener", &rows[1]]);
    assert_says(&ends.client, "connect stays on TCP: Configuration error", NOT_OURS);
    assert_counted(&bed, &[], &["PEER_NO_SMC 1"]);
}

/// It sees its own processes alone, and its peer's descriptors not at all.
#[test]
fn a_client_in_another_namespace_of_processes() {
    let Some((bed, python)) = bed("reasons-processes") else { return };
    let (Some(unshare), true) = (installed(&["unshare"]), sys::euid() == 0) else {
        println!("skipped: a namespace of processes needs root and unshare");
        return;
    };
    let port = free_port();
    let inner = enabled(&bed, &python, "client", port, "");
    let mut client = Command::new(unshare);
    client
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(inner.get_program())
        .args(inner.get_args());
    client.env("SMC_REGISTRY_DIR", bed.registry()).current_dir(bed.scratch.path());
    let ends = start(&bed, port, enabled(&bed, &python, "server", port, ""), client);
    let [of_client, of_server] = ["client", "server"].map(|end| format!("{end} TCP {NO_DEVICE}"));
    assert_rows(&bed, &ends, &[&of_client, "listener", &of_server]);
    assert_says(&ends.client, "connect stays on TCP: No ISM device for SMC-D found", NO_DEVICE);
    assert_counted(&bed, &["NOSMCDDEV 1"], &["NOSMCDDEV 1"]);
}

/// It cannot even open the registry, so it counts nowhere.
#[test]
fn a_client_without_descriptors() {
    let Some((bed, python)) = bed("reasons-none") else { return };
    let ends = meet(&bed, &python, "", "none");
    let rows = [format!("client TCP {MEMORY}"), format!("server TCP {NO_SMC}/{MEMORY}")];
    assert_rows(&bed, &ends, &[&rows[0], "listener", &rows[1]]);
    assert_says(&ends.client, "connect stays on TCP: Out of memory", MEMORY);
    assert_counted(&bed, &[], &["PEER_NO_SMC 1"]);
}

#[test]
fn a_server_with_few_descriptors() {
    for how in ["few", "few-child"] {
        let Some((bed, ends)) = answered_in_time(&format!("reasons-{how}-server"), how) else { return };
        let [of_client, of_server] = ["client", "server"].map(|end| format!("{end} TCP {MEMORY}"));
        assert_rows(&bed, &ends, &[&of_client, "listener", &of_server]);
        assert_says(&ends.server, "accepted connection stays on TCP: Out of memory", MEMORY);
        assert_counted(&bed, &["MEMORY 1"], &["MEMORY 1"]);
    }
}

#[test]
fn a_full_table_of_listeners() {
    let Some((bed, python)) = bed("reasons-table") else { return };
    let ends = meet(&bed, &python, "many", "");
    let rows = [
        format!("client TCP {NO_SMC}/{LIMIT}"),
        format!("listener TCP {LIMIT}"),
        format!("server TCP {LIMIT}"),
    ];
    assert_rows(&bed, &ends, &rows.each_ref().map(String::as_str));
    assert_says(&ends.server, "listen stays on TCP: SMC-D connection limit reached", LIMIT);
    assert_says(&ends.server, "accepted connection stays on TCP", LIMIT);
    assert_says(&ends.client, "connect stays on TCP", NO_SMC);
    assert_counted(&bed, &["PEER_NO_SMC 1"], &["MAX_DMB 1"]);
}

/// More listeners share a port than a bucket of the table has rows: whichever the kernel chooses, it is
/// found.
#[test]
fn a_crowd_of_listeners_at_one_port() {
    let Some((bed, python)) = bed("reasons-crowd") else { return };
    let port = free_port();
    let mut server = enabled(&bed, &python, "server", port, "crowd");
    let _server = serve(&bed, &mut server, port);
    let clients: Vec<_> =
        (0..12).map(|_| bed.start(&mut enabled(&bed, &python, "client", port, ""), "client")).collect();
    let shared = || rows(&bed, port).iter().filter(|row| *row == "client SMCD").count();
    assert!(within(LONG, || shared() == clients.len()), "{:#?}", rows(&bed, port));
}

/// What `smcd stats` says on stderr where it has no registry to read.
#[track_caller]
pub(crate) fn assert_stats_note(smcd: &mut Command, code: &str) {
    let output = smcd.arg("stats").output().expect("smcd starts");
    let note = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(note.contains(code) && note.lines().count() == 1, "{output:?}");
}

#[test]
fn no_room_for_a_registry() {
    let Some((bed, python)) = bed("reasons-full") else { return };
    let Ok(_small) = sys::own_small_folder(bed.registry()) else {
        println!("skipped: a file system of its own needs root");
        return;
    };
    let ends = meet(&bed, &python, "", "");
    let rows = ["client", "listener", "server"].map(|end| format!("{end} TCP {MEMORY}"));
    assert_rows(&bed, &ends, &rows.each_ref().map(String::as_str));
    assert_says(&ends.server, "listen stays on TCP: Out of memory", MEMORY);
    assert_says(&ends.server, "accepted connection stays on TCP: Out of memory", MEMORY);
    assert_says(&ends.client, "connect stays on TCP: Out of memory", MEMORY);
    assert_stats_note(&mut bed.tool_command("smcd").expect("this bed has tools"), MEMORY);
}

#[test]
fn no_folder_for_a_registry() {
    let Some((bed, python)) = bed("reasons-nowhere") else { return };
    std::fs::remove_dir_all(bed.registry()).expect("it was there");
    let ends = meet(&bed, &python, "", "");
    let rows = ["client", "listener", "server"].map(|end| format!("{end} TCP {NO_DEVICE}"));
    assert_rows(&bed, &ends, &rows.each_ref().map(String::as_str));
    assert_says(&ends.server, "listen stays on TCP: No ISM device for SMC-D found", NO_DEVICE);
    assert_says(&ends.client, "connect stays on TCP: No ISM device for SMC-D found", NO_DEVICE);
    assert_stats_note(&mut bed.tool_command("smcd").expect("this bed has tools"), NO_DEVICE);
}

/// The server has made the registry; then its version becomes another one, as after an update.
#[test]
fn programs_of_two_versions() {
    let Some((bed, python)) = bed("reasons-version") else { return };
    let port = free_port();
    let mut command = enabled(&bed, &python, "server", port, "");
    let server = serve(&bed, &mut command, port);
    let registry = bed.registry().join(format!("isthmus.{}", sys::euid()));
    assert!(within(LONG, || registry.exists()), "no registry");
    let file = std::fs::OpenOptions::new().write(true).open(&registry).expect("our own");
    std::os::unix::fs::FileExt::write_all_at(&file, &99u32.to_ne_bytes(), 8).expect("writable");
    let client = bed.start(&mut enabled(&bed, &python, "client", port, ""), "client");
    let ends = Ends { server, client, port };
    assert_rows(&bed, &ends, &[&format!("client TCP {VERSION}")]);
    assert_says(&ends.client, "connect stays on TCP: SMC version mismatch", VERSION);
    assert_stats_note(&mut bed.tool_command("smcd").expect("this bed has tools"), VERSION);
}

/// The registry is this user's own, and open to others: nobody believes what is in it.
#[test]
fn a_registry_that_is_open_to_others() {
    let Some((bed, python)) = bed("reasons-open") else { return };
    let port = free_port();
    let mut command = enabled(&bed, &python, "server", port, "");
    let server = serve(&bed, &mut command, port);
    let registry = bed.registry().join(format!("isthmus.{}", sys::euid()));
    assert!(within(LONG, || registry.exists()), "no registry");
    let others_too = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(&registry, others_too).expect("our own");
    let client = bed.start(&mut enabled(&bed, &python, "client", port, ""), "client");
    let ends = Ends { server, client, port };
    assert_says(&ends.client, "connect stays on TCP: Configuration error", NOT_OURS);
    // (The server has used the registry since it was private, and finds no offer there.)
    let rows = [format!("client TCP {NOT_OURS}"), format!("server TCP {NO_SMC}/{NOT_OURS}")];
    assert_rows(&bed, &ends, &[&rows[0], "listener", &rows[1]]);
    assert_stats_note(&mut bed.tool_command("smcd").expect("this bed has tools"), NOT_OURS);
}

/// Where the registry should be stands what is no file.
#[test]
fn a_registry_that_is_no_plain_file() {
    let Some((bed, python)) = bed("reasons-folder") else { return };
    std::fs::create_dir(bed.registry().join(format!("isthmus.{}", sys::euid()))).expect("our own folder");
    let ends = meet(&bed, &python, "", "");
    let rows = ["client", "listener", "server"].map(|end| format!("{end} TCP {NOT_OURS}"));
    assert_rows(&bed, &ends, &rows.each_ref().map(String::as_str));
    assert_stats_note(&mut bed.tool_command("smcd").expect("this bed has tools"), NOT_OURS);
}

#[test]
fn a_server_that_has_accepted_nothing_yet() {
    let Some((bed, python)) = bed("reasons-init") else { return };
    // (A client that looks again and again gives up after a second or so.)
    let ends = meet(&bed, &python, "busy", "still");
    let shows = || {
        let table = bed.connections();
        table.lines().any(|line| line.starts_with("INIT ")) && !table.contains("TCP")
    };
    assert!(within(LONG, shows), "{}", bed.connections());
    assert_counted(&bed, &[], &[]);
    drop(ends);
}

/// Over a pair of devices between two namespaces; the server has its own.
#[test]
fn a_peer_in_another_network_namespace() {
    let Some((bed, python)) = bed("reasons-namespace") else { return };
    let tools = ["ip", "nsenter", "unshare"].map(|name| installed(&[name]));
    let ([Some(ip), Some(nsenter), Some(unshare)], true) = (tools, bed.own_network) else {
        println!("skipped: another namespace needs root, ip, nsenter and unshare");
        return;
    };
    let port = free_port();
    let mut holder = bed.start(Command::new(unshare).args(["--net", "sleep", "60"]), "holder");
    let there = format!("--net=/proc/{}/ns/net", holder.pid());
    let here = std::fs::read_link("/proc/thread-self/ns/net").expect("a namespace");
    let theirs = format!("/proc/{}/ns/net", holder.pid());
    let is_apart = || std::fs::read_link(&theirs).is_ok_and(|link| link != here);
    assert!(within(LONG, is_apart) && holder.alive(), "no namespace of its own");
    let run = |command: &mut Command| assert!(command.status().is_ok_and(|status| status.success()));
    let peer = holder.pid().to_string();
    run(Command::new(&ip).args(["link", "add", "smc0", "type", "veth", "peer", "smc1", "netns", &peer]));
    run(Command::new(&ip).args(["addr", "add", "198.18.9.1/30", "dev", "smc0"]));
    run(Command::new(&ip).args(["link", "set", "smc0", "up"]));
    for args in [["addr", "add", "198.18.9.2/30", "dev", "smc1"].as_slice(), &["link", "set", "smc1", "up"]] {
        run(Command::new(&nsenter).arg(&there).arg(&ip).args(args));
    }
    let inner = enabled(&bed, &python, "server", port, "");
    let mut server = Command::new(&nsenter);
    server.arg(&there).arg(inner.get_program()).args(inner.get_args());
    server.env("SMC_REGISTRY_DIR", bed.registry()).env("HOST", "198.18.9.2").current_dir(bed.scratch.path());
    let server = bed.start(&mut server, "server");
    let registry = bed.registry().join(format!("isthmus.{}", sys::euid()));
    assert!(within(LONG, || registry.exists()), "{}", server.output());
    std::thread::sleep(Duration::from_millis(200));
    let mut client = enabled(&bed, &python, "client", port, "");
    let client = bed.start(client.env("HOST", "198.18.9.2"), "client");
    let ends = Ends { server, client, port };
    let [of_client, of_server] = ["client", "server"].map(|end| format!("{end} TCP {NO_SMC}"));
    assert_rows(&bed, &ends, &[&of_client, "listener", &of_server]);
    assert_says(&ends.client, "connect stays on TCP", NO_SMC);
    assert_says(&ends.server, "accepted connection stays on TCP", NO_SMC);
    assert_counted(&bed, &["PEER_NO_SMC 1"], &["PEER_NO_SMC 1"]);
}

/// ab connects without waiting and calls connect() again to learn how it went.
#[test]
fn a_connection_that_is_asked_after_counts_once() {
    let Some((bed, python)) = bed("reasons-once") else { return };
    let other = meet(&bed, &python, "", "");
    assert_rows(&bed, &other, &["client SMCD", "listener", "server SMCD"]);
    let port = free_port();
    let server = plain(&bed, &python, "server", port);
    let ends = start(&bed, port, server, enabled(&bed, &python, "client", port, "asks"));
    assert!(within(LONG, || ends.client.output().out.contains("connected")), "{}", ends.client.output());
    assert_rows(&bed, &ends, &[&format!("client TCP {NO_SMC}")]);
    assert_counted(&bed, &["PEER_NO_SMC 1"], &[]);
}

#[test]
fn datagrams_are_no_fallback() {
    let Some((bed, python)) = bed("reasons-datagrams") else { return };
    let other = meet(&bed, &python, "", "");
    assert_rows(&bed, &other, &["client SMCD", "listener", "server SMCD"]);
    let client = bed.start(&mut enabled(&bed, &python, "client", other.port, "datagrams"), "client");
    assert!(within(LONG, || client.output().out.contains("connected")), "{}", client.output());
    assert_counted(&bed, &[], &[]);
    let has_registry = std::fs::read_dir(format!("/proc/{}/fd", client.pid()))
        .expect("it lives")
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .any(|target| target.to_string_lossy().contains("/isthmus."));
    assert!(!has_registry && !client.output().err.contains("libsmc-preload"), "{}", client.output());
}

/// Started by something that cleans its environment: the library is not in it, and smcss knows nothing of
/// it.
#[test]
fn a_program_whose_environment_was_cleaned() {
    let Some((bed, python)) = bed("reasons-cleaned") else { return };
    let port = free_port();
    let mut client = bed.tool_command("smc_run").expect("this bed has tools");
    client.args(["-d", "env", "-i"]).arg(&python).arg(script("refused.py"));
    client.args(["client", &port.to_string()]).current_dir(bed.scratch.path());
    let ends = start(&bed, port, enabled(&bed, &python, "server", port, ""), client);
    assert_rows(&bed, &ends, &["listener", &format!("server TCP {NO_SMC}")]);
    assert_says(&ends.server, "accepted connection stays on TCP", NO_SMC);
    assert_counted(&bed, &[], &["PEER_NO_SMC 1"]);
}

/// 256 KiB unless set, 1 MiB at most; the connecting end's sizes count.
#[test]
fn buffers_have_the_sizes_that_the_connecting_end_asks_for() {
    for (sizes, wanted) in
        [(&[][..], "00040000"), (&["-r", "1M", "-t", "1M"], "00100000"), (&["-t", "8M"], "00100000")]
    {
        let Some((bed, python)) = bed("reasons-sizes") else { return };
        let port = free_port();
        let mut command = enabled(&bed, &python, "server", port, "");
        let _server = serve(&bed, &mut command, port);
        let mut client = bed.tool_command("smc_run").expect("this bed has tools");
        client.args(sizes).arg(&python).arg(script("refused.py")).args(["client", &port.to_string()]);
        let _client = bed.start(client.current_dir(bed.scratch.path()), "client");
        let table = || bed.tool("smcss", &["-d"]);
        let is_so = || {
            let table = table();
            let rows: Vec<&str> = table.lines().filter(|line| line.contains("SMCD")).collect();
            rows.len() == 2 && rows.iter().all(|row| row.matches(&format!(" {wanted} ")).count() >= 2)
        };
        assert!(within(LONG, is_so), "{sizes:?}: {}", table());
    }
}

/// The table of LIMITATIONS, the only one of its kind, has no code that is not provoked here.
#[test]
pub(crate) fn every_code_of_the_table_is_provoked() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../LIMITATIONS.md");
    let text = std::fs::read_to_string(path).expect("the limitations");
    let section =
        text.split("## Connections that stay on TCP").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows = section.unwrap_or_default().lines().filter(|line| line.trim_start().starts_with("| `TCP 0x"));
    // (Behind a slash stands any of the other rows.)
    let codes: Vec<&str> =
        rows.filter_map(|row| row.split('`').nth(1)?.strip_prefix("TCP ")?.split('/').next()).collect();
    let provoked =
        [NO_SMC, OPTION, MEMORY, LIMIT, NO_DEVICE, NOT_OURS, OPERATOR, BRIEF, VERSION, DECLINED, UNKNOWN];
    assert!(provoked.iter().all(|code| codes.contains(code)), "a row is missing: {codes:?}");
    assert!(codes.iter().all(|code| provoked.contains(code)), "{codes:?}");
}

/// Its first accepted connection announces it: until then its clients find nobody, and no registry.
#[test]
fn a_listener_that_was_inherited() {
    let Some((bed, python)) = bed("reasons-inherited") else { return };
    let port = free_port();
    let mut server = plain(&bed, &python, "server", port);
    let smc_run = bed.tool_command("smc_run").expect("this bed has tools").get_program().to_owned();
    server.arg("inherits").arg(smc_run).arg("-d").env("SMC_REGISTRY_DIR", bed.registry());
    let server = serve(&bed, &mut server, port);
    let now = || rows(&bed, port);
    assert!(within(LONG, || now() == [format!("listener TCP {UNKNOWN}")]), "{:?} {}", now(), server.output());
    let client = bed.start(&mut enabled(&bed, &python, "client", port, ""), "client");
    let ends = Ends { server, client, port };
    assert_says(&ends.client, "connect stays on TCP", NO_SMC);
    assert_says(&ends.server, "accepted connection stays on TCP", NO_SMC);
    let [of_client, of_server] = ["client", "server"].map(|end| format!("{end} TCP {NO_SMC}"));
    assert_rows(&bed, &ends, &[&of_client, "listener", &of_server]);
    assert_counted(&bed, &[], &["PEER_NO_SMC 1"]);
    let second = bed.start(&mut enabled(&bed, &python, "client", port, ""), "second");
    assert!(within(LONG, || now().contains(&"client SMCD".to_string())), "{:?} {}", now(), second.output());
}

/// What it would say it says before the filter, of its listeners; behind it, it makes no call that the plain
/// program would not make, and so says nothing.
#[test]
fn a_peer_that_a_filter_confines() {
    let Some((bed, python)) = bed("reasons-confined") else { return };
    let ends = meet(&bed, &python, "confined", "");
    let [of_listener, of_server] = ["listener", "server"].map(|end| format!("{end} TCP {NO_DEVICE}"));
    assert_shown(&bed, &ends, &[&format!("client TCP {NO_SMC}/{NO_DEVICE}"), &of_listener, &of_server]);
    assert_says(&ends.client, "connect stays on TCP", NO_SMC);
    assert_says(&ends.server, "listen stays on TCP: No ISM device for SMC-D found", NO_DEVICE);
    assert_counted(&bed, &["PEER_NO_SMC 1"], &[]);
    let ends = meet(&bed, &python, "", "confined");
    let [of_client, of_server] = [format!("client TCP {UNKNOWN}"), format!("server TCP {NO_SMC}")];
    assert_shown(&bed, &ends, &[&of_client, "listener", &of_server]);
    assert_says(&ends.server, "accepted connection stays on TCP", NO_SMC);
    assert!(!ends.client.output().err.contains("libsmc-preload: "), "{}", ends.client.output());
    assert_counted(&bed, &["PEER_NO_SMC 1"], &["PEER_NO_SMC 1"]);
}

/// Which counts nowhere any more.
#[test]
fn a_peer_that_has_changed_its_user() {
    let Some((bed, python)) = bed("reasons-changes") else { return };
    if sys::euid() != 0 {
        println!("skipped: switching users needs root");
        return;
    }
    let [of_client, of_server] = ["client", "server"].map(|end| format!("{end} TCP {NO_SMC}"));
    let ends = meet(&bed, &python, "changes", "");
    assert_shown(&bed, &ends, &[&of_client, &format!("listener TCP {UNKNOWN}"), &of_server]);
    assert_told(&ends, &[&of_client, &of_server]);
    assert_counted(&bed, &["PEER_NO_SMC 1"], &[]);
    let ends = meet(&bed, &python, "", "changes");
    assert_rows(&bed, &ends, &[&of_client, "listener", &of_server]);
    assert_counted(&bed, &["PEER_NO_SMC 1"], &["PEER_NO_SMC 1"]);
}

/// A client that has mapped no registry, for there was none: whoever was there does not matter.
#[test]
fn a_peer_that_is_gone() {
    let Some((bed, python)) = bed("reasons-gone") else { return };
    let port = free_port();
    let server = plain(&bed, &python, "server", port);
    let ends = start(&bed, port, server, enabled(&bed, &python, "client", port, "still"));
    assert_rows(&bed, &ends, &[&format!("client TCP {NO_SMC}")]);
    ends.server.signal(9);
    let is_closing = || bed.connections().lines().any(|line| line.starts_with("APPCLOSEWAIT"));
    within(LONG, is_closing);
    assert_rows(&bed, &ends, &[&format!("client TCP {NO_SMC}")]);
}
