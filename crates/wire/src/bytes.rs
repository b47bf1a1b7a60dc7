//! The only reader and the only writer of this crate: every access is checked, big endian, and in order.

use crate::error::{Error, Result};

/// Takes fields off the front of a slice.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let truncated = Error::Truncated { need: N, have: self.bytes.len() };
        let (head, rest) = self.bytes.split_first_chunk().ok_or(truncated)?;
        self.bytes = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// A 24-bit number, as queue pairs and packet sequence numbers use.
    pub(crate) fn u24(&mut self) -> Result<u32> {
        let [a, b, c] = self.array()?;
        Ok(u32::from_be_bytes([0, a, b, c]))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }
}

/// Appends fields to a caller's buffer.
pub(crate) struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn put(&mut self, field: &[u8]) -> Result<()> {
        let end = self.at + field.len();
        let have = self.bytes.len();
        let room = self.bytes.get_mut(self.at..end).ok_or(Error::NoRoom { need: end, have })?;
        room.copy_from_slice(field);
        self.at = end;
        Ok(())
    }

    pub(crate) fn u8(&mut self, value: u8) -> Result<()> {
        self.put(&[value])
    }

    pub(crate) fn u16(&mut self, value: u16) -> Result<()> {
        self.put(&value.to_be_bytes())
    }

    /// The low 24 bits; a larger value is the caller's contradiction.
    pub(crate) fn u24(&mut self, value: u32) -> Result<()> {
        match value.to_be_bytes() {
            [0, rest @ ..] => self.put(&rest),
            _ => Err(Error::Inconsistent),
        }
    }

    pub(crate) fn u32(&mut self, value: u32) -> Result<()> {
        self.put(&value.to_be_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> Result<()> {
        self.put(&value.to_be_bytes())
    }

    /// Bytes written so far.
    pub(crate) fn len(&self) -> usize {
        self.at
    }
}

/// Two 4-bit values in one byte; larger values are the caller's contradiction.
pub(crate) fn nibbles(high: u8, low: u8) -> Result<u8> {
    if high > 15 || low > 15 { Err(Error::Inconsistent) } else { Ok(high << 4 | low) }
}
