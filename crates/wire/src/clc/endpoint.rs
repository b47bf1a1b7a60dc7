//! ACCEPT and CONFIRM: each side's half of the agreement. Same layout, different type byte; the GID list
//! exists in CONFIRM only. Both come after the version is negotiated, so their length is exact.
//!
//! | SMC-D | size | field | SMC-R | size | field |
//! |---|---|---|---|---|---|
//! | 8 | 8 | GID | 8 | 8 | system id |
//! | 16 | 8 | DMB token | 16 | 16 | GID |
//! | 24 | 1 | DMBE index | 32 | 6 | MAC |
//! | 25 | 1 | buffer class (high), reserved | 38 | 3 | queue pair |
//! | 26 | 2 | reserved | 41 | 4+1 | RMB key, RMBE index |
//! | 28 | 4 | link group id | 46 | 4 | alert token |
//! | 32 | 12 | v1: reserved | 50 | 1+1 | buffer class (high), MTU (low), reserved |
//! | 32 | 2 | v2: CHID | 52 | 8+1 | RMB address, reserved |
//! | 34 | 32 | v2: EID | 61 | 3 | packet sequence number |
//! | 66 | 8 | v2: GID extension | 64 | 32+8 | v2: EID, reserved |
//!
//! Then, in version 2 with the first contact bit: the first contact extension; in an SMC-R CONFIRM also the
//! GID list (count 1, reserved 3, 16 per GID).

use super::first_contact::FirstContact;
use super::{Header, Kind, SMCD, SMCR, SystemId, TRAILER_LEN, expect_body, open, seal};
use crate::buffer_class::BufferClass;
use crate::bytes::{Reader, Writer, nibbles};
use crate::eid::Eid;
use crate::error::{Error, Result};
use crate::limits::ROCE_GIDS;
use crate::list::List;

/// Header bit: first contact of the two peers.
const FIRST_CONTACT: u8 = 0x08;
/// Header bit without a meaning.
const SPARE: u8 = 0x04;

/// The server's half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept(pub Endpoint);

/// The client's half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirm(pub Endpoint);

/// What one side contributes to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Version of the message, 1 to 15.
    pub version: u8,
    /// Whether a link group is created.
    pub is_first_contact: bool,
    /// The memory the peer may write to.
    pub end: End,
    /// Present exactly in version 2 with first contact.
    pub first_contact: Option<FirstContact>,
    /// Bit 2 of byte 7.
    pub spare: bool,
}

/// The two kinds of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A DMB of an ISM device.
    SmcD(SmcD),
    /// An RMB behind a queue pair.
    SmcR(SmcR),
}

/// An SMC-D end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmcD {
    /// GID of the sender's device.
    pub gid: u64,
    /// Token of the sender's DMB.
    pub token: u64,
    /// Element in the DMB; Linux has one per DMB, number 0.
    pub dmbe_idx: u8,
    /// Size of the DMB.
    pub class: BufferClass,
    /// The sender's link group id.
    pub link_group: u32,
    /// Present exactly from version 2 on.
    pub v2: Option<SmcDv2>,
    /// Low nibble of byte 25, bytes 26 and 27.
    pub reserved: [u8; 3],
    /// Bytes 32 to 43 of version 1; zero from version 2 on.
    pub reserved_v1: [u8; 12],
}

/// What version 2 adds to an SMC-D end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmcDv2 {
    /// The ISM fabric.
    pub chid: u16,
    /// The EID both sides have.
    pub eid: Eid,
    /// Extension of the GID (emulated ISM), else 0.
    pub gid_ext: u64,
}

/// An SMC-R end (RFC 7609 appendix A.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmcR {
    /// The sender's system id.
    pub system_id: SystemId,
    /// GID of the RoCE port.
    pub gid: [u8; 16],
    /// MAC of the RoCE port.
    pub mac: [u8; 6],
    /// Queue pair number, 24 bits.
    pub queue_pair: u32,
    /// Remote key of the RMB.
    pub rmb_key: u32,
    /// Element in the RMB; Linux has one per RMB, number 1.
    pub rmbe_idx: u8,
    /// Alert token: the connection's id in CDC messages.
    pub alert_token: u32,
    /// Size of the element.
    pub class: BufferClass,
    /// MTU of the path: 1 is 256 bytes, 5 is 4096.
    pub mtu: u8,
    /// Address of the RMB.
    pub rmb_address: u64,
    /// Initial packet sequence number, 24 bits.
    pub psn: u32,
    /// Bytes 51 and 60.
    pub reserved: [u8; 2],
    /// Present exactly from version 2 on.
    pub v2: Option<SmcRv2>,
    /// CONFIRM of version 2 with first contact only: the client's GIDs, and three reserved bytes.
    pub gids: Option<(List<[u8; 16], ROCE_GIDS>, [u8; 3])>,
}

