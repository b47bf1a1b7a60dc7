//! What of a registry is true now: connections and listeners whose sockets exist. Owns: that judgement, and
//! the ISM names (GID, link group id) under which smcss and smcd show them.

use crate::registry::Registry;
use crate::segments::Segments;
use fabric::observe::{Connection, End, Listener, Process, Slot};
use os::net::Endpoint;

/// Asks the kernel for the cookie of the open socket between two addresses (or of the listener, if there is
/// none).
type Ask<'a> = &'a dyn Fn(Endpoint, Endpoint) -> Option<u64>;

/// A connection with at least one living end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) connection: Connection,
    /// Its slot, if the memory is within reach.
    pub(crate) slot: Option<Slot>,
    /// Which ends live: client, server.
    pub(crate) lives: [bool; 2],
    /// Which of them are within sight: of two containers each sees its own.
    pub(crate) seen: [bool; 2],
    /// Cookies of the sockets, 0 if unknown.
    pub(crate) tokens: [u64; 2],
    /// Names of the processes on the ISM device, 0 if unknown.
    pub(crate) gids: [u64; 2],
}

impl Live {
    /// Id of its link group: one per pair of processes, a multiple of 256 as the kernel's are.
    pub(crate) fn link_group(&self) -> u32 {
        let id = mix(self.gids[0] ^ mix(self.gids[1])) as u32 & !0xff;
        id.max(0x100)
    }
}

/// Connections of a registry, oldest first.
pub(crate) fn connections(registry: &Registry) -> Vec<Live> {
    connections_by(registry, &ask_kernel)
}

/// Listeners of a registry by port.
pub(crate) fn listeners(registry: &Registry) -> Vec<Listener> {
    listeners_by(registry, &ask_kernel)
}

fn ask_kernel(local: Endpoint, remote: Endpoint) -> Option<u64> {
    os::diag::lookup(local, remote).ok().filter(|found| found.inode != 0).map(|found| found.cookie)
}

fn connections_by(registry: &Registry, ask: Ask<'_>) -> Vec<Live> {
    let mut segments = Segments::of(registry.uid);
    let mut all: Vec<Live> =
        registry.view.connections().filter_map(|one| live(one, registry.uid, &mut segments, ask)).collect();
    all.sort_by_key(|live| live.connection.ends[0].cookie);
    all
}

fn live(connection: Connection, uid: u32, segments: &mut Segments, ask: Ask<'_>) -> Option<Live> {
    let [client, server] = connection.ends;
    let lives = [is_alive(&client, &server, ask), is_alive(&server, &client, ask)];
    if lives == [false; 2] {
        return None;
    }
    let slot = segments.slot(&connection);
    let server_token =
        if server.cookie != 0 { server.cookie } else { slot.map_or(0, |slot| slot.server_cookie) };
    Some(Live {
        connection,
        slot,
        lives,
        seen: lives,
        tokens: [client.cookie, server_token],
        gids: [client, server].map(|end| end.process.map_or(0, |process| gid(uid, &process))),
    })
}

/// An end lives while its process does. If that is gone, another may hold the socket (fork, descriptor
/// passing): the kernel knows.
fn is_alive(end: &End, peer: &End, ask: Ask<'_>) -> bool {
    let of_process = end.process.is_some_and(|process| process.is_alive);
    end.is_open && (of_process || (end.cookie != 0 && ask(end.at, peer.at) == Some(end.cookie)))
}

fn listeners_by(registry: &Registry, ask: Ask<'_>) -> Vec<Listener> {
    let lives = |listener: &Listener| {
        // Remote port 1 matches no connection, so the kernel answers with the listener.
        let anyone = Endpoint { port: 1, addr: [0; 16], scope: 0, ..listener.at };
        let of_process = listener.process.is_some_and(|process| process.is_alive);
        of_process || ask(listener.at, anyone) == Some(listener.cookie)
    };
    let mut all: Vec<Listener> = registry.view.listeners().filter(lives).collect();
    all.sort_by_key(|listener| (listener.at.port, listener.cookie));
    all
}

/// The name of a process on the ISM device: stable for its life, different from every other's.
fn gid(uid: u32, process: &Process) -> u64 {
    mix(u64::from(uid) << 32 ^ u64::from(process.row) << 20 ^ u64::from(process.generation))
}

/// One step of splitmix64: a bijection, so different inputs stay different.
pub(crate) fn mix(seed: u64) -> u64 {
    let seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let seed = (seed ^ seed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let seed = (seed ^ seed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    seed ^ seed >> 31
}

/// The process's command name.
pub(crate) fn command(process: &Process) -> String {
    let end = process.comm.iter().position(|byte| *byte == 0).unwrap_or(process.comm.len());
    printable(&String::from_utf8_lossy(&process.comm[..end]))
}

/// A command name that cannot break a table.
pub(crate) fn printable(name: &str) -> String {
    name.replace(|c: char| c.is_control() || c == ' ', "_")
}

#[cfg(test)]
mod tests {
    use super::{command, gid, is_alive};
    use fabric::observe::{End, Process};
    use os::net::Endpoint;

    fn process(is_alive: bool) -> Process {
        Process { row: 7, generation: 3, pid: 1, comm: *b"a b\n\0zzzzzzzzzzz", memory: 0, is_alive }
    }

    fn end(is_open: bool, alive: bool) -> End {
        End { cookie: 9, at: Endpoint::default(), inode: 1, is_open, process: Some(process(alive)) }
    }

    #[test]
    fn an_end_lives_with_its_process_or_its_socket() {
        let (nobody, same, other) = (|_, _| None, |_, _| Some(9), |_, _| Some(8));
        let peer = end(true, true);
        assert!(is_alive(&end(true, true), &peer, &nobody));
        assert!(!is_alive(&end(false, true), &peer, &same), "closed");
        assert!(!is_alive(&end(true, false), &peer, &nobody), "killed");
        assert!(is_alive(&end(true, false), &peer, &same), "held by another process");
        assert!(!is_alive(&end(true, false), &peer, &other), "the addresses are another's now");
    }

    #[test]
    fn gids_differ_between_processes_and_users() {
        let (one, next) = (process(true), Process { generation: 4, ..process(true) });
        assert_eq!(gid(0, &one), gid(0, &process(false)));
        assert!(gid(0, &one) != gid(0, &next) && gid(0, &one) != gid(1, &one));
    }

    #[test]
    fn command_names_cannot_break_a_table() {
        assert_eq!(command(&process(true)), "a_b_");
    }
}
