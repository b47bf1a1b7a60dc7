//! PROPOSAL: what the client can do. Sections are found by offsets, so their order is the sender's; ours is
//! the table's. Owns: every offset is checked against the message, and the length equals the sum of the
//! sections (as Linux demands).
//!
//! | section | size | present when |
//! |---|---|---|
//! | header, system id 8, GID 16, MAC 6, IP area offset 2 (from 40) | 40 | always |
//! | SMC-D area: GID 8, CHID 2, v2 offset 2 (from here on), vendor 3+5, reserved 20 | 40 | version 2, or IP area offset 40 |
//! | IP area: subnet 4, length 1, reserved 2, count 1, then 16+1 each | 8+17n | version 1 modes offered |
//! | v2 extension (table in `V2Extension`) | 40+32n | v2 offset not 0 |
//! | SMC-Dv2 extension: SEID 32, reserved 16, then GID 8 and CHID 2 each | 48+10n | its offset not 0 |

use super::ism::IsmEntry;
use super::{Header, Kind, Modes, SMCR, SystemId, TRAILER_LEN, expect_body, open, seal};
use crate::bytes::{Reader, Writer, nibbles};
use crate::eid::Eid;
use crate::error::{Error, Result};
use crate::limits::{IPV6_PREFIXES, ISM_GIDS, USER_EIDS};
use crate::list::List;

/// Body bytes of the fixed part.
const BASE: usize = 32;
const SMCD_AREA: usize = 40;
/// Where the v2 offset starts to count: the end of its own field, in the SMC-D area.
const V2_ORIGIN: usize = BASE + 12;
/// Where the SMC-Dv2 offset starts to count, inside the v2 extension.
const SMCDV2_ORIGIN: usize = 8;

/// What the client can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proposal {
    /// Version of the message, 1 to 15.
    pub version: u8,
    /// Version 1 modes offered.
    pub v1: Modes,
    /// Version 2 modes offered (in a version 1 message: two flag bits without effect).
    pub v2: Modes,
    /// The client's system id; zero without SMC-R.
    pub system_id: SystemId,
    /// GID of the client's RoCE port for version 1.
    pub roce_gid: [u8; 16],
    /// Its MAC.
    pub mac: [u8; 6],
    /// The SMC-D area; always present in version 2.
    pub smcd: Option<SmcDArea>,
    /// The IP area; present exactly when `v1` offers something.
    pub prefixes: Option<PrefixArea>,
    /// The offset of an IP area that is not there (no `v1` modes): some senders write 40, Linux writes 0.
    pub unused_ip_offset: u16,
    /// The v2 extension; a peer that offers version 2 without it is refused by `proto`, not here.
    pub v2_ext: Option<V2Extension>,
}

/// The SMC-D area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmcDArea {
    /// GID of a native ISM device for version 1.
    pub gid: u64,
    /// Its CHID.
    pub chid: u16,
    /// Vendor id.
    pub vendor_oui: [u8; 3],
    /// Vendor experimental options.
    pub vendor_options: [u8; 5],
    /// Bytes 20 to 39.
    pub reserved: [u8; 20],
}

/// The client's networks; version 1 requires both ends in one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefixArea {
    /// IPv4 network of the connection, 0 with IPv6.
    pub subnet: u32,
    /// Its prefix length.
    pub prefix_len: u8,
    /// Bytes 5 and 6.
    pub reserved: [u8; 2],
    /// IPv6 networks of the device.
    pub ipv6: List<Ipv6Prefix, IPV6_PREFIXES>,
}

/// One IPv6 network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ipv6Prefix {
    /// Network address.
    pub address: [u8; 16],
    /// Prefix length.
    pub len: u8,
}

/// The v2 extension: EID count 1, GID count 1, reserved 1, release and SEID bit 1, reserved 2, SMC-Dv2 offset
/// 2, GID 16, v2.1 (connections 1, links 1, features 2), reserved 12, then the user EIDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct V2Extension {
    /// Highest release of the client, 0 to 15 (v2.1 is 1).
    pub release: u8,
    /// Whether the SEID takes part in the matching.
    pub seid_offered: bool,
    /// GID of the client's RoCE port for version 2.
    pub roce_gid: [u8; 16],
    /// v2.1, SMC-R: connections per link group.
    pub max_conns: u8,
    /// v2.1, SMC-R: links per link group.
    pub max_links: u8,
    /// v2.1: see `FEATURE_EMULATED_ISM`.
    pub features: u16,
    /// EIDs the user gave the client.
    pub user_eids: List<Eid, USER_EIDS>,
    /// The SMC-Dv2 extension.
    pub smcd: Option<SmcDv2Extension>,
    /// Byte 2, the three bits of byte 3, bytes 4 and 5.
    pub reserved: [u8; 4],
    /// Bytes 28 to 39.
    pub reserved_tail: [u8; 12],
}

