//! The TCP sockets of our own network namespace, by sock_diag (`linux/inet_diag.h`). Owns: its request and its answer.
//! The kernel leaves out what is not asked for: ten thousands of connections in TIME_WAIT cost nothing.

use super::table::{Socket, state};
use crate::netlink::{self, Failure, u16_at, u32_at};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
/// States 1 to 12 but for TIME_WAIT and CLOSE, which no descriptor refers to.
const STATES: u32 = 0x1ffe & !(1 << state::TIME_WAIT) & !(1 << state::CLOSE);

/// All of them; `namespace` is the number of the one we live in.
pub(super) fn sockets(namespace: u64) -> Result<Vec<Socket>, Failure> {
    let mut sockets = vec![];
    let mut take = |payload: &[u8]| sockets.extend(socket(payload, namespace));
    netlink::dump(&request(AF_INET), &mut take)?;
    // A host without IPv6 refuses, and has none.
    match netlink::dump(&request(AF_INET6), &mut take) {
        Ok(()) | Err(Failure::Refused(_)) => Ok(sockets),
        Err(failure) => Err(failure),
    }
}

/// `struct inet_diag_req_v2` (56 bytes).
fn request(family: u8) -> [u8; 56] {
    let mut bytes = [0; 56];
    bytes[..2].copy_from_slice(&[family, IPPROTO_TCP]);
    bytes[4..8].copy_from_slice(&STATES.to_ne_bytes());
    bytes
}

/// `struct inet_diag_msg`.
fn socket(bytes: &[u8], namespace: u64) -> Option<Socket> {
    let (family, state) = (*bytes.first()?, *bytes.get(1)?);
    Some(Socket {
        namespace,
        state,
        uid: u32_at(bytes, 64)?,
        inode: u32_at(bytes, 68)?.into(),
        interface: u32_at(bytes, 40)?,
        local: address(family, bytes.get(8..24)?, u16_at(bytes, 4)?),
        remote: address(family, bytes.get(24..40)?, u16_at(bytes, 6)?),
    })
}

fn address(family: u8, bytes: &[u8], port_be: u16) -> SocketAddr {
    let mut words = [0; 16];
    words.copy_from_slice(bytes);
    let ip: IpAddr = match family {
        AF_INET6 => Ipv6Addr::from(words).to_canonical(),
        _ => Ipv4Addr::new(words[0], words[1], words[2], words[3]).into(),
    };
    SocketAddr::new(ip, u16::from_be(port_be))
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
