//! What a program and the host daemon say to each other over its socket (SOCK_SEQPACKET: a message is a
//! packet). Owns: the layout, below, and that every message has one length; whether a number in it means
//! anything is decided by who reads it.
//!
//! Every message begins with eight bytes: version 1, kind, two zero bytes, and a tag, which the answer
//! repeats. Numbers are big endian. Who passes a descriptor says so by the kind, and passes one.
//!
//! | kind | message | after the head | with it |
//! |---|---|---|---|
//! | 1 | Hello | VCHID wanted 2 (0: any), zero 2 | |
//! | 2 | Offer | number 4, zero 4, size 8, nonce 8 | the memory |
//! | 3 | Hang | memory 4, number 4 | the doorbell |
//! | 4 | Claim | owner 4, number 4, nonce 8 | |
//! | 5 | Open | owner 4, memory 4, number 4, zero 4 | |
//! | 6 | Withdraw | number 4, zero 4 | |
//! | 7 | List | entries to leave out 4, zero 4 | |
//! | 8 | Register | has a table 4 (0 or 1), proof 4 | |
//! | 9 | Decline | owner 4, zero 4, its socket's cookie 8, nonce 8 | |
//! | 10 | Enable | UID 4, 1 or 0: disable 4 | |
//! | 11 | Trace | process 4 (0: any), port 2 (0: any), zero 2, address 16 (0: any) | |
//! | 128 | Refused | reason code 4, zero 4 | |
//! | 129 | Welcome | client 4, VCHID 2, FID 2, UID 4, connections 4, GID 8 | |
//! | 130 | Done | | |
//! | 131 | Passed | size 8 | the memory, the doorbell (size 0), or the table |
//! | 132 | Function | VCHID 2, FID 2, UID 4, user 4, processes 4, connections 4, of at most 4, PNET ID 16, flags 4, zero 4 | |
//! | 133 | Event | time 8, cookie 8, kind 4, reason 4, process 4, other process 4, lost 4, port 2, other port 2, address 16, other address 16 | |

use crate::bytes::{Reader, Writer};
use crate::error::{Error, Result};
use crate::reason::Reason;

/// The protocol's version.
pub const VERSION: u8 = 1;
/// Longest message, in bytes.
pub const MESSAGE_MAX: usize = 80;
/// Where the daemon's socket lies, unless somebody says otherwise.
pub const SOCKET: &str = "/run/isthmus/ismd.sock";
const HEAD: usize = 8;

/// A function, as `List` shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// The fabric that it is on.
    pub vchid: u16,
    /// Its number there.
    pub fid: u16,
    /// Its number on the host.
    pub uid: u32,
    /// The user whose processes hold it, as the daemon counts users.
    pub user: u32,
    /// How many processes hold it.
    pub processes: u32,
    /// Slots that its processes offer.
    pub connections: u32,
    /// How many they may.
    pub limit: u32,
    /// PNET ID of the fabric, padded with zeros.
    pub pnet_id: [u8; 16],
    /// See [`Function::DISABLED`].
    pub flags: u32,
}

/// One step of a rendezvous, as `Trace` shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since the machine started.
    pub time: u64,
    /// The kernel's number of the client's socket; 0 where it is not known.
    pub cookie: u64,
    /// Which step.
    pub kind: u32,
    /// Why not; 0 if it is none of a refusal.
    pub reason: Reason,
    /// The process that it happens to.
    pub pid: u32,
    /// The one at the other end; 0 where it is not known.
    pub peer: u32,
    /// Events that were lost before this one.
    pub lost: u32,
    /// The connection as that process has it: both ports, 0 where they are not known,
    pub ports: [u16; 2],
    /// and both addresses, of version 6 or mapped.
    pub addresses: [[u8; 16]; 2],
}

impl Event {
    /// A SYN carries an offer.
    pub const OFFERED: u32 = 1;
    /// The SYN-ACK says that the other end takes part.
    pub const ANSWERED: u32 = 2;
    /// It does not.
    pub const UNANSWERED: u32 = 3;
    /// The offer was handed to the server.
    pub const TAKEN: u32 = 4;
    /// It was kept from the server.
    pub const KEPT: u32 = 5;
    /// The daemon has passed memory to the server.
    pub const PASSED: u32 = 6;
    /// The daemon has refused a question.
    pub const REFUSED: u32 = 7;
    /// The server has said that it does not take the offer up.
    pub const DECLINED: u32 = 8;
}

