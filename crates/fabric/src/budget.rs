//! How much memory may be shared: by this process, by its cgroup and by its user. Owns: the bounds. A segment
//! counts as if all of it were used; where the budget ends, connections stay on TCP, so that nobody is killed
//! for memory that is ours.
//!
//! A process may have half of the machine's memory, a quarter of its cgroup's and an eighth of its address
//! space (or of what it may lock, if it locks all) mapped, or what SMC_MEMORY says; all processes of a user
//! together half of the machine's, or what SMC_USER_MEMORY says; all of a cgroup a quarter of what that may
//! have. Who makes a segment pays for it; who maps another's pays if that one is in another cgroup, for each
//! pays for the pages that he touches first.

use crate::config::Config;
use os::room::Room;
use sync::{AtomicU32, AtomicU64};

/// What a process has taken.
pub(crate) struct Budget {
    /// Bytes mapped.
    pub(crate) mapped: AtomicU64,
    /// Bytes that it pays for, as its row says.
    pub(crate) paid: AtomicU64,
    /// Until when (in nanoseconds) nothing is asked for, since there was nothing.
    pub(crate) exhausted: AtomicU64,
    /// Why.
    pub(crate) exhausted_for: AtomicU32,
}

/// So long after the budget has ended it is not looked at again: a look reads some files.
pub(crate) const REST_NS: u64 = 50_000_000;

/// What may be taken, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// By one process.
    pub process: u64,
    /// By all of a user.
    pub user: u64,
    /// By all of the same cgroup.
    pub cgroup: u64,
    /// Whether the machine has memory left at all.
    pub(crate) has_some: bool,
}

/// Our part of what a cgroup may have.
pub(crate) fn of_cgroup(limit: u64) -> u64 {
    limit / 4
}

impl Limits {
    /// What the calling process may take now.
    pub fn now(config: &Config) -> Limits {
        Limits::of(&os::room::look(), config.memory(), config.user_memory())
    }

    /// What `room` allows; `process` and `user` are what somebody asked for.
    pub(crate) fn of(room: &Room, process: Option<u64>, user: Option<u64>) -> Limits {
        let cgroup = of_cgroup(room.cgroup);
        let by_room = (room.machine / 2).min(cgroup).min(room.address_space / 8);
        Limits {
            process: process.unwrap_or(by_room),
            user: user.unwrap_or(room.machine / 2),
            cgroup: if process.is_some() { u64::MAX } else { cgroup },
            has_some: room.machine == u64::MAX || room.available > room.machine / 16,
        }
    }
}

impl Budget {
    pub(crate) const fn new() -> Self {
        Budget {
            mapped: AtomicU64::new(0),
            paid: AtomicU64::new(0),
            exhausted: AtomicU64::new(0),
            exhausted_for: AtomicU32::new(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_tightest_bound_holds_unless_somebody_asked_for_another() {
        let room = Room {
            machine: 16 * GIB,
            available: 8 * GIB,
            cgroup: u64::MAX,
            domain: 0,
            address_space: u64::MAX,
        };
        let of = |room: &Room| Limits::of(room, None, None);
        assert_eq!((of(&room).process, of(&room).user), (8 * GIB, 8 * GIB));
        let small = Room { cgroup: GIB, domain: 7, ..room };
        assert_eq!((of(&small).process, of(&small).cgroup, of(&small).user), (GIB / 4, GIB / 4, 8 * GIB));
        let narrow = Room { address_space: GIB, ..small };
        assert_eq!(of(&narrow).process, GIB / 8);
        let asked = Limits::of(&narrow, Some(2 * GIB), Some(GIB));
        assert_eq!((asked.process, asked.user), (2 * GIB, GIB));
        assert!(asked.has_some && !of(&Room { available: GIB / 2, ..room }).has_some);
    }
}