/// What version 2 adds to an SMC-R end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmcRv2 {
    /// The EID both sides have.
    pub eid: Eid,
    /// Bytes 96 to 103.
    pub reserved: [u8; 8],
}

macro_rules! message {
    ($name:ident) => {
        impl $name {
            /// From exactly one message.
            pub fn parse(bytes: &[u8]) -> Result<Self> {
                Endpoint::parse(bytes, Kind::$name).map(Self)
            }

            /// Bytes this message needs.
            #[allow(clippy::len_without_is_empty, reason = "a message is never empty")]
            pub fn len(&self) -> usize {
                self.0.len()
            }

            /// Writes the message to the front of `bytes`; returns its length.
            pub fn emit(&self, bytes: &mut [u8]) -> Result<usize> {
                self.0.emit(bytes, Kind::$name)
            }
        }
    };
}
message!(Accept);
message!(Confirm);

impl Endpoint {
    fn parse(bytes: &[u8], kind: Kind) -> Result<Self> {
        let (header, body) = open(bytes, kind)?;
        let is_first_contact = header.flags & FIRST_CONTACT != 0;
        let extended = header.version >= 2 && is_first_contact;
        let mut r = Reader::new(body);
        let mut end = End::parse(&mut r, &header)?;
        let first_contact = if extended { Some(FirstContact::parse(&mut r)?) } else { None };
        if let End::SmcR(smcr) = &mut end
            && extended
            && kind == Kind::Confirm
        {
            smcr.gids = Some(parse_gids(&mut r)?);
        }
        let spare = header.flags & SPARE != 0;
        let endpoint = Self { version: header.version, is_first_contact, end, first_contact, spare };
        expect_body(body, endpoint.len() - Header::LEN - TRAILER_LEN)?;
        Ok(endpoint)
    }

    fn len(&self) -> usize {
        let extension = self.first_contact.as_ref().map_or(0, FirstContact::len);
        Header::LEN + self.end.len() + extension + TRAILER_LEN
    }

    fn emit(&self, bytes: &mut [u8], kind: Kind) -> Result<usize> {
        self.check(kind)?;
        let (eyecatcher, mode) = self.end.eyecatcher();
        let first = if self.is_first_contact { FIRST_CONTACT } else { 0 };
        let flags = mode | first | if self.spare { SPARE } else { 0 };
        let header = Header { eyecatcher, kind, length: self.len() as u16, version: self.version, flags };
        seal(bytes, &header, |w| {
            self.end.emit(w)?;
            self.first_contact.iter().try_for_each(|fce| fce.emit(w))?;
            self.end.emit_gids(w)
        })
    }

    /// Whether the optional parts are those that version, kind and first contact call for.
    fn check(&self, kind: Kind) -> Result<()> {
        let v2 = self.version >= 2;
        let extended = v2 && self.is_first_contact;
        let end_fits = match &self.end {
            End::SmcD(d) => d.v2.is_some() == v2 && (!v2 || d.reserved_v1 == [0; 12]),
            End::SmcR(r) => r.v2.is_some() == v2 && r.gids.is_some() == (extended && kind == Kind::Confirm),
        };
        let fits = end_fits && self.first_contact.is_some() == extended;
        if fits { Ok(()) } else { Err(Error::Inconsistent) }
    }
}

impl End {
    fn parse(r: &mut Reader<'_>, header: &Header) -> Result<Self> {
        let v2 = header.version >= 2;
        match (header.flags & 3, header.eyecatcher) {
            (0, SMCR) => Ok(Self::SmcR(SmcR::parse(r, v2)?)),
            (1, SMCD) => Ok(Self::SmcD(SmcD::parse(r, v2)?)),
            (0 | 1, _) => Err(Error::BadEyecatcher),
            (mode, _) => Err(Error::BadMode(mode)),
        }
    }