impl Function {
    /// Takes no new connections.
    pub const DISABLED: u32 = 1;
}

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A process asks for its function.
    Hello {
        /// The fabric that it wants to be on; 0 for whichever it may.
        vchid: u16,
    },
    /// Memory for connections: from now on it can be claimed.
    Offer {
        /// Its number among this client's.
        number: u32,
        /// Bytes.
        size: u64,
        /// Who does not know it cannot claim the memory.
        nonce: u64,
    },
    /// A doorbell of offered memory.
    Hang {
        /// The memory's number.
        memory: u32,
        /// The doorbell's number in that memory.
        number: u32,
    },
    /// Asks for another client's memory.
    Claim {
        /// That client.
        owner: u32,
        /// The memory's number there.
        number: u32,
        /// What was said with the offer.
        nonce: u64,
    },
    /// Asks for a doorbell of claimed memory.
    Open {
        /// The memory's owner.
        owner: u32,
        /// Its number there.
        memory: u32,
        /// The doorbell's number.
        number: u32,
    },
    /// The memory cannot be claimed any more.
    Withdraw {
        /// Its number.
        number: u32,
    },
    /// Asks for the functions, one after the other. Behind the last one the answer is `Done`, or `Refused`
    /// with NOSMCDDEV if no connection is marked.
    List {
        /// So many were told already.
        after: u32,
    },
    /// The process wants its connections marked, and says so in a table of its own.
    Register {
        /// It has one, from an earlier connection: `Done` if that still serves.
        has_table: bool,
        /// What lies in the table that it was just passed; 0 for none.
        proof: u32,
    },
    /// A server is not going to take up what a client offered with a connection.
    Decline {
        /// That client.
        owner: u32,
        /// The kernel's number of its socket.
        cookie: u64,
        /// What was said with the offer.
        nonce: u64,
    },
    /// An operator takes a function away, or gives it back.
    Enable {
        /// Its number on the host.
        uid: u32,
        /// Whether it is to have connections.
        is_enabled: bool,
    },
    /// An operator wants to see what happens, from now on.
    Trace {
        /// At either end; 0 for any.
        pid: u32,
        /// At either end, as either has it; 0 for any.
        port: u16,
        /// At either end, as either has it, of version 6 or mapped; zeros for any.
        address: [u8; 16],
    },
    /// No.
    Refused(Reason),
    /// The function that the process has.
    Welcome {
        /// By which its offers are known to others.
        client: u32,
        /// The fabric.
        vchid: u16,
        /// The function's number there.
        fid: u16,
        /// Its number on the host.
        uid: u32,
        /// How many connections it may have.
        connections: u32,
        /// The GID of its ISM device.
        gid: u64,
    },
    /// Yes; for `List`: there are no more, and connections are marked.
    Done,
    /// Here it is.
    Passed {
        /// Bytes of the memory; 0 for a doorbell.
        size: u64,
    },
    /// One function.
    Function(Function),
    /// Something has happened.
    Event(Event),
}

impl Message {
    fn kind(&self) -> u8 {
        match self {
            Message::Hello { .. } => 1,
            Message::Offer { .. } => 2,
            Message::Hang { .. } => 3,
            Message::Claim { .. } => 4,
            Message::Open { .. } => 5,
            Message::Withdraw { .. } => 6,
            Message::List { .. } => 7,
            Message::Register { .. } => 8,
            Message::Decline { .. } => 9,
            Message::Enable { .. } => 10,
            Message::Trace { .. } => 11,
            Message::Refused(_) => 128,
            Message::Welcome { .. } => 129,
            Message::Done => 130,
            Message::Passed { .. } => 131,
            Message::Function(_) => 132,
            Message::Event(_) => 133,
        }
    }

    /// Whether a descriptor goes with it.
    pub fn has_descriptor(&self) -> bool {
        matches!(self, Message::Offer { .. } | Message::Hang { .. } | Message::Passed { .. })
    }

