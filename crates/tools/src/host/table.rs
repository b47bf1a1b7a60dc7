//! A TCP socket, and the tables of them that proc(5) has for every network namespace, `net/tcp` and
//! `net/tcp6`. Owns: the reading of their lines; a line that is not understood is passed over.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// TCP states (`net/tcp_states.h`).
pub(crate) mod state {
    pub(crate) const ESTABLISHED: u8 = 1;
    pub(crate) const SYN_SENT: u8 = 2;
    pub(crate) const SYN_RECV: u8 = 3;
    pub(crate) const TIME_WAIT: u8 = 6;
    pub(crate) const CLOSE: u8 = 7;
    pub(crate) const CLOSE_WAIT: u8 = 8;
    pub(crate) const LISTEN: u8 = 10;
}

/// A TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    /// Inode of its network namespace.
    pub(crate) namespace: u64,
    /// One of [`state`].
    pub(crate) state: u8,
    /// Its owner.
    pub(crate) uid: u32,
    /// Its inode; 0 before accept() and after the last close.
    pub(crate) inode: u64,
    /// Index of the interface it is bound to, 0 if none (the tables of proc(5) do not tell).
    pub(crate) interface: u32,
    /// Own end. IPv4 over IPv6 is written as IPv4 in both ends.
    pub(crate) local: SocketAddr,
    /// The other end.
    pub(crate) remote: SocketAddr,
}

/// Reads one table. What is only remembered (TIME_WAIT) is no socket any more.
pub(super) fn read(text: &str, namespace: u64) -> impl Iterator<Item = Socket> + '_ {
    text.lines().filter_map(move |line| socket(line, namespace)).filter(|one| one.state != state::TIME_WAIT)
}

fn socket(line: &str, namespace: u64) -> Option<Socket> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (local, remote) = (address(words.next()?)?, address(words.next()?)?);
    let state = u8::from_str_radix(words.next()?, 16).ok()?;
    let uid = words.nth(3)?.parse().ok()?;
    let inode = words.nth(1)?.parse().ok()?;
    Some(Socket { namespace, state, uid, inode, interface: 0, local, remote })
}

/// The words of the address, each written as a number of this machine's byte order, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let mut bytes = [0; 16];
    let count = words.len() / 8;
    for (number, into) in bytes.chunks_exact_mut(4).take(count).enumerate() {
        let word = u32::from_str_radix(words.get(number * 8..number * 8 + 8)?, 16).ok()?;
        into.copy_from_slice(&word.to_ne_bytes());
    }
    let ip: IpAddr = match words.len() {
        8 => Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into(),
        32 => Ipv6Addr::from(bytes).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Socket, read, state};

    const HEAD: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    fn one(line: &str) -> Option<Socket> {
        read(&format!("{HEAD}{line}\n"), 7).next()
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_line_becomes_a_socket() {
        let socket = one("   1: 0100007F:1F90 0200007F:A36C 01 00000000:00000000 00:00000000 00000000  1000        0 777 1 0 20")
            .expect("a socket");
        let wanted = Socket {
            namespace: 7,
            state: state::ESTABLISHED,
            uid: 1000,
            inode: 777,
            interface: 0,
            local: "127.0.0.1:8080".parse().expect("an address"),
            remote: "127.0.0.2:41836".parse().expect("an address"),
        };
        assert_eq!(socket, wanted);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn both_families_write_ipv4_alike() {
        let mapped = one(
            "0: 0000000000000000FFFF00000100007F:0050 0000000000000000FFFF00000100007F:A36C 08 0:0 0:0 0 5 0 9 1",
        );
        let socket = mapped.expect("a socket");
        assert_eq!((socket.local.to_string(), socket.state), ("127.0.0.1:80".into(), state::CLOSE_WAIT));
        let six = one(
            "0: B80D0120000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 9 1",
        );
        assert_eq!(six.map(|one| one.local.to_string()).as_deref(), Some("[2001:db8::1]:80"));
    }

    #[test]
    fn what_is_no_socket_is_passed_over() {
        assert_eq!(read(HEAD, 7).count(), 0);
        for line in [
            "",
            "1: 0100007F:1F90",
            "1: 01:1 02:2 01 0:0 0:0 0 0 0 9",
            "1: é00000:1 0100007F:1 01 0:0 0:0 0 0 0 9",
        ] {
            assert_eq!(one(line), None, "{line}");
        }
        assert_eq!(one("1: 0100007F:1F90 0200007F:A36C 06 0:0 0:0 0 0 0 0 3"), None, "TIME_WAIT");
    }

    #[test]
    fn our_own_listener_is_in_the_table() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("bound");
        let text = std::fs::read_to_string("/proc/thread-self/net/tcp").expect("readable");
        assert!(read(&text, 0).any(|one| one.state == state::LISTEN && one.local == at && one.inode != 0));
    }
}
