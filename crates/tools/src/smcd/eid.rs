//! Enterprise ids. Owns: the two that the local tier has; they cannot be changed, since two ends on one
//! kernel need no other.

use super::syntax::Command;

/// The user EID of every Isthmus process on a host.
pub(super) const UEID: &str = "ISTHMUS.LOCAL";
/// The system EID.
pub(super) const SEID: &str = "ISTHMUS-LOCAL-SEID";

pub(super) fn ueid_text() -> String {
    format!("{UEID:<32}\n")
}

pub(super) fn seid_text() -> String {
    format!("{SEID:<32} [enabled]\n")
}

/// Why a change is not made; `None` for commands that change nothing.
pub(super) fn refusal(command: &Command) -> Option<&'static str> {
    match command {
        Command::ChangeUeid => Some("Error: the User EID of Isthmus connections on one host is fixed\n"),
        Command::ChangeSeid => {
            Some("Error: the System EID of Isthmus connections on one host is always enabled\n")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{SEID, UEID, seid_text, ueid_text};
    use wire::Eid;

    #[test]
    fn both_are_valid_eids() {
        assert!(Eid::user(UEID).is_ok() && Eid::user(SEID).is_ok());
        assert_eq!(ueid_text(), "ISTHMUS.LOCAL                   \n");
        assert_eq!(seid_text(), "ISTHMUS-LOCAL-SEID               [enabled]\n");
    }
}
