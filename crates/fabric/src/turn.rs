//! Taking turns inside one process: a lock that a fork child can never find locked.
//! Owns: the identity under which this process takes locks.

pub use shm::lock::Guard;
use shm::lock::{Owner, Patience, SideLock, YIELDS};

/// A yield lets nobody on who has a lower priority: if that is the owner, only a sleep does. Each is twice as long as the one
/// before it, from 32 us up to a millisecond.
fn give_way(times: u32) {
    match times.checked_sub(YIELDS) {
        None => os::process::yield_now(),
        Some(sleeps) => os::poll::pause_ns(32_000 << sleeps.min(5)),
    }
}

/// How this project waits for a lock: give the core away, and ask the kernel whether the owner still lives.
#[derive(Clone, Copy, Debug)]
pub struct Yielding {
    /// No other process has a copy of the socket: an owner elsewhere is a lie, and counts as dead.
    pub is_exclusive: bool,
}

impl Patience for Yielding {
    fn give_way(&self, times: u32) {
        give_way(times);
    }

    fn is_alive(&self, pid: u32) -> bool {
        if self.is_exclusive { pid == os::process::cached_pid() } else { os::process::exists(pid) }
    }

    fn now_ns(&self) -> u64 {
        os::time::monotonic_ns()
    }
}

/// Private memory is copied by fork: an owner with another process id is a leftover.
struct Private;

impl Patience for Private {
    fn give_way(&self, times: u32) {
        give_way(times);
    }

    fn is_alive(&self, pid: u32) -> bool {
        pid == os::process::cached_pid()
    }

    // Nobody outside this process can write the word: its holder is believed for as long as it takes.
    fn now_ns(&self) -> u64 {
        0
    }
}

/// The calling thread, as lock owner.
#[inline(always)]
pub fn me() -> Owner {
    Owner::new(os::process::cached_pid(), os::process::thread_mark())
}

/// A lock in private memory around process-wide tables.
pub struct Turn(SideLock);

impl Turn {
    /// A free lock.
    pub const fn new() -> Self {
        Turn(SideLock::new())
    }

    /// Waits for the turn. `None` if a signal handler interrupted the holder in this very thread.
    pub fn take(&self) -> Option<Guard<'_>> {
        self.0.lock(me(), &Private).ok()
    }
}

impl Default for Turn {
    fn default() -> Self {
        Self::new()
    }
}
