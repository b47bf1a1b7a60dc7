//! The TCP sockets of our own network namespace, by sock_diag (`linux/inet_diag.h`). Owns: what is asked for;
//! the words are rust-netlink's. The kernel leaves out what is not asked for: ten thousands of connections in
//! TIME_WAIT cost nothing.

use super::table::{Socket, state};
use crate::netlink::{self, Failure};
use netlink_packet_core::{Emitable, Parseable};
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use std::net::SocketAddr;

/// States 1 to 12 but for TIME_WAIT and CLOSE, which no descriptor refers to.
const STATES: u32 = 0x1ffe & !(1 << state::TIME_WAIT) & !(1 << state::CLOSE);

/// All of them; `namespace` is the number of the one we live in.
pub(super) fn sockets(namespace: u64) -> Result<Vec<Socket>, Failure> {
    let mut sockets = vec![];
    let mut take = |payload: &[u8]| sockets.extend(socket(payload, namespace));
    netlink::dump(request(AF_INET, SocketId::new_v4()), &mut take)?;
    // A host without IPv6 refuses, and has none.
    match netlink::dump(request(AF_INET6, SocketId::new_v6()), &mut take) {
        Ok(()) | Err(Failure::Refused(_)) => Ok(sockets),
        Err(failure) => Err(failure),
    }
}

/// `struct inet_diag_req_v2`.
fn request(family: u8, any: SocketId) -> Vec<u8> {
    let request = InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::from_bits_retain(STATES),
        socket_id: any,
    };
    let mut bytes = vec![0; request.buffer_len()];
    request.emit(&mut bytes);
    bytes
}

/// `struct inet_diag_msg`.
fn socket(bytes: &[u8], namespace: u64) -> Option<Socket> {
    let header = InetResponse::parse(bytes).ok()?.header;
    let id = header.socket_id;
    Some(Socket {
        namespace,
        state: header.state,
        uid: header.uid,
        inode: header.inode.into(),
        interface: id.interface_id,
        local: SocketAddr::new(id.source_address.to_canonical(), id.source_port),
        remote: SocketAddr::new(id.destination_address.to_canonical(), id.destination_port),
    })
}

#[cfg(test)]
mod tests {
    use super::{socket, sockets, state};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    fn is_seen(at: &str) {
        let listener = TcpListener::bind(at).expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let (_, inode) = os::fd::identity(client.as_raw_fd()).expect("open");
        let all = sockets(7).expect("an answer");
        let found = all.iter().find(|one| one.inode == inode).expect("our client");
        assert_eq!((found.namespace, found.state, found.uid), (7, state::ESTABLISHED, os::process::euid()));
        assert_eq!(
            Ok((found.local, found.remote)),
            client.local_addr().and_then(|local| Ok((local, client.peer_addr()?))).map_err(drop)
        );
        let listens = |one: &&super::Socket| one.state == state::LISTEN && one.local == found.remote;
        assert_eq!(all.iter().filter(listens).count(), 1);
    }

    #[test]
    fn our_own_sockets_are_seen() {
        is_seen("127.0.0.1:0");
        if std::path::Path::new("/proc/net/if_inet6").exists() {
            is_seen("[::1]:0");
        }
    }

    #[test]
    fn a_short_message_is_no_socket() {
        assert_eq!((socket(&[2; 71], 0), socket(&[], 0)), (None, None));
        assert!(socket(&[2; 72], 0).is_some());
    }
}
