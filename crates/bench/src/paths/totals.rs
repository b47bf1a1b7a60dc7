//! What smcd has counted of this user's connections, for those that are gone before anybody could look at them: read
//! before a run and after it, the difference is what the run did. It counts what other programs of this user do meanwhile,
//! too; a look at single connections is better wherever they stay open.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use uperf::result::Connections;

/// For reasons beyond those that smcd names.
const OTHERS: &str = "other reasons";

/// Totals at one moment; they only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Connections over shared memory: the clients' ends, the servers'.
    upgraded: [u64; 2],
    /// Servers' ends that stayed on TCP. A client that met no enabled listener is not counted.
    fallen: u64,
    /// The most frequent reasons of these, by smcd's names.
    reasons: BTreeMap<String, u64>,
}

impl Totals {
    /// As they stand now, whatever was reset; None if smcd cannot say.
    pub(super) fn read(smcd: &Path) -> Option<Self> {
        let mut command = Command::new(smcd);
        command.args(["-d", "-a", "stats"]).env_remove("LD_PRELOAD");
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        Self::parse(&String::from_utf8_lossy(&output.stdout))
    }

    fn parse(text: &str) -> Option<Self> {
        let summary = text.split("\n\n").next()?;
        let roles = |label: &str| {
            let line = summary.lines().find_map(|line| line.trim().strip_prefix(label))?;
            let (client, server) =
                line.split_once("(client ")?.1.strip_suffix(')')?.split_once(", server ")?;
            Some([client.parse().ok()?, server.parse().ok()?])
        };
        let [_, fallen] = roles("TCP fallback")?;
        let of_servers = summary.lines().skip_while(|line| line.trim() != "Server").skip(1);
        let of_servers = of_servers.take_while(|line| line.trim() != "Client");
        let reasons = of_servers.filter_map(|line| {
            let (name, count) = line.trim().rsplit_once(' ')?;
            Some((name.trim().to_owned(), count.parse().ok()?))
        });
        Some(Self { upgraded: roles("SMC connections")?, fallen, reasons: reasons.collect() })
    }

    /// What has come since `before`, without `control` connections that are not the data's. At least `made` connections
    /// were made, whoever counted them. None if `before` is of another registry, or the control connection is missing:
    /// then nothing was counted.
    pub(super) fn since(&self, before: &Self, control: u32, made: u64) -> Option<Connections> {
        let [client, server] = [0, 1].map(|role| self.upgraded[role].checked_sub(before.upgraded[role]));
        let fallen = self.fallen.checked_sub(before.fallen)?;
        let (smcd, control) = (client?.max(server?), u64::from(control));
        if smcd + fallen < control {
            return None;
        }
        let (smcd, fallen) = (smcd.saturating_sub(control), fallen - control.saturating_sub(smcd));
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let mut fallback = BTreeMap::new();
        let mut left = fallen;
        for (name, now) in &self.reasons {
            let new = now.saturating_sub(before.reasons.get(name).copied().unwrap_or_default()).min(left);
            left -= new;
            fallback.extend((new > 0).then(|| (name.clone(), count(new))));
        }
        fallback.extend((left > 0).then(|| (OTHERS.to_owned(), count(left))));
        Some(Connections { total: count((smcd + fallen).max(made)), smcd: count(smcd), smcr: 0, fallback })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// smcd of this version.
    const PRINTED: &str = "\
SMC-D Connections Summary
  Total connections handled           423
  SMC connections                     405 (client 202, server 203)
    v1                                  0
    v2                                405
  Handshake errors                      0 (client 0, server 0)
  Avg requests per SMC conn           3.6
  TCP fallback                         18 (client 7, server 11)
    Server
     [unknown]                          5
     PEERDECL                           3
    Client
     PEER_NO_SMC                        7

RX Stats
  Data transmitted (Bytes)           1000 (1.000K)
";

    fn printed() -> Totals {
        Totals::parse(PRINTED).expect("totals")
    }

    #[test]
    fn totals_of_both_roles_and_the_servers_reasons_are_read() {
        let reasons = BTreeMap::from([("[unknown]".to_owned(), 5), ("PEERDECL".to_owned(), 3)]);
        assert_eq!(printed(), Totals { upgraded: [202, 203], fallen: 11, reasons });
        let none = PRINTED.split("    Server").next().expect("a summary");
        assert_eq!(Totals::parse(none).map(|totals| totals.reasons.len()), Some(0));
        assert_eq!(Totals::parse("smcd: no registry\n"), None);
    }

    #[test]
    fn the_control_connection_is_none_of_the_datas() {
        let before = Totals { upgraded: [2, 2], fallen: 4, reasons: [("PEERDECL".to_owned(), 1)].into() };
        let seen = printed().since(&before, 1, 0).expect("counted");
        assert_eq!((seen.total, seen.smcd, seen.plain()), (207, 200, 7));
        let expected = [("PEERDECL".to_owned(), 2), ("[unknown]".to_owned(), 5)];
        assert_eq!(seen.fallback, expected.into());
        let few = Totals { reasons: BTreeMap::new(), ..printed() };
        let seen = few.since(&before, 1, 0).expect("counted");
        assert_eq!(seen.fallback, [(OTHERS.to_owned(), 7)].into());
    }

    #[test]
    fn connections_that_nobody_counted_are_plain() {
        let seen = printed().since(&printed(), 0, 50).expect("a plain peer is not counted");
        assert_eq!((seen.total, seen.smcd, seen.plain()), (50, 0, 50));
        assert_eq!(printed().since(&printed(), 1, 50), None, "not even the control connection");
        let newer = Totals { upgraded: [203, 204], ..printed() };
        assert_eq!(newer.since(&printed(), 1, 50).map(|seen| (seen.smcd, seen.plain())), Some((0, 50)));
        assert_eq!(printed().since(&newer, 0, 50), None, "another registry");
    }
}