    /// Bytes that it takes.
    pub fn len(&self) -> usize {
        HEAD + match self {
            Message::Done => 0,
            Message::Hello { .. } => 4,
            Message::Hang { .. }
            | Message::Withdraw { .. }
            | Message::List { .. }
            | Message::Register { .. }
            | Message::Enable { .. }
            | Message::Refused(_)
            | Message::Passed { .. } => 8,
            Message::Claim { .. } | Message::Open { .. } => 16,
            Message::Offer { .. }
            | Message::Decline { .. }
            | Message::Trace { .. }
            | Message::Welcome { .. } => 24,
            Message::Function(_) => 48,
            Message::Event(_) => 72,
        }
    }

    /// Never: every message has a head.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes it with its tag; returns the length. Error: [`Error::NoRoom`].
    pub fn emit(&self, tag: u32, into: &mut [u8]) -> Result<usize> {
        let mut to = Writer::new(into);
        to.u8(VERSION)?;
        to.u8(self.kind())?;
        to.u16(0)?;
        to.u32(tag)?;
        self.emit_body(&mut to)?;
        Ok(to.len())
    }

    fn emit_body(&self, to: &mut Writer<'_>) -> Result<()> {
        match *self {
            Message::Hello { vchid } => [vchid, 0].into_iter().try_for_each(|word| to.u16(word)),
            Message::Offer { number, size, nonce } => {
                [number, 0].into_iter().try_for_each(|word| to.u32(word))?;
                [size, nonce].into_iter().try_for_each(|word| to.u64(word))
            }
            Message::Hang { memory, number } => {
                [memory, number].into_iter().try_for_each(|word| to.u32(word))
            }
            Message::Claim { owner, number, nonce } => {
                [owner, number].into_iter().try_for_each(|word| to.u32(word))?;
                to.u64(nonce)
            }
            Message::Open { owner, memory, number } => {
                [owner, memory, number, 0].into_iter().try_for_each(|word| to.u32(word))
            }
            Message::Withdraw { number: word } | Message::List { after: word } => {
                [word, 0].into_iter().try_for_each(|word| to.u32(word))
            }
            Message::Register { has_table, proof } => {
                [u32::from(has_table), proof].into_iter().try_for_each(|word| to.u32(word))
            }
            Message::Enable { uid, is_enabled } => {
                [uid, u32::from(is_enabled)].into_iter().try_for_each(|word| to.u32(word))
            }
            Message::Decline { owner, cookie, nonce } => {
                [owner, 0].into_iter().try_for_each(|word| to.u32(word))?;
                [cookie, nonce].into_iter().try_for_each(|word| to.u64(word))
            }
            Message::Trace { pid, port, address } => {
                to.u32(pid)?;
                [port, 0].into_iter().try_for_each(|word| to.u16(word))?;
                to.put(&address)
            }
            Message::Refused(reason) => [reason.0, 0].into_iter().try_for_each(|word| to.u32(word)),
            Message::Welcome { client, vchid, fid, uid, connections, gid } => {
                to.u32(client)?;
                [vchid, fid].into_iter().try_for_each(|word| to.u16(word))?;
                [uid, connections].into_iter().try_for_each(|word| to.u32(word))?;
                to.u64(gid)
            }
            Message::Done => Ok(()),
            Message::Passed { size } => to.u64(size),
            Message::Function(f) => {
                [f.vchid, f.fid].into_iter().try_for_each(|word| to.u16(word))?;
                let words = [f.uid, f.user, f.processes, f.connections, f.limit];
                words.into_iter().try_for_each(|word| to.u32(word))?;
                to.put(&f.pnet_id)?;
                [f.flags, 0].into_iter().try_for_each(|word| to.u32(word))
            }
            Message::Event(e) => {
                [e.time, e.cookie].into_iter().try_for_each(|word| to.u64(word))?;
                let words = [e.kind, e.reason.0, e.pid, e.peer, e.lost];
                words.into_iter().try_for_each(|word| to.u32(word))?;
                e.ports.into_iter().try_for_each(|word| to.u16(word))?;
                e.addresses.iter().try_for_each(|address| to.put(address))
            }
        }
    }

