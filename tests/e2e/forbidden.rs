//! Why is it TCP? What the machine, or whoever runs it, forbids a program: to ask the kernel, to look into
//! /proc, to write, to have memory. Owns: that smcss, `smc_run -d` and `smcd stats` tell the same of that;
//! see `reasons` for everything else.

use crate::reasons::{
    Ends, LONG, MEMORY, NO_DEVICE, NO_SMC, NOT_OURS, assert_counted, assert_rows, assert_says,
    assert_stats_note, bed, enabled, meet, rows, start,
};
use crate::support::{script, serve};
use isthmus_tests::{Bed, free_port, installed, sys, within};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Any user but root, whom permissions bind.
const ORDINARY: u32 = 65_534;

/// `command` as an ordinary user: whose modes count.
fn as_ordinary(mut command: Command) -> Command {
    if sys::euid() == 0 {
        command.uid(ORDINARY).gid(ORDINARY);
    }
    command
}

fn ordinary() -> u32 {
    if sys::euid() == 0 { ORDINARY } else { sys::euid() }
}

/// An enabled end behind what `refused.py WORDS` does to it before it starts.
fn behind(bed: &Bed, python: &Path, words: &[&str], inner: &Command) -> Command {
    let mut command = Command::new(python);
    command.arg(script("refused.py")).args(words).arg(inner.get_program()).args(inner.get_args());
    command.env("SMC_REGISTRY_DIR", bed.registry()).env_remove("LD_PRELOAD").current_dir(bed.scratch.path());
    command
}

/// Containers that may have no netlink socket: nobody there knows who listens at a port, or who has come.
#[test]
fn a_program_that_may_not_ask_the_kernel() {
    let Some((bed, python)) = bed("forbidden-asking") else { return };
    let at = |role, port| enabled(&bed, &python, role, port, "");
    let port = free_port();
    let client = behind(&bed, &python, &["unasked"], &at("client", port));
    let ends = start(&bed, port, at("server", port), client);
    let [of_client, of_server] =
        [format!("client TCP {NO_DEVICE}"), format!("server TCP {NO_SMC}/{NO_DEVICE}")];
    assert_rows(&bed, &ends, &[&of_client, "listener", &of_server]);
    assert_says(&ends.client, "connect stays on TCP: No ISM device for SMC-D found", NO_DEVICE);
    assert_counted(&bed, &["NOSMCDDEV 1"], &["PEER_NO_SMC 1"]);
    drop(ends);
    let port = free_port();
    let server = behind(&bed, &python, &["unasked"], &at("server", port));
    let ends = start(&bed, port, server, at("client", port));
    let [of_listener, of_server] = ["listener", "server"].map(|end| format!("{end} TCP {NO_DEVICE}"));
    assert_rows(&bed, &ends, &[&format!("client TCP {NO_SMC}/{NO_DEVICE}"), &of_listener, &of_server]);
    assert_says(&ends.server, "listen stays on TCP: No ISM device for SMC-D found", NO_DEVICE);
    assert_counted(&bed, &["PEER_NO_SMC 1", "NOSMCDDEV 1"], &["PEER_NO_SMC 1", "NOSMCDDEV 1"]);
}

/// /proc with hidepid=2 has nobody whom its reader might not trace: a client that made itself undumpable is
/// not there.
#[test]
fn a_client_that_proc_hides() {
    let Some((bed, python)) = bed("forbidden-hidepid") else { return };
    if sys::euid() != 0 {
        println!("skipped: a /proc of its own needs root");
        return;
    }
    let port = free_port();
    let user = ORDINARY.to_string();
    let server = behind(&bed, &python, &["hidden", &user], &enabled(&bed, &python, "server", port, ""));
    let client = as_ordinary(enabled(&bed, &python, "client", port, "undumpable"));
    let ends = start(&bed, port, server, client);
    let [of_client, of_server] = ["client", "server"].map(|end| format!("{end} TCP {NO_DEVICE}"));
    assert_rows(&bed, &ends, &[&of_client, "listener", &of_server]);
    assert_says(&ends.server, "accepted connection stays on TCP: No ISM device for SMC-D found", NO_DEVICE);
    assert_counted(&bed, &["NOSMCDDEV 1"], &["NOSMCDDEV 1"]);
    // Whom it might trace it sees.
    let second = bed.start(&mut as_ordinary(enabled(&bed, &python, "client", port, "")), "second");
    assert!(within(LONG, || rows(&bed, port).contains(&"client SMCD".into())), "{}", second.output());
}

