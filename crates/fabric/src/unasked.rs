//! The kernel was asked about a socket and did not say. Owns: which reason that is, at either end.

use os::Errno;
use wire::reason::Reason;

/// PEERNOSMC where there is no such socket, MEM for want of a descriptor or of memory, NOSMCDDEV where the
/// process may not ask: a sandbox without netlink.
pub fn reason(errno: Errno) -> Reason {
    match errno {
        // (An answer to somebody else's question tells nothing of this one.)
        Errno::ENOENT | Errno::EINVAL => Reason::PEERNOSMC,
        _ if errno.is_shortage() => Reason::MEM,
        _ => Reason::NOSMCDDEV,
    }
}

#[test]
fn who_may_not_ask_has_no_device() {
    let asked = [Errno::ENOENT, Errno::EMFILE, Errno::EPERM].map(reason);
    assert_eq!(asked, [Reason::PEERNOSMC, Reason::MEM, Reason::NOSMCDDEV]);
}
