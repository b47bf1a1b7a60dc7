//! TCP sockets of enabled programs that have no row in a registry: those that never found an enabled peer,
//! and listeners that were not announced. Owns: which of them are shown. A program writes down why it refused
//! a socket of its own; everything else /proc tells.

mod reason;

use super::isthmus::blank;
use super::row::{Address, Mode, Program, Row, State};
use crate::far::Far;
use crate::host::table::state;
use crate::host::{Held, Host, Process};
use crate::registry::{self, Registry};
use fabric::Reason;
use fabric::observe::Verdict;
use reason::Judge;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;

/// What registries say.
#[derive(Debug, Default)]
struct Known {
    /// Ends of connections, by inode.
    verdicts: HashMap<u64, Option<Verdict>>,
    /// Inodes of the listeners that a client would find.
    announced: HashSet<u64>,
    /// Sockets that stay on TCP for a reason of their own, by inode.
    refusals: HashMap<u64, Reason>,
    /// Why users can have no registry.
    faults: HashMap<u32, Reason>,
    /// Users whose registries stand and could not be read (they are of another version): nothing is known of
    /// them.
    unread: HashSet<u32>,
    /// Those of them whose registry is of another version: programs that have not mapped it cannot use it.
    of_another_version: HashSet<u32>,
}

impl Known {
    fn of(registries: &[Registry], users: HashSet<u32>, folder: &Path) -> Known {
        let connections = registries.iter().flat_map(|one| one.view.connections());
        let ends = connections.flat_map(|one| one.ends.map(|end| (u64::from(end.inode), one.verdict)));
        let listeners = registries.iter().flat_map(|one| one.view.listeners());
        let lives = listeners.filter(|one| one.process.is_some_and(|process| process.is_alive));
        let faults: HashMap<u32, Reason> =
            users.iter().filter_map(|uid| Some((*uid, registry::fault(folder, *uid)?))).collect();
        let is_unread = |uid: &u32| {
            let is_read = registries.iter().any(|one| one.uid == *uid);
            !is_read && !faults.contains_key(uid) && registry::file(folder, *uid).exists()
        };
        let refusals = registries.iter().flat_map(|one| one.view.refusals());
        let unread: HashSet<u32> = users.into_iter().filter(is_unread).collect();
        Known {
            refusals: refusals.map(|(inode, reason)| (inode.into(), reason)).collect(),
            of_another_version: unread
                .iter()
                .copied()
                .filter(|uid| registry::is_of_another_version(folder, *uid))
                .collect(),
            verdicts: ends.filter(|(inode, _)| *inode != 0).collect(),
            announced: lives.map(|one| one.inode.into()).collect(),
            unread,
            faults,
        }
    }
}

impl Known {
    /// Whether the registry that a process would use is of another version than it.
    fn has_another_version(&self, process: &Process) -> bool {
        !process.has_registry && process.enabled_as.is_some_and(|uid| self.of_another_version.contains(&uid))
    }
}

/// Rows for the sockets of `host` that `shown` does not have yet: listeners by port, then connections by age.
/// `host` must be older than `registries`, which lie in `folder`.
pub(super) fn rows(
    host: &Host,
    (registries, far): (&[Registry], &[Far<'_>]),
    folder: &Path,
    shown: &[Row],
) -> Vec<Row> {
    let mut known = Known::of(registries, host.users().collect(), folder);
    for Far { live, ends } in far {
        let seen = ends.iter().flatten().map(|end| (end.socket.inode, live.connection.verdict));
        known.verdicts.extend(seen);
    }
    let mut rows = rows_by(host, &known, shown);
    // What was closed since lost its row in the registry first: only what is still open was without.
    rows.retain(|(held, _)| held.is_still_open());
    rows.into_iter().map(|(_, row)| row).collect()
}

fn rows_by<'a>(host: &'a Host, known: &Known, shown: &[Row]) -> Vec<(Held<'a>, Row)> {
    let shown: HashSet<u64> = shown.iter().map(|row| row.inode).collect();
    let judge = Judge { host, known };
    let can_tell = |held: &Held<'_>| {
        let is_read = held.process.enabled_as.is_some_and(|uid| !known.unread.contains(&uid));
        is_read || known.has_another_version(held.process)
    };
    let missing = host.enabled().filter(|held| !shown.contains(&held.socket.inode) && can_tell(held));
    let mut rows: Vec<_> = missing.filter_map(|held| Some((held, row(&judge, &held)?))).collect();
    rows.sort_by_key(|(_, row)| match row.state {
        State::LISTEN => (false, u64::from(row.local.port), row.inode),
        _ => (true, row.inode, 0),
    });
    rows
}

/// `None` for a connection that is SMC-D and not to be shown at this end: closed, or claimed this very
/// moment.
fn row(judge: &Judge<'_>, held: &Held<'_>) -> Option<Row> {
    let socket = held.socket;
    let row = Row {
        inode: socket.inode,
        local: address(socket.local),
        peer: address(socket.remote),
        interface: socket.interface,
        program: Some(Program { pid: held.process.pid, name: held.process.name.clone() }),
        ..blank(socket.uid)
    };
    let tcp = |reason: Reason| Mode::Tcp { reason: reason.0, peer: 0 };
    let with_peer = |reason: Reason, peer: Option<Reason>| {
        let peer = peer.filter(|peer| *peer != reason);
        Mode::Tcp { reason: reason.0, peer: peer.map_or(0, |peer| peer.0) }
    };
    match (socket.state, judge.verdict(socket)) {
        (state::LISTEN, _) => Some(Row {
            state: State::LISTEN,
            mode: tcp(judge.why_not_announced(socket, held.process)),
            ..row
        }),
        (_, Some(Some(Verdict::Smc))) => None,
        (state::SYN_SENT, _) | (_, Some(None)) => Some(Row { state: State::INIT, ..row }),
        (_, Some(Some(Verdict::Plain(reason)))) => {
            Some(Row { mode: with_peer(judge.by_verdict(socket, reason), Some(reason)), ..row })
        }
        (_, None) => {
            let own = judge.why_tcp(socket, held.process);
            Some(Row { mode: with_peer(own, judge.refusal_of_peer(socket)), ..row })
        }
    }
}

fn address(at: SocketAddr) -> Address {
    Address { ip: at.ip(), port: at.port() }
}

/// A sentence about living programs of the registries whose descriptors are closed to us; empty if there are
/// none.
pub(super) fn hidden(host: &Host, registries: &[Registry]) -> String {
    let processes = registries.iter().flat_map(|one| one.view.processes());
    let hidden = processes.filter(|process| host.is_hidden(process.pid) && process.is_alive);
    let names: Vec<String> =
        hidden.map(|process| format!("{} ({})", process.pid, crate::live::command(&process))).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(
            "Note: /proc/PID/fd is closed to this user for {}: their connections over TCP are not listed\n",
            names.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests;
