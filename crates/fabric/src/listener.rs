//! Listening sockets of enabled processes. Owns: the listener rows and the question "is the other end enabled?"

use crate::process::{self, ProcessId};
use crate::registry;
use os::net::Endpoint;
use os::{diag, net};
use shm::registry::{EndpointWords, LISTENER_BUCKETS, ListenerRow, ROWS, RegistryMap};
use shm::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use wire::reason::Reason;

/// Key of a row that is being written.
const BUSY: u64 = u64::MAX;

/// Writes an address into a row.
pub(crate) fn store_endpoint(into: &EndpointWords, at: Endpoint) {
    into.family_port.store(u32::from(at.family) << 16 | u32::from(at.port), Relaxed);
    for (word, bytes) in into.addr.iter().zip(at.addr.chunks_exact(4)) {
        word.store(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte)).to_le(), Relaxed);
    }
}

fn bucket(map: &RegistryMap, port: u16) -> &[ListenerRow; ROWS] {
    &map.listeners[port as usize % LISTENER_BUCKETS]
}

/// Announces the listening socket `fd`. Reasons: those of the registry; MAX_DMB if the table is full.
pub fn announce(fd: i32) -> Result<u64, Reason> {
    let map = registry::existing_or_new()?;
    let me = process::me(map).ok_or(Reason::MEM)?;
    let cookie = net::cookie(fd).map_err(|_| Reason::CNFERR)?;
    let at = net::local(fd).map_err(|_| Reason::CNFERR)?;
    // Whoever may not ask the kernel about peers (a sandbox without netlink) could never answer an intent.
    let anyone = Endpoint { port: 1, addr: [0; 16], scope: 0, ..at };
    match diag::lookup(at, anyone) {
        Ok(_) | Err(os::Errno::ENOENT) => {}
        Err(_) => return Err(Reason::NOSMCDDEV),
    }
    let rows = bucket(map, at.port);
    // listen() may be called again, and an exec'ed process announces what its former self announced.
    let row = rows.iter().find(|row| row.cookie.load(Acquire) == cookie).or_else(|| take_row(map, rows));
    let row = row.ok_or(Reason::MAX_DMB)?;
    row.cookie.store(BUSY, Relaxed);
    me.store(&row.process);
    store_endpoint(&row.at, at);
    row.inode.store(os::fd::identity(fd).map_or(0, |(_, inode)| inode as u32), Relaxed);
    row.cookie.store(cookie, Release);
    Ok(cookie)
}

fn take_row<'a>(map: &RegistryMap, rows: &'a [ListenerRow; ROWS]) -> Option<&'a ListenerRow> {
    let grab =
        |row: &ListenerRow, from: u64| row.cookie.compare_exchange(from, BUSY, AcqRel, Relaxed).is_ok();
    rows.iter().find(|row| grab(row, 0)).or_else(|| {
        rows.iter().find(|row| {
            let cookie = row.cookie.load(Acquire);
            !ProcessId::load(&row.process).is_alive(map) && grab(row, cookie)
        })
    })
}

/// Withdraws a listener after its last close in the announcing process, unless another process still holds the socket.
pub fn withdraw(cookie: u64, at: Endpoint) {
    let Some(map) = registry::mapped() else { return };
    let rows = bucket(map, at.port);
    let mine =
        |row: &&ListenerRow| row.cookie.load(Acquire) == cookie && ProcessId::load(&row.process).is_me();
    let Some(row) = rows.iter().find(mine) else { return };
    let anyone = Endpoint { port: 1, addr: [0; 16], scope: 0, ..at };
    if !diag::lookup(at, anyone).is_ok_and(|found| found.cookie == cookie) {
        let _ = row.cookie.compare_exchange(cookie, 0, AcqRel, Relaxed);
    }
}

/// Withdraws a listener that stays open.
pub fn forget(cookie: u64, fd: i32) {
    let (Some(map), Ok(at)) = (registry::mapped(), net::local(fd)) else { return };
    let rows = bucket(map, at.port);
    if let Some(row) = rows.iter().find(|row| row.cookie.load(Acquire) == cookie) {
        let _ = row.cookie.compare_exchange(cookie, 0, AcqRel, Relaxed);
    }
}

/// The process that announced the listener which a connection to `target` would reach.
///
/// A port nobody announced costs a glance at one bucket; only a match asks the kernel who listens there.
/// Reasons: PEERNOSMC (plain listener, or none), NOSMCDDEV and the like if there is no registry.
pub fn owner_of(target: Endpoint) -> Result<ProcessId, Reason> {
    let map = registry::existing()?;
    let rows = bucket(map, target.port);
    let is_candidate = |row: &&ListenerRow| {
        let cookie = row.cookie.load(Acquire);
        cookie != 0 && cookie != BUSY && row.at.family_port.load(Relaxed) as u16 == target.port
    };
    if !rows.iter().any(|row| is_candidate(&row)) {
        return Err(Reason::PEERNOSMC);
    }
    // Remote port 1 matches no connection, so the kernel answers with the listener.
    let anyone = Endpoint { port: 1, addr: [0; 16], scope: target.scope, ..target };
    let found = diag::lookup(target, anyone).map_err(|_| Reason::PEERNOSMC)?;
    if found.uid != os::process::euid() {
        return Err(Reason::PEERNOSMC);
    }
    let row = rows.iter().find(|row| row.cookie.load(Acquire) == found.cookie).ok_or(Reason::PEERNOSMC)?;
    let owner = ProcessId::load(&row.process);
    if owner.is_alive(map) { Ok(owner) } else { Err(Reason::PEERNOSMC) }
}
