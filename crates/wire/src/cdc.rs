//! CDC: one side tells the other how far it has written and read. Two fixed forms, 32 bytes (SMC-D, at offset
//! 0 of the receiver's DMB, host byte order) and 44 bytes (SMC-R, big endian). Owns the byte layout and the
//! flag bits; does not own whether a cursor makes sense.

use crate::bytes::{Reader, Writer};
use crate::cursor::Cursor;
use crate::error::{Error, Result};

/// First byte of every CDC message (RFC 7609, appendix A).
pub const TYPE: u8 = 0xFE;

/// Producer flags (RFC 7609, appendix A.4; `net/smc/smc_cdc.h`). Unknown bits survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProducerFlags(pub u8);

impl ProducerFlags {
    /// The sender has more to send than the peer has free space.
    pub const WRITE_BLOCKED: u8 = 0x80;
    /// Urgent data will follow.
    pub const URGENT_PENDING: u8 = 0x40;
    /// The byte before the producer cursor is urgent.
    pub const URGENT_PRESENT: u8 = 0x20;
    /// The sender asks for a consumer cursor update.
    pub const UPDATE_REQUESTED: u8 = 0x10;
    /// First message after a failover (SMC-R).
    pub const FAILOVER_VALIDATION: u8 = 0x08;

    /// Whether every bit of `mask` is set.
    pub const fn has(self, mask: u8) -> bool {
        self.0 & mask == mask
    }
}

/// Connection state flags (same sources). Unknown bits survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateFlags(pub u8);

impl StateFlags {
    /// shutdown(SHUT_WR) at the peer.
    pub const DONE_WRITING: u8 = 0x80;
    /// close() at the peer.
    pub const CLOSED: u8 = 0x40;
    /// Abnormal close at the peer.
    pub const ABORT: u8 = 0x20;

    /// Whether every bit of `mask` is set.
    pub const fn has(self, mask: u8) -> bool {
        self.0 & mask == mask
    }
}

/// One 8-byte cursor of the SMC-D form; readers copy it as one atomic u64 (`from_word`).
/// Linux uses the flag bytes of the consumer's cursor only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CursorWord {
    /// The position.
    pub cursor: Cursor,
    /// Producer flags.
    pub producer: ProducerFlags,
    /// Connection state flags.
    pub state: StateFlags,
}

impl CursorWord {
    /// From the eight bytes as they lie in memory: wrap 2, count 4, producer flags 1, state flags 1.
    pub const fn from_bytes(bytes: [u8; 8]) -> Self {
        let [w0, w1, c0, c1, c2, c3, producer, state] = bytes;
        let cursor =
            Cursor { wrap: u16::from_ne_bytes([w0, w1]), count: u32::from_ne_bytes([c0, c1, c2, c3]) };
        Self { cursor, producer: ProducerFlags(producer), state: StateFlags(state) }
    }

    /// The eight bytes as they lie in memory.
    pub const fn to_bytes(self) -> [u8; 8] {
        let [w0, w1] = self.cursor.wrap.to_ne_bytes();
        let [c0, c1, c2, c3] = self.cursor.count.to_ne_bytes();
        [w0, w1, c0, c1, c2, c3, self.producer.0, self.state.0]
    }

    /// From one atomic load of the cursor.
    pub const fn from_word(word: u64) -> Self {
        Self::from_bytes(word.to_ne_bytes())
    }

    /// For one atomic store of the cursor.
    pub const fn to_word(self) -> u64 {
        u64::from_ne_bytes(self.to_bytes())
    }
}

/// The SMC-D form (`net/smc/smc_cdc.h`): type 1, reserved 7, producer 8, consumer 8, reserved 8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmcD {
    /// How far the sender has written.
    pub producer: CursorWord,
    /// How far the sender has read; Linux puts both flag bytes here.
    pub consumer: CursorWord,
    /// Bytes 1 to 7.
    pub reserved_head: [u8; 7],
    /// Bytes 24 to 31.
    pub reserved_tail: [u8; 8],
}

