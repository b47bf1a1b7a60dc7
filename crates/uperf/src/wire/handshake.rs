//! The messages of the handshake but for the work order: who are you, can you, and on which ports.

use super::fields::{Order, Reader, Writer, before_nul};
use super::{Malformed, Message};

/// handshake.h, UPERF_MAGIC.
const MAGIC: &str = "0xbadcafedeadbeef";
/// uperf.h, UPERF_DATA_VERSION: what both ends must have.
pub(crate) const VERSION: &str = "0.3.1";
/// protocol.h, NUM_PROTOCOLS.
const PROTOCOLS: usize = 8;
/// uperf.h, MAXHOSTNAME.
const HOST: usize = 256;
/// In a status field.
const OK: &str = "OK";
const NOT_OK: &str = "Not OK";

/// What the master says first (phase 1: these protocols will be used) and again before the work order (phase 2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// 1 or 2.
    pub(crate) phase: u32,
    /// How many [`SlaveInfo`] follow the work order.
    pub(crate) slave_infos: u32,
    /// Which protocols the data connections have, by uperf's numbers.
    pub(crate) protocols: [bool; PROTOCOLS],
    /// [`VERSION`], if it is the right one.
    pub(crate) version: String,
    /// Empty from uperf, which never reads it.
    pub(crate) host: String,
}

impl Hello {
    /// A hello and the byte order of the master that said it.
    pub(crate) fn read(bytes: &[u8]) -> Result<(Self, Order), Malformed> {
        if before_nul(&bytes[..bytes.len().min(32)]) != MAGIC.as_bytes() {
            return Err(Malformed("its first bytes are not those of a uperf master"));
        }
        let mut marker = Reader::new(bytes, Order::Native);
        marker.skip(32);
        let order =
            Order::of_marker(marker.u32()).ok_or(Malformed("a byte order that neither end can have"))?;
        Ok((Self::decode(bytes, order)?, order))
    }
}

impl Message for Hello {
    const SIZE: usize = 352;

    fn decode(bytes: &[u8], order: Order) -> Result<Self, Malformed> {
        let mut fields = Reader::new(bytes, order);
        fields.skip(36);
        let (phase, slave_infos) = (fields.u32(), fields.u32());
        fields.skip(4);
        let protocols = std::array::from_fn(|_| fields.u32() != 0);
        Ok(Self { phase, slave_infos, protocols, version: fields.text(16), host: fields.text(HOST) })
    }

    fn encode(&self, order: Order) -> Vec<u8> {
        let mut fields = Writer::new(order);
        fields.text(MAGIC, 32);
        fields.endian();
        fields.u32(self.phase);
        fields.u32(self.slave_infos);
        fields.zeros(4);
        self.protocols.iter().for_each(|&used| fields.u32(used.into()));
        fields.text(&self.version, 16);
        fields.text(&self.host, HOST);
        fields.finish()
    }
}

/// The slave's answer to a hello. At the end of the handshake both send one more, with nothing in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ack {
    /// "OK", "Not OK" or, at the end of the handshake, empty.
    pub(crate) status: String,
    /// Why not. Of an "OK" only phase 1 has a meaningful one: uperf sends what lay in its memory otherwise.
    pub(crate) message: String,
}

impl Ack {
    /// Go on.
    pub(crate) fn ok(message: &str) -> Self {
        Self { status: OK.into(), message: message.into() }
    }

    /// Stop, because of `message`.
    pub(crate) fn refuse(message: &str) -> Self {
        Self { status: NOT_OK.into(), message: message.into() }
    }

    /// The handshake is over.
    pub(crate) fn end() -> Self {
        Self { status: String::new(), message: String::new() }
    }

    /// Whether the slave agrees.
    pub(crate) fn is_ok(&self) -> bool {
        self.status == OK
    }

    fn take(fields: &mut Reader<'_>) -> Self {
        Self { status: fields.text(64), message: fields.text(128) }
    }

    fn put(&self, fields: &mut Writer) {
        fields.text(&self.status, 64);
        fields.text(&self.message, 128);
    }
}

impl Message for Ack {
    const SIZE: usize = 192;

    fn decode(bytes: &[u8], order: Order) -> Result<Self, Malformed> {
        Ok(Self::take(&mut Reader::new(bytes, order)))
    }

    fn encode(&self, order: Order) -> Vec<u8> {
        let mut fields = Writer::new(order);
        self.put(&mut fields);
        fields.finish()
    }
}

/// The slave's answer to a work order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderAck {
    /// Whether it will do it.
    pub(crate) ack: Ack,
    /// How many [`SlaveInfo`] follow.
    pub(crate) slave_infos: u32,
}

impl Message for OrderAck {
    const SIZE: usize = 196;

    fn decode(bytes: &[u8], order: Order) -> Result<Self, Malformed> {
        let mut fields = Reader::new(bytes, order);
        Ok(Self { ack: Ack::take(&mut fields), slave_infos: fields.u32() })
    }

    fn encode(&self, order: Order) -> Vec<u8> {
        let mut fields = Writer::new(order);
        self.ack.put(&mut fields);
        fields.u32(self.slave_infos);
        fields.finish()
    }
}

/// On which ports one strand accepts; either end sends one for each of its strands, if they accept at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlaveInfo {
    /// By uperf's numbers of protocols; 0 if the strand does not listen.
    pub(crate) ports: [u32; PROTOCOLS],
}

impl Message for SlaveInfo {
    const SIZE: usize = 288;

    fn decode(bytes: &[u8], order: Order) -> Result<Self, Malformed> {
        let mut fields = Reader::new(bytes, order);
        fields.skip(HOST);
        let ports: [u32; PROTOCOLS] = std::array::from_fn(|_| fields.u32());
        if ports.iter().any(|&port| port > u16::MAX.into()) {
            return Err(Malformed("a port above 65535"));
        }
        Ok(Self { ports })
    }

    fn encode(&self, order: Order) -> Vec<u8> {
        let mut fields = Writer::new(order);
        fields.zeros(HOST);
        self.ports.iter().for_each(|&port| fields.u32(port));
        fields.finish()
    }
}
