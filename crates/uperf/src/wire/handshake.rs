//! The messages of the handshake but for the work order: who are you, can you, and on which ports.

use super::fields::{Fields, Order};
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
        let mut head = Fields::taken(bytes, Order::Native);
        if !head.is(MAGIC, 32) {
            return Err(Malformed("its first bytes are not those of a uperf master"));
        }
        let order = head.endian().ok_or(Malformed("a byte order that neither end can have"))?;
        Ok((Self::decode(bytes, order)?, order))
    }
}

impl Message for Hello {
    const SIZE: usize = 352;

    fn visit(&mut self, fields: &mut Fields<'_>) -> Result<(), Malformed> {
        fields.is(MAGIC, 32);
        fields.endian();
        fields.u32(&mut self.phase);
        fields.u32(&mut self.slave_infos);
        fields.gap(4);
        for used in &mut self.protocols {
            let mut word = u32::from(*used);
            fields.u32(&mut word);
            *used = word != 0;
        }
        fields.text(&mut self.version, 16);
        fields.text(&mut self.host, HOST);
        Ok(())
    }
}

/// The slave's answer to a hello. At the end of the handshake both send one more, with nothing in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
        Self::default()
    }

    /// Whether the slave agrees.
    pub(crate) fn is_ok(&self) -> bool {
        self.status == OK
    }
}

impl Message for Ack {
    const SIZE: usize = 192;

    fn visit(&mut self, fields: &mut Fields<'_>) -> Result<(), Malformed> {
        fields.text(&mut self.status, 64);
        fields.text(&mut self.message, 128);
        Ok(())
    }
}

/// The slave's answer to a work order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OrderAck {
    /// Whether it will do it.
    pub(crate) ack: Ack,
    /// How many [`SlaveInfo`] follow.
    pub(crate) slave_infos: u32,
}

impl Message for OrderAck {
    const SIZE: usize = 196;

    fn visit(&mut self, fields: &mut Fields<'_>) -> Result<(), Malformed> {
        self.ack.visit(fields)?;
        fields.u32(&mut self.slave_infos);
        Ok(())
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

    fn visit(&mut self, fields: &mut Fields<'_>) -> Result<(), Malformed> {
        fields.gap(HOST);
        self.ports.iter_mut().for_each(|port| fields.u32(port));
        match self.ports.iter().any(|&port| port > u16::MAX.into()) {
            true => Err(Malformed("a port above 65535")),
            false => Ok(()),
        }
    }
}