impl SmcD {
    /// Bytes on the wire; the data of the DMB starts after them.
    pub const LEN: usize = 32;

    /// From exactly `LEN` bytes in host byte order.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut r = exactly(bytes, Self::LEN)?;
        expect_type(r.u8()?)?;
        let reserved_head = r.array()?;
        let producer = CursorWord::from_bytes(r.array()?);
        let consumer = CursorWord::from_bytes(r.array()?);
        Ok(Self { producer, consumer, reserved_head, reserved_tail: r.array()? })
    }

    /// Writes `LEN` bytes to the front of `bytes` and returns `LEN`.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize> {
        let mut w = Writer::new(bytes);
        w.u8(TYPE)?;
        w.put(&self.reserved_head)?;
        w.put(&self.producer.to_bytes())?;
        w.put(&self.consumer.to_bytes())?;
        w.put(&self.reserved_tail)?;
        Ok(w.len())
    }
}

/// The SMC-R form (RFC 7609 appendix A.4): type 1, length 1, sequence 2, token 4, producer 8, consumer 8,
/// flags 2, reserved 18.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmcR {
    /// Sequence number, modulo 65536.
    pub sequence: u16,
    /// The receiver's alert token: which connection this is about.
    pub token: u32,
    /// How far the sender has written.
    pub producer: Cursor,
    /// How far the sender has read.
    pub consumer: Cursor,
    /// Producer flags.
    pub producer_flags: ProducerFlags,
    /// Connection state flags.
    pub state_flags: StateFlags,
    /// The two bytes before each wrap count.
    pub reserved_cursors: [[u8; 2]; 2],
    /// Bytes 26 to 43.
    pub reserved_tail: [u8; 18],
}

impl SmcR {
    /// Bytes on the wire.
    pub const LEN: usize = 44;

    /// From exactly `LEN` bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut r = exactly(bytes, Self::LEN)?;
        expect_type(r.u8()?)?;
        let have = usize::from(r.u8()?);
        if have != Self::LEN {
            return Err(Error::BadLength { want: Self::LEN, have });
        }
        let (sequence, token) = (r.u16()?, r.u32()?);
        let (reserved_producer, producer) = cursor(&mut r)?;
        let (reserved_consumer, consumer) = cursor(&mut r)?;
        let (producer_flags, state_flags) = (ProducerFlags(r.u8()?), StateFlags(r.u8()?));
        let reserved_cursors = [reserved_producer, reserved_consumer];
        let reserved_tail = r.array()?;
        Ok(Self {
            sequence,
            token,
            producer,
            consumer,
            producer_flags,
            state_flags,
            reserved_cursors,
            reserved_tail,
        })
    }

    /// Writes `LEN` bytes to the front of `bytes` and returns `LEN`.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize> {
        let mut w = Writer::new(bytes);
        w.u8(TYPE)?;
        w.u8(Self::LEN as u8)?;
        w.u16(self.sequence)?;
        w.u32(self.token)?;
        for (reserved, cursor) in self.reserved_cursors.iter().zip([self.producer, self.consumer]) {
            w.put(reserved)?;
            w.u16(cursor.wrap)?;
            w.u32(cursor.count)?;
        }
        w.u8(self.producer_flags.0)?;
        w.u8(self.state_flags.0)?;
        w.put(&self.reserved_tail)?;
        Ok(w.len())
    }
}

fn cursor(r: &mut Reader<'_>) -> Result<([u8; 2], Cursor)> {
    Ok((r.array()?, Cursor { wrap: r.u16()?, count: r.u32()? }))
}

fn exactly(bytes: &[u8], need: usize) -> Result<Reader<'_>> {
    match bytes.len() {
        have if have < need => Err(Error::Truncated { need, have }),
        have if have > need => Err(Error::Trailing { extra: have - need }),
        _ => Ok(Reader::new(bytes)),
    }
}

fn expect_type(kind: u8) -> Result<()> {
    if kind == TYPE { Ok(()) } else { Err(Error::BadType(kind)) }
}
