//! The host tier: processes that share nothing but the socket of the host daemon (`ismd`). Other network
//! namespaces, containers, users. Owns: the daemon is asked when a segment or a slot is made or first
//! attached, never for a connection on one that is there, and no answer is waited for longer than 100 ms.
//! Whoever has the daemon's answer needs it no more: it may die.
//!
//! Who is at the other end is the kernel's word ([`marks`]). The row of a connection lies in its slot. That a
//! segment is held is a byte lock on its memory: its maker has one, and everybody to whom it was passed.
//! [`Host`] is no [`Tier`](crate::door::Tier) by itself, but a part of [`Tiers`](crate::tiers::Tiers).

mod bell;
mod link;
pub mod marks;
mod memory;
mod offered;

use crate::process::ProcessId;
use crate::{address, doubt};
use marks::{Arrived, Carried, Told};
use os::net::Endpoint;
use shm::registry::RegistryMap;
use sync::Ordering::Relaxed;
use sync::{AtomicBool, AtomicU64};
use wire::host::{Message, SOCKET};
use wire::reason::Reason;

pub use bell::HolderOfMemory;
pub use link::{Link, Place, Unheard};
pub use memory::Passed;

/// So many addresses that were connected to lately have their memory kept, though nobody uses it.
const RECENT: usize = 64;

/// The tier as one process has it.
pub struct Host {
    link: Link,
    is_asked_for: AtomicBool,
    /// Counts what was declined: memory may be somebody else's, at the same address, by then.
    declined: AtomicU64,
    /// Addresses that were connected to, as numbers.
    recent: [AtomicU64; RECENT],
}

impl Host {
    /// Not connected yet: the daemon is looked for at the first need.
    pub const fn new() -> Self {
        Host {
            link: Link::new(),
            is_asked_for: AtomicBool::new(false),
            declined: AtomicU64::new(0),
            recent: [const { AtomicU64::new(0) }; RECENT],
        }
    }

    /// Whether the environment asks for it.
    #[inline]
    pub fn is_asked_for(&self) -> bool {
        self.is_asked_for.load(Relaxed)
    }

    /// SMC_ISMD: where the daemon's socket lies, or on; off (or nothing) for no host tier. SMC_ISMD_PATIENCE:
    /// for how many milliseconds its answers are waited for.
    pub fn set(&self, name: &[u8], value: &[u8]) {
        match name {
            b"SMC_ISMD" => {
                let is_path = value.first() == Some(&b'/');
                self.link.set_socket(if is_path { value } else { SOCKET.as_bytes() });
                self.is_asked_for.store(is_path || crate::config::is_on(value), Relaxed);
            }
            b"SMC_ISMD_PATIENCE" => self.link.set_patience(crate::config::number(value).clamp(1, 60_000)),
            _ => {}
        }
    }

    /// A listener is about to listen: marked SYNs are to be answered. (Where that cannot be had, it is TCP.)
    pub(crate) fn listen(&self, cookie: u64) {
        if self.link.marked().is_ok() {
            self.link.marks.ask_to_listen(cookie);
        }
    }

    /// Nothing more is wanted of a socket.
    pub fn forget(&self, cookie: u64) {
        self.link.marks.give_back(cookie);
    }

    /// A name for whoever turns out to be at `target`. Reason: PEERNOSMC if nobody did lately, NOSMCDDEV
    /// without the daemon or its mark.
    #[cold]
    pub(crate) fn owner_of(&self, target: Endpoint, map: Option<&RegistryMap>) -> Result<ProcessId, Reason> {
        let turn = self.declined.load(Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let behind = ProcessId::behind(address::number(target) ^ turn);
        if map.is_some_and(|map| doubt::is_doubted(map, target, behind)) {
            return Err(Reason::PEERNOSMC);
        }
        self.link.marked()?;
        self.recent_of(behind).store(behind.word(), Relaxed);
        Ok(behind)
    }

    /// From now on everybody is offered new memory, and what was made for others is nobody's that is wanted.
    pub fn begin_anew(&self) {
        self.declined.fetch_add(1, Relaxed);
        self.recent.iter().for_each(|name| name.store(0, Relaxed));
    }

    fn recent_of(&self, behind: ProcessId) -> &AtomicU64 {
        &self.recent[behind.generation as usize % RECENT]
    }

    /// Whether somebody of this name was connected to lately.
    pub(crate) fn is_wanted(&self, behind: ProcessId) -> bool {
        self.recent_of(behind).load(Relaxed) == behind.word()
    }

    /// Before connect(): lets the SYN carry where the offer lies. Reason: MAX_DMB if there is no room.
    pub fn carry(&self, carried: &Carried) -> Result<(), Reason> {
        if self.link.marks.ask_to_carry(carried) { Ok(()) } else { Err(Reason::MAX_DMB) }
    }

    /// After connect(): whether the other end takes part, and is on this kernel.
    pub fn told(&self, cookie: u64) -> Told {
        self.link.marks.told(cookie)
    }

    /// What came with an accepted socket, once.
    #[cold]
    pub fn take_arrived(&self, fd: i32) -> Option<Arrived> {
        if !self.link.marks.has_any() {
            return None;
        }
        let arrived = self.link.marks.take_arrived(os::net::cookie(fd).ok()?);
        if arrived.is_none() {
            self.link.come_back();
        }
        arrived
    }

    /// What was carried is not taken up: the client is told, if the daemon lives.
    pub fn decline(&self, carried: &Carried) {
        let Carried { client: owner, cookie, nonce, .. } = *carried;
        let _ = self.link.ask(&Message::Decline { owner, cookie, nonce }, None);
    }

    /// In a fork child.
    pub(crate) fn after_fork(&self) {
        self.link.after_fork();
        self.link.marks.after_fork();
    }

    /// The process gives its user up.
    pub(crate) fn leave(&self) {
        self.is_asked_for.store(false, Relaxed);
        self.link.leave();
        self.link.marks.leave();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Else what was made for it would be kept, with its descriptors, though nobody is ever offered it again.
    #[test]
    fn who_was_connected_to_before_memory_was_taken_back_is_wanted_no_more() {
        let (host, name) = (Host::new(), ProcessId::behind(77));
        host.recent_of(name).store(name.word(), Relaxed);
        assert!(host.is_wanted(name));
        host.begin_anew();
        assert!(!host.is_wanted(name));
    }
}
