//! Processes by name in the rosters of slots: process id and start time, which no other process ever has
//! together. Owns: the answer to "may this process still use the slot?", which is the kernel's: a zombie uses
//! nothing, a stopped process keeps what it holds, and a program that another one was exec'ed from is the
//! same process.

use sync::{AtomicU64, Ordering};

/// Bits of a start time in a name: clock ticks since boot, for three hundred years.
const START_BITS: u32 = 40;

/// This process's name, once it is known; belongs to the process id in it.
pub(crate) struct Name(AtomicU64);

/// The name of a process that started then.
pub(crate) fn name_of(pid: u32, started: u64) -> u64 {
    u64::from(pid) << START_BITS | started & ((1 << START_BITS) - 1)
}

impl Name {
    pub(crate) const fn new() -> Self {
        Name(AtomicU64::new(0))
    }

    /// The calling process's name.
    pub(crate) fn get(&self) -> u64 {
        let (known, pid) = (self.0.load(Ordering::Relaxed), os::process::cached_pid());
        if known >> START_BITS == u64::from(pid) {
            return known;
        }
        // (Without /proc the start is not known: then the name is believed for as long as anybody has the
        // number.)
        let started = os::process::life(pid).map_or(0, |life| life.started);
        let name = name_of(pid, started);
        self.0.store(name, Ordering::Relaxed);
        name
    }
}

/// The process id in a name.
pub(crate) fn pid_of(name: u64) -> u32 {
    (name >> START_BITS) as u32
}

/// Whether the process of that name lives, or cannot be told to be dead.
pub(crate) fn is_alive(name: u64) -> bool {
    let (pid, started) = (pid_of(name), name & ((1 << START_BITS) - 1));
    match os::process::life(pid) {
        Some(life) => !life.is_zombie && (started == 0 || name_of(pid, life.started) == name),
        None => os::process::exists(pid),
    }
}