/// The SMC-Dv2 extension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmcDv2Extension {
    /// System EID; zero on hardware without one.
    pub seid: Eid,
    /// Bytes 32 to 47.
    pub reserved: [u8; 16],
    /// Raw GID/CHID entries; `clc::devices` pairs them.
    pub entries: List<IsmEntry, ISM_GIDS>,
}

const SEID_BIT: u8 = 0x01;

impl Proposal {
    /// From exactly one message.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let (header, body) = open(bytes, Kind::Proposal)?;
        if header.eyecatcher != SMCR {
            return Err(Error::BadEyecatcher);
        }
        let mut r = Reader::new(body);
        let mut proposal = Self {
            version: header.version,
            v1: Modes::from_bits(header.flags),
            v2: Modes::from_bits(header.flags >> 2),
            system_id: r.array()?,
            roce_gid: r.array()?,
            mac: r.array()?,
            ..Self::default()
        };
        if !proposal.offers_something() {
            return Err(Error::BadMode(header.flags));
        }
        let ip_offset = r.u16()?;
        proposal.parse_smcd(body, &mut r, ip_offset)?;
        if proposal.v1 != Modes::N {
            let at = section(body, BASE, ip_offset)?;
            proposal.prefixes = Some(PrefixArea::parse(&mut Reader::new(at))?);
        } else {
            proposal.unused_ip_offset = ip_offset;
        }
        expect_body(body, proposal.body_len())?;
        Ok(proposal)
    }

    /// The SMC-D area, which follows the fixed part, and what its offset leads to.
    fn parse_smcd(&mut self, body: &[u8], r: &mut Reader<'_>, ip_offset: u16) -> Result<()> {
        if self.version < 2 && usize::from(ip_offset) != SMCD_AREA {
            return Ok(());
        }
        let (area, v2_offset) = SmcDArea::parse(r)?;
        self.smcd = Some(area);
        match v2_offset {
            0 => Ok(()),
            _ if !self.offers_v2() => Err(Error::Reserved),
            _ => {
                self.v2_ext = Some(V2Extension::parse(section(body, V2_ORIGIN, v2_offset)?)?);
                Ok(())
            }
        }
    }

    /// Whether version 2 of anything is offered.
    pub fn offers_v2(&self) -> bool {
        self.version >= 2 && self.v2 != Modes::N
    }

    /// Version 1 without a mode is no offer at all; Linux refuses it as malformed too.
    fn offers_something(&self) -> bool {
        self.version >= 2 || self.v1 != Modes::N
    }

    fn body_len(&self) -> usize {
        let smcd = self.smcd.map_or(0, |_| SMCD_AREA);
        let prefixes = self.prefixes.as_ref().map_or(0, PrefixArea::len);
        BASE + smcd + prefixes + self.v2_ext.as_ref().map_or(0, V2Extension::len)
    }

    /// Bytes this message needs.
    #[allow(clippy::len_without_is_empty, reason = "a message is never empty")]
    pub fn len(&self) -> usize {
        Header::LEN + self.body_len() + TRAILER_LEN
    }

    /// Writes the message to the front of `bytes`; returns its length.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize> {
        self.check()?;
        let header = Header {
            eyecatcher: SMCR,
            kind: Kind::Proposal,
            length: self.len() as u16,
            version: self.version,
            flags: (self.v2 as u8) << 2 | self.v1 as u8,
        };
        let prefixes = self.prefixes.as_ref().map_or(0, PrefixArea::len);
        let v2_offset = BASE + SMCD_AREA + prefixes - V2_ORIGIN;
        seal(bytes, &header, |w| {
            w.put(&self.system_id)?;
            w.put(&self.roce_gid)?;
            w.put(&self.mac)?;
            w.u16(self.ip_offset())?;
            self.smcd.iter().try_for_each(|s| s.emit(w, self.v2_ext.map_or(0, |_| v2_offset as u16)))?;
            self.prefixes.iter().try_for_each(|p| p.emit(w))?;
            self.v2_ext.iter().try_for_each(|e| e.emit(w))
        })
    }

    fn ip_offset(&self) -> u16 {
        match (&self.prefixes, &self.smcd) {
            (Some(_), Some(_)) => SMCD_AREA as u16,
            (Some(_), None) => 0,
            (None, _) => self.unused_ip_offset,
        }
    }

    /// Whether the optional sections are those that version and modes call for.
    fn check(&self) -> Result<()> {
        let smcd_fits = self.offers_something() && (self.smcd.is_some() || self.version < 2);
        let prefixes_fit = self.prefixes.is_some() == (self.v1 != Modes::N)
            && (self.prefixes.is_none() || self.unused_ip_offset == 0);
        let v2_fits = self.v2_ext.is_none() || self.offers_v2();
        if smcd_fits && prefixes_fit && v2_fits { Ok(()) } else { Err(Error::Inconsistent) }
    }
}

