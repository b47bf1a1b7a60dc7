//! The host tier's doors, as far as they stand: memory and doorbells between processes that share nothing but
//! the socket of the host daemon (`ismd`). Other network namespaces, containers, users. Owns: the daemon is
//! asked when a segment or a slot is made or first attached, never for a connection on one that is there, and
//! no answer is waited for longer than 100 ms. Whoever has the daemon's answer needs it no more: it may die.
//!
//! [`Host`] is no [`Tier`](crate::door::Tier): who is at the other end, and the rows, are not asked here.

mod bell;
mod link;
mod memory;
mod offered;

pub use bell::HolderOfMemory;
pub use link::{Link, Place};
pub use memory::Passed;

/// The doors of memory and doorbells, by way of the daemon.
pub struct Host {
    link: Link,
}

impl Host {
    /// Not connected yet: the daemon is looked for at the first need.
    pub const fn new() -> Self {
        Host { link: Link::new() }
    }

    /// What is said to the daemon.
    pub fn link(&self) -> &Link {
        &self.link
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.link.leave();
    }
}
