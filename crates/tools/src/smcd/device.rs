//! smcd device: the library itself, and the functions of the host daemon if one runs. Owns: the table.

use super::linkgroup::LinkGroup;
use fabric::host::Host;
use wire::Reason;
use wire::host::Function;
use wire::limits::LOOPBACK_CHID;

const HEADER: &str = "FID  Type  PCI-ID        PCHID  InUse  #LGs  PNET-ID  \n";
/// What stands where a PCI device would have its address.
const NAME: &str = "isthmus-ism";

/// A line of it.
struct Device {
    fid: u16,
    name: String,
    pchid: u16,
    in_use: &'static str,
    link_groups: usize,
    pnet_id: String,
}

/// Functions that the daemon lets us see; none if there is no daemon. (ISMD_SOCKET: where it listens.)
pub(super) fn functions() -> Vec<Function> {
    let (host, mut functions) = (daemon(), vec![]);
    // (No daemon is no fault.)
    let _ = host.link().each_function(|function| functions.push(function));
    functions
}

fn daemon() -> Host {
    /// An operator waits for a busy daemon rather than be told that there is none.
    const PATIENCE_MS: u32 = 5_000;
    let host = Host::new();
    host.link().set_patience(PATIENCE_MS);
    if let Some(path) = std::env::var_os("ISMD_SOCKET") {
        host.link().set_socket(path.as_encoded_bytes());
    }
    host
}

/// Takes a function of the daemon's away, or gives it back; or a sentence why not.
pub(super) fn enable(uid: u32, is_enabled: bool) -> Result<(), String> {
    daemon().link().enable_function(uid, is_enabled).map_err(|reason| match reason {
        Reason::CNFERR => "Error: only root, or the user of the daemon, may do that\n".to_string(),
        Reason::SYNCERR => format!("Error: there is no function {uid:04x}:00:00.0\n"),
        _ => format!("Error: the daemon cannot be reached: {}\n", reason.text()),
    })
}

/// Header and devices.
pub(super) fn text(groups: &[LinkGroup], functions: &[Function]) -> String {
    let own = Device {
        fid: 0,
        name: NAME.into(),
        pchid: LOOPBACK_CHID,
        in_use: if groups.is_empty() { "No" } else { "Yes" },
        link_groups: groups.len(),
        pnet_id: String::new(),
    };
    let lines = std::iter::once(own).chain(functions.iter().map(device));
    HEADER.to_string() + &lines.map(|device| device.line()).collect::<String>()
}

/// As an ISM device of a guest: the PCI domain is the UID.
fn device(function: &Function) -> Device {
    let pnet_id = function.pnet_id.split(|byte| *byte == 0).next().unwrap_or_default();
    Device {
        fid: function.fid,
        name: format!("{:04x}:00:00.0", function.uid),
        pchid: function.vchid,
        in_use: match (function.flags & Function::DISABLED, function.connections) {
            (0, 0) => "No",
            (0, _) => "Yes",
            _ => "Off",
        },
        link_groups: function.processes as usize,
        pnet_id: String::from_utf8_lossy(pnet_id).into_owned(),
    }
}

impl Device {
    fn line(&self) -> String {
        let Device { fid, name, pchid, link_groups, pnet_id, in_use } = self;
        format!(
            "{fid:04x} {:<4}  {name:<12}  {pchid:04x}   {in_use:<4}  {link_groups:>5}  {pnet_id:<16} \n",
            "ISM"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::smcd::linkgroup::LinkGroup;
    use wire::host::Function;

    const HEADER: &str = "FID  Type  PCI-ID        PCHID  InUse  #LGs  PNET-ID  \n";

    #[test]
    fn golden() {
        let row = |rest: &str| format!("{HEADER}0000 ISM   isthmus-ism   ffff   {rest}  {:<16} \n", "");
        assert_eq!(text(&[], &[]), row("No        0"));
        assert_eq!(text(&[LinkGroup::default(), LinkGroup::default()], &[]), row("Yes       2"));
    }

    #[test]
    fn functions_stand_below_by_uid_and_channel() {
        let mut pnet_id = [0; 16];
        pnet_id[..4].copy_from_slice(b"NET1");
        let one = Function {
            vchid: 0xFF01,
            fid: 3,
            uid: 0x1A,
            processes: 2,
            connections: 5,
            pnet_id,
            ..Default::default()
        };
        let shown = text(&[], &[one]);
        let last = shown.lines().last();
        assert_eq!(last, Some("0003 ISM   001a:00:00.0  ff01   Yes       2  NET1             "));
        let shown = text(&[], &[Function { flags: Function::DISABLED, ..one }]);
        assert_eq!(
            shown.lines().last(),
            Some("0003 ISM   001a:00:00.0  ff01   Off       2  NET1             ")
        );
    }
}
