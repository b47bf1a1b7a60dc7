//! Who lives.
//!
//! One kernel, containers: byte locks on the directory's file, which the kernel drops; process id and start
//! time. Guests: the epoch of a kernel, and in it the same. Hosts: the link. Owns: a name is never another's,
//! and whoever cannot be told to be dead lives: nothing is taken from the living.

use crate::process::ProcessId;
use shm::registry::RegistryMap;

/// Names of processes, and whether they still mean somebody.
pub trait Life {
    /// This process's row in the directory, taken now if it has none. `None` if there is no room.
    fn me(&self, map: &'static RegistryMap) -> Option<ProcessId>;

    /// Whether it lives and still has the library.
    fn is_alive(&self, map: &RegistryMap, process: ProcessId) -> bool;

    /// This process's name in the rosters of slots; not 0.
    fn name(&self) -> u64;

    /// Whether a process of a roster lives, with the library or not.
    fn is_name_alive(&self, name: u64) -> bool;

    /// The process id in a name, as the directory's processes count.
    fn pid_of(&self, name: u64) -> u32;
}
