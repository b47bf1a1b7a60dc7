//! What can be wrong with bytes (or with a value that cannot be bytes). Owns no strings and no policy:
//! `proto` maps each kind to a decline code.

/// Result of every codec function.
pub(crate) type Result<T> = core::result::Result<T, Error>;

/// Why bytes are not a message, or a value cannot become one. Lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The input ends before the message does.
    Truncated {
        /// Bytes needed at least.
        need: usize,
        /// Bytes given.
        have: usize,
    },
    /// Bytes follow the end of the message.
    Trailing {
        /// How many.
        extra: usize,
    },
    /// The length field disagrees with the sections the message says it has.
    BadLength {
        /// Sum of the sections.
        want: usize,
        /// What the length field says.
        have: usize,
    },
    /// Neither "SMCR" nor "SMCD" in EBCDIC, or not the one this message needs.
    BadEyecatcher,
    /// The trailer differs from the eyecatcher of the header.
    BadTrailer,
    /// Not the message type expected here.
    BadType(u8),
    /// Version 0 does not exist.
    BadVersion(u8),
    /// ACCEPT or CONFIRM chose a mode that is neither SMC-R nor SMC-D.
    BadMode(u8),
    /// An offset points outside the message.
    BadOffset(u16),
    /// A list is longer than the protocol allows.
    TooMany {
        /// The protocol's limit.
        max: usize,
        /// Entries announced.
        have: usize,
    },
    /// A reserved field carries a value that would change the meaning of the message.
    Reserved,
    /// The value contradicts itself (for example a version 1 message with a version 2 part): it has no bytes.
    Inconsistent,
    /// The buffer given to `emit` is too small.
    NoRoom {
        /// Bytes needed at least.
        need: usize,
        /// Bytes given.
        have: usize,
    },
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Debug::fmt(self, f)
    }
}

impl core::error::Error for Error {}
