//! The local tier: one user on one kernel. What its processes tell each other lies in a file of the user;
//! everything else is asked of the kernel, which is neither forged nor out of date.
//!
//! Owns: the answers to all questions of [`crate::door`] here, and the state that they need. Nothing outside
//! this folder knows of `/proc`, of sealed memory, of byte locks or of sock_diag.

mod asked;
mod bell;
mod directory;
mod end;
mod key;
mod listener;
mod mailbox;
pub(crate) mod member;
mod memory;
mod name;
mod place;
mod process;
mod registry;

use crate::door::Life;
use crate::process::ProcessId;
use asked::LastAsked;
use member::Name;
pub(crate) use memory::keep_to_read;
pub use name::{PATH_LEN, unforeseen_number};
use process::Seat;
use registry::Registry;
use shm::registry::RegistryMap;
use sync::AtomicBool;

/// The tier as one process has it. All zero while nothing was asked of it.
pub struct Local {
    registry: Registry,
    seat: Seat,
    name: Name,
    asked: LastAsked,
    /// Whether this process got sockets from another one: only then memory may have come with them.
    has_adopted: AtomicBool,
}

impl Local {
    /// Nothing is opened, mapped or known yet.
    pub const fn new() -> Self {
        Local {
            registry: Registry::new(),
            seat: Seat::new(),
            name: Name::new(),
            asked: LastAsked::new(),
            has_adopted: AtomicBool::new(false),
        }
    }
}

impl Default for Local {
    fn default() -> Self {
        Self::new()
    }
}

impl Life for Local {
    fn me(&self, map: &'static RegistryMap) -> Option<ProcessId> {
        self.seat.me(&self.registry, map)
    }

    fn is_alive(&self, map: &RegistryMap, process: ProcessId) -> bool {
        self.seat.is_alive(&self.registry, map, process)
    }

    fn name(&self) -> u64 {
        self.name.get()
    }

    fn is_name_alive(&self, name: u64) -> bool {
        member::is_alive(name)
    }

    fn pid_of(&self, name: u64) -> u32 {
        member::pid_of(name)
    }
}
