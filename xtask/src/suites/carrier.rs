//! Which way the connections of a suite took, by the library's own count in a registry of the suite's own,
//! and beside it by the kernel's.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::Context;

use super::obtain::Room;

/// The client's end went, or shut its writing down, before the server first looked: nothing was left to
/// share.
const ENDED_EARLY: &str = "0x05000000";
/// No offer was found.
const NO_PEER: &str = "0x03010000";
/// Of connections between enabled ends, in percent.
pub(super) const BAR: u64 = 90;

/// Counts of one suite.
#[derive(Default)]
pub(super) struct Carried {
    /// At accepting ends, by the kernel; 0 if it was not asked.
    pub(super) established: u64,
    /// Through shared memory.
    pub(super) shared: u64,
    /// Stayed on TCP, by the code that the connecting end saw.
    pub(super) client: BTreeMap<String, u64>,
    /// The same, by the accepting end.
    pub(super) server: BTreeMap<String, u64>,
}

impl Carried {
    /// Adds what `smcd stats` says about the suite's registry.
    pub(super) fn counted_by(&mut self, room: &Room<'_>) -> anyhow::Result<()> {
        let said = Command::new(room.ws.dist().join("bin/smcd"))
            .args(["-d", "stats", "json"])
            .env("SMC_REGISTRY_DIR", room.registry())
            .output()
            .context("cannot run smcd")?;
        let text = String::from_utf8_lossy(&said.stdout);
        self.shared = number(&text, "SMC_SRV_V2_SUCC_CNT");
        self.client = codes(&text, "SMC_CLNT_FBACK_REASONS");
        self.server = codes(&text, "SMC_SRV_FBACK_REASONS");
        Ok(())
    }

    /// Connections that their client ended before the server's first look.
    pub(super) fn ended_early(&self) -> u64 {
        self.client.get(ENDED_EARLY).copied().unwrap_or(0)
    }

    /// Percent of the connections that their accepting end used while the connecting end was there; `None`
    /// where the suite has none. What nobody accepts, or closes unused, has no carrier; what the client ended
    /// first the server sees as that of a peer without the library.
    pub(super) fn share(&self) -> Option<u64> {
        let gone = self.server.get(NO_PEER).copied().unwrap_or(0).min(self.ended_early());
        let on_tcp = self.server.values().sum::<u64>() - gone;
        (100 * self.shared).checked_div(self.shared + on_tcp)
    }

    /// The codes, for people.
    pub(super) fn reasons(&self) -> String {
        let said = |codes: &BTreeMap<String, u64>| {
            codes.iter().map(|(code, count)| format!("{code} x {count}")).collect::<Vec<_>>().join(", ")
        };
        format!("client {{{}}}, server {{{}}}", said(&self.client), said(&self.server))
    }
}

fn number(text: &str, key: &str) -> u64 {
    let rest = text.split(&format!("\"{key}\":")).nth(1).unwrap_or_default();
    rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// `"KEY":{"0x03010000":7,...}`.
fn codes(text: &str, key: &str) -> BTreeMap<String, u64> {
    let rest = text.split(&format!("\"{key}\":{{")).nth(1).unwrap_or_default();
    let inner = rest.split('}').next().unwrap_or_default();
    let pairs = inner.split(',').filter_map(|pair| pair.split_once(':'));
    pairs.filter_map(|(code, count)| Some((code.trim_matches('"').to_owned(), count.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::{Carried, codes, number};

    #[test]
    fn counts_are_read_from_one_line_of_json() {
        let text = r#"{"SMCD": {"SMC_SRV_V2_SUCC_CNT":58,"SMC_CLNT_FBACK_REASONS":{"0x05000000":80,"0x03010000":2},"SMC_SRV_FBACK_REASONS":{"0x03010000":81,"0x03060000":1}}}"#;
        let (client, server) = (codes(text, "SMC_CLNT_FBACK_REASONS"), codes(text, "SMC_SRV_FBACK_REASONS"));
        let carried =
            Carried { shared: number(text, "SMC_SRV_V2_SUCC_CNT"), client, server, ..Carried::default() };
        assert_eq!((carried.share(), carried.ended_early()), (Some(96), 80));
        assert_eq!(Carried::default().share(), None);
    }
}
