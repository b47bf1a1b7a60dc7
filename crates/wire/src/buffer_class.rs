//! The compressed buffer size of ACCEPT and CONFIRM: class n means 16 KiB times 2^n.

use crate::limits::BUFFER_MIN;

/// A 4-bit size class; classes above `limits::SMCD_CLASS_MAX` survive parsing and are judged by `proto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BufferClass(u8);

impl BufferClass {
    /// The class of a 4-bit value; `None` above 15.
    pub const fn new(class: u8) -> Option<Self> {
        if class <= 15 { Some(Self(class)) } else { None }
    }

    /// The smallest class that holds `len` bytes; `None` above 512 MiB.
    pub const fn holding(len: u64) -> Option<Self> {
        let mut class = 0;
        while class <= 15 {
            if len <= (BUFFER_MIN as u64) << class {
                return Some(Self(class));
            }
            class += 1;
        }
        None
    }

    /// From the high nibble of a byte.
    pub(crate) const fn from_high_nibble(byte: u8) -> Self {
        Self(byte >> 4)
    }

    /// The class number, 0 to 15.
    pub const fn class(self) -> u8 {
        self.0
    }

    /// Size in bytes, 16 KiB to 512 MiB.
    pub const fn bytes(self) -> u32 {
        BUFFER_MIN << self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_up_to_the_next_class() {
        let class = |len| BufferClass::holding(len).map(BufferClass::class);
        assert_eq!([class(0), class(16384), class(16385)], [Some(0), Some(0), Some(1)]);
        assert_eq!([class(1 << 20), class(512 << 20), class((512 << 20) + 1)], [Some(6), Some(15), None]);
        assert_eq!(BufferClass::new(6).map(BufferClass::bytes), Some(1 << 20));
        assert_eq!(BufferClass::new(16), None);
    }
}
