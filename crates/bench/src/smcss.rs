//! Reads what `smcss` prints, to tell which connections of a run used SMC-D. Columns: smc-tools' smcss(8).

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

/// One look at the connections of this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// As printed, the header first.
    pub(crate) text: String,
    /// Connections of the run that used SMC-D.
    pub(crate) smcd: usize,
    /// Reasons of those that did not, as printed.
    pub(crate) reasons: BTreeSet<String>,
}

impl Snapshot {
    /// Runs smcss and counts the connections to servers at `ports`. None if smcss cannot say.
    pub(crate) fn take(smcss: &Path, ports: &[u16]) -> Option<Self> {
        let output =
            Command::new(smcss).arg("-W").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        // A kernel without SMC of its own is no error to us: what was printed counts.
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.starts_with("State").then(|| Self::read(text, ports))
    }

    fn read(text: String, ports: &[u16]) -> Self {
        let (mut smcd, mut reasons) = (BTreeSet::new(), BTreeSet::new());
        for row in text.lines().filter_map(Row::read).filter(|row| row.is_between(ports)) {
            if row.mode == "SMCD" {
                smcd.insert(row.connection());
            } else {
                reasons.insert(row.reason());
            }
        }
        Self { smcd: smcd.len(), reasons, text }
    }
}

struct Row<'a> {
    local: &'a str,
    peer: &'a str,
    mode: &'a str,
    code: Option<&'a str>,
}

impl<'a> Row<'a> {
    /// State, UID, Inode, Local Address, Peer Address, Intf, Mode and the code of a fallback.
    fn read(line: &'a str) -> Option<Self> {
        let mut words = line.split_whitespace().skip(3);
        let (local, peer, _, mode) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let is_mode = ["SMCD", "SMCR", "TCP"].contains(&mode);
        is_mode.then(|| Self { local, peer, mode, code: words.next() })
    }

    fn is_between(&self, ports: &[u16]) -> bool {
        [self.local, self.peer].iter().any(|address| port(address).is_some_and(|port| ports.contains(&port)))
    }

    /// The same for both ends' rows.
    fn connection(&self) -> (String, String) {
        let (a, b) = (self.local.to_owned(), self.peer.to_owned());
        if a < b { (a, b) } else { (b, a) }
    }

    fn reason(&self) -> String {
        format!("{} {}", self.mode, self.code.unwrap_or_default()).trim_end().to_owned()
    }
}

fn port(address: &str) -> Option<u16> {
    address.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Snapshot;

    const TEXT: &str = "\
State          UID   Inode   Local Address           Peer Address            Intf Mode 
ACTIVE         00000 0012345 127.0.0.1:40000         127.0.0.1:50001         0000 SMCD 
ACTIVE         00000 0012346 127.0.0.1:50001         127.0.0.1:40000         0000 SMCD 
ACTIVE         00000 0012347 127.0.0.1:40002         127.0.0.1:50002         0000 TCP 0x03010000/0x03030000
LISTEN         00000 0012348 127.0.0.1:40000
ACTIVE         00000 0012349 127.0.0.1:6379          127.0.0.1:50003         0000 SMCD 
";

    #[test]
    fn a_connection_counts_once_and_only_if_it_is_ours() {
        let snapshot = Snapshot::read(TEXT.into(), &[40000, 40002]);
        assert_eq!(snapshot.smcd, 1);
        assert_eq!(snapshot.reasons.into_iter().collect::<Vec<_>>(), ["TCP 0x03010000/0x03030000"]);
    }

    #[test]
    fn an_empty_table_counts_nothing() {
        assert_eq!(Snapshot::read("State\n".into(), &[1]).smcd, 0);
    }
}
