//! What smcd has counted of this user's connections, for those that are gone before anybody could look at them: read
//! before a run and after it, the difference is what the run did. It counts what other programs of this user do meanwhile,
//! too; a look at single connections is better wherever they stay open.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use uperf::result::Connections;

/// Totals at one moment, by smcd's names; they only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Totals {
    /// Connections over shared memory: the clients' ends.
    #[serde(rename = "SMC_CLNT_V2_SUCC_CNT")]
    clients: u64,
    /// The servers'.
    #[serde(rename = "SMC_SRV_V2_SUCC_CNT")]
    servers: u64,
    /// Servers' ends that stayed on TCP, by their codes. A client that met no enabled listener is not counted.
    #[serde(rename = "SMC_SRV_FBACK_REASONS")]
    fallen: BTreeMap<String, u64>,
}

impl Totals {
    /// As they stand now, whatever was reset; None if smcd cannot say.
    pub(super) fn read(smcd: &Path) -> Option<Self> {
        let mut command = Command::new(smcd);
        command.args(["-d", "-a", "stats", "json"]).env_remove("LD_PRELOAD");
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        Self::parse(&output.stdout)
    }

    fn parse(json: &[u8]) -> Option<Self> {
        serde_json::from_slice::<BTreeMap<String, Self>>(json).ok()?.remove("SMCD")
    }

    /// What has come since `before`, without `control` connections that are not the data's. At least `made` connections
    /// were made, whoever counted them. None if `before` is of another registry, or the control connection is missing:
    /// then nothing was counted.
    pub(super) fn since(&self, before: &Self, control: u32, made: u64) -> Option<Connections> {
        let clients = self.clients.checked_sub(before.clients)?;
        let smcd = clients.max(self.servers.checked_sub(before.servers)?);
        let fallen = |totals: &Self| totals.fallen.values().sum::<u64>();
        let (fallen, control) = (fallen(self).checked_sub(fallen(before))?, u64::from(control));
        if smcd + fallen < control {
            return None;
        }
        let (smcd, fallen) = (smcd.saturating_sub(control), fallen - control.saturating_sub(smcd));
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let mut fallback = BTreeMap::new();
        let mut left = fallen;
        for (code, now) in &self.fallen {
            let new = now.saturating_sub(before.fallen.get(code).copied().unwrap_or_default()).min(left);
            left -= new;
            fallback.extend((new > 0).then(|| (code.clone(), count(new))));
        }
        Some(Connections { total: count((smcd + fallen).max(made)), smcd: count(smcd), smcr: 0, fallback })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// smcd of this version, with most of its counters left out.
    const PRINTED: &str = r#"{"SMCD": {"SMC_CLNT_V1_SUCC_CNT":0,"SMC_CLNT_V2_SUCC_CNT":202,"SMC_SRV_V2_SUCC_CNT":203,
        "SMC_CLNT_FBACK_CNT":7,"SMC_CLNT_FBACK_REASONS":{"0x03010000":7},
        "SMC_SRV_FBACK_CNT":11,"SMC_SRV_FBACK_REASONS":{"0x03060000":8,"0x05000000":3}}}"#;

    fn printed() -> Totals {
        Totals::parse(PRINTED.as_bytes()).expect("totals")
    }

    #[test]
    fn totals_of_both_roles_and_the_servers_reasons_are_read() {
        let fallen = BTreeMap::from([("0x03060000".to_owned(), 8), ("0x05000000".to_owned(), 3)]);
        assert_eq!(printed(), Totals { clients: 202, servers: 203, fallen });
        assert_eq!(Totals::parse(b"smcd: no registry\n"), None);
    }

    #[test]
    fn the_control_connection_is_none_of_the_datas() {
        let fallen = BTreeMap::from([("0x05000000".to_owned(), 1)]);
        let before = Totals { clients: 2, servers: 2, fallen };
        let seen = printed().since(&before, 1, 0).expect("counted");
        assert_eq!((seen.total, seen.smcd, seen.plain()), (210, 200, 10));
        assert_eq!(seen.fallback, [("0x03060000".to_owned(), 8), ("0x05000000".to_owned(), 2)].into());
        let plain = Totals { clients: 2, servers: 2, ..printed() };
        let seen = plain.since(&before, 1, 0).expect("the control connection is one of those on TCP");
        assert_eq!((seen.total, seen.smcd, seen.plain()), (9, 0, 9));
    }

    #[test]
    fn connections_that_nobody_counted_are_plain() {
        let seen = printed().since(&printed(), 0, 50).expect("a plain peer is not counted");
        assert_eq!((seen.total, seen.smcd, seen.plain()), (50, 0, 50));
        assert_eq!(printed().since(&printed(), 1, 50), None, "not even the control connection");
        let newer = Totals { clients: 203, servers: 204, ..printed() };
        assert_eq!(newer.since(&printed(), 1, 50).map(|seen| (seen.smcd, seen.plain())), Some((0, 50)));
        assert_eq!(printed().since(&newer, 0, 50), None, "another registry");
    }
}
