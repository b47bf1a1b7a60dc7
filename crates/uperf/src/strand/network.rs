//! Where a strand's connections come from: accepting and connecting, over TCP or AF_UNIX.

use std::collections::HashMap;
use std::io;
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::time::Duration;

use nix::poll::PollFlags;
use socket2::{SockAddr, Socket, Type};

use super::listeners::Listeners;
use super::plan::{Peer, Ports};
use super::socket::{configure, unix_address, wait};
use crate::profile::options::{Options, Protocol};

/// How long a strand that talks to uperf stays in one call before it looks whether it should stop.
pub(crate) const LOOK_AROUND: Duration = Duration::from_millis(50);

/// What makes connections. A test makes them of nothing.
pub(crate) trait Network {
    /// Opens a connection to the other end.
    fn connect(&mut self, opening: &Options) -> io::Result<Socket>;
    /// The next connection of the other end; None if there was none for as long as [`LOOK_AROUND`].
    fn accept(&mut self, opening: &Options) -> io::Result<Option<Socket>>;
}

/// The kernel's sockets.
pub(crate) struct Kernel {
    peer: Peer,
    listeners: HashMap<Protocol, Arc<Socket>>,
    ports: Vec<Ports>,
    /// Names are looked up once, not for each connection.
    addresses: HashMap<(String, Protocol), SockAddr>,
}

impl Kernel {
    /// With the own `listeners` and the `ports` of the other ends.
    pub(crate) fn new(peer: Peer, listeners: &Listeners, ports: Vec<Ports>) -> Self {
        Self { peer, listeners: listeners.sockets(), ports, addresses: HashMap::new() }
    }

    fn address(&mut self, opening: &Options) -> io::Result<SockAddr> {
        let host = opening.remotehost.as_deref().unwrap_or_default();
        let key = (host.to_owned(), opening.protocol);
        if let Some(address) = self.addresses.get(&key) {
            return Ok(address.clone());
        }
        let port = self.ports.iter().find(|ports| ports.host == host || self.ports.len() == 1);
        let port = port.and_then(|ports| ports.of(opening.protocol)).ok_or_else(|| {
            let what = format!("{host} told no port for {} connections", opening.protocol);
            io::Error::new(io::ErrorKind::NotFound, what)
        })?;
        let address = resolve(host, port, opening.protocol)?;
        self.addresses.insert(key, address.clone());
        Ok(address)
    }

    /// A new connection, as it should be.
    fn ready(&self, socket: Socket, opening: &Options) -> io::Result<Socket> {
        if self.peer == Peer::Uperf {
            socket.set_read_timeout(Some(LOOK_AROUND))?;
            socket.set_write_timeout(Some(LOOK_AROUND))?;
        }
        if opening.non_blocking {
            socket.set_nonblocking(true)?;
        }
        Ok(socket)
    }
}

impl Network for Kernel {
    fn connect(&mut self, opening: &Options) -> io::Result<Socket> {
        let address = self.address(opening)?;
        let socket = Socket::new(address.domain(), Type::STREAM, None)?;
        configure(&socket, opening)?;
        if let Some(from) = &opening.localhost {
            socket.bind(&resolve(from, 0, opening.protocol)?)?;
        }
        socket.connect(&address)?;
        self.ready(socket, opening)
    }

    fn accept(&mut self, opening: &Options) -> io::Result<Option<Socket>> {
        let Some(listener) = self.listeners.get(&opening.protocol) else {
            return Err(io::Error::other("nothing listens for it"));
        };
        if !wait(listener, PollFlags::POLLIN, LOOK_AROUND)? {
            return Ok(None);
        }
        match listener.accept() {
            Ok((socket, _)) => {
                if opening.tcp_nodelay && opening.protocol == Protocol::Tcp {
                    socket.set_tcp_nodelay(true)?;
                }
                self.ready(socket, opening).map(Some)
            }
            // Another strand at the same port was faster, or the other end has changed its mind.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Where `host` accepts; of AF_UNIX only this one does.
fn resolve(host: &str, port: u16, protocol: Protocol) -> io::Result<SockAddr> {
    if protocol == Protocol::Unix {
        return unix_address(port);
    }
    let first = (host, port).to_socket_addrs()?.next();
    first.map(SockAddr::from).ok_or_else(|| io::Error::other(format!("{host} has no address")))
}
