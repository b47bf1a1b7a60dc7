//! Golden lines of the smcss table: every piece of header, every place where a row may end.

use super::super::options::Wanted;
use super::super::row::{Address, Cursor, Details, Dmb, Link, Mode, Program, Row, State};
use super::User;

fn list(rows: &[Row], wanted: &Wanted) -> String {
    super::list(rows, wanted, &|_| vec![])
}

fn address(ip: &str, port: u16) -> Address {
    Address { ip: ip.parse().expect("an address"), port }
}

fn row() -> Row {
    Row {
        is_kernels: false,
        state: State::ACTIVE,
        uid: 1000,
        inode: 12345,
        local: address("127.0.0.1", 40000),
        peer: address("127.0.0.1", 8080),
        interface: 0,
        mode: Mode::Smcd,
        shutdown: 0,
        details: Some(details()),
        dmb: Some(Dmb { gid: 1, token: 2, peer_gid: 3, peer_token: 0xfeed, link_id: 0x100 }),
        link: None,
        program: Some(Program { pid: 77, name: "nginx".into() }),
    }
}

fn details() -> Details {
    let cursor = |wrap, count| Cursor { wrap, count };
    Details {
        token: 0xabc,
        sndbuf: 0x10000,
        rcvbuf: 0x10000,
        peerbuf: 0x20000,
        rx_prod: cursor(1, 2),
        rx_cons: cursor(3, 4),
        tx_prod: cursor(5, 6),
        tx_cons: cursor(7, 8),
        rx_flags: [0x80, 0x40],
        tx_flags: [0, 0x20],
        tx_prep: cursor(9, 10),
        tx_sent: cursor(11, 12),
        tx_fin: cursor(13, 14),
    }
}

fn check(rows: &[Row], wanted: &Wanted, golden: &[&str]) {
    let text = list(rows, wanted);
    assert_eq!(text.lines().collect::<Vec<_>>(), golden);
    assert!(text.ends_with('\n'));
}

const HEADER: &str =
    "State          UID   Inode   Local Address           Peer Address            Intf Mode ";

#[test]
fn the_header_stands_without_rows() {
    check(&[], &Wanted::default(), &[HEADER]);
}

#[test]
fn plain_rows() {
    check(
        &[row()],
        &Wanted::default(),
        &[HEADER, "ACTIVE         01000 0012345 127.0.0.1:40000         127.0.0.1:8080          0000 SMCD "],
    );
}

#[test]
fn a_listener_that_no_client_finds_has_every_column() {
    let peer = address("0.0.0.0", 0);
    let listener = Row { state: State::LISTEN, peer, mode: Mode::Tcp { reason: 0, peer: 0 }, ..row() };
    let of_kernel = Row { is_kernels: true, ..listener.clone() };
    let golden = [
        HEADER,
        "LISTEN         01000 0012345 127.0.0.1:40000         0.0.0.0:0               0000 TCP 0x00000000",
        "LISTEN         01000 0012345 127.0.0.1:40000         ",
    ];
    check(&[listener, of_kernel], &Wanted::default(), &golden);
}

#[test]
fn rows_end_where_the_state_says() {
    let all = Wanted { details: true, smcd: true, ..Wanted::default() };
    let with = |state| Row { state, ..row() };
    let text = list(&[with(State::INIT), with(State::LISTEN), with(State::CLOSED)], &all);
    assert_eq!(
        text.lines().skip(1).collect::<Vec<_>>(),
        [
            "INIT           01000 0012345 ",
            "LISTEN         01000 0012345 127.0.0.1:40000         ",
            "CLOSED         01000 0012345 127.0.0.1:40000         127.0.0.1:8080          0000 ",
        ]
    );
}

#[test]
fn a_fallback_shows_its_codes_and_ends() {
    let all = Wanted { details: true, smcd: true, ..Wanted::default() };
    let with = |reason, peer| Row { mode: Mode::Tcp { reason, peer }, ..row() };
    let text = list(&[with(0x0301_0000, 0), with(0x0500_0000, 0x0303_0001)], &all);
    assert_eq!(
        text.lines().skip(1).collect::<Vec<_>>(),
        [
            "ACTIVE         01000 0012345 127.0.0.1:40000         127.0.0.1:8080          0000 TCP 0x03010000",
            "ACTIVE         01000 0012345 127.0.0.1:40000         127.0.0.1:8080          0000 TCP 0x05000000/0x03030001",
        ]
    );
}

