//! Dumps by sock_diag(7). Owns: the conversation with the kernel; frames are those of rust-netlink, and what
//! is in them belongs to whoever asks.

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable,
};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr};
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeVal;
use std::convert::Infallible;
use std::fmt;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `linux/netlink.h`.
const NLM_F_DUMP_INTR: u16 = 0x10;
/// Most answers read, each with several sockets: an end for a kernel that never says "done".
const ANSWERS_MAX: usize = 1 << 20;

/// Why a dump is not complete.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There is no netlink (a sandbox).
    Unavailable,
    Receive(Errno),
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
            Failure::Interrupted => write!(f, "Error: Dump interrupted"),
            Failure::Refused(errno) => write!(f, "RTNETLINK answers: {}", errno.desc()),
        }
    }
}

/// What lies behind the header, of whatever family.
struct Bytes(Vec<u8>);

impl NetlinkSerializable for Bytes {
    fn message_type(&self) -> u16 {
        SOCK_DIAG_BY_FAMILY
    }

    fn buffer_len(&self) -> usize {
        self.0.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.0);
    }
}

impl NetlinkDeserializable for Bytes {
    type Error = Infallible;

    fn deserialize(_: &NetlinkHeader, payload: &[u8]) -> Result<Self, Infallible> {
        Ok(Bytes(payload.to_vec()))
    }
}

/// Asks for everything that `request`, the structure behind the header, describes; `take` gets each payload.
pub(crate) fn dump(request: Vec<u8>, take: &mut dyn FnMut(&[u8])) -> Result<(), Failure> {
    let netlink = asked(request).map_err(|_| Failure::Unavailable)?;
    for _ in 0..ANSWERS_MAX {
        let datagram = match netlink.recv_from_full() {
            Ok((datagram, _)) => datagram,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::Receive(Errno::from_raw(error.raw_os_error().unwrap_or(0)))),
        };
        if answer(&datagram, take)? == Then::Done {
            return Ok(());
        }
    }
    Err(Failure::Interrupted)
}

/// A socket that has put the question.
fn asked(request: Vec<u8>) -> std::io::Result<Socket> {
    let mut netlink = Socket::new(NETLINK_SOCK_DIAG)?;
    setsockopt(&netlink, sockopt::ReceiveTimeout, &TimeVal::new(5, 0))?;
    netlink.bind_auto()?;
    netlink.connect(&SocketAddr::new(0, 0))?;
    netlink.send(&framed(request), 0)?;
    Ok(netlink)
}

fn framed(request: Vec<u8>) -> Vec<u8> {
    let mut message =
        NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::InnerMessage(Bytes(request)));
    message.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
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
    while !bytes.is_empty() {
        let message = NetlinkMessage::<Bytes>::deserialize(bytes).map_err(|_| Failure::Interrupted)?;
        if message.header.flags & NLM_F_DUMP_INTR != 0 {
            return Err(Failure::Interrupted);
        }
        match message.payload {
            NetlinkPayload::Done(_) => return Ok(Then::Done),
            NetlinkPayload::Error(error) => {
                return Err(Failure::Refused(Errno::from_raw(error.raw_code().wrapping_neg())));
            }
            NetlinkPayload::InnerMessage(Bytes(payload)) => take(&payload),
            _ => {}
        }
        // Messages begin at multiples of four.
        bytes = bytes.get((message.header.length as usize).next_multiple_of(4)..).unwrap_or_default();
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
        let request = framed(vec![7; 52]);
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
