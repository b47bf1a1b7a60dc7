//! Connections of a program by proc(5), and how smcss says that each travels. The two are joined by inode, which both
//! print: a port may be shared with somebody else, an inode is not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::result::Connections;

/// ESTABLISHED in /proc/net/tcp, and SS_CONNECTED in /proc/net/unix.
const TCP_ESTABLISHED: &str = "01";
const UNIX_CONNECTED: &str = "03";

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

/// Looks at the connections that `pids` have now. Without `smcss` all of them count as plain.
pub(crate) fn look(pids: &[u32], counted: Counted, smcss: Option<&Path>) -> Connections {
    let inodes: BTreeSet<u64> = pids.iter().flat_map(|pid| inodes(*pid)).collect();
    let Some(first) = pids.first() else { return Connections::default() };
    let rows = smcss.map(rows).unwrap_or_default();
    let rows = rows.into_iter().filter(|row| inodes.contains(&row.inode) && counted.takes(row.local.port));
    let mut seen = modes(rows);
    seen.total = match counted {
        Counted::TcpExcept(_) | Counted::TcpAt(_) => tcp(*first, counted, &inodes),
        Counted::Unix => unix(&read(*first, "net/unix"), &inodes),
        Counted::SmcExcept(_) => seen.total,
    };
    seen
}

fn read(pid: u32, file: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

/// Inodes of the sockets of a process.
fn inodes(pid: u32) -> Vec<u64> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets
        .filter_map(|target| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect()
}

/// In the network namespace of `pid`.
fn tcp(pid: u32, counted: Counted, inodes: &BTreeSet<u64>) -> u32 {
    let texts = ["net/tcp", "net/tcp6"].map(|file| read(pid, file));
    texts
        .iter()
        .flat_map(|text| text.lines().filter_map(established))
        .fold(0, |sum, (inode, port)| sum + u32::from(inodes.contains(&inode) && counted.takes(port)))
}

/// Inode and local port of an open connection in a line of /proc/net/tcp.
fn established(line: &str) -> Option<(u64, u16)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, local, _, TCP_ESTABLISHED, _, _, _, _, _, inode, ..] = words[..] else { return None };
    let port = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
    Some((inode.parse().ok()?, port))
}

fn unix(text: &str, inodes: &BTreeSet<u64>) -> u32 {
    let connected = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, _, _, UNIX_CONNECTED, inode, ..] = words[..] else { return None };
        inode.parse::<u64>().ok()
    });
    connected.fold(0, |sum, inode| sum + u32::from(inodes.contains(&inode)))
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
    let output = Command::new(smcss).arg("--json").stdin(Stdio::null()).stderr(Stdio::null()).output();
    output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default()
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

    const TCP: &str = "   1: 0100007F:1F90 0100007F:A36C 01 00000000:00000000 00:00000000 00000000     0        0 777 1 0 20 4 30 10 -1";

    #[test]
    fn a_line_of_proc_gives_inode_and_port() {
        assert_eq!(established(TCP), Some((777, 8080)));
        assert_eq!(established(&TCP.replace(" 01 ", " 0A ")), None, "a listener is no connection");
    }

    #[test]
    fn own_connections_are_seen_and_the_control_port_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let _client = TcpStream::connect(("127.0.0.1", port)).expect("listens");
        let _server = listener.accept().expect("a client came");
        let own = [std::process::id()];
        assert_eq!(look(&own, Counted::TcpAt(port), None).total, 1);
        assert!(Counted::TcpExcept(port + 1).takes(port) && !Counted::TcpExcept(port).takes(port));
    }

    #[test]
    fn unix_streams_are_seen() {
        let _pair = UnixStream::pair().expect("a pair");
        assert!(look(&[std::process::id()], Counted::Unix, None).total >= 2);
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
