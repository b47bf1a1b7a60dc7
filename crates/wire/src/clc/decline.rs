//! DECLINE: this connection stays on TCP, and why. 28 bytes in version 1, 44 from version 2 on.
//!
//! | off | size | field |
//! |---|---|---|
//! | 8 | 8 | system id (zero in SMC-D) |
//! | 16 | 4 | diagnosis |
//! | 20 | 4 | operating system (high nibble), reserved |
//! | 24 | 16 | version 2: additional diagnosis, four u32 |

use super::first_contact::Os;
use super::{Header, Kind, SMCR, SystemId, TRAILER_LEN, expect_body, open, seal};
use crate::bytes::{Reader, nibbles};
use crate::error::{Error, Result};
use crate::reason::Reason;

/// Header bit: the link group is out of step and must go (`net/smc/smc_clc.c`).
const OUT_OF_SYNC: u8 = 0x08;

/// A refusal. Never answered by another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decline {
    /// Version of the message, 1 to 15.
    pub version: u8,
    /// Whether the receiver must end the link group.
    pub out_of_sync: bool,
    /// The sender's system id; zero in SMC-D.
    pub system_id: SystemId,
    /// Why; the second number of smcss.
    pub diagnosis: Reason,
    /// The sender's operating system; 0 in version 1.
    pub os: Os,
    /// Additional diagnosis; present exactly from version 2 on.
    pub details: Option<[u32; 4]>,
    /// The low three header bits, the low nibble of byte 20, bytes 21 to 23.
    pub reserved: [u8; 5],
}

impl Decline {
    /// A refusal from this system; `details` zero where the version has them.
    pub fn new(version: u8, diagnosis: Reason) -> Self {
        let v2 = version >= 2;
        Self {
            version,
            out_of_sync: false,
            system_id: [0; 8],
            diagnosis,
            os: if v2 { Os::LINUX } else { Os(0) },
            details: v2.then_some([0; 4]),
            reserved: [0; 5],
        }
    }

    /// From exactly one message.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let (header, body) = open(bytes, Kind::Decline)?;
        if header.eyecatcher != SMCR {
            return Err(Error::BadEyecatcher);
        }
        let v2 = header.version >= 2;
        expect_body(body, if v2 { 32 } else { 16 })?;
        let mut r = Reader::new(body);
        let (system_id, diagnosis, os) = (r.array()?, Reason(r.u32()?), r.u8()?);
        let [a, b, c] = r.array()?;
        let details = if v2 { Some([r.u32()?, r.u32()?, r.u32()?, r.u32()?]) } else { None };
        Ok(Self {
            version: header.version,
            out_of_sync: header.flags & OUT_OF_SYNC != 0,
            system_id,
            diagnosis,
            os: Os(os >> 4),
            details,
            reserved: [header.flags & !OUT_OF_SYNC, os & 0x0F, a, b, c],
        })
    }

    /// Bytes this message needs.
    #[allow(clippy::len_without_is_empty, reason = "a message is never empty")]
    pub fn len(&self) -> usize {
        Header::LEN + 16 + if self.details.is_some() { 16 } else { 0 } + TRAILER_LEN
    }

    /// Writes the message to the front of `bytes`; returns its length.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize> {
        let [bits, low, rest @ ..] = self.reserved;
        if self.details.is_some() != (self.version >= 2) || bits & OUT_OF_SYNC != 0 {
            return Err(Error::Inconsistent);
        }
        let flags = bits | if self.out_of_sync { OUT_OF_SYNC } else { 0 };
        let header = Header {
            eyecatcher: SMCR,
            kind: Kind::Decline,
            length: self.len() as u16,
            version: self.version,
            flags,
        };
        seal(bytes, &header, |w| {
            w.put(&self.system_id)?;
            w.u32(self.diagnosis.0)?;
            w.u8(nibbles(self.os.0, low)?)?;
            w.put(&rest)?;
            self.details.iter().flatten().try_for_each(|detail| w.u32(*detail))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_without_its_details_has_no_bytes() {
        let decline = Decline { details: None, ..Decline::new(2, Reason::MEM) };
        assert_eq!(decline.emit(&mut [0; 64]), Err(Error::Inconsistent));
        let decline = Decline::new(2, Reason::MEM);
        assert_eq!(decline.emit(&mut [0; 43]), Err(Error::NoRoom { need: 44, have: 43 }));
    }
}
