//! The TCP sockets of this host and the processes that hold them, as far as /proc shows them to us.
//!
//! Owns: the snapshot and its indices; every look-up takes constant time, so a table of connections is one
//! pass. The socket tables are read before the descriptors, and both before a registry is: a connection that
//! is made meanwhile is missed, and none is taken for one without a row because its row came later.

mod diag;
mod process;
pub(crate) mod table;

pub(crate) use process::{Process, of_thread};
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use table::{Socket, state};

/// Sockets and processes at one moment.
#[derive(Debug, Default)]
pub(crate) struct Host {
    sockets: Vec<Socket>,
    processes: Vec<Process>,
    /// Into `sockets`.
    by_inode: HashMap<u64, usize>,
    by_ends: HashMap<(u64, SocketAddr, SocketAddr), usize>,
    /// Several may share an address (SO_REUSEPORT).
    listeners: HashMap<(u64, SocketAddr), Vec<usize>>,
    /// Into `processes`, by inode.
    holders: HashMap<u64, Vec<usize>>,
    /// Processes whose descriptors we may not see.
    hidden: HashSet<u32>,
}

/// A socket in the hands of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held<'a> {
    pub(crate) socket: &'a Socket,
    pub(crate) process: &'a Process,
    fd: u32,
}

impl Held<'_> {
    /// Whether it has not been closed since.
    pub(crate) fn is_still_open(&self) -> bool {
        process::holds(self.process.pid, self.fd, self.socket.inode)
    }
}

/// A process with its sockets, judged as [`Host::look`] does. An error if there is none, or its descriptors
/// are closed to us.
pub(crate) fn process(pid: u32, folder: &Path) -> std::io::Result<Process> {
    process::descriptors(pid).map(|found| process::describe(pid, found, folder))
}

impl Host {
    /// Looks at all processes and their network namespaces. A process is enabled if it uses the registries in
    /// `folder`.
    pub(crate) fn look(folder: &Path) -> Host {
        let pids = process::all();
        let mut host = Host::over(sockets(&pids));
        for pid in pids {
            match process::descriptors(pid) {
                Ok(found) if found.sockets.iter().any(|(_, inode)| host.by_inode.contains_key(inode)) => {
                    host.add(process::describe(pid, found, folder));
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::PermissionDenied => _ = host.hidden.insert(pid),
                Err(_) => {}
            }
        }
        host
    }

    /// A host with these sockets and no process.
    pub(crate) fn over(sockets: Vec<Socket>) -> Host {
        let mut host = Host { sockets, ..Host::default() };
        for (at, socket) in host.sockets.iter().enumerate() {
            if socket.inode != 0 {
                host.by_inode.insert(socket.inode, at);
            }
            if socket.state == state::LISTEN {
                host.listeners.entry((socket.namespace, socket.local)).or_default().push(at);
            } else {
                host.by_ends.insert((socket.namespace, socket.local, socket.remote), at);
            }
        }
        host
    }

    /// Adds a process.
    pub(crate) fn add(&mut self, process: Process) {
        for (_, inode) in &process.sockets {
            self.holders.entry(*inode).or_default().push(self.processes.len());
        }
        self.processes.push(process);
    }

    /// Adds a process whose descriptors are closed to us.
    #[cfg(test)]
    pub(crate) fn hide(&mut self, pid: u32) {
        self.hidden.insert(pid);
    }

    /// Every TCP socket that an enabled process holds, once.
    pub(crate) fn enabled(&self) -> impl Iterator<Item = Held<'_>> {
        let mut seen = HashSet::new();
        let enabled = self.processes.iter().filter(|process| process.enabled_as.is_some());
        enabled
            .flat_map(|process| process.sockets.iter().map(move |(fd, inode)| (process, *fd, *inode)))
            .filter_map(|(process, fd, inode)| {
                Some(Held { socket: self.sockets.get(*self.by_inode.get(&inode)?)?, process, fd })
            })
            .filter(move |held| seen.insert(held.socket.inode))
    }

    /// The users of all registries that enabled processes use, in no order and repeatedly.
    pub(crate) fn users(&self) -> impl Iterator<Item = u32> {
        self.processes.iter().filter_map(|process| process.enabled_as)
    }

    /// The socket at the other end, if it is in the same namespace.
    pub(crate) fn peer(&self, of: &Socket) -> Option<&Socket> {
        self.by_ends.get(&(of.namespace, of.remote, of.local)).map(|at| &self.sockets[*at])
    }

    /// The listeners that take connections to `at`: those of this very address, else those of all addresses.
    pub(crate) fn listeners(&self, namespace: u64, at: SocketAddr) -> impl Iterator<Item = &Socket> + Clone {
        let any_of_family: IpAddr = match at {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let places = [at.ip(), any_of_family, Ipv6Addr::UNSPECIFIED.into()];
        let found =
            places.iter().find_map(|ip| self.listeners.get(&(namespace, SocketAddr::new(*ip, at.port()))));
        found.into_iter().flatten().map(|at| &self.sockets[*at])
    }

    /// The processes that hold a socket, as far as we may see them.
    pub(crate) fn holders(&self, inode: u64) -> impl Iterator<Item = &Process> {
        self.holders.get(&inode).into_iter().flatten().map(|at| &self.processes[*at])
    }

    /// Processes with descriptors of what may be segments.
    pub(crate) fn with_memory(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(|process| !process.memories.is_empty())
    }

    /// The socket with this inode.
    pub(crate) fn socket(&self, inode: u64) -> Option<&Socket> {
        self.by_inode.get(&inode).map(|at| &self.sockets[*at])
    }

    /// Whether every process showed us its descriptors.
    pub(crate) fn is_complete(&self) -> bool {
        self.hidden.is_empty()
    }

    /// Whether the descriptors of a process are closed to us.
    pub(crate) fn is_hidden(&self, pid: u32) -> bool {
        self.hidden.contains(&pid)
    }
}

/// The TCP sockets of every network namespace that one of the processes lives in, each namespace read once.
fn sockets(pids: &[u32]) -> Vec<Socket> {
    let (mut read, mut sockets) = (HashSet::new(), vec![]);
    if let Ok(ours) = process::namespace(std::process::id())
        && let Ok(found) = diag::sockets(ours)
    {
        read.insert(ours);
        sockets = found;
    }
    for pid in pids {
        let Ok(namespace) = process::namespace(*pid) else { continue };
        if read.contains(&namespace) {
            continue;
        }
        // Not all may enter a namespace to ask the kernel there; its tables can be read from here.
        if let Some(tables) = process::tables(*pid) {
            sockets.extend(tables.iter().flat_map(|text| table::read(text, namespace)));
            read.insert(namespace);
        }
    }
    sockets
}

#[cfg(test)]
mod tests {
    use super::Host;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_connection_of_our_own_is_found_from_both_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("listening");
        let host = Host::look(std::path::Path::new("/nowhere"));
        let (_, inode) = os::fd::identity(client.as_raw_fd()).expect("open");
        let socket = host.by_inode.get(&inode).map(|at| host.sockets[*at]).expect("in the table");
        let peer = host.peer(&socket).expect("not accepted, and yet there");
        assert_eq!((peer.inode, host.peer(peer)), (0, Some(&socket)));
        let taker = host.listeners(socket.namespace, socket.remote).next().expect("it listens");
        assert_eq!(taker.local, socket.remote);
        assert!(host.holders(taker.inode).any(|process| process.pid == std::process::id()));
        assert_eq!(host.enabled().count(), 0, "nobody here has the library");
    }
}
