//! Changes what a running process does with its connections. Owns: the answers to an operator, a sentence
//! and an exit code each.
//!
//! The process is not asked, and may be stopped: its connections are taken off shared memory by their words
//! in the slots (`fabric::visit`), and it is written down in its user's registry for those to come.

use super::options::{Change, To, Which};
use crate::host::{self, Process};
use crate::output;
use crate::registry::{self, Kept};
use fabric::Reason;
use fabric::observe::{Connection, Verdict};
use fabric::visit::{self, Memory, Visit};
use os::net::{AF_INET6, Endpoint};
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Why nothing, or not all, was changed: exit code and sentence.
type Refusal = (u8, String);

const FAILED: u8 = 1;
const NO_PROCESS: u8 = 2;
const NOT_OURS: u8 = 3;
const NOT_ENABLED: u8 = 4;
const NOTHING_TO_DO: u8 = 5;
const NOT_ALL: u8 = 6;

/// So often the connections are looked through: one may have been decided while the process was written down.
const ROUNDS: usize = 50;
const BETWEEN_ROUNDS: Duration = Duration::from_millis(2);

/// Does it, and tells what came of it.
pub(super) fn run(wanted: &Change) -> u8 {
    let done = process(wanted.pid).and_then(|(process, uid)| match &wanted.to {
        To::Tcp => take_off(&process, uid),
        To::TcpOf(which) => take_some_off(&process, *which),
        To::Smc => let_on(&process, uid),
    });
    match done {
        Ok(text) => {
            output::print(&format!("{text}\n"));
            0
        }
        Err((code, text)) => {
            output::complain(&format!("smc_run: {text}\n"));
            code
        }
    }
}

/// The process, and whose registry it uses.
fn process(pid: u32) -> Result<(Process, u32), Refusal> {
    if visit::name_of(pid).is_none() {
        return Err((NO_PROCESS, format!("no process {pid}")));
    }
    if let Some(process) = host::of_thread(pid).filter(|process| *process != pid) {
        return Err((NO_PROCESS, format!("{pid} is a thread of process {process}: name that")));
    }
    let found = host::process(pid, &registry::folder()).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => {
            (NOT_OURS, format!("process {pid} belongs to another user, or is closed"))
        }
        _ => (NO_PROCESS, format!("no process {pid}")),
    })?;
    match found.enabled_as {
        Some(uid) => Ok((found, uid)),
        None => Err((NOT_ENABLED, format!("process {pid} does not run under the library"))),
    }
}

fn keep(process: &Process, uid: u32, is_wanted: bool) -> Result<Kept, Refusal> {
    let name =
        visit::name_of(process.pid).ok_or_else(|| (NO_PROCESS, format!("no process {}", process.pid)))?;
    let kept = registry::keep_on_tcp(&registry::folder(), uid, name, is_wanted);
    kept.map_err(|why| match registry::is_there(&registry::folder(), uid) {
        true => (FAILED, format!("cannot write the registry of user {uid}: {why}")),
        false => (NOTHING_TO_DO, format!("nothing to do: user {uid} has no listener under the library")),
    })
}

fn take_off(process: &Process, uid: u32) -> Result<String, Refusal> {
    let kept = keep(process, uid, true)?;
    let count = send_home(process.pid, Which::All, true)?;
    if (count, kept) == (0, Kept::AsBefore) {
        let text = format!("nothing to do: process {} is on TCP, and kept there", process.pid);
        return Err((NOTHING_TO_DO, text));
    }
    Ok(format!("{} went back to TCP, and new ones stay there", connections(process.pid, count)))
}

fn take_some_off(process: &Process, which: Which) -> Result<String, Refusal> {
    match send_home(process.pid, which, false)? {
        0 => Err((NOTHING_TO_DO, format!("process {} has no such connection in shared memory", process.pid))),
        count => Ok(format!("{} went back to TCP", connections(process.pid, count))),
    }
}

fn let_on(process: &Process, uid: u32) -> Result<String, Refusal> {
    match keep(process, uid, false)? {
        Kept::AsBefore => {
            Err((NOTHING_TO_DO, format!("nothing to do: process {} is not kept on TCP", process.pid)))
        }
        Kept::Changed => {
            Ok(format!("new connections of process {} may use shared memory again", process.pid))
        }
    }
}

