//! Isthmus' sockets as rows of smcss. Owns: how a connection's two sides become two rows, with SMC's words
//! for rings.

use super::row::{Address, Cursor, Details, Dmb, Mode, Program, Row, State};
use crate::far::{End, Far};
use crate::live::{self, Live};
use crate::registry::Registry;
use fabric::observe::layouts::ClosedBy;
use fabric::observe::{Listener, Process, Slot, Verdict};
use os::net::{AF_INET6, Endpoint};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// All rows of a registry: listeners by port, then connections by age, the client's side first.
pub(super) fn rows(registry: &Registry) -> Vec<Row> {
    let listeners = live::listeners(registry);
    let connections = live::connections(registry);
    let of_listeners = listeners.iter().map(|one| listener(one, registry.uid));
    let of_connections = connections.iter().flat_map(|live| sides(live, registry.uid).map(|(_, row)| row));
    of_listeners.chain(of_connections).collect()
}

/// Rows of connections that no registry has, as far as their ends are within sight.
pub(super) fn far_rows(all: &[Far<'_>]) -> Vec<Row> {
    all.iter().flat_map(|far| sides(&far.live, 0).map(|(side, row)| far_row(far, side, row))).collect()
}

/// (Between the two there may be a translation of addresses: each end has its own view of them.)
fn far_row(far: &Far<'_>, side: usize, row: Row) -> Row {
    let Some(End { socket, process }) = far.ends[side] else { return row };
    Row {
        uid: socket.uid,
        interface: socket.interface,
        local: Address { ip: socket.local.ip(), port: socket.local.port() },
        peer: Address { ip: socket.remote.ip(), port: socket.remote.port() },
        program: Some(Program { pid: process.pid, name: process.name.clone() }),
        ..row
    }
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

/// A connection of which nothing is known but whose it is.
pub(super) fn blank(uid: u32) -> Row {
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

fn sides(live: &Live, uid: u32) -> impl Iterator<Item = (usize, Row)> + '_ {
    (0..2)
        .filter(|side| live.seen[*side])
        .map(move |side| (side, self::side(live, side, uid)))
        .filter(|(_, row)| row.state != State::CLOSED)
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
    if let Some(reason) = live.slot.and_then(|slot| slot.home) {
        return Row { mode: Mode::Tcp { reason: reason.0, peer: 0 }, ..row };
    }
    match live.connection.verdict {
        None => Row { state: State::INIT, ..row },
        Some(Verdict::Plain(reason)) => Row { mode: Mode::Tcp { reason: reason.0, peer: 0 }, ..row },
        Some(Verdict::Smc) => Row {
            state: state(live, side),
            shutdown: shutdown(closed(live, side), closed(live, 1 - side)),
            details: live.slot.map(|slot| details(live, &slot, side)),
            dmb: Some(dmb(live, side)),
            ..row
        },
    }
}

/// Bits of [`ClosedBy`] that hold for a side. What is gone has closed, whatever it wrote down last.
fn closed(live: &Live, side: usize) -> u32 {
    let written = live.slot.map_or(0, |slot| slot.sides[side].closed);
    if live.lives[side] { written } else { written | ClosedBy::WRITE | ClosedBy::CLOSE }
}

fn state(live: &Live, side: usize) -> State {
    let written = live.slot.map_or(0, |slot| slot.sides[side].state);
    State::of(fabric::observe::state(written, closed(live, side), closed(live, 1 - side)))
}

/// As the kernel counts it: a peer that writes no more shuts our receiving.
fn shutdown(own: u32, peer: u32) -> u8 {
    let over = ClosedBy::CLOSE | ClosedBy::ABORT;
    let receive = own & (ClosedBy::READ | over) != 0 || peer & (ClosedBy::WRITE | over) != 0;
    let send = own & (ClosedBy::WRITE | over) != 0;
    u8::from(receive) | u8::from(send) << 1
}

fn details(live: &Live, slot: &Slot, side: usize) -> Details {
    let (own, peer) = (&slot.sides[side], &slot.sides[1 - side]);
    let at = |bytes: u64| cursor(bytes, slot.ring_size);
    let flags = |from: usize| [producer_flags(slot, from), state_flags(closed(live, from))];
    Details {
        token: live.tokens[side] as u32,
        sndbuf: slot.ring_size,
        rcvbuf: slot.ring_size,
        peerbuf: slot.ring_size,
        rx_prod: at(peer.tx.bytes),
        rx_cons: at(peer.rx.bytes),
        tx_prod: at(own.tx.bytes),
        tx_cons: at(own.rx.bytes),
        rx_flags: flags(1 - side),
        tx_flags: flags(side),
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

/// Producer flags that `from` would put into a CDC message: whether it waits for space.
fn producer_flags(slot: &Slot, from: usize) -> u8 {
    const WRITE_BLOCKED: u8 = 0x80;
    let unread = slot.sides[from].tx.bytes.saturating_sub(slot.sides[1 - from].rx.bytes);
    if unread >= u64::from(slot.ring_size) { WRITE_BLOCKED } else { 0 }
}

/// Connection state flags of CDC for what a side has closed.
fn state_flags(closed: u32) -> u8 {
    const DONE_WRITING: u8 = 0x80;
    const CONN_CLOSED: u8 = 0x40;
    const CONN_ABORT: u8 = 0x20;
    let states =
        [(ClosedBy::WRITE, DONE_WRITING), (ClosedBy::CLOSE, CONN_CLOSED), (ClosedBy::ABORT, CONN_ABORT)];
    states.iter().filter(|(bit, _)| closed & bit != 0).fold(0, |flags, (_, flag)| flags | flag)
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
