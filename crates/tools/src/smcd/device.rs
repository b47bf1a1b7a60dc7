//! smcd device: the library itself, and the functions of the host daemon if one runs. Owns: the table.

use super::linkgroup::LinkGroup;
use fabric::host::{Host, Unheard};
use nix::errno::Errno;
use wire::Reason;
use wire::host::{Function, SOCKET};
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

/// What the daemon says of itself.
pub(super) struct Told {
    /// Functions that it lets us see; none if there is no daemon.
    pub(super) functions: Vec<Function>,
    /// What the table does not show: a sentence, or nothing.
    pub(super) note: String,
    /// Whether it is there, and does not say all of that, or is not where ISMD_SOCKET has it.
    pub(super) is_missing: bool,
}

/// Asks it. (ISMD_SOCKET: where it listens.)
pub(super) fn ask() -> Told {
    let (host, mut functions) = (daemon(), vec![]);
    let told = host.link().each_function(|function| functions.push(function));
    let at = std::env::var_os("ISMD_SOCKET").filter(|path| !path.is_empty());
    let at = at.map(|path| path.to_string_lossy().into_owned());
    let (note, is_missing) = note(told, at.as_deref());
    Told { functions, note, is_missing }
}

/// About what was `told`, by a daemon that somebody says is `at` a place.
fn note(told: Result<bool, Unheard>, at: Option<&str>) -> (String, bool) {
    let shown = at.unwrap_or(SOCKET);
    let error = |why: String| (format!("Error: {why}\n"), true);
    match (told, at) {
        (Ok(true), _) => (String::new(), false),
        (Ok(false), _) => {
            let note = "Note: the daemon marks no connections: between containers they stay on TCP (its log says why)\n";
            (note.into(), false)
        }
        // (A host without a daemon is none with a fault.)
        (Err(Unheard::Away(os::Errno::ENOENT | os::Errno::ECONNREFUSED)), None) => (String::new(), false),
        (Err(Unheard::Away(errno)), _) => {
            error(format!("there is no daemon at {shown}: {}", Errno::from_raw(errno.0).desc()))
        }
        (Err(Unheard::Silent), _) => error(format!("the daemon at {shown} does not answer")),
        (Err(Unheard::Refused(why)), _) => {
            error(format!("the daemon at {shown} tells nothing: {why}, {}", why.text()))
        }
    }
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
    use super::{note, text};
    use crate::smcd::linkgroup::LinkGroup;
    use fabric::host::Unheard;
    use os::Errno;
    use wire::Reason;
    use wire::host::Function;

    const HEADER: &str = "FID  Type  PCI-ID        PCHID  InUse  #LGs  PNET-ID  \n";

    #[test]
    fn golden() {
        let row = |rest: &str| format!("{HEADER}0000 ISM   isthmus-ism   ffff   {rest}  {:<16} \n", "");
        assert_eq!(text(&[], &[]), row("No        0"));
        assert_eq!(text(&[LinkGroup::default(), LinkGroup::default()], &[]), row("Yes       2"));
    }

    #[test]
    fn a_daemon_that_is_no_help_is_told_of_and_none_at_all_is_no_fault() {
        let away = |errno| Err(Unheard::Away(errno));
        for (told, at, words, is_missing) in [
            (Ok(true), None, "", false),
            (Ok(false), None, "marks no connections", false),
            (away(Errno::ENOENT), None, "", false),
            (away(Errno::ECONNREFUSED), None, "", false),
            (away(Errno::ENOENT), Some("/x"), "no daemon at /x: No such file", true),
            (away(Errno(13)), None, "no daemon at /run/isthmus/ismd.sock: Permission denied", true),
            (Err(Unheard::Silent), None, "at /run/isthmus/ismd.sock does not answer", true),
            (Err(Unheard::Refused(Reason::CNFERR)), Some("/x"), "0x03000000", true),
        ] {
            let (text, missing) = note(told, at);
            assert_eq!(missing, is_missing, "{told:?} {at:?}");
            assert!(text.contains(words) && text.is_empty() == words.is_empty(), "{text:?}");
            assert!(text.is_empty() || text.ends_with('\n') && text.matches('\n').count() == 1, "{text:?}");
        }
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
