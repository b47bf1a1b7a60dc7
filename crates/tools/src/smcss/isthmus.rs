//! Isthmus' sockets as rows of smcss. Owns: how a connection's two sides become two rows, with SMC's words for rings.

use super::row::{Address, Cursor, Details, Dmb, Mode, Program, Row, State};
use crate::live::{self, Live};
use crate::registry::Registry;
use fabric::observe::layouts::ClosedBy;
use fabric::observe::{Listener, Process, Slot, SlotSide, Verdict};
use os::net::{AF_INET6, Endpoint};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// All rows of a registry: listeners by port, then connections by age, the client's side first.
pub(super) fn rows(registry: &Registry) -> Vec<Row> {
    let listeners = live::listeners(registry);
    let connections = live::connections(registry);
    let of_listeners = listeners.iter().map(|one| listener(one, registry.uid));
    let of_connections = connections.iter().flat_map(|live| sides(live, registry.uid));
    of_listeners.chain(of_connections).collect()
}

fn listener(from: &Listener, uid: u32) -> Row {
    Row {
        state: State::LISTEN,
        inode: from.inode.into(),
        local: address(from.at),
        program: from.process.as_ref().map(program),
        ..blank(uid)
    }
}

fn blank(uid: u32) -> Row {
    let nowhere = Address { ip: Ipv4Addr::UNSPECIFIED.into(), port: 0 };
    Row {
        is_kernels: false,
        state: State::ACTIVE,
        uid,
        inode: 0,
        local: nowhere,
        peer: nowhere,
        interface: 0,
        mode: Mode::Smcd,
        shutdown: 0,
        details: None,
        dmb: None,
        link: None,
        program: None,
    }
}

fn sides(live: &Live, uid: u32) -> impl Iterator<Item = Row> + '_ {
    (0..2)
        .filter(|side| live.lives[*side])
        .map(move |side| self::side(live, side, uid))
        .filter(|row| row.state != State::CLOSED)
}

fn side(live: &Live, side: usize, uid: u32) -> Row {
    let (end, peer) = (&live.connection.ends[side], &live.connection.ends[1 - side]);
    let row = Row {
        inode: end.inode.into(),
        local: address(end.at),
        peer: address(peer.at),
        program: end.process.as_ref().map(program),
        ..blank(uid)
    };
    match live.connection.verdict {
        Verdict::Intent => Row { state: State::INIT, ..row },
        Verdict::Plain(reason) => Row { mode: Mode::Tcp { reason: reason.0, peer: 0 }, ..row },
        Verdict::Smc => Row {
            state: live.slot.map_or(State::ACTIVE, |slot| state(&slot.sides[side])),
            shutdown: live.slot.map_or(0, |slot| shutdown(&slot, side)),
            details: live.slot.map(|slot| details(&slot, side, live.tokens[side])),
            dmb: Some(dmb(live, side)),
            ..row
        },
    }
}

fn state(side: &SlotSide) -> State {
    // 0: not yet used since the upgrade.
    State(u8::try_from(side.state).ok().filter(|state| *state != 0).unwrap_or(State::ACTIVE.0))
}

/// As the kernel counts it: a peer that writes no more shuts our receiving.
fn shutdown(slot: &Slot, side: usize) -> u8 {
    let (own, peer) = (slot.sides[side].closed, slot.sides[1 - side].closed);
    let over = ClosedBy::CLOSE | ClosedBy::ABORT;
    let receive = own & (ClosedBy::READ | over) != 0 || peer & (ClosedBy::WRITE | over) != 0;
    let send = own & (ClosedBy::WRITE | over) != 0;
    u8::from(receive) | u8::from(send) << 1
}

fn details(slot: &Slot, side: usize, token: u64) -> Details {
    let (own, peer) = (&slot.sides[side], &slot.sides[1 - side]);
    let at = |bytes: u64| cursor(bytes, slot.ring_size);
    Details {
        token: token as u32,
        sndbuf: slot.ring_size,
        rcvbuf: slot.ring_size,
        peerbuf: slot.ring_size,
        rx_prod: at(peer.tx.bytes),
        rx_cons: at(peer.rx.bytes),
        tx_prod: at(own.tx.bytes),
        tx_cons: at(own.rx.bytes),
        rx_flags: flags(peer, own, slot.ring_size),
        tx_flags: flags(own, peer, slot.ring_size),
        // A byte is with the peer once it is written.
        tx_prep: at(own.tx.bytes),
        tx_sent: at(own.tx.bytes),
        tx_fin: at(peer.rx.bytes),
    }
}

fn cursor(bytes: u64, ring_size: u32) -> Cursor {
    let size = u64::from(ring_size);
    Cursor { wrap: (bytes / size) as u16, count: (bytes % size) as u32 }
}

/// The flags `from` would put into a CDC message to `to` (producer flags, connection state flags).
fn flags(from: &SlotSide, to: &SlotSide, ring_size: u32) -> [u8; 2] {
    const WRITE_BLOCKED: u8 = 0x80;
    const DONE_WRITING: u8 = 0x80;
    const CONN_CLOSED: u8 = 0x40;
    const CONN_ABORT: u8 = 0x20;
    let is_full = from.tx.bytes.saturating_sub(to.rx.bytes) >= u64::from(ring_size);
    let states =
        [(ClosedBy::WRITE, DONE_WRITING), (ClosedBy::CLOSE, CONN_CLOSED), (ClosedBy::ABORT, CONN_ABORT)];
    let set = states.iter().filter(|(closed, _)| from.closed & closed != 0);
    [if is_full { WRITE_BLOCKED } else { 0 }, set.fold(0, |bits, (_, bit)| bits | bit)]
}

fn dmb(live: &Live, side: usize) -> Dmb {
    Dmb {
        gid: live.gids[side],
        token: live.tokens[side],
        peer_gid: live.gids[1 - side],
        peer_token: live.tokens[1 - side],
        link_id: live.link_group(),
    }
}

fn program(process: &Process) -> Program {
    Program { pid: process.pid, name: live::command(process) }
}

fn address(at: Endpoint) -> Address {
    let ip: IpAddr = match at.family {
        AF_INET6 => Ipv6Addr::from(at.addr).into(),
        _ => Ipv4Addr::new(at.addr[0], at.addr[1], at.addr[2], at.addr[3]).into(),
    };
    Address { ip, port: at.port }
}

#[cfg(test)]
mod tests;
