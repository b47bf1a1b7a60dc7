//! When programs of this user last gave a core away because they wait, core by core. Owns: what tells a yield
//! that lasted because many took their slice from one that lasted because somebody computed.
//!
//! Only speed depends on it: a word may be overwritten or lie.

use crate::ring::Line;
use sync::{AtomicU32, AtomicU64, Ordering};

/// Cores told apart; more share words.
pub const CORES: usize = 64;

/// One core's words, on a line of their own: whoever runs there writes them, so they are in its cache.
#[derive(Debug)]
#[repr(C)]
struct Core {
    /// When the last slice ended, in cycles.
    ended_at: AtomicU64,
    /// How many slices were long.
    long: AtomicU32,
}

/// All cores.
#[derive(Debug)]
#[repr(C)]
pub struct Slices([Line<Core>; CORES]);

impl Default for Slices {
    fn default() -> Self {
        Self::new()
    }
}

impl Slices {
    /// Cores that nobody has given away yet.
    pub fn new() -> Self {
        Slices(core::array::from_fn(|_| Line(Core { ended_at: AtomicU64::new(0), long: AtomicU32::new(0) })))
    }

    #[inline]
    fn of(&self, core: u32) -> &Core {
        &self.0[core as usize % CORES].0
    }

    /// A slice on `core` ends at `now`. It counts as long if it began more than `long` cycles ago; returns
    /// how many did. (Not one atomic step: who is interrupted on the way may lose a count.)
    #[inline]
    pub fn end(&self, core: u32, now: u64, long: u64) -> u32 {
        let words = self.of(core);
        let count = words.long.load(Ordering::Relaxed);
        let count = count.wrapping_add(u32::from(self.has_lasted(core, now, long)));
        words.long.store(count, Ordering::Relaxed);
        words.ended_at.store(now, Ordering::Relaxed);
        count
    }

    /// Whether somebody has had `core` for more than `long` cycles at `now`, or had since `count` was
    /// returned.
    pub fn was_long(&self, core: u32, count: u32, now: u64, long: u64) -> bool {
        self.of(core).long.load(Ordering::Relaxed) != count || self.has_lasted(core, now, long)
    }

    /// Whether nobody's slice on `core` has ended since the one that ended at `now`.
    #[inline]
    pub fn was_last(&self, core: u32, now: u64) -> bool {
        self.of(core).ended_at.load(Ordering::Relaxed) == now
    }

    #[inline]
    fn has_lasted(&self, core: u32, now: u64, long: u64) -> bool {
        now.wrapping_sub(self.of(core).ended_at.load(Ordering::Relaxed)) > long
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn many_short_turns_are_not_a_long_one() {
        let slices = Slices::new();
        let before = slices.end(1, 100, 1000);
        for now in 2..50 {
            slices.end(1, now * 100, 1000);
        }
        assert!(!slices.was_long(1, before, 5000, 1000));
    }

    #[test]
    fn a_long_slice_is_seen_by_who_waited_for_its_end_and_by_who_comes_right_after() {
        let slices = Slices::new();
        let before = slices.end(1, 100, 1000);
        assert!(slices.was_long(1, before, 5000, 1000), "nobody has ended it yet");
        slices.end(1, 5000, 1000);
        assert!(slices.was_long(1, before, 5100, 1000));
        let after = slices.end(1, 5100, 1000);
        assert!(!slices.was_long(1, after, 5200, 1000));
    }

    #[test]
    fn who_shares_a_core_is_noticed() {
        let slices = Slices::new();
        slices.end(1, 100, 1000);
        slices.end(2, 200, 1000);
        assert!(slices.was_last(1, 100), "the other core is another's");
        slices.end(1, 300, 1000);
        assert!(!slices.was_last(1, 100));
    }

    #[test]
    fn cores_are_told_apart() {
        let slices = Slices::new();
        let before = slices.end(1, 100, 1000);
        slices.end(2, 5000, 1000);
        assert!(!slices.was_long(1, before, 200, 1000));
    }
}
