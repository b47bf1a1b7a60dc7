//! smcd device: the one device there is, the library itself. Owns: the table.

use super::linkgroup::LinkGroup;
use wire::limits::LOOPBACK_CHID;

const HEADER: &str = "FID  Type  PCI-ID        PCHID  InUse  #LGs  PNET-ID  \n";
/// What stands where a PCI device would have its address.
const NAME: &str = "isthmus-ism";

/// Header and device.
pub(super) fn text(groups: &[LinkGroup]) -> String {
    let in_use = if groups.is_empty() { "No" } else { "Yes" };
    let (fid, kind, pnet_id) = (0, "ISM", "");
    let count = groups.len();
    format!(
        "{HEADER}{fid:04x} {kind:<4}  {NAME:<12}  {LOOPBACK_CHID:04x}   {in_use:<4}  {count:>5}  {pnet_id:<16} \n"
    )
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::smcd::linkgroup::LinkGroup;

    #[test]
    fn golden() {
        let header = "FID  Type  PCI-ID        PCHID  InUse  #LGs  PNET-ID  \n";
        let row = |rest: &str| format!("{header}0000 ISM   isthmus-ism   ffff   {rest}  {:<16} \n", "");
        assert_eq!(text(&[]), row("No        0"));
        assert_eq!(text(&[LinkGroup::default(), LinkGroup::default()]), row("Yes       2"));
    }
}