    /// Eyecatcher and mode bits.
    const fn eyecatcher(&self) -> ([u8; 4], u8) {
        match self {
            Self::SmcR(_) => (SMCR, 0),
            Self::SmcD(_) => (SMCD, 1),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::SmcD(d) => 24 + if d.v2.is_some() { 42 } else { 12 },
            Self::SmcR(r) => {
                let gids = r.gids.as_ref().map_or(0, |(gids, _)| 4 + gids.len() * 16);
                56 + if r.v2.is_some() { 40 } else { 0 } + gids
            }
        }
    }

    fn emit(&self, w: &mut Writer<'_>) -> Result<()> {
        match self {
            Self::SmcD(d) => d.emit(w),
            Self::SmcR(r) => r.emit(w),
        }
    }

    fn emit_gids(&self, w: &mut Writer<'_>) -> Result<()> {
        let Self::SmcR(SmcR { gids: Some((gids, reserved)), .. }) = self else { return Ok(()) };
        w.u8(gids.count())?;
        w.put(reserved)?;
        gids.iter().try_for_each(|gid| w.put(gid))
    }
}

fn parse_gids(r: &mut Reader<'_>) -> Result<(List<[u8; 16], ROCE_GIDS>, [u8; 3])> {
    let (count, reserved) = (r.u8()?, r.array()?);
    Ok((List::read(count, || r.array())?, reserved))
}

impl SmcD {
    fn parse(r: &mut Reader<'_>, v2: bool) -> Result<Self> {
        let (gid, token, dmbe_idx, size) = (r.u64()?, r.u64()?, r.u8()?, r.u8()?);
        let [a, b] = r.array()?;
        let mut end = Self {
            gid,
            token,
            dmbe_idx,
            class: BufferClass::from_high_nibble(size),
            link_group: r.u32()?,
            reserved: [size & 0x0F, a, b],
            ..Self::default()
        };
        if v2 {
            end.v2 = Some(SmcDv2 { chid: r.u16()?, eid: Eid(r.array()?), gid_ext: r.u64()? });
        } else {
            end.reserved_v1 = r.array()?;
        }
        Ok(end)
    }

    fn emit(&self, w: &mut Writer<'_>) -> Result<()> {
        let [low, rest @ ..] = self.reserved;
        w.u64(self.gid)?;
        w.u64(self.token)?;
        w.u8(self.dmbe_idx)?;
        w.u8(nibbles(self.class.class(), low)?)?;
        w.put(&rest)?;
        w.u32(self.link_group)?;
        let Some(v2) = &self.v2 else { return w.put(&self.reserved_v1) };
        w.u16(v2.chid)?;
        w.put(&v2.eid.0)?;
        w.u64(v2.gid_ext)
    }
}

impl SmcR {
    fn parse(r: &mut Reader<'_>, v2: bool) -> Result<Self> {
        let mut end = Self { system_id: r.array()?, gid: r.array()?, mac: r.array()?, ..Self::default() };
        end.queue_pair = r.u24()?;
        end.rmb_key = r.u32()?;
        end.rmbe_idx = r.u8()?;
        end.alert_token = r.u32()?;
        let sizes = r.u8()?;
        (end.class, end.mtu) = (BufferClass::from_high_nibble(sizes), sizes & 0x0F);
        let first = r.u8()?;
        end.rmb_address = r.u64()?;
        end.reserved = [first, r.u8()?];
        end.psn = r.u24()?;
        if v2 {
            end.v2 = Some(SmcRv2 { eid: Eid(r.array()?), reserved: r.array()? });
        }
        Ok(end)
    }

    fn emit(&self, w: &mut Writer<'_>) -> Result<()> {
        w.put(&self.system_id)?;
        w.put(&self.gid)?;
        w.put(&self.mac)?;
        w.u24(self.queue_pair)?;
        w.u32(self.rmb_key)?;
        w.u8(self.rmbe_idx)?;
        w.u32(self.alert_token)?;
        w.u8(nibbles(self.class.class(), self.mtu)?)?;
        let [first, second] = self.reserved;
        w.u8(first)?;
        w.u64(self.rmb_address)?;
        w.u8(second)?;
        w.u24(self.psn)?;
        let Some(v2) = &self.v2 else { return Ok(()) };
        w.put(&v2.eid.0)?;
        w.put(&v2.reserved)
    }
}