    /// Reads a packet: the tag and the message. Errors: [`Error::BadVersion`], [`Error::BadType`],
    /// [`Error::Truncated`], [`Error::Trailing`], [`Error::Reserved`] where something must be zero.
    pub fn parse(bytes: &[u8]) -> Result<(u32, Self)> {
        let mut from = Reader::new(bytes);
        let (version, kind) = (from.u8()?, from.u8()?);
        if version != VERSION {
            return Err(Error::BadVersion(version));
        }
        zero16(&mut from)?;
        let tag = from.u32()?;
        let message = Self::parse_body(kind, &mut from)?;
        match bytes.len() - message.len() {
            0 => Ok((tag, message)),
            extra => Err(Error::Trailing { extra }),
        }
    }

    fn parse_body(kind: u8, from: &mut Reader<'_>) -> Result<Self> {
        Ok(match kind {
            1 => Message::Hello { vchid: with_zero16(from)? },
            2 => {
                let number = with_zero32(from)?;
                Message::Offer { number, size: from.u64()?, nonce: from.u64()? }
            }
            3 => Message::Hang { memory: from.u32()?, number: from.u32()? },
            4 => Message::Claim { owner: from.u32()?, number: from.u32()?, nonce: from.u64()? },
            5 => Message::Open { owner: from.u32()?, memory: from.u32()?, number: with_zero32(from)? },
            6 => Message::Withdraw { number: with_zero32(from)? },
            7 => Message::List { after: with_zero32(from)? },
            8 => match from.u32()? {
                has_table @ 0..=1 => Message::Register { has_table: has_table == 1, proof: from.u32()? },
                _ => return Err(Error::Reserved),
            },
            9 => {
                let owner = with_zero32(from)?;
                Message::Decline { owner, cookie: from.u64()?, nonce: from.u64()? }
            }
            10 => {
                let uid = from.u32()?;
                match from.u32()? {
                    is_enabled @ 0..=1 => Message::Enable { uid, is_enabled: is_enabled == 1 },
                    _ => return Err(Error::Reserved),
                }
            }
            11 => {
                let (pid, port) = (from.u32()?, with_zero16(from)?);
                Message::Trace { pid, port, address: from.array()? }
            }
            128 => Message::Refused(Reason(with_zero32(from)?)),
            129 => Message::Welcome {
                client: from.u32()?,
                vchid: from.u16()?,
                fid: from.u16()?,
                uid: from.u32()?,
                connections: from.u32()?,
                gid: from.u64()?,
            },
            130 => Message::Done,
            131 => Message::Passed { size: from.u64()? },
            132 => Message::Function(Function {
                vchid: from.u16()?,
                fid: from.u16()?,
                uid: from.u32()?,
                user: from.u32()?,
                processes: from.u32()?,
                connections: from.u32()?,
                limit: from.u32()?,
                pnet_id: from.array()?,
                flags: with_zero32(from)?,
            }),
            133 => Message::Event(Event {
                time: from.u64()?,
                cookie: from.u64()?,
                kind: from.u32()?,
                reason: Reason(from.u32()?),
                pid: from.u32()?,
                peer: from.u32()?,
                lost: from.u32()?,
                ports: [from.u16()?, from.u16()?],
                addresses: [from.array()?, from.array()?],
            }),
            unknown => return Err(Error::BadType(unknown)),
        })
    }
}

fn zero16(from: &mut Reader<'_>) -> Result<()> {
    if from.u16()? == 0 { Ok(()) } else { Err(Error::Reserved) }
}

fn with_zero16(from: &mut Reader<'_>) -> Result<u16> {
    let value = from.u16()?;
    zero16(from).map(|()| value)
}