/// Sends the connections of a process home; how many went. If it is kept on TCP, looks until no more turn up:
/// some were decided while it was written down.
fn send_home(pid: u32, which: Which, is_kept: bool) -> Result<usize, Refusal> {
    let (mut gone, mut left) = (HashSet::new(), 0);
    for _ in 0..ROUNDS {
        let round = Round::over(pid, which);
        let is_news = round.gone.iter().any(|cookie| !gone.contains(cookie));
        gone.extend(round.gone);
        left = round.left;
        if left == 0 && !(is_news && is_kept) {
            break;
        }
        std::thread::sleep(BETWEEN_ROUNDS);
    }
    if left == 0 { Ok(gone.len()) } else { Err((NOT_ALL, stay(pid, left, gone.len()))) }
}

fn stay(pid: u32, left: usize, gone: usize) -> String {
    let why = "an end is stopped in the middle of a copy, or its memory is not to be had";
    format!("{gone} went back to TCP, {left} not: {why}", gone = connections(pid, gone))
}

fn connections(pid: u32, count: usize) -> String {
    let noun = if count == 1 { "connection" } else { "connections" };
    format!("{count} {noun} of process {pid}")
}

/// One look at all connections of a process.
struct Round {
    /// Cookies of the clients' sockets of those that are home by now by our doing.
    gone: Vec<u64>,
    /// How many could not be moved.
    left: usize,
}

impl Round {
    fn over(pid: u32, which: Which) -> Round {
        let mut round = Round { gone: vec![], left: 0 };
        let Ok(process) = host::process(pid, &registry::folder()) else { return round };
        let own: HashSet<u64> = process.sockets.iter().map(|(_, inode)| *inode).collect();
        for registry in registry::all().0 {
            let mut known = Known::new();
            for connection in registry.view.connections() {
                if is_meant(&connection, &own, which) {
                    round.visit(pid, registry.uid, &connection, &mut known);
                }
            }
        }
        round
    }

    fn visit(&mut self, pid: u32, uid: u32, connection: &Connection, known: &mut Known) {
        let ends = connection.ends.iter().filter_map(|end| end.process.map(|process| process.pid));
        let visited = [connection.owner_pid, pid].into_iter().chain(ends).find_map(|holder| {
            let open = || Memory::open(holder, connection.memfd, uid);
            let memory = known.entry((holder, connection.memfd)).or_insert_with(open).as_ref()?;
            visit::send_home(connection, memory, Reason::OPERATOR)
        });
        match visited {
            Some(Visit::Home) => self.gone.push(connection.ends[0].cookie),
            Some(Visit::WasHome | Visit::Gone) => {}
            // (Whose other end has ended waits for nothing that TCP would not tell.)
            None if !are_alive(connection) => {}
            None | Some(Visit::Busy) => self.left += 1,
        }
    }
}

/// Memory by process and descriptor.
type Known = HashMap<(u32, u32), Option<Memory>>;

fn are_alive(connection: &Connection) -> bool {
    connection.ends.iter().all(|end| end.process.is_some_and(|process| process.is_alive))
}

/// Whether a connection is in shared memory, one of the process's, and the one that was named.
fn is_meant(connection: &Connection, own: &HashSet<u64>, which: Which) -> bool {
    let is_named = |at: usize| match which {
        Which::All => true,
        Which::Inode(inode) => connection.ends[at].inode == inode,
        Which::Between(ends) => [at, 1 - at].map(|end| address(connection.ends[end].at)) == ends,
    };
    let is_own = |at: usize| own.contains(&u64::from(connection.ends[at].inode));
    connection.verdict == Some(Verdict::Smc) && (0..2).any(|at| is_own(at) && is_named(at))
}

fn address(at: Endpoint) -> SocketAddr {
    let ip: IpAddr = match at.family {
        AF_INET6 => Ipv6Addr::from(at.addr).into(),
        _ => Ipv4Addr::new(at.addr[0], at.addr[1], at.addr[2], at.addr[3]).into(),
    };
    SocketAddr::new(ip.to_canonical(), at.port)
}
