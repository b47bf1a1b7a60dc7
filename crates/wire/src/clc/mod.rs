//! CLC: the handshake that turns a TCP connection into an SMC one (RFC 7609 appendix A.2; version 2 and 2.1
//! as in IBM SMC Version 2 and `net/smc/smc_clc.h`). Owns the frame every message shares: header, length,
//! trailer. Big endian throughout.
//!
//! | off | size | header field |
//! |---|---|---|
//! | 0 | 4 | eyecatcher, repeated by the 4-byte trailer |
//! | 4 | 1 | type |
//! | 5 | 2 | length of the whole message |
//! | 7 | 1 | version (high nibble), four flag bits (low nibble) |

mod decline;
mod endpoint;
mod first_contact;
mod ism;
mod proposal;

pub use decline::Decline;
pub use endpoint::{Accept, Confirm, End, Endpoint, SmcD, SmcDv2, SmcR, SmcRv2};
pub use first_contact::{FirstContact, FirstContactV21, Os};
pub use ism::{IsmDevice, IsmEntry, devices, push_device};
pub use proposal::{Ipv6Prefix, PrefixArea, Proposal, SmcDArea, SmcDv2Extension, V2Extension};

use crate::bytes::{Reader, Writer, nibbles};
use crate::error::{Error, Result};

/// "SMCR" in EBCDIC.
pub const SMCR: [u8; 4] = [0xE2, 0xD4, 0xC3, 0xD9];
/// "SMCD" in EBCDIC.
pub const SMCD: [u8; 4] = [0xE2, 0xD4, 0xC3, 0xC4];

/// Bytes of the trailer.
const TRAILER_LEN: usize = 4;

/// Feature mask bit: an emulated ISM device (128-bit GID) is supported. `net/smc/smc_clc.h`, v2.1.
pub const FEATURE_EMULATED_ISM: u16 = 0x0001;

/// The unique id of an SMC-R peer: instance number 2, MAC 6. All zero in pure SMC-D.
pub type SystemId = [u8; 8];

/// Type of a CLC message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Client to server: what the client can do.
    Proposal = 1,
    /// Server to client: what the server chose.
    Accept = 2,
    /// Client to server: the client's half of it.
    Confirm = 3,
    /// Either way: TCP it is.
    Decline = 4,
}

impl Kind {
    fn from_byte(byte: u8) -> Result<Self> {
        [Self::Proposal, Self::Accept, Self::Confirm, Self::Decline]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
            .ok_or(Error::BadType(byte))
    }
}

/// Which of SMC-R and SMC-D a PROPOSAL offers, separately for version 1 and version 2. Two bits, all values
/// known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Modes {
    /// SMC-R only.
    R = 0,
    /// SMC-D only.
    D = 1,
    /// Neither.
    #[default]
    N = 2,
    /// Both.
    B = 3,
}

impl Modes {
    /// From the low two bits of `bits`.
    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::R,
            1 => Self::D,
            2 => Self::N,
            _ => Self::B,
        }
    }

    /// Whether SMC-D is offered.
    pub const fn offers_d(self) -> bool {
        matches!(self, Self::D | Self::B)
    }

    /// Whether SMC-R is offered.
    pub const fn offers_r(self) -> bool {
        matches!(self, Self::R | Self::B)
    }
}

/// The first eight bytes of every message. A carrier on TCP peeks these and then knows how many bytes belong
/// to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// `SMCR` or `SMCD`.
    pub eyecatcher: [u8; 4],
    /// Message type.
    pub kind: Kind,
    /// Length of the whole message in bytes, trailer included.
    pub length: u16,
    /// Version, 1 to 15.
    pub version: u8,
    /// The low four bits of byte 7; each message gives them its own meaning.
    pub flags: u8,
}

impl Header {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// From the first eight bytes of a message; later bytes are not looked at.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes);
        let eyecatcher = r.array()?;
        if eyecatcher != SMCR && eyecatcher != SMCD {
            return Err(Error::BadEyecatcher);
        }
        let kind = Kind::from_byte(r.u8()?)?;
        let (length, last) = (r.u16()?, r.u8()?);
        let (version, flags) = (last >> 4, last & 0x0F);
        if version == 0 {
            Err(Error::BadVersion(0))
        } else {
            Ok(Self { eyecatcher, kind, length, version, flags })
        }
    }
}