fn with_zero32(from: &mut Reader<'_>) -> Result<u32> {
    let value = from.u32()?;
    if from.u32()? == 0 { Ok(value) } else { Err(Error::Reserved) }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn all() -> Vec<Message> {
        vec![
            Message::Hello { vchid: 0xFF01 },
            Message::Offer { number: 1, size: 0x1_0000_0002, nonce: 0x0304_0506_0708_090A },
            Message::Hang { memory: 2, number: 3 },
            Message::Claim { owner: 4, number: 5, nonce: 6 },
            Message::Open { owner: 7, memory: 8, number: 9 },
            Message::Withdraw { number: 10 },
            Message::List { after: 11 },
            Message::Register { has_table: true, proof: 7 },
            Message::Decline { owner: 18, cookie: 19, nonce: 20 },
            Message::Enable { uid: 21, is_enabled: true },
            Message::Trace { pid: 22, port: 23, address: [24; 16] },
            Message::Event(Event {
                time: 25,
                cookie: 26,
                kind: Event::KEPT,
                reason: Reason::PEERDECL,
                pid: 27,
                peer: 28,
                lost: 29,
                ports: [30, 31],
                addresses: [[32; 16], [33; 16]],
            }),
            Message::Refused(Reason::MAX_DMB),
            Message::Welcome { client: 12, vchid: 13, fid: 14, uid: 15, connections: 1920, gid: 16 },
            Message::Done,
            Message::Passed { size: 17 },
            Message::Function(Function {
                vchid: 1,
                fid: 2,
                uid: 3,
                user: 4,
                processes: 5,
                connections: 6,
                limit: 7,
                pnet_id: *b"NET1\0\0\0\0\0\0\0\0\0\0\0\0",
                flags: Function::DISABLED,
            }),
        ]
    }

    #[test]
    fn every_message_comes_back_as_it_was_with_its_tag() {
        for message in all() {
            let mut bytes = [0xAA; MESSAGE_MAX];
            let len = message.emit(0xC0FF_EE00, &mut bytes).unwrap();
            assert_eq!(len, message.len(), "{message:?}");
            assert_eq!(Message::parse(&bytes[..len]), Ok((0xC0FF_EE00, message)));
            assert!(matches!(message.emit(0, &mut bytes[..len - 1]), Err(Error::NoRoom { .. })));
        }
    }

    #[test]
    fn every_other_length_is_refused() {
        for message in all() {
            let mut bytes = [0; MESSAGE_MAX + 1];
            let len = message.emit(1, &mut bytes).unwrap();
            for short in 0..len {
                let refused = Message::parse(&bytes[..short]);
                assert!(matches!(refused, Err(Error::Truncated { .. })), "{message:?} {short}");
            }
            assert_eq!(Message::parse(&bytes[..=len]), Err(Error::Trailing { extra: 1 }));
        }
    }

    #[test]
    fn other_versions_kinds_and_reserved_bytes_are_refused() {
        let mut bytes = [0; MESSAGE_MAX];
        let len = Message::Withdraw { number: 1 }.emit(1, &mut bytes).unwrap();
        for (at, expected) in
            [(0, Error::BadVersion(0x80 | VERSION)), (1, Error::BadType(0x86)), (2, Error::Reserved)]
        {
            bytes[at] ^= 0x80;
            assert_eq!(Message::parse(&bytes[..len]), Err(expected), "{at}");
            bytes[at] ^= 0x80;
        }
        bytes[len - 1] = 1;
        assert_eq!(Message::parse(&bytes[..len]), Err(Error::Reserved));
    }

    /// What is no message is refused, and what is taken for one says every bit of what was sent.
    #[test]
    fn every_bit_counts() {
        for message in all() {
            let mut bytes = [0; MESSAGE_MAX];
            let len = message.emit(1, &mut bytes).unwrap();
            for bit in 0..len * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                if let Ok((tag, other)) = Message::parse(&bytes[..len]) {
                    let mut again = [0; MESSAGE_MAX];
                    assert_eq!(other.emit(tag, &mut again), Ok(len));
                    assert_eq!(again[..len], bytes[..len], "{message:?} {bit}");
                }
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    /// One message to the byte, so that the layout does not change unseen.
    #[test]
    fn golden() {
        let mut bytes = [0; MESSAGE_MAX];
        let len = Message::Claim { owner: 1, number: 2, nonce: 3 }.emit(4, &mut bytes).unwrap();
        let expected = [1, 4, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3];
        assert_eq!(bytes[..len], expected);
    }
}
