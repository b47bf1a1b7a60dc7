//! The first contact extension of ACCEPT and CONFIRM: who the peer is. 36 bytes in release 0, 52 from release
//! 1 (v2.1) on.
//!
//! | off | size | field |
//! |---|---|---|
//! | 0 | 1 | bit 7: reached directly (SMC-R), reserved |
//! | 1 | 1 | operating system (high nibble), release (low nibble) |
//! | 2 | 2 | reserved |
//! | 4 | 32 | host name, blank padded |
//! | 36 | 1+1 | v2.1: most connections, most links (SMC-R; reserved in SMC-D) |
//! | 38 | 2 | v2.1: feature mask |
//! | 40 | 4+8 | v2.1: vendor experimental options, reserved |

use crate::bytes::{Reader, Writer, nibbles};
use crate::error::{Error, Result};
use crate::limits::NAME;

/// Operating system of a peer, a 4-bit number. Unknown values survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Os(pub u8);

impl Os {
    /// z/OS.
    pub const ZOS: Self = Self(1);
    /// Linux.
    pub const LINUX: Self = Self(2);
    /// AIX.
    pub const AIX: Self = Self(3);
}

/// First contact of two peers in version 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstContact {
    /// SMC-R only: no gateway between the peers.
    pub direct: bool,
    /// The sender's operating system.
    pub os: Os,
    /// Negotiated release, 0 to 15 (v2.1 is 1).
    pub release: u8,
    /// The sender's host name, ASCII, padded with blanks.
    pub host: [u8; NAME],
    /// Present exactly from release 1 on.
    pub v21: Option<FirstContactV21>,
    /// Low seven bits of byte 0, bytes 2 and 3.
    pub reserved: [u8; 3],
}

/// What v2.1 adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstContactV21 {
    /// SMC-R: connections per link group; 0 in SMC-D.
    pub max_conns: u8,
    /// SMC-R: links per link group; 0 in SMC-D.
    pub max_links: u8,
    /// See `FEATURE_EMULATED_ISM`.
    pub features: u16,
    /// Vendor experimental options.
    pub vendor: [u8; 4],
    /// Bytes 44 to 51.
    pub reserved: [u8; 8],
}

const DIRECT: u8 = 0x80;

impl FirstContact {
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let (first, second) = (r.u8()?, r.u8()?);
        let [a, b] = r.array()?;
        let (host, release) = (r.array()?, second & 0x0F);
        let v21 = if release >= 1 { Some(FirstContactV21::parse(r)?) } else { None };
        let reserved = [first & !DIRECT, a, b];
        Ok(Self { direct: first & DIRECT != 0, os: Os(second >> 4), release, host, v21, reserved })
    }

    pub(super) const fn len(&self) -> usize {
        if self.v21.is_some() { 52 } else { 36 }
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) -> Result<()> {
        let [bits, rest @ ..] = self.reserved;
        if self.v21.is_some() != (self.release >= 1) || bits & DIRECT != 0 {
            return Err(Error::Inconsistent);
        }
        w.u8(bits | if self.direct { DIRECT } else { 0 })?;
        w.u8(nibbles(self.os.0, self.release)?)?;
        w.put(&rest)?;
        w.put(&self.host)?;
        self.v21.iter().try_for_each(|v21| v21.emit(w))
    }
}

impl FirstContactV21 {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let (max_conns, max_links, features) = (r.u8()?, r.u8()?, r.u16()?);
        Ok(Self { max_conns, max_links, features, vendor: r.array()?, reserved: r.array()? })
    }

    fn emit(&self, w: &mut Writer<'_>) -> Result<()> {
        w.u8(self.max_conns)?;
        w.u8(self.max_links)?;
        w.u16(self.features)?;
        w.put(&self.vendor)?;
        w.put(&self.reserved)
    }
}