/// Checks header, length and trailer of one whole message of type `kind`; returns the header and what is
/// between.
fn open(bytes: &[u8], kind: Kind) -> Result<(Header, &[u8])> {
    let header = Header::parse(bytes)?;
    if header.kind != kind {
        return Err(Error::BadType(header.kind as u8));
    }
    let (need, have) = (usize::from(header.length), bytes.len());
    if need < Header::LEN + TRAILER_LEN {
        return Err(Error::BadLength { want: Header::LEN + TRAILER_LEN, have: need });
    }
    if have > need {
        return Err(Error::Trailing { extra: have - need });
    }
    let (message, trailer) = bytes.split_last_chunk().ok_or(Error::Truncated { need, have })?;
    match message.get(Header::LEN..) {
        _ if have < need => Err(Error::Truncated { need, have }),
        Some(body) if *trailer == header.eyecatcher => Ok((header, body)),
        _ => Err(Error::BadTrailer),
    }
}

/// Refuses a body that is not as long as the sections it announces. `want` counts the body only.
fn expect_body(body: &[u8], want: usize) -> Result<()> {
    let frame = Header::LEN + TRAILER_LEN;
    if body.len() == want {
        return Ok(());
    }
    Err(Error::BadLength { want: want + frame, have: body.len() + frame })
}

/// Writes header, the sections written by `body`, and trailer.
fn seal(
    bytes: &mut [u8],
    header: &Header,
    body: impl FnOnce(&mut Writer<'_>) -> Result<()>,
) -> Result<usize> {
    let mut w = Writer::new(bytes);
    w.put(&header.eyecatcher)?;
    w.u8(header.kind as u8)?;
    w.u16(header.length)?;
    w.u8(nibbles(header.version, header.flags)?)?;
    body(&mut w)?;
    w.put(&header.eyecatcher)?;
    if w.len() == usize::from(header.length) { Ok(w.len()) } else { Err(Error::Inconsistent) }
}

/// Any CLC message. As large as its largest variant on purpose: nothing here allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    clippy::large_enum_variant,
    reason = "hooks must not allocate; values live on the stack or in a mailbox"
)]
pub enum Message {
    /// See [`Proposal`].
    Proposal(Proposal),
    /// See [`Accept`].
    Accept(Accept),
    /// See [`Confirm`].
    Confirm(Confirm),
    /// See [`Decline`].
    Decline(Decline),
}

impl Message {
    /// From exactly one whole message.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Ok(match Header::parse(bytes)?.kind {
            Kind::Proposal => Self::Proposal(Proposal::parse(bytes)?),
            Kind::Accept => Self::Accept(Accept::parse(bytes)?),
            Kind::Confirm => Self::Confirm(Confirm::parse(bytes)?),
            Kind::Decline => Self::Decline(Decline::parse(bytes)?),
        })
    }

    /// Bytes this message needs.
    #[allow(clippy::len_without_is_empty, reason = "a message is never empty")]
    pub fn len(&self) -> usize {
        match self {
            Self::Proposal(m) => m.len(),
            Self::Accept(m) => m.len(),
            Self::Confirm(m) => m.len(),
            Self::Decline(m) => m.len(),
        }
    }

    /// Writes the message to the front of `bytes`; returns its length.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize> {
        match self {
            Self::Proposal(m) => m.emit(bytes),
            Self::Accept(m) => m.emit(bytes),
            Self::Confirm(m) => m.emit(bytes),
            Self::Decline(m) => m.emit(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLINE: [u8; 28] = [
        0xE2, 0xD4, 0xC3, 0xD9, 4, 0, 28, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0xE2, 0xD4,
        0xC3, 0xD9,
    ];

    fn with(at: usize, byte: u8) -> [u8; 28] {
        let mut bytes = DECLINE;
        bytes[at] = byte;
        bytes
    }

    #[test]
    fn each_part_of_the_frame_has_its_own_error() {
        assert!(Message::parse(&DECLINE).is_ok());
        let error = |bytes: &[u8]| Message::parse(bytes).unwrap_err();
        assert_eq!(error(&with(0, 0)), Error::BadEyecatcher);
        assert_eq!(error(&with(4, 5)), Error::BadType(5));
        assert_eq!(error(&with(6, 27)), Error::Trailing { extra: 1 });
        assert_eq!(error(&with(6, 29)), Error::Truncated { need: 29, have: 28 });
        assert_eq!(error(&with(6, 11)), Error::BadLength { want: 12, have: 11 });
        assert_eq!(error(&with(7, 0)), Error::BadVersion(0));
        assert_eq!(error(&with(7, 0x20)), Error::BadLength { want: 44, have: 28 });
        assert_eq!(error(&with(27, 0xC4)), Error::BadTrailer);
        assert_eq!(Proposal::parse(&DECLINE), Err(Error::BadType(4)));
        assert_eq!(error(&DECLINE[..7]), Error::Truncated { need: 1, have: 0 });
    }

    #[test]
    fn modes_are_their_two_bits() {
        for bits in 0..4 {
            assert_eq!(Modes::from_bits(bits) as u8, bits);
        }
    }
}
