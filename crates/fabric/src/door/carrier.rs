//! What carries the handshake: the messages of CLC, in the order PROPOSAL, ACCEPT, CONFIRM.
//!
//! Where both ends map the slot: its mailbox, so that no byte enters the TCP stream and nobody waits. Other
//! hosts: the TCP stream, before anything else. Owns: a letter arrives whole, or not yet.

use crate::slot::SlotView;
use shm::layout::MAIL_LEN;
use wire::reason::Reason;

/// Letters of a handshake, each written by one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Letter {
    /// By the client, before the SYN.
    Proposal = 0,
    /// By the server, with its claim.
    Accept = 1,
    /// By the client, when it learns of that.
    Confirm = 2,
}

/// The way of a handshake's messages.
pub trait Carrier {
    /// Sends a letter to the other end of `fd`'s connection. Reason: INTERR (too long).
    fn put(&self, view: &SlotView, fd: i32, letter: Letter, message: &[u8]) -> Result<(), Reason>;

    /// The letter, if it has arrived; empty while it has not. What it says is the peer's.
    fn take<'a>(
        &self,
        view: &SlotView,
        fd: i32,
        letter: Letter,
        into: &'a mut [u8; MAIL_LEN],
    ) -> Result<&'a [u8], Reason>;
}
