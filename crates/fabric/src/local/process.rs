//! Processes in the registry. Owns: the answer to "does the process behind this row still live, with the
//! library in it?"
//!
//! Each process that takes part holds a byte lock on its row through an open file description of its own. The
//! kernel drops the lock when the last process that shares the description is gone: exit, SIGKILL and exec
//! alike (the descriptor is close-on-exec). A fork child shares its parent's lock, and takes a row of its own
//! when it needs one.

use super::registry::Registry;
use crate::process::{LOCK_BASE, ProcessId};
use os::{fd, file};
use shm::registry::{PROCESSES, ProcessRow, RegistryMap};
use sync::Ordering::Relaxed;
use sync::{AtomicU64, Ordering};

/// This process's row.
pub(crate) struct Seat {
    /// `pid << 32 | row + 1`; 0 for none yet.
    mine: AtomicU64,
}

impl Seat {
    pub(crate) const fn new() -> Self {
        Seat { mine: AtomicU64::new(0) }
    }

    /// Whether `process` is the calling one.
    pub(crate) fn is_me(&self, process: ProcessId) -> bool {
        self.mine.load(Ordering::Acquire) == word_for(process.row)
    }

    /// Whether `process` lives and still has the library.
    pub(crate) fn is_alive(&self, registry: &Registry, map: &RegistryMap, process: ProcessId) -> bool {
        let Some(row) = map.processes.get(process.row as usize) else {
            return false;
        };
        if row.generation.load(Relaxed) != process.generation || process.generation == 0 {
            return false;
        }
        self.is_me(process) || file::is_byte_locked(registry.asking_fd(), LOCK_BASE + u64::from(process.row))
    }

    /// This process's row, taken now if it has none. `None` if all rows are in use or locks are refused.
    pub(crate) fn me(&self, registry: &Registry, map: &'static RegistryMap) -> Option<ProcessId> {
        let mine = self.mine.load(Ordering::Acquire);
        let row = match (mine as u32).checked_sub(1) {
            Some(row) if mine == word_for(row) => row,
            _ => self.enlist(registry, map)?,
        };
        let generation = map.processes.get(row as usize)?.generation.load(Relaxed);
        Some(ProcessId { row, generation })
    }

    fn enlist(&self, registry: &Registry, map: &'static RegistryMap) -> Option<u32> {
        let lock_fd = registry.reopen()?;
        let start = os::process::cached_pid() as usize;
        let row = (0..PROCESSES)
            .map(|step| (start + step) % PROCESSES)
            .find(|row| file::lock_byte(lock_fd, LOCK_BASE + *row as u64).is_ok());
        let Some(row) = row else {
            fd::close(lock_fd);
            return None;
        };
        introduce(map.processes.get(row)?);
        let word = word_for(row as u32);
        let seen = self.mine.load(Ordering::Acquire);
        // Another thread of this process may have enlisted meanwhile: its row serves, ours is given back.
        if seen >> 32 == word >> 32
            || self.mine.compare_exchange(seen, word, Ordering::AcqRel, Ordering::Acquire).is_err()
        {
            fd::close(lock_fd);
            return (self.mine.load(Ordering::Acquire) as u32).checked_sub(1);
        }
        // The descriptor stays open for the life of the process: it is the lock.
        Some(row as u32)
    }

    /// Gives this process's row up, with the lock: whoever closes the lock's descriptor does the rest.
    pub(crate) fn leave(&self) {
        self.mine.store(0, Ordering::Release);
    }
}

fn word_for(row: u32) -> u64 {
    u64::from(os::process::cached_pid()) << 32 | u64::from(row + 1)
}

fn introduce(row: &ProcessRow) {
    row.pid.store(os::process::cached_pid(), Relaxed);
    for (word, bytes) in row.comm.iter().zip(os::process::comm().chunks_exact(4)) {
        word.store(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte)), Relaxed);
    }
    row.memory.store(0, Relaxed);
    row.domain.store(0, Relaxed);
    // 0 means "never used", so it is skipped on wrap-around.
    let next = row.generation.load(Relaxed).wrapping_add(1).max(1);
    row.generation.store(next, Relaxed);
}
