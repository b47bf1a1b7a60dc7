//! What an intent is keyed by: a number that both ends know, or can learn, and nobody else's connection has.
//!
//! One kernel: the kernel's cookie of the client's socket, which the server asks for by the two addresses. Elsewhere: the
//! token of the TCP option in the SYN, known to both ends before connect() and accept() return. Owns: the key is the kernel's
//! word; no address that a peer wrote leads to a row.

use os::Errno;
use os::net::Endpoint;

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

    /// The key of the client of the accepted socket `fd`, whose addresses are given. Errors: ENOENT if it has none; EPERM,
    /// EMFILE and the like if the kernel cannot be asked.
    fn of_client(&self, fd: i32, local: Endpoint, peer: Endpoint) -> Result<ClientSocket, Errno>;
}
