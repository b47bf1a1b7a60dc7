//! smcss on registries made up.

use super::made_up::{MadeUp, RING};
use super::{Folder, smc, stderr, stdout};
use fabric::Reason;
use fabric::observe::Verdict;
use fabric::observe::layouts::ClosedBy;
use std::sync::atomic::Ordering::Relaxed;

const HEADER: &str =
    "State          UID   Inode   Local Address           Peer Address            Intf Mode ";

fn lines(made_up: &MadeUp, options: &str) -> Vec<String> {
    let output = smc(&made_up.folder.0, &format!("smcss {options}"));
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    stdout(&output).lines().map(str::to_owned).collect()
}

fn with_uid(line: &str) -> String {
    line.replace("UUUUU", &format!("{:05}", os::process::euid()))
}

#[test]
fn without_a_registry_there_is_the_header() {
    let folder = Folder::new("smcss-none");
    let output = smc(&folder.0, "smcss");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(stdout(&output), format!("{HEADER}\n"));
}

#[test]
fn connections_and_listeners_are_listed() {
    let made_up = MadeUp::new("smcss-list");
    made_up.listen(80, 700);
    made_up.connect(1, 40001, Verdict::Smc);
    made_up.connect(2, 40002, Verdict::Plain(Reason::MAX_DMB));
    made_up.connect(3, 40003, None);
    made_up.connect(4, 40004, Verdict::Smc);
    made_up.kill(4);
    let connections = [
        "ACTIVE         UUUUU 0000010 127.0.0.1:40001         127.0.0.1:80            0000 SMCD ",
        "ACTIVE         UUUUU 0000011 127.0.0.1:80            127.0.0.1:40001         0000 SMCD ",
        "ACTIVE         UUUUU 0000020 127.0.0.1:40002         127.0.0.1:80            0000 TCP 0x030d0000",
        "ACTIVE         UUUUU 0000021 127.0.0.1:80            127.0.0.1:40002         0000 TCP 0x030d0000",
    ]
    .map(with_uid);
    let listener = with_uid("LISTEN         UUUUU 0000700 0.0.0.0:80              ");
    let init = with_uid("INIT           UUUUU 0000030 ");
    assert_eq!(lines(&made_up, "")[1..], connections);
    assert_eq!(lines(&made_up, "-l"), [HEADER, &listener]);
    let all = lines(&made_up, "-a");
    assert_eq!((&all[1], &all[2..6], &all[6]), (&listener, &connections[..], &init));
    assert_eq!(lines(&made_up, "--smcr").len(), 1);
    assert!(
        lines(&made_up, "--pid")[1].starts_with(&format!("{:<7} prog            ACTIVE", os::process::pid()))
    );
}

#[test]
fn closed_sides_disappear() {
    let made_up = MadeUp::new("smcss-closed");
    made_up.connect(1, 40001, Verdict::Smc);
    made_up.map.first.rows[1][0].open.store(2, Relaxed);
    let lines = lines(&made_up, "");
    assert_eq!((lines.len(), lines[1].contains(" 0000011 ")), (2, true), "{lines:?}");
}

#[test]
fn details_come_out_of_the_segment() {
    let made_up = MadeUp::new("smcss-details");
    let slot = made_up.connect(1, 40001, Verdict::Smc);
    slot.rings[0].producer.0.prod.store(RING + 5, Relaxed);
    slot.rings[0].consumer.0.cons.store(RING, Relaxed);
    slot.sides[0].closed.store(ClosedBy::WRITE, Relaxed);
    slot.sides[0].state.store(20, Relaxed);
    slot.sides[1].state.store(22, Relaxed);
    let rows = lines(&made_up, "-d");
    let behind = |row: &str, state: &str| {
        assert!(row.starts_with(state), "{row}");
        row.split_once("SMCD ").map(|(_, behind)| behind.to_string())
    };
    let client = " <-W  00000001 00010000 00010000 00010000 0000:00000000 0001:00000000 00:00   \
                  0001:00000005 0000:00000000 00:80   0001:00000005 0001:00000005 0001:00000000 ";
    let server = " R->  00000101 00010000 00010000 00010000 0001:00000005 0000:00000000 00:80   \
                  0000:00000000 0001:00000000 00:00   0000:00000000 0000:00000000 0000:00000000 ";
    assert_eq!(behind(&rows[1], "PEERCLOSEWAIT1").as_deref(), Some(client));
    assert_eq!(behind(&rows[2], "APPCLOSEWAIT1 ").as_deref(), Some(server));
}

#[test]
fn tokens_and_gids_of_the_two_ends_are_swapped() {
    let made_up = MadeUp::new("smcss-dmb");
    made_up.connect(1, 40001, Verdict::Smc);
    made_up.connect(2, 40002, Verdict::Plain(Reason::MAX_DMB));
    let rows = lines(&made_up, "-D");
    assert_eq!(rows.len(), 3, "SMC-D only: {rows:?}");
    let words = |row: &str| -> Vec<String> { row.split_whitespace().skip(7).map(str::to_owned).collect() };
    let (client, server) = (words(&rows[1]), words(&rows[2]));
    assert_eq!(client.len(), 5, "{client:?}");
    assert_eq!((&client[0], &client[1], &client[4]), (&server[2], &server[3], &server[4]));
    assert_eq!((client[1].as_str(), client[3].as_str()), ("0000000000000001", "0000000000000101"));
}

#[test]
fn json_is_one_object_per_socket() {
    let made_up = MadeUp::new("smcss-json");
    assert_eq!(lines(&made_up, "--json"), ["[]"]);
    made_up.connect(2, 40002, Verdict::Plain(Reason::MAX_DMB));
    let rows = lines(&made_up, "--json");
    assert!(rows[1].contains("\"reason_text\": \"SMC-D connection limit reached\""), "{rows:?}");
}

#[test]
fn wrong_options_print_the_usage_and_fail() {
    let folder = Folder::new("smcss-options");
    for (line, message) in [
        ("smcss -la", "--listening together with --all is not supported\nUsage: smcss"),
        ("smcss -DR", "--smcd together with --smcr is not supported\nUsage: smcss"),
        ("smcss -x", "smcss: invalid option -- 'x'\nUsage: smcss"),
    ] {
        let output = smc(&folder.0, line);
        assert_eq!((output.status.code(), stdout(&output)), (Some(1), String::new()), "{line}");
        assert!(stderr(&output).starts_with(message), "{line}: {}", stderr(&output));
    }
}

#[test]
fn a_registry_of_another_version_is_an_error_that_says_so() {
    let made_up = MadeUp::new("smcss-version");
    made_up.map.version.store(77, Relaxed);
    let output = smc(&made_up.folder.0, "smcss");
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), format!("{HEADER}\n")));
    assert!(stderr(&output).contains("its layout is version 77"), "{}", stderr(&output));
}
