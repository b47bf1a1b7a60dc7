//! Connections made up by hand, and the rows they become.

use super::{address, sides};
use crate::live::Live;
use crate::smcss::row::{Cursor, Mode, Row, State};
use fabric::Reason;
use fabric::observe::layouts::ClosedBy;
use fabric::observe::{Calls, Connection, End, Process, Slot, SlotSide, Verdict};
use os::net::Endpoint;

fn endpoint(port: u16) -> Endpoint {
    Endpoint { family: 2, port, scope: 0, addr: [127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] }
}

fn end(port: u16) -> End {
    let process = Process {
        row: port.into(),
        generation: 1,
        pid: port.into(),
        comm: *b"prog\0\0\0\0\0\0\0\0\0\0\0\0",
        memory: 0,
        is_alive: true,
    };
    End {
        cookie: u64::from(port) << 32 | 5,
        at: endpoint(port),
        inode: port.into(),
        is_open: true,
        process: Some(process),
    }
}

fn live(verdict: impl Into<Option<Verdict>>) -> Live {
    let verdict = verdict.into();
    let ends = [end(40000), end(80)];
    let connection = Connection { verdict, nonce: 1, owner_pid: 1, memfd: 1, slot: 0, ends };
    let lives = [true; 2];
    Live { connection, slot: None, lives, seen: lives, tokens: ends.map(|end| end.cookie), gids: [11, 22] }
}

fn moved(sent: u64, received: u64) -> SlotSide {
    let calls = |bytes| Calls { bytes, ..Calls::default() };
    SlotSide { closed: 0, state: 1, rx: calls(received), tx: calls(sent), ..SlotSide::default() }
}

fn slot() -> Slot {
    // The client sent 100 000 bytes, of which the server has read 98 304; the answer fills its ring.
    Slot { ring_size: 16384, server_cookie: 0, sides: [moved(100_000, 0), moved(16384, 98304)], home: None }
}

fn rows(live: &Live) -> Vec<Row> {
    sides(live, 1000).map(|(_, row)| row).collect()
}

#[test]
fn two_ends_on_one_host_are_two_rows_that_mirror_each_other() {
    let rows = rows(&live(Verdict::Smc));
    assert_eq!(rows.iter().map(|row| row.inode).collect::<Vec<_>>(), [40000, 80]);
    assert_eq!((rows[0].local, rows[0].peer), (rows[1].peer, rows[1].local));
    let (one, other) = (rows[0].dmb.expect("a DMB"), rows[1].dmb.expect("a DMB"));
    assert_eq!((one.gid, one.token, one.link_id), (other.peer_gid, other.peer_token, other.link_id));
    assert_eq!((one.peer_gid, one.peer_token), (other.gid, other.token));
    assert!(one.link_id & 0xff == 0 && one.link_id != 0);
}

#[test]
fn cursors_are_counted_in_rings() {
    let rows = rows(&Live { slot: Some(slot()), ..live(Verdict::Smc) });
    let (client, server) = (rows[0].details.expect("details"), rows[1].details.expect("details"));
    let sent = Cursor { wrap: 6, count: 100_000 - 6 * 16384 };
    let read = Cursor { wrap: 6, count: 0 };
    assert_eq!((client.tx_prod, client.tx_sent, client.rx_cons, client.tx_fin), (sent, sent, read, read));
    assert_eq!((server.rx_prod, server.tx_cons), (sent, read));
    assert_eq!(
        (client.rx_prod, server.tx_prod),
        (Cursor { wrap: 1, count: 0 }, Cursor { wrap: 1, count: 0 })
    );
    assert_eq!((server.tx_flags, client.rx_flags, client.tx_flags), ([0x80, 0], [0x80, 0], [0, 0]));
    assert_eq!((client.token, client.sndbuf, client.rcvbuf, client.peerbuf), (5, 16384, 16384, 16384));
}

#[test]
fn closing_shows_at_both_sides() {
    let mut slot = slot();
    slot.sides[0] = SlotSide { closed: ClosedBy::WRITE, state: 20, ..slot.sides[0] };
    slot.sides[1].state = 22;
    let rows = rows(&Live { slot: Some(slot), ..live(Verdict::Smc) });
    assert_eq!((rows[0].state, rows[0].shutdown), (State(20), 2));
    assert_eq!((rows[1].state, rows[1].shutdown), (State(22), 1));
    assert_eq!(rows[1].details.map(|details| details.rx_flags[1]), Some(0x80));
}

#[test]
fn states_follow_from_what_was_closed() {
    let state = |own: u32, peer: u32| {
        let mut slot = slot();
        (slot.sides[0].closed, slot.sides[1].closed) = (own, peer);
        super::state(&Live { slot: Some(slot), ..live(Verdict::Smc) }, 0).0
    };
    let (write, close, abort) = (ClosedBy::WRITE, ClosedBy::WRITE | ClosedBy::CLOSE, ClosedBy::ABORT);
    let table = [
        (0, 0, 1),
        (ClosedBy::READ, 0, 1),
        (write, 0, 20),
        (close, 0, 20),
        (write, write, 21),
        (0, write, 22),
        (0, close, 22),
        (write, close, 24),
        (0, abort | close, 27),
        (close, close, 7),
    ];
    for (own, peer, wanted) in table {
        assert_eq!(state(own, peer), wanted, "{own} {peer}");
    }
}

#[test]
fn a_killed_peer_has_closed() {
    let rows = rows(&Live { lives: [false, true], seen: [false, true], ..live(Verdict::Smc) });
    assert_eq!((rows.len(), rows[0].state, rows[0].shutdown), (1, State(22), 1));
}

#[test]
fn dead_and_closed_sides_are_not_shown() {
    let mut slot = slot();
    slot.sides[0].state = 7;
    let half = Live { slot: Some(slot), ..live(Verdict::Smc) };
    assert_eq!(rows(&half).len(), 1);
    assert_eq!(rows(&Live { lives: [true, false], seen: [true, false], ..half }).len(), 0);
}

#[test]
fn undecided_and_plain_connections_say_so() {
    let intent = rows(&Live { lives: [true, false], seen: [true, false], ..live(None) });
    assert_eq!(intent.iter().map(|row| row.state).collect::<Vec<_>>(), [State::INIT]);
    let plain = rows(&live(Verdict::Plain(Reason::MAX_DMB)));
    assert_eq!(plain[0].mode, Mode::Tcp { reason: 0x030d_0000, peer: 0 });
    assert_eq!((plain[0].state, plain[0].dmb), (State::ACTIVE, None));
}

#[test]
fn addresses_keep_their_bytes() {
    assert_eq!(address(endpoint(80)).ip.to_string(), "127.0.0.1");
    let mut six = Endpoint { family: 10, ..endpoint(80) };
    six.addr = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    assert_eq!(address(six).ip.to_string(), "2001:db8::9");
}