/// The bytes `offset` after `origin`.
fn section(body: &[u8], origin: usize, offset: u16) -> Result<&[u8]> {
    body.get(origin + usize::from(offset)..).ok_or(Error::BadOffset(offset))
}

impl SmcDArea {
    /// The area and the offset of the v2 extension.
    fn parse(r: &mut Reader<'_>) -> Result<(Self, u16)> {
        let (gid, chid, v2_offset) = (r.u64()?, r.u16()?, r.u16()?);
        let area =
            Self { gid, chid, vendor_oui: r.array()?, vendor_options: r.array()?, reserved: r.array()? };
        Ok((area, v2_offset))
    }

    fn emit(&self, w: &mut Writer<'_>, v2_offset: u16) -> Result<()> {
        w.u64(self.gid)?;
        w.u16(self.chid)?;
        w.u16(v2_offset)?;
        w.put(&self.vendor_oui)?;
        w.put(&self.vendor_options)?;
        w.put(&self.reserved)
    }
}

impl PrefixArea {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let (subnet, prefix_len, reserved, count) = (r.u32()?, r.u8()?, r.array()?, r.u8()?);
        let ipv6 = List::read(count, || Ok(Ipv6Prefix { address: r.array()?, len: r.u8()? }))?;
        Ok(Self { subnet, prefix_len, reserved, ipv6 })
    }

    fn len(&self) -> usize {
        8 + self.ipv6.len() * 17
    }

    fn emit(&self, w: &mut Writer<'_>) -> Result<()> {
        w.u32(self.subnet)?;
        w.u8(self.prefix_len)?;
        w.put(&self.reserved)?;
        w.u8(self.ipv6.count())?;
        for prefix in self.ipv6.iter() {
            w.put(&prefix.address)?;
            w.u8(prefix.len)?;
        }
        Ok(())
    }
}

impl V2Extension {
    /// From the start of the extension to the end of the body.
    fn parse(at: &[u8]) -> Result<Self> {
        let mut r = Reader::new(at);
        let (eids, gids, first, bits) = (r.u8()?, r.u8()?, r.u8()?, r.u8()?);
        let [a, b] = r.array()?;
        let smcd_offset = r.u16()?;
        let mut ext = Self {
            release: bits >> 4,
            seid_offered: bits & SEID_BIT != 0,
            roce_gid: r.array()?,
            max_conns: r.u8()?,
            max_links: r.u8()?,
            features: r.u16()?,
            reserved_tail: r.array()?,
            reserved: [first, bits & 0x0E, a, b],
            ..Self::default()
        };
        ext.user_eids = List::read(eids, || Ok(Eid(r.array()?)))?;
        ext.smcd = match (smcd_offset, gids) {
            (0, 0) => None,
            (0, _) => return Err(Error::BadOffset(0)),
            _ => Some(SmcDv2Extension::parse(section(at, SMCDV2_ORIGIN, smcd_offset)?, gids)?),
        };
        Ok(ext)
    }

    fn fixed_len(&self) -> usize {
        40 + self.user_eids.len() * 32
    }

    fn len(&self) -> usize {
        self.fixed_len() + self.smcd.as_ref().map_or(0, |s| 48 + s.entries.len() * IsmEntry::LEN)
    }

    fn emit(&self, w: &mut Writer<'_>) -> Result<()> {
        let [first, bits, rest @ ..] = self.reserved;
        if bits & !0x0E != 0 {
            return Err(Error::Inconsistent);
        }
        w.u8(self.user_eids.count())?;
        w.u8(self.smcd.as_ref().map_or(0, |s| s.entries.count()))?;
        w.u8(first)?;
        w.u8(nibbles(self.release, bits | u8::from(self.seid_offered))?)?;
        w.put(&rest)?;
        w.u16(self.smcd.map_or(0, |_| (self.fixed_len() - SMCDV2_ORIGIN) as u16))?;
        w.put(&self.roce_gid)?;
        w.u8(self.max_conns)?;
        w.u8(self.max_links)?;
        w.u16(self.features)?;
        w.put(&self.reserved_tail)?;
        self.user_eids.iter().try_for_each(|eid| w.put(&eid.0))?;
        self.smcd.iter().try_for_each(|s| s.emit(w))
    }
}

impl SmcDv2Extension {
    fn parse(at: &[u8], gids: u8) -> Result<Self> {
        let mut r = Reader::new(at);
        let (seid, reserved) = (Eid(r.array()?), r.array()?);
        Ok(Self { seid, reserved, entries: List::read(gids, || IsmEntry::parse(&mut r))? })
    }

    fn emit(&self, w: &mut Writer<'_>) -> Result<()> {
        w.put(&self.seid.0)?;
        w.put(&self.reserved)?;
        self.entries.iter().try_for_each(|entry| entry.emit(w))
    }
}
