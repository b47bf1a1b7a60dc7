//! Sockets of a kernel that has SMC, by sock_diag (smc.h, smc_diag.h). Owns: the netlink dump and the reading of its answers.
//! A kernel without SMC is no error: it has no sockets to show.

mod message;

use super::row::Row;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use std::os::fd::AsRawFd;

/// Most answers read, each with several sockets: an end for a kernel that never says "done".
const ANSWERS_MAX: usize = 1 << 20;
const BUFFER: usize = 32 * 1024;

/// The kernel's SMC sockets; the error is a sentence for stderr.
pub(super) fn rows() -> Result<Vec<Row>, String> {
    let open =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkSockDiag);
    // Without netlink (a sandbox) nothing is known about the kernel's sockets; Isthmus' own are shown all the same.
    let Ok(netlink) = open else { return Ok(vec![]) };
    let patience = TimeVal::new(5, 0);
    let asked = setsockopt(&netlink, sockopt::ReceiveTimeout, &patience)
        .and_then(|()| send(netlink.as_raw_fd(), &message::request(), MsgFlags::empty()));
    if asked.is_err() {
        return Ok(vec![]);
    }
    let (mut rows, mut buffer) = (vec![], vec![0; BUFFER]);
    for _ in 0..ANSWERS_MAX {
        let len = match recv(netlink.as_raw_fd(), &mut buffer, MsgFlags::MSG_TRUNC) {
            Ok(len) => len,
            Err(Errno::EINTR) => continue,
            Err(errno) => return Err(format!("Error: Netlink receive error {}\n", errno.desc())),
        };
        if len > BUFFER {
            return Err("Error: Message truncated\n".into());
        }
        match message::answer(&buffer[..len], &mut rows) {
            message::Then::More => {}
            message::Then::Done => return Ok(rows),
            message::Then::Interrupted => return Err("Error: Dump interrupted\n".into()),
            message::Then::Refused(errno) if rows.is_empty() && is_absence(errno) => return Ok(vec![]),
            message::Then::Refused(errno) => return Err(format!("RTNETLINK answers: {}\n", errno.desc())),
        }
    }
    Err("Error: Dump interrupted\n".into())
}

/// What kernels answer that do not know the family.
fn is_absence(errno: Errno) -> bool {
    [Errno::ENOENT, Errno::EOPNOTSUPP, Errno::EINVAL, Errno::EAFNOSUPPORT, Errno::EPROTONOSUPPORT]
        .contains(&errno)
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn any_kernel_can_be_asked() {
        // With SMC the answer is a list, without it is empty; never an error.
        let rows = rows().expect("an answer");
        assert!(rows.iter().all(|row| row.is_kernels));
    }
}
