//! Processes by name in the rosters of slots: process id and start time, which no other process ever has together.
//! Owns: the answer to "may this process still use the slot?", which is the kernel's: a zombie uses nothing, a stopped
//! process keeps what it holds, and a program that another one was exec'ed from is the same process.

use core::sync::atomic::{AtomicU64, Ordering};
use shm::SideBlock;

/// Bits of a start time in a name: clock ticks since boot, for three hundred years.
const START_BITS: u32 = 40;

/// This process's name; belongs to the process id in it.
static MINE: AtomicU64 = AtomicU64::new(0);

fn name_of(pid: u32, started: u64) -> u64 {
    u64::from(pid) << START_BITS | started & ((1 << START_BITS) - 1)
}

/// The calling process's name.
fn me() -> u64 {
    let (known, pid) = (MINE.load(Ordering::Relaxed), os::process::cached_pid());
    if known >> START_BITS == u64::from(pid) {
        return known;
    }
    // (Without /proc the start is not known: then the name is believed for as long as anybody has the number.)
    let started = os::process::life(pid).map_or(0, |life| life.started);
    let name = name_of(pid, started);
    MINE.store(name, Ordering::Relaxed);
    name
}

/// Whether the process of that name lives, or cannot be told to be dead.
fn is_alive(name: u64) -> bool {
    let (pid, started) = ((name >> START_BITS) as u32, name & ((1 << START_BITS) - 1));
    match os::process::life(pid) {
        Some(life) => !life.is_zombie && (started == 0 || name_of(pid, life.started) == name),
        None => os::process::exists(pid),
    }
}

/// This process holds `side` from now on. The caller looks at the slot's generation afterwards.
pub fn join(side: &SideBlock) {
    side.roster.join(me(), is_alive);
}

/// This process holds `side` no more.
pub fn leave(side: &SideBlock) {
    side.roster.leave(me());
}

/// Whether another process is written down as a holder of `side`; it may have died.
pub fn has_others(side: &SideBlock) -> bool {
    side.roster.has_others(me())
}

/// The kernel knows that nobody holds `side`.
pub fn clear(side: &SideBlock) {
    side.roster.reset();
}

/// Whether a living process holds `side`.
pub fn has_living(side: &SideBlock) -> bool {
    side.roster.has_living(is_alive)
}
