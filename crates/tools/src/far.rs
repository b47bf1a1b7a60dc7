//! Connections of the host tier: their rows lie in their slots, and no registry has them. Owns: whose they
//! are. Nothing that stands in a slot is believed of that: an end is a process which /proc shows to hold both
//! the memory and the socket, and addresses and users are the kernel's.

use crate::host::table::{Socket, state};
use crate::host::{Host, Process};
use crate::live::{Live, mix};
use crate::segments;
use fabric::observe::{self, Connection, Slot, layouts::ClosedBy};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;

/// A connection of which at least one end is within sight.
#[derive(Clone, Debug)]
pub(crate) struct Far<'a> {
    pub(crate) live: Live,
    /// Client and server, as far as they are seen.
    pub(crate) ends: [Option<End<'a>>; 2],
}

/// An end as the kernel shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End<'a> {
    pub(crate) socket: &'a Socket,
    pub(crate) process: &'a Process,
}

/// All of them, oldest first. Where a folder of registries is asked for (SMC_REGISTRY_DIR), those of programs
/// that use that folder, as `host` has judged them.
pub(crate) fn connections(host: &Host) -> Vec<Far<'_>> {
    let is_folder_meant = std::env::var_os("SMC_REGISTRY_DIR").is_some_and(|folder| !folder.is_empty());
    let is_meant = |far: &Far<'_>| {
        !is_folder_meant || far.ends.iter().flatten().any(|end| end.process.enabled_as.is_some())
    };
    let mut all: Vec<Far<'_>> = segments(host).values().flat_map(|held| of_segment(host, held)).collect();
    all.retain(is_meant);
    all.sort_by_key(|far| far.live.connection.ends[0].cookie);
    all
}

/// Who holds what may be a segment, each once however many do.
type Held<'a> = Vec<(&'a Process, u32)>;

fn segments(host: &Host) -> HashMap<(u64, u64), Held<'_>> {
    let mut found: HashMap<(u64, u64), Held<'_>> = HashMap::new();
    for process in host.with_memory() {
        for fd in &process.memories {
            let Ok(about) = std::fs::metadata(format!("/proc/{}/fd/{fd}", process.pid)) else { continue };
            found.entry((about.dev(), about.ino())).or_default().push((process, *fd));
        }
    }
    found
}

fn of_segment<'a>(host: &'a Host, held: &Held<'a>) -> Vec<Far<'a>> {
    let Some(memory) = held.iter().find_map(|(process, fd)| segments::open_any(process.pid, *fd)) else {
        return vec![];
    };
    let found = observe::in_slots(memory).filter_map(|(connection, slot)| far(host, held, connection, slot));
    let found = found.collect();
    segments::close(memory);
    found
}

fn far<'a>(host: &'a Host, held: &Held<'a>, connection: Connection, slot: Slot) -> Option<Far<'a>> {
    let ends = [0, 1].map(|side: usize| end(host, held, connection.ends[side].inode.into()));
    let seen = ends.map(|end| end.is_some());
    let goes_on = |side: usize| {
        let own_is_open = ends[1 - side].is_some_and(|own| own.socket.state == state::ESTABLISHED);
        seen[side] || (own_is_open && slot.sides[side].closed & ClosedBy::CLOSE == 0)
    };
    let live = Live {
        connection,
        slot: Some(slot),
        lives: [goes_on(0), goes_on(1)],
        seen,
        tokens: connection.ends.map(|end| end.cookie),
        gids: ends.map(|end| end.map_or(0, |end| gid(end.process.pid))),
    };
    seen.contains(&true).then_some(Far { live, ends })
}

fn end<'a>(host: &'a Host, held: &Held<'a>, inode: u64) -> Option<End<'a>> {
    let socket = host.socket(inode).filter(|_| inode != 0)?;
    let has_memory = |holder: &&Process| held.iter().any(|(process, _)| process.pid == holder.pid);
    host.holders(inode).find(has_memory).map(|process| End { socket, process })
}

/// The name of a process on the ISM device: of its number and its start, so that no other one has it.
fn gid(pid: u32) -> u64 {
    fabric::visit::name_of(pid).map_or(0, |name| mix(name ^ 1 << 63))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    const CLIENT: u64 = 41;
    const SERVER: u64 = 42;

    fn host(sockets: &[(u64, u8)]) -> Host {
        let at: SocketAddr = ([10, 0, 0, 1], 80).into();
        let socket = |(inode, state): &(u64, u8)| Socket {
            namespace: *inode,
            state: *state,
            uid: 7,
            inode: *inode,
            interface: 0,
            local: at,
            remote: at,
        };
        let mut host = Host::over(sockets.iter().map(socket).collect());
        for (inode, _) in sockets {
            host.add(Process {
                pid: *inode as u32,
                name: "one".into(),
                sockets: vec![(3, *inode)],
                memories: vec![5],
                enabled_as: None,
                has_registry: false,
                lacks_room: false,
                is_filtered: false,
                is_between_users: false,
            });
        }
        host
    }

    fn looked_at<'a>(host: &'a Host, holders: &[u64], said: [u64; 2]) -> Option<Far<'a>> {
        let end = |inode: u64| observe::End {
            cookie: inode,
            at: os::net::Endpoint::default(),
            inode: inode as u32,
            is_open: true,
            process: None,
        };
        let ends = said.map(end);
        let connection = Connection { verdict: None, nonce: 1, owner_pid: 0, memfd: 5, slot: 0, ends };
        let slot = Slot { ring_size: 16384, server_cookie: 0, sides: Default::default(), home: None };
        let held = host.with_memory().filter(|process| holders.contains(&process.pid.into()));
        far(host, &held.map(|process| (process, 5)).collect(), connection, slot)
    }

    #[test]
    fn an_end_is_who_holds_both_memory_and_socket() {
        let host = host(&[(CLIENT, state::ESTABLISHED), (SERVER, state::ESTABLISHED)]);
        let seen = |holders: &[u64], said| looked_at(&host, holders, said).map(|far| far.live.seen);
        assert_eq!(seen(&[CLIENT, SERVER], [CLIENT, SERVER]), Some([true, true]));
        assert_eq!(seen(&[CLIENT], [CLIENT, SERVER]), Some([true, false]), "somebody else's socket is named");
        assert_eq!(seen(&[CLIENT, SERVER], [0, 7]), None);
    }

    #[test]
    fn who_is_out_of_sight_lives_as_long_as_tcp_says_so() {
        for (tcp, lives) in [(state::ESTABLISHED, true), (state::CLOSE_WAIT, false)] {
            let host = host(&[(CLIENT, tcp)]);
            let far = looked_at(&host, &[CLIENT], [CLIENT, SERVER]).expect("one end is seen");
            assert_eq!((far.live.lives, far.live.seen), ([true, lives], [true, false]));
        }
    }
}
