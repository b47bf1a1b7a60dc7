//! Connections of a program, and how smcss says that each travels. Both are joined by inode with what /proc/PID/fd shows:
//! a port may be shared with somebody else, an inode is not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use procfs::net::UnixState;
use procfs::process::{FDTarget, Process};
use serde::Deserialize;

use uperf::result::Connections;

use super::diag;
use super::launch::Namespaces;

/// Which connections of a server's processes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// TCP connections but those of this local port.
    TcpExcept(u16),
    /// TCP connections of this local port.
    TcpAt(u16),
    /// Of AF_SMC sockets, but those of this local port.
    SmcExcept(u16),
    /// AF_UNIX streams.
    Unix,
}

impl Counted {
    fn takes(self, port: u16) -> bool {
        match self {
            Counted::TcpExcept(other) | Counted::SmcExcept(other) => port != other,
            Counted::TcpAt(one) => port == one,
            Counted::Unix => false,
        }
    }
}

/// How to look at connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch<'a> {
    /// Which of them count.
    pub(crate) counted: Counted,
    /// Who tells how they travel; without it all of them count as plain.
    pub(crate) smcss: Option<&'a Path>,
    /// Where the processes are, if not in our own.
    pub(crate) namespaces: Option<&'a Namespaces>,
}

impl Watch<'_> {
    /// Looks at the connections that `pids` have now.
    pub(crate) fn look(&self, pids: &[u32]) -> Connections {
        let inodes: BTreeSet<u64> = pids.iter().flat_map(|pid| inodes(*pid)).collect();
        let Some(first) = pids.first() else { return Connections::default() };
        let rows = self.smcss.map(rows).unwrap_or_default().into_iter();
        let rows = rows.filter(|row| inodes.contains(&row.inode) && self.counted.takes(row.local.port));
        let seen = modes(rows);
        let total = match self.counted {
            Counted::TcpExcept(_) | Counted::TcpAt(_) => self.tcp(&inodes),
            Counted::Unix => unix(*first, &inodes),
            Counted::SmcExcept(_) => return seen,
        };
        Connections { total: u32::try_from(total).unwrap_or(u32::MAX), ..seen }
    }

    /// A set, since sockets that come and go meanwhile may make the kernel tell of one twice.
    fn tcp(&self, inodes: &BTreeSet<u64>) -> usize {
        let all = diag::open(self.namespaces).unwrap_or_default().into_iter();
        let ours = all.filter(|open| inodes.contains(&open.inode.into()) && self.counted.takes(open.port));
        ours.map(|open| open.inode).collect::<BTreeSet<_>>().len()
    }
}

/// Inodes of the sockets of a process.
fn inodes(pid: u32) -> Vec<u64> {
    let descriptors = Process::new(pid.cast_signed()).and_then(|process| process.fd()).into_iter().flatten();
    let sockets = descriptors.flatten().filter_map(|one| match one.target {
        FDTarget::Socket(inode) => Some(inode),
        _ => None,
    });
    sockets.collect()
}

fn unix(pid: u32, inodes: &BTreeSet<u64>) -> usize {
    let all = Process::new(pid.cast_signed()).and_then(|process| process.unix()).unwrap_or_default();
    let connected = all.into_iter().filter(|one| one.state == UnixState::CONNECTED).map(|one| one.inode);
    connected.filter(|inode| inodes.contains(inode)).collect::<BTreeSet<_>>().len()
}

/// One socket of `smcss --json`; what is not used here is left out.
#[derive(Debug, Deserialize)]
struct Row {
    state: String,
    inode: u64,
    local: Local,
    mode: Option<String>,
    reason: Option<String>,
    peer_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Local {
    port: u16,
}

impl Row {
    /// As in smcss's text: own code, and the peer's behind a slash.
    fn code(&self) -> String {
        let own = self.reason.clone().unwrap_or_default();
        self.peer_reason.as_ref().map_or(own.clone(), |peer| format!("{own}/{peer}"))
    }
}

/// All sockets that smcss lists; none if it cannot say.
fn rows(smcss: &Path) -> Vec<Row> {
    serde_json::from_str(&said(smcss, "--json")).unwrap_or_default()
}

/// The sockets as smcss shows them to people; empty if it cannot say.
pub(super) fn list(smcss: &Path) -> String {
    said(smcss, "-W")
}

fn said(smcss: &Path, option: &str) -> String {
    let output = Command::new(smcss).arg(option).stdin(Stdio::null()).stderr(Stdio::null()).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

fn modes(rows: impl Iterator<Item = Row>) -> Connections {
    let mut seen = Connections { fallback: BTreeMap::new(), ..Connections::default() };
    for row in rows.filter(|row| row.state != "LISTEN" && row.state != "INIT") {
        seen.total += 1;
        match row.mode.as_deref() {
            Some("SMCD") => seen.smcd += 1,
            Some("SMCR") => seen.smcr += 1,
            Some("TCP") => *seen.fallback.entry(row.code()).or_default() += 1,
            _ => {}
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    fn look(counted: Counted) -> Connections {
        Watch { counted, smcss: None, namespaces: None }.look(&[std::process::id()])
    }

    #[test]
    fn own_connections_are_seen_and_the_control_port_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let _client = TcpStream::connect(("127.0.0.1", port)).expect("listens");
        let _server = listener.accept().expect("a client came");
        assert_eq!(look(Counted::TcpAt(port)).total, 1);
        assert!(Counted::TcpExcept(port + 1).takes(port) && !Counted::TcpExcept(port).takes(port));
    }

    #[test]
    fn unix_streams_are_seen() {
        let _pair = UnixStream::pair().expect("a pair");
        assert!(look(Counted::Unix).total >= 2);
    }

    #[test]
    fn modes_and_codes_are_counted_as_smcss_prints_them() {
        let text = r#"[
          {"source": "isthmus", "state": "ACTIVE", "uid": 0, "inode": 1, "local": {"address": "127.0.0.1", "port": 5},
           "peer": {"address": "127.0.0.1", "port": 6}, "interface": 0, "mode": "SMCD", "pid": 1, "program": "x"},
          {"state": "ACTIVE", "inode": 2, "local": {"port": 5}, "mode": "TCP", "reason": "0x03010000", "reason_text": "x"},
          {"state": "ACTIVE", "inode": 3, "local": {"port": 5}, "mode": "TCP", "reason": "0x03010000", "peer_reason": "0x03030000"},
          {"state": "INIT", "inode": 4, "local": {"port": 5}},
          {"state": "LISTEN", "inode": 5, "local": {"port": 5}}]"#;
        let rows: Vec<Row> = serde_json::from_str(text).expect("rows of smcss");
        let seen = modes(rows.into_iter());
        assert_eq!((seen.total, seen.smcd, seen.plain()), (3, 1, 2));
        assert_eq!(seen.fallback.keys().collect::<Vec<_>>(), ["0x03010000", "0x03010000/0x03030000"]);
    }
}
