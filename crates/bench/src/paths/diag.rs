//! Open TCP connections of a network namespace, by sock_diag(7). The kernel leaves out what is not asked for, so that
//! ten thousands of connections in TIME_WAIT, which /proc/net/tcp would print one by one, cost next to nothing.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use anyhow::Context;
use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use serde::{Deserialize, Serialize};

use super::launch::{Namespaces, Place};
use super::netlink::Netlink;

/// A socket of an open connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Open {
    /// As in /proc/PID/fd.
    pub(super) inode: u32,
    /// Its own port.
    pub(super) port: u16,
}

/// `smc_bench inner connections`: prints those of the namespace that it runs in, as JSON.
pub(crate) fn print() -> anyhow::Result<()> {
    serde_json::to_writer(io::stdout().lock(), &here()?)?;
    Ok(io::stdout().lock().flush()?)
}

/// All open connections of a namespace; None is our own.
pub(super) fn open(namespaces: Option<&Namespaces>) -> anyhow::Result<Vec<Open>> {
    match namespaces {
        None => here(),
        Some(namespaces) => there(namespaces),
    }
}

/// A thread of ours could not enter a user namespace; a process can.
fn there(namespaces: &Namespaces) -> anyhow::Result<Vec<Open>> {
    let own = std::env::current_exe().context("where is this program?")?;
    let place = Place { namespaces: Some(namespaces.clone()), ..Place::default() };
    let mut command = Command::new(&own);
    command
        .args(["inner", "enter"])
        .args(place.for_enter())
        .arg("--")
        .arg(&own)
        .args(["inner", "connections"]);
    let output = command.env_remove("LD_PRELOAD").stdin(Stdio::null()).stderr(Stdio::null()).output()?;
    serde_json::from_slice(&output.stdout).context("connections of another namespace cannot be seen")
}

fn here() -> anyhow::Result<Vec<Open>> {
    let mut all = of(AF_INET, SocketId::new_v4())?;
    // A host without IPv6 has none of these.
    all.extend(of(AF_INET6, SocketId::new_v6()).unwrap_or_default());
    Ok(all)
}

fn of(family: u8, any: SocketId) -> anyhow::Result<Vec<Open>> {
    let request = InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::ESTABLISHED,
        socket_id: any,
    };
    let answers = Netlink::open(NETLINK_SOCK_DIAG)?.ask(SockDiagMessage::InetRequest(request), NLM_F_DUMP)?;
    let opened = answers.into_iter().filter_map(|answer| match answer {
        SockDiagMessage::InetResponse(response) => Some(response.header),
        _ => None,
    });
    Ok(opened.map(|header| Open { inode: header.inode, port: header.socket_id.source_port }).collect())
}

#[cfg(test)]
mod tests {
    use super::{of, open};
    use netlink_packet_sock_diag::constants::AF_INET;
    use netlink_packet_sock_diag::inet::SocketId;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn both_ends_of_a_connection_are_seen_and_a_listener_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let at = || open(None).expect("sock_diag").into_iter().filter(|open| open.port == port).count();
        assert_eq!(at(), 0);
        let client = TcpStream::connect(("127.0.0.1", port)).expect("listens");
        let _server = listener.accept().expect("a client came");
        assert_eq!(at(), 1);
        let own = client.local_addr().expect("connected").port();
        assert!(of(AF_INET, SocketId::new_v4()).expect("sock_diag").iter().any(|open| open.port == own));
    }
}
