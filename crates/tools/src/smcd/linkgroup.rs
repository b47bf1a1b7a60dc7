//! smcd linkgroup: pairs of processes with the connections between them. Owns: the table, and the block of
//! -d.

use super::eid::UEID;
use super::info;
use crate::far;
use crate::host::Host;
use crate::live::{self, Live};
use crate::registry::{self, Registry};
use fabric::observe::Verdict;
use std::collections::BTreeMap;
use std::fmt::Write;

const HEADER: &str = "LG-ID    VLAN  #Conns  PNET-ID \n";

/// A link group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LinkGroup {
    pub(super) id: u32,
    pub(super) vlan: u16,
    pub(super) pnet_id: String,
    pub(super) connections: u32,
    /// Bytes of send buffers and DMBs.
    pub(super) sndbuf: u64,
    pub(super) dmb: u64,
    pub(super) host: String,
}

/// The link groups of all registries by id.
pub(super) fn read(registries: &[Registry]) -> Vec<LinkGroup> {
    let host = info::hostname();
    let look = Host::look(&registry::folder());
    let far = far::connections(&look).into_iter().map(|far| far.live);
    let connections = registries.iter().flat_map(live::connections).chain(far);
    group(connections.filter(|live| live.connection.verdict == Some(Verdict::Smc)), &host)
}

fn group(connections: impl Iterator<Item = Live>, host: &str) -> Vec<LinkGroup> {
    let mut groups = BTreeMap::new();
    for live in connections {
        let id = live.link_group();
        let group = groups.entry(id).or_insert_with(|| LinkGroup {
            id,
            host: host.to_string(),
            ..LinkGroup::default()
        });
        group.connections += 1;
        // One ring each way: the peer's receive buffer is our send buffer.
        let ring = live.slot.map_or(0, |slot| u64::from(slot.ring_size));
        group.sndbuf += ring;
        group.dmb += ring;
    }
    groups.into_values().collect()
}

/// All link groups or the one wanted; what is not there is not shown.
pub(super) fn text(groups: &[LinkGroup], id: Option<u32>, details: bool) -> String {
    let wanted = groups.iter().filter(|group| id.is_none_or(|id| id == group.id));
    if details {
        return wanted.map(block).collect::<Vec<_>>().join("\n");
    }
    std::iter::once(HEADER.to_string()).chain(wanted.map(row)).collect()
}

fn row(group: &LinkGroup) -> String {
    // C's %#x has no prefix for 0.
    let vlan = if group.vlan == 0 { "0".to_string() } else { format!("{:#x}", group.vlan) };
    format!("{:08x} {vlan:>4}  {:>6}  {:<16} \n", group.id, group.connections, group.pnet_id)
}

fn block(group: &LinkGroup) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: String| _ = writeln!(text, "{label:<9}: {value}");
    line("LG-ID", format!("{:08x}", group.id));
    line("VLAN", format!("{:x}", group.vlan));
    line("PNET-ID", group.pnet_id.clone());
    line("Version", "2".into());
    line("Peer-Rel", "1".into());
    line("Peer-Host", format!("{:<32}", group.host));
    line("Peer-OS", "LINUX".into());
    line("EID", format!("{UEID:<32}"));
    line("#Conns", group.connections.to_string());
    line("Sndbuf", format!("{} B", group.sndbuf));
    line("DMB", format!("{} B", group.dmb));
    text
}

#[cfg(test)]
mod tests {
    use super::{LinkGroup, text};

    fn groups() -> [LinkGroup; 2] {
        let one = LinkGroup {
            id: 0x100,
            connections: 12,
            sndbuf: 65536,
            dmb: 131_072,
            host: "host".into(),
            ..LinkGroup::default()
        };
        [one.clone(), LinkGroup { id: 0x200, vlan: 5, pnet_id: "NET1".into(), ..one }]
    }

    #[test]
    fn golden_table() {
        assert_eq!(
            text(&groups(), None, false),
            "LG-ID    VLAN  #Conns  PNET-ID \n\
             00000100    0      12                   \n\
             00000200  0x5      12  NET1             \n"
        );
        assert_eq!(text(&groups(), Some(0x200), false).lines().count(), 2);
        assert_eq!(text(&groups(), Some(0x300), false), "LG-ID    VLAN  #Conns  PNET-ID \n");
    }

    #[test]
    fn golden_details() {
        let golden = "\
LG-ID    : 00000100
VLAN     : 0
PNET-ID  : |
Version  : 2
Peer-Rel : 1
Peer-Host: host                            |
Peer-OS  : LINUX
EID      : ISTHMUS.LOCAL                   |
#Conns   : 12
Sndbuf   : 65536 B
DMB      : 131072 B
";
        let golden = golden.replace('|', "");
        assert_eq!(text(&groups()[..1], None, true), golden);
        let two = text(&groups(), None, true);
        assert!(
            two.starts_with(&format!("{golden}\nLG-ID    : 00000200\nVLAN     : 5\nPNET-ID  : NET1\n")),
            "{two}"
        );
        assert_eq!(text(&[], None, true), "");
    }
}
