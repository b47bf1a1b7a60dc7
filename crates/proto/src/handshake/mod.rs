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
pub use local::{Agreed, Dmb, Half, Local};
pub use server::Server;
pub use wire::clc::Accept;

use wire::clc::{Header, Kind, Message};

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
    /// The message, if it is of type `kind`, which `parse` reads; everything else is a refusal. A DECLINE may
    /// come in place of any message. (Each type by itself: a value of [`Message`] is as large as the largest,
    /// and moves.)
    fn expect<T>(
        self,
        kind: Kind,
        parse: impl FnOnce(&[u8]) -> Result<T, wire::Error>,
    ) -> Result<T, Refusal> {
        let bytes = match self {
            Self::Bytes(bytes) => bytes,
            Self::Timeout => return Err(Fault::Timeout.refuse()),
            Self::Lost => return Err(Fault::Lost.refuse()),
        };
        let header = Header::parse(bytes).map_err(Refusal::malformed)?;
        if header.kind != kind {
            return Err(unexpected(bytes));
        }
        parse(bytes).map_err(Refusal::malformed)
    }
}

/// What a message of another type than expected means.
#[cold]
fn unexpected(bytes: &[u8]) -> Refusal {
    match Message::parse(bytes) {
        Ok(Message::Decline(decline)) => Refusal::declined(&decline),
        Ok(_) => Fault::UnexpectedMessage.refuse(),
        Err(error) => Refusal::malformed(error),
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
