//! Where a strand's connections come from: listening, accepting and connecting, over TCP or AF_UNIX.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use super::plan::{Peer, Ports};
use super::socket::{Readiness, Stream, wait};
use super::steps::Opening;
use crate::profile::options::Protocol;

/// uperf's; the kernel cuts it to net.core.somaxconn.
const BACKLOG: i32 = 10_240;
/// How long a strand that talks to uperf stays in one call before it looks whether it should stop.
pub(crate) const LOOK_AROUND: Duration = Duration::from_millis(50);
/// Names to try for an AF_UNIX listener: enough to find a free one among thousands in use.
const ATTEMPTS: usize = 1000;

/// What makes connections. A test makes them of nothing.
pub(crate) trait Network {
    /// What it makes.
    type Stream: Stream;
    /// Opens a connection to the other end.
    fn connect(&mut self, opening: &Opening) -> io::Result<Self::Stream>;
    /// The next connection of the other end; None if there was none for as long as [`LOOK_AROUND`].
    fn accept(&mut self, opening: &Opening) -> io::Result<Option<Self::Stream>>;
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
        let listeners = listeners.0.iter().map(|(&protocol, listener)| (protocol, listener.socket.clone()));
        Self { peer, listeners: listeners.collect(), ports, addresses: HashMap::new() }
    }

    fn address(&mut self, opening: &Opening) -> io::Result<SockAddr> {
        let key = (opening.host.clone(), opening.protocol);
        if let Some(address) = self.addresses.get(&key) {
            return Ok(address.clone());
        }
        let port = self.ports.iter().find(|ports| ports.host == opening.host || self.ports.len() == 1);
        let port = port.and_then(|ports| ports.of(opening.protocol)).ok_or_else(|| {
            let what = format!("{} told no port for {} connections", opening.host, opening.protocol);
            io::Error::new(io::ErrorKind::NotFound, what)
        })?;
        let address = resolve(&opening.host, port, opening.protocol)?;
        self.addresses.insert(key, address.clone());
        Ok(address)
    }

    /// A new connection, as it should be.
    fn ready(&self, socket: Socket, opening: &Opening) -> io::Result<Socket> {
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
    type Stream = Socket;

    fn connect(&mut self, opening: &Opening) -> io::Result<Socket> {
        let address = self.address(opening)?;
        let socket = Socket::new(address.domain(), Type::STREAM, None)?;
        configure(&socket, opening)?;
        if let Some(from) = &opening.from {
            socket.bind(&resolve(from, 0, opening.protocol)?)?;
        }
        socket.connect(&address)?;
        self.ready(socket, opening)
    }

    fn accept(&mut self, opening: &Opening) -> io::Result<Option<Socket>> {
        let Some(listener) = self.listeners.get(&opening.protocol) else {
            return Err(io::Error::other("nothing listens for it"));
        };
        if !wait(listener, Readiness::Readable, LOOK_AROUND)? {
            return Ok(None);
        }
        match listener.accept() {
            Ok((socket, _)) => {
                if opening.nodelay && opening.protocol == Protocol::Tcp {
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

/// Before connect and listen, or the sizes of windows come too late.
fn configure(socket: &Socket, opening: &Opening) -> io::Result<()> {
    if let Some(bytes) = opening.wndsz {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        socket.set_send_buffer_size(bytes)?;
        socket.set_recv_buffer_size(bytes)?;
    }
    if opening.protocol == Protocol::Tcp {
        if opening.nodelay {
            socket.set_tcp_nodelay(true)?;
        }
        if let Some(congestion) = &opening.congestion {
            socket.set_tcp_congestion(congestion.as_bytes())?;
        }
    }
    Ok(())
}

/// Where `host` accepts; of AF_UNIX only this one does.
fn resolve(host: &str, port: u16, protocol: Protocol) -> io::Result<SockAddr> {
    if protocol == Protocol::Unix {
        return unix_address(port);
    }
    let first = (host, port).to_socket_addrs()?.next();
    first.map(SockAddr::from).ok_or_else(|| io::Error::other(format!("{host} has no address")))
}

/// A name in the abstract namespace, so that no file has to be removed.
fn unix_address(port: u16) -> io::Result<SockAddr> {
    SockAddr::unix(format!("\0smc_bench-{port}"))
}

/// What one strand accepts at.
#[derive(Default)]
pub(crate) struct Listeners(HashMap<Protocol, Listener>);

#[derive(Clone)]
struct Listener {
    socket: Arc<Socket>,
    port: u16,
    /// All strands accept at it.
    is_shared: bool,
}

impl Listeners {
    /// Listens for `opening`, unless something of that protocol does already. `shared`: the same port for all strands.
    pub(crate) fn listen(&mut self, opening: &Opening, shared: &mut Self) -> io::Result<()> {
        let protocol = opening.protocol;
        if self.0.contains_key(&protocol) {
            return Ok(());
        }
        let listener = match (opening.port, shared.0.get(&protocol)) {
            (None, _) => Listener::new(opening)?,
            (Some(_), Some(listener)) => listener.clone(),
            (Some(_), None) => {
                let listener = Listener::new(opening)?;
                shared.0.insert(protocol, listener.clone());
                listener
            }
        };
        self.0.insert(protocol, listener);
        Ok(())
    }

    /// Takes over what listens at `port` already.
    pub(crate) fn inherit(&mut self, protocol: Protocol, socket: Socket, port: u16) {
        self.0.insert(protocol, Listener { socket: Arc::new(socket), port, is_shared: true });
    }

    /// What listens for `protocol`, for another process.
    pub(crate) fn descriptor(&self, protocol: Protocol) -> Option<io::Result<OwnedFd>> {
        let listener = self.0.get(&protocol)?;
        Some(listener.socket.as_fd().try_clone_to_owned())
    }

    /// What listens, by protocol.
    pub(crate) fn sockets(&self) -> HashMap<Protocol, Arc<Socket>> {
        self.0.iter().map(|(&protocol, listener)| (protocol, listener.socket.clone())).collect()
    }

    /// What listens for this strand alone.
    pub(crate) fn own_sockets(&self) -> Vec<Arc<Socket>> {
        self.sockets_that(false)
    }

    /// What listens for all strands.
    pub(crate) fn shared_sockets(&self) -> Vec<Arc<Socket>> {
        self.sockets_that(true)
    }

    fn sockets_that(&self, are_shared: bool) -> Vec<Arc<Socket>> {
        let listeners = self.0.values().filter(|listener| listener.is_shared == are_shared);
        listeners.map(|listener| listener.socket.clone()).collect()
    }

    /// Where it listens.
    pub(crate) fn ports(&self) -> Ports {
        let ports = self.0.iter().map(|(&protocol, listener)| (protocol, listener.port)).collect();
        Ports { host: String::new(), ports }
    }
}

impl Listener {
    fn new(opening: &Opening) -> io::Result<Self> {
        let wanted = opening.port.unwrap_or(0);
        let (socket, port) = match opening.protocol {
            Protocol::Unix => unix_listener(opening)?,
            _ => tcp_listener(wanted, opening)?,
        };
        // Several strands may wait for one connection; whoever comes too late must not block.
        socket.set_nonblocking(true)?;
        Ok(Self { socket: Arc::new(socket), port, is_shared: opening.port.is_some() })
    }
}

/// A listener for control connections, and its port.
pub(crate) fn listen_tcp(port: u16) -> io::Result<(Socket, u16)> {
    tcp_listener(port, &Opening::default())
}

/// All addresses of both families, as uperf; or of IPv4, where there is no IPv6.
fn tcp_listener(port: u16, opening: &Opening) -> io::Result<(Socket, u16)> {
    let both = || -> io::Result<Socket> {
        let socket = Socket::new(Domain::IPV6, Type::STREAM, None)?;
        socket.set_only_v6(false)?;
        bind_and_listen(socket, SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), opening)
    };
    let socket = match both() {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            bind_and_listen(socket, SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), opening)?
        }
        socket => socket?,
    };
    let port = socket.local_addr()?.as_socket().map_or(port, |address| address.port());
    Ok((socket, port))
}

fn bind_and_listen(socket: Socket, address: SocketAddr, opening: &Opening) -> io::Result<Socket> {
    socket.set_reuse_address(true)?;
    configure(&socket, opening)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// At the name of the wanted port, or of any that is free.
fn unix_listener(opening: &Opening) -> io::Result<(Socket, u16)> {
    let any = std::iter::repeat_with(|| fastrand::u16(1024..)).take(ATTEMPTS);
    let ports: Vec<u16> = opening.port.map_or_else(|| any.collect(), |port| vec![port]);
    let mut taken = io::Error::from(io::ErrorKind::AddrInUse);
    for port in ports {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        configure(&socket, opening)?;
        match socket.bind(&unix_address(port)?) {
            Ok(()) => {
                socket.listen(BACKLOG)?;
                return Ok((socket, port));
            }
            Err(error) => taken = error,
        }
    }
    Err(taken)
}
