//! uperf's wire protocol, data version 0.3.1: C structs in the sender's own layout and byte order.
//!
//! Bytes to values and back, nothing else. Every message has a fixed size, so no length is ever taken from a peer;
//! numbers of things that follow are bounded by [`super::convert`]. No bytes make this module panic.

mod control;
mod fields;
mod handshake;
mod order;
#[cfg(test)]
mod tests;

pub(crate) use control::{Command, FromSlave, Goodbye, MAGIC_SIZE, Verdict};
use fields::Fields;
pub(crate) use fields::Order;
pub(crate) use handshake::{Ack, Hello, OrderAck, SlaveInfo, VERSION};
pub(crate) use order::{GroupHead, RawFlowop, TransactionHead};

/// A struct of the protocol.
pub(crate) trait Message: Clone + Default {
    /// Its bytes on the wire.
    const SIZE: usize;

    /// Goes through the fields in their order, either way. Only what is taken can be malformed.
    fn visit(&mut self, fields: &mut Fields<'_>) -> Result<(), Malformed>;

    /// From [`Message::SIZE`] bytes of a peer whose integers are in `order`.
    fn decode(bytes: &[u8], order: Order) -> Result<Self, Malformed> {
        let mut message = Self::default();
        message.visit(&mut Fields::taken(bytes, order)).map(|()| message)
    }

    /// [`Message::SIZE`] bytes for a peer that reads integers in `order`.
    fn encode(&self, order: Order) -> Vec<u8> {
        let mut fields = Fields::made(order);
        let _ = self.clone().visit(&mut fields);
        fields.finish()
    }
}

/// What is wrong with a message, as the end of a sentence about the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(crate) &'static str);
