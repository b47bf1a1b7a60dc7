//! Dumps by sock_diag(7). Owns: the conversation with the kernel and the frames of its answers (`linux/netlink.h`); what is
//! in them belongs to whoever asks.

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use std::fmt;
use std::os::fd::AsRawFd;

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// NLM_F_REQUEST, NLM_F_ROOT and NLM_F_MATCH: all that there are.
const REQUEST_ALL: u16 = 0x301;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Most answers read, each with several sockets: an end for a kernel that never says "done".
const ANSWERS_MAX: usize = 1 << 20;
const BUFFER: usize = 32 * 1024;

/// Why a dump is not complete.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There is no netlink (a sandbox).
    Unavailable,
    Receive(Errno),
    Truncated,
    /// Sockets came and went meanwhile; or the answer is broken.
    Interrupted,
    Refused(Errno),
}

impl fmt::Display for Failure {
    /// As smcss of smc-tools says it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Unavailable => write!(f, "Error: Cannot open netlink socket"),
            Failure::Receive(errno) => write!(f, "Error: Netlink receive error {}", errno.desc()),
            Failure::Truncated => write!(f, "Error: Message truncated"),
            Failure::Interrupted => write!(f, "Error: Dump interrupted"),
            Failure::Refused(errno) => write!(f, "RTNETLINK answers: {}", errno.desc()),
        }
    }
}

/// Asks for everything that `request`, the structure behind the header, describes; `take` gets each payload.
pub(crate) fn dump(request: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<(), Failure> {
    let netlink =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkSockDiag)
            .map_err(|_| Failure::Unavailable)?;
    setsockopt(&netlink, sockopt::ReceiveTimeout, &TimeVal::new(5, 0))
        .and_then(|()| send(netlink.as_raw_fd(), &framed(request), MsgFlags::empty()))
        .map_err(|_| Failure::Unavailable)?;
    let mut buffer = vec![0; BUFFER];
    for _ in 0..ANSWERS_MAX {
        let len = match recv(netlink.as_raw_fd(), &mut buffer, MsgFlags::MSG_TRUNC) {
            Ok(len) => len,
            Err(Errno::EINTR) => continue,
            Err(errno) => return Err(Failure::Receive(errno)),
        };
        if answer(buffer.get(..len).ok_or(Failure::Truncated)?, take)? == Then::Done {
            return Ok(());
        }
    }
    Err(Failure::Interrupted)
}

fn framed(request: &[u8]) -> Vec<u8> {
    let mut bytes = ((HEADER + request.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST_ALL.to_ne_bytes());
    // The only request of its socket: number and sender do not matter.
    bytes.extend([0; 8]);
    bytes.extend(request);
    bytes
}

/// What comes after an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Then {
    More,
    Done,
}

/// Hands the payloads of one answer to `take`.
pub(crate) fn answer(mut bytes: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<Then, Failure> {
    while let (Some(len), Some(kind), Some(flags)) = (u32_at(bytes, 0), u16_at(bytes, 4), u16_at(bytes, 6)) {
        let len = len as usize;
        let payload = bytes.get(HEADER..len).ok_or(Failure::Interrupted)?;
        if flags & NLM_F_DUMP_INTR != 0 {
            return Err(Failure::Interrupted);
        }
        match kind {
            NLMSG_DONE => return Ok(Then::Done),
            NLMSG_ERROR => {
                let code = u32_at(payload, 0).unwrap_or_default() as i32;
                return Err(Failure::Refused(Errno::from_raw(code.wrapping_neg())));
            }
            NLMSG_NOOP => {}
            _ => take(payload),
        }
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(Then::More)
}

/// A number of this machine's byte order.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// A number of this machine's byte order.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A number of this machine's byte order.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// A message as a kernel would send it.
#[cfg(test)]
pub(crate) fn message(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (16 + payload.len() as u32).to_ne_bytes().to_vec();
    bytes.extend([kind.to_ne_bytes(), flags.to_ne_bytes()].concat());
    bytes.extend([0; 8]);
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::{Failure, Then, answer, framed, message};
    use nix::errno::Errno;

    /// How often a payload was handed out.
    fn read(bytes: &[u8]) -> (Result<Then, Failure>, usize) {
        let mut count = 0;
        (answer(bytes, &mut |_| count += 1), count)
    }

    #[test]
    fn the_request_is_as_long_as_it_says() {
        let request = framed(&[7; 52]);
        assert_eq!((request.len(), request[0], request[4], request[16]), (68, 68, 20, 7));
    }

    #[test]
    fn several_messages_and_the_end() {
        let socket = message(20, 2, &[43; 64]);
        let bytes = [&socket[..], &message(1, 0, &[]), &socket, &message(3, 0, &[0; 4])].concat();
        assert_eq!(read(&bytes), (Ok(Then::Done), 2));
        assert_eq!(read(&socket), (Ok(Then::More), 1));
    }

    #[test]
    fn errors_and_broken_messages_are_told() {
        let refused = message(2, 0, &(-2i32).to_ne_bytes());
        assert_eq!(read(&refused), (Err(Failure::Refused(Errno::ENOENT)), 0));
        assert_eq!(read(&message(20, 0x10, &[])).0, Err(Failure::Interrupted));
        let mut broken = message(20, 2, &[43; 64]);
        assert_eq!(read(&broken[..40]).0, Err(Failure::Interrupted));
        broken[0..4].copy_from_slice(&0u32.to_ne_bytes());
        assert_eq!(read(&broken).0, Err(Failure::Interrupted), "no endless loop");
    }
}
