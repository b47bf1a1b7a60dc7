//! Processes by name, beyond the reuse of their ids. Owns: how a name is stored; who lives is behind
//! [`crate::door::Life`].

use shm::registry::{ProcessRef, RegistryMap};
use sync::Ordering::Relaxed;

/// First byte of the registry file that stands for a process by its lock; far beyond the file's end, where
/// locks are just as good.
pub const LOCK_BASE: u64 = 1 << 40;

/// A process, named beyond the reuse of its pid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessId {
    /// Row in the registry.
    pub row: u32,
    /// Generation of the row.
    pub generation: u32,
}

/// The bit of a row that no registry has: a peer that is known to the daemon of the host tier, or not yet.
const FAR: u32 = 1 << 31;

impl ProcessId {
    /// A client of the daemon.
    pub fn client(number: u32) -> Self {
        ProcessId { row: u32::MAX, generation: number }
    }

    /// Whoever is at an address, of which this number was made.
    pub fn behind(address: u64) -> Self {
        ProcessId { row: FAR | (address >> 33) as u32, generation: address as u32 }
    }

    /// Whether no registry has it.
    #[inline]
    pub fn is_far(self) -> bool {
        self.row & FAR != 0
    }

    /// The client's number, if it is one.
    pub fn client_number(self) -> Option<u32> {
        (self.row == u32::MAX).then_some(self.generation)
    }
    /// Stores the name in a shared row.
    pub fn store(self, into: &ProcessRef) {
        into.row.store(self.row, Relaxed);
        into.generation.store(self.generation, Relaxed);
    }

    /// Reads a name from a shared row.
    pub fn load(from: &ProcessRef) -> Self {
        ProcessId { row: from.row.load(Relaxed), generation: from.generation.load(Relaxed) }
    }

    /// Packs it into one word.
    pub fn word(self) -> u64 {
        u64::from(self.row) << 32 | u64::from(self.generation)
    }

    /// Unpacks it.
    pub fn from_word(word: u64) -> Self {
        ProcessId { row: (word >> 32) as u32, generation: word as u32 }
    }

    /// Process id of a row, 0 if there is no such row.
    pub fn pid(self, map: &RegistryMap) -> u32 {
        map.processes.get(self.row as usize).map_or(0, |row| row.pid.load(Relaxed))
    }
}
