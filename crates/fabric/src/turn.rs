//! How this process waits for locks, and under which name: what `shm` leaves open, since it makes no system
//! call, and `os` does not decide. Here since this is the lowest room that sees both. Owns: the identity
//! under which this process takes locks.

pub use shm::lock::Guard;
use shm::lock::{Doing, Owner, Patience, YIELDS};
use shm::mutex::{Mutex, Waiter};

/// A yield lets nobody on who has a lower priority: if that is the owner, only a sleep does. Each is twice as
/// long as the one before it, from 32 us up to a millisecond.
pub(crate) fn give_way(times: u32) {
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

    fn doing(&self, pid: u32, is_late: bool) -> Doing {
        match self.is_exclusive {
            true => own(pid),
            false => doing(pid, is_late),
        }
    }

    fn now_ns(&self) -> u64 {
        os::time::monotonic_ns()
    }

    // (Whatever was left in the middle of a copy has not published it.)
    fn may_be_interrupted(&self) -> bool {
        os::confined::is_confined() || os::signals::may_be_in_a_handler(os::futex::is_readable)
    }
}

fn own(pid: u32) -> Doing {
    if pid == os::process::cached_pid() { Doing::Living } else { Doing::Nothing }
}

/// A zombie has let go of everything. Who is stopped has not, and nor has who waits in the kernel (for the
/// page that it copies from, say), though that should never take long.
fn doing(pid: u32, is_late: bool) -> Doing {
    if !os::process::exists(pid) {
        return Doing::Nothing;
    }
    match os::process::life(pid) {
        Some(life) if life.is_zombie => Doing::Nothing,
        Some(life) if life.is_stopped || (is_late && life.is_in_kernel) => Doing::Stopped,
        _ if is_late && os::process::is_frozen(pid) => Doing::Stopped,
        _ => Doing::Living,
    }
}

/// How threads of one process wait for each other. Private memory is copied by fork: an owner with another
/// process id is a leftover.
#[derive(Clone, Copy, Debug)]
pub struct Private;

impl Patience for Private {
    fn give_way(&self, times: u32) {
        give_way(times);
    }

    fn doing(&self, pid: u32, _: bool) -> Doing {
        own(pid)
    }

    // Nobody outside this process can write the word: its holder is believed for as long as it takes.
    fn now_ns(&self) -> u64 {
        0
    }
}

impl Waiter for Private {
    const PATIENCE: Self = Private;

    fn me() -> Owner {
        me()
    }
}

/// The calling thread, as lock owner.
#[inline(always)]
pub fn me() -> Owner {
    Owner::new(os::process::cached_pid(), os::process::thread_mark())
}

/// A lock in private memory around process-wide tables.
pub type Turn = Mutex<Private>;
