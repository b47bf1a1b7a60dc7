//! What an intent is keyed by: a number that both ends know, or can learn, and nobody else's connection has.
//!
//! One kernel: the kernel's cookie of the client's socket, which the server asks for by the two addresses.
//! Elsewhere: what is handed to the kernel with the socket before connect() and travels with the SYN, as a
//! token in a TCP option that leads to it; the server asks its accepted socket. Owns: that a row belongs to a
//! connection is the kernel's word; no address or number that a peer wrote leads to a row of somebody else's.

use os::Errno;
use os::net::Endpoint;
use wire::reason::Reason;

/// The client of an accepted socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientSocket {
    /// The key of its intent.
    pub key: u64,
    /// Who has it, if the kernel tells.
    pub uid: Option<u32>,
}

/// Keys of intents.
pub trait Key {
    /// The key for the intent of the client's socket `fd`.
    fn own(&self, fd: i32) -> Result<u64, Errno>;

    /// The intent stands under `key`: lets the SYN of `fd` carry it, if that is how the server learns of it.
    /// Reason: the connection stays on TCP for it.
    fn carry(&self, fd: i32, key: u64) -> Result<(), Reason>;

    /// The key of the client of the accepted socket `fd`, whose addresses are given. Errors: ENOENT if it has
    /// none; EPERM, EMFILE and the like if the kernel cannot be asked.
    fn of_client(&self, fd: i32, local: Endpoint, peer: Endpoint) -> Result<ClientSocket, Errno>;
}
