//! The CLC handshake: one machine per role, carriers outside. `Client`: `propose`, then `handle_accept`.
//! `Server`: `handle_proposal`, then `handle_confirm`. Either may end in a `Refusal`, which says why and what
//! to answer.
//!
//! Owns: what is agreed was offered; a decline is never answered by a decline; nothing is agreed twice.
//! SMC-Dv2 with native and emulated ISM devices; a peer that offers only version 1 or only SMC-R is refused
//! with the code Linux would use. Does not own the clock: whoever waits calls with `Input::Timeout` after
//! `CLC_WAIT_MS`.

mod client;
pub mod fault;
mod local;
mod server;

pub use client::Client;
pub use fault::{Class, Fault, Refusal};
pub use local::{Agreed, Dmb, Local, Offer};
pub use server::Server;

use wire::clc::{Kind, Message};

/// How long either end waits for a CLC message, in milliseconds (`net/smc/smc_clc.h`: 6 s).
pub const CLC_WAIT_MS: u32 = 6000;

/// Version of the messages sent and accepted.
pub const VERSION: u8 = 2;

/// Highest release spoken: 1 is SMC v2.1.
pub const RELEASE: u8 = 1;

/// What came out of the carrier.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// One whole message.
    Bytes(&'a [u8]),
    /// `CLC_WAIT_MS` passed without one.
    Timeout,
    /// The carrier or the TCP connection is gone.
    Lost,
}

impl Input<'_> {
    /// The message, if it is of type `kind`; everything else is a refusal. A DECLINE may come in place of any
    /// message.
    fn expect(self, kind: Kind) -> Result<Message, Refusal> {
        let bytes = match self {
            Self::Bytes(bytes) => bytes,
            Self::Timeout => return Err(Fault::Timeout.refuse()),
            Self::Lost => return Err(Fault::Lost.refuse()),
        };
        let message = Message::parse(bytes).map_err(Refusal::malformed)?;
        match (&message, kind) {
            (Message::Accept(_), Kind::Accept) => Ok(message),
            (Message::Confirm(_), Kind::Confirm) => Ok(message),
            (Message::Proposal(_), Kind::Proposal) => Ok(message),
            (Message::Decline(decline), _) => Err(Refusal::declined(decline)),
            _ => Err(Fault::UnexpectedMessage.refuse()),
        }
    }
}

/// Where a role stands. Refused and agreed are final.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Start,
    Waiting,
    Over,
}