/// The client asks for a port, and a rule of the firewall leads it to another one: the two know each other by
/// no address.
#[test]
fn a_peer_behind_nat() {
    let Some((bed, python)) = bed("forbidden-nat") else { return };
    let (Some(nft), true) = (installed(&["nft"]), bed.own_network) else {
        println!("skipped: rules of a firewall of its own need root and nft");
        return;
    };
    let [asked, port] = [free_port(), free_port()];
    for rule in [
        "add table ip smc".to_owned(),
        "add chain ip smc out { type nat hook output priority -100 ; }".to_owned(),
        format!("add rule ip smc out tcp dport {asked} redirect to :{port}"),
    ] {
        if !Command::new(&nft).arg(&rule).status().is_ok_and(|status| status.success()) {
            println!("skipped: this kernel has no NAT");
            return;
        }
    }
    let server = enabled(&bed, &python, "server", port, "");
    let ends = start(&bed, port, server, enabled(&bed, &python, "client", asked, ""));
    assert_rows(&bed, &ends, &["listener", &format!("server TCP {NO_SMC}")]);
    assert_rows(&bed, &Ends { port: asked, ..ends }, &[&format!("client TCP {NO_SMC}")]);
    assert_counted(&bed, &["PEER_NO_SMC 1"], &["PEER_NO_SMC 1"]);
}

/// So many processes take part that a further one has no row.
#[test]
fn a_process_without_a_row() {
    const ROWS: i64 = 2048;
    const FIRST: i64 = 1 << 40;
    let Some((bed, python)) = bed("forbidden-row") else { return };
    let port = free_port();
    let server = serve(&bed, &mut enabled(&bed, &python, "server", port, ""), port);
    let registry = bed.registry().join(format!("isthmus.{}", sys::euid()));
    assert!(within(LONG, || registry.exists()), "{}", server.output());
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&registry).expect("our own");
    // (But for that of the server.)
    let taken = (FIRST..FIRST + ROWS).filter(|at| sys::lock_byte(&file, *at).is_ok()).count();
    assert_eq!(taken as i64, ROWS - 1);
    let client = bed.start(&mut enabled(&bed, &python, "client", port, ""), "client");
    let ends = Ends { server, client, port };
    let rows = [format!("client TCP {MEMORY}"), format!("server TCP {NO_SMC}/{MEMORY}")];
    assert_rows(&bed, &ends, &[&rows[0], "listener", &rows[1]]);
    assert_says(&ends.client, "connect stays on TCP: Out of memory", MEMORY);
    assert_counted(&bed, &["MEMORY 1"], &["PEER_NO_SMC 1"]);
}

/// `ulimit -v` leaves room for the registry, and none for a segment.
#[test]
fn a_client_without_address_space() {
    let Some((bed, python)) = bed("forbidden-narrow") else { return };
    let ends = meet(&bed, &python, "", "narrow");
    let rows = [format!("client TCP {MEMORY}"), format!("server TCP {NO_SMC}/{MEMORY}")];
    assert_rows(&bed, &ends, &[&rows[0], "listener", &rows[1]]);
    assert_says(&ends.client, "connect stays on TCP: Out of memory", MEMORY);
    assert_counted(&bed, &["MEMORY 1"], &["PEER_NO_SMC 1"]);
}

/// Its owner may read it, and no more.
#[test]
fn a_registry_that_is_not_to_be_written_to() {
    let Some((bed, python)) = bed("forbidden-file") else { return };
    let port = free_port();
    let at = |role| as_ordinary(enabled(&bed, &python, role, port, ""));
    let server = serve(&bed, &mut at("server"), port);
    let registry = bed.registry().join(format!("isthmus.{}", ordinary()));
    assert!(within(LONG, || registry.exists()), "{}", server.output());
    std::fs::set_permissions(&registry, PermissionsExt::from_mode(0o400))
        .expect("it is ours, or we are root");
    let client = bed.start(&mut at("client"), "client");
    let ends = Ends { server, client, port };
    let rows = [format!("client TCP {NOT_OURS}"), format!("server TCP {NO_SMC}/{NOT_OURS}")];
    assert_rows(&bed, &ends, &[&rows[0], "listener", &rows[1]]);
    assert_says(&ends.client, "connect stays on TCP: Configuration error", NOT_OURS);
    assert_counted(&bed, &[], &["PEER_NO_SMC 1"]);
}

/// There is no registry in it, and none can be made.
#[test]
fn a_folder_that_is_closed() {
    let Some((bed, python)) = bed("forbidden-folder") else { return };
    std::fs::set_permissions(bed.registry(), PermissionsExt::from_mode(0o555)).expect("our own folder");
    let port = free_port();
    let at = |role| as_ordinary(enabled(&bed, &python, role, port, ""));
    let ends = start(&bed, port, at("server"), at("client"));
    let rows = ["client", "listener", "server"].map(|end| format!("{end} TCP {NO_DEVICE}"));
    assert_rows(&bed, &ends, &rows.each_ref().map(String::as_str));
    assert_stats_note(&mut as_ordinary(bed.tool_command("smcd").expect("this bed has tools")), NO_DEVICE);
    drop(ends);
    std::fs::set_permissions(bed.registry(), PermissionsExt::from_mode(0o755)).expect("our own folder");
}
