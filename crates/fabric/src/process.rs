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

impl ProcessId {
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