#[test]
fn details_and_dmb() {
    check(
        &[Row { shutdown: 2, ..row() }],
        &Wanted { details: true, ..Wanted::default() },
        &[
            "State          UID   Inode   Local Address           Peer Address            Intf Mode \
         Shutd Token    Sndbuf   Rcvbuf   Peerbuf  rxprod-Cursor rxcons-Cursor rxFlags txprod-Cursor txcons-Cursor \
         txFlags txprep-Cursor txsent-Cursor txfin-Cursor  ",
            "ACTIVE         01000 0012345 127.0.0.1:40000         127.0.0.1:8080          0000 SMCD  <-W  \
         00000abc 00010000 00010000 00020000 0001:00000002 0003:00000004 80:40   0005:00000006 0007:00000008 \
         00:20   0009:0000000a 000b:0000000c 000d:0000000e ",
        ],
    );
    check(
        &[row()],
        &Wanted { smcd: true, ..Wanted::default() },
        &[
            "State          UID   Inode   Local Address           Peer Address            Intf Mode \
         GID              Token            Peer-GID         Peer-Token       Linkid",
            "ACTIVE         01000 0012345 127.0.0.1:40000         127.0.0.1:8080          0000 SMCD \
         0000000000000001 0000000000000002 0000000000000003 000000000000feed 00000100 ",
        ],
    );
}

#[test]
fn shutdown_halves() {
    let wanted = Wanted { details: true, ..Wanted::default() };
    for (bits, text) in [(0, " <->  "), (1, " R->  "), (2, " <-W  "), (3, " R-W  ")] {
        let line = list(&[Row { shutdown: bits, details: None, ..row() }], &wanted);
        assert!(line.ends_with(&format!("SMCD {text}\n")), "{line}");
    }
}

#[test]
fn links_of_smcr() {
    let link = Link {
        is_server: true,
        device: "mlx5_0".into(),
        port: 1,
        link_id: 2,
        gid: "fe80::1".into(),
        peer_gid: "fe80::2".into(),
    };
    let row = Row { mode: Mode::Smcr, link: Some(link), dmb: None, ..row() };
    check(
        &[row],
        &Wanted { smcr: true, ..Wanted::default() },
        &[
            "State          UID   Inode   Local Address           Peer Address            Intf Mode \
         Role IB-device       Port Linkid GID                                      Peer-GID",
            "ACTIVE         01000 0012345 127.0.0.1:40000         127.0.0.1:8080          0000 SMCR \
         SERV mlx5_0          01   02     fe80::1                                  fe80::2",
        ],
    );
}

#[test]
fn programs_stand_in_front_where_every_row_has_room() {
    let listener = Row { state: State::LISTEN, program: None, ..row() };
    check(
        &[row(), listener],
        &Wanted { program: true, ..Wanted::default() },
        &[
            "PID     Program         State          UID   Inode   Local Address           Peer Address            Intf Mode ",
            "77      nginx           ACTIVE         01000 0012345 127.0.0.1:40000         127.0.0.1:8080          0000 SMCD ",
            "0       -               LISTEN         01000 0012345 127.0.0.1:40000         ",
        ],
    );
}

#[test]
fn states_have_their_names() {
    let names: Vec<String> =
        [1, 2, 7, 10, 20, 21, 22, 23, 24, 25, 26, 27, 99].map(|n| State(n).name()).to_vec();
    assert_eq!(
        names.join(" "),
        "ACTIVE INIT CLOSED LISTEN PEERCLOSEWAIT1 PEERCLOSEWAIT2 APPCLOSEWAIT1 APPCLOSEWAIT2 APPFINCLOSEWAIT1 \
         PEERFINCLOSEWAIT PEERABORTWAIT PROCESSABORT 0x63?"
    );
}

#[test]
fn reasons_and_processes_stand_behind_everything_else() {
    let users = |_: &Row| vec![User { name: "nginx".into(), pid: 7, fd: Some(3) }];
    let tcp = Row { mode: Mode::Tcp { reason: 0x0301_0000, peer: 0x0306_0000 }, ..row() };
    let wanted = Wanted { reasons: true, processes: true, ..Wanted::default() };
    let text = super::list(&[tcp, row()], &wanted, &users);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("Intf Mode   Reason  Process"), "{text}");
    let words = "TCP 0x03010000/0x03060000  Peer does not support SMC / Fastopen sockopt not supported  users:((\"nginx\",pid=7,fd=3))";
    assert!(lines[1].ends_with(words), "{text}");
    assert!(lines[2].ends_with("SMCD   users:((\"nginx\",pid=7,fd=3))"), "{text}");
}
