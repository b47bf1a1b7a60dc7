//! What strands accept at: TCP ports of both families and abstract AF_UNIX names, one for each strand or one for all.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use socket2::{Domain, Socket, Type};

use super::plan::Ports;
use super::socket::{configure, unix_address};
use crate::profile::options::{Options, Protocol};

/// uperf's; the kernel cuts it to net.core.somaxconn.
const BACKLOG: i32 = 10_240;
/// Names to try for an AF_UNIX listener: enough to find a free one among thousands in use.
const ATTEMPTS: usize = 1000;

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
    pub(crate) fn listen(&mut self, opening: &Options, shared: &mut Self) -> io::Result<()> {
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

    /// What listens for all strands, or for this one alone.
    pub(crate) fn sockets_that(&self, are_shared: bool) -> Vec<Arc<Socket>> {
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
    fn new(opening: &Options) -> io::Result<Self> {
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
    tcp_listener(port, &Options::default())
}

/// All addresses of both families, as uperf; or of IPv4, where there is no IPv6.
fn tcp_listener(port: u16, opening: &Options) -> io::Result<(Socket, u16)> {
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

fn bind_and_listen(socket: Socket, address: SocketAddr, opening: &Options) -> io::Result<Socket> {
    socket.set_reuse_address(true)?;
    configure(&socket, opening)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// At the name of the wanted port, or of any that is free.
fn unix_listener(opening: &Options) -> io::Result<(Socket, u16)> {
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
