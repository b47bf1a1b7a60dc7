//! Numbers that are free, as a lock-free stack: the last given back is taken first.
//!
//! Owns: that a number is never handed to two. The top carries a count of changes: a thread that was held up
//! between its look and its exchange finds another top even if the same number is there again (ABA). A fork
//! child never inherits it half changed: each change is one exchange. Checked with loom in `loom_slab`.

use sync::{AtomicU32, AtomicU64, Ordering};

/// The top, plus one (zero: nothing is free), in the lower half; changes in the upper.
pub(crate) struct FreeList(AtomicU64);

/// The top `number` plus one, or zero, behind one more change than `before` has seen.
fn changed(before: u64, number: u32) -> u64 {
    ((before >> 32).wrapping_add(1) << 32) | u64::from(number)
}

impl FreeList {
    /// Nothing is free.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        FreeList(AtomicU64::new(0))
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        FreeList(AtomicU64::new(0))
    }

    /// Takes the number that was given back last. `below` is where a number's link to the one below it lies.
    pub(crate) fn pop<'a>(&self, below: impl Fn(u32) -> Option<&'a AtomicU32>) -> Option<u32> {
        let mut top = self.0.load(Ordering::Acquire);
        loop {
            let number = (top as u32).checked_sub(1)?;
            let next = below(number)?.load(Ordering::Relaxed);
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            match self.0.compare_exchange_weak(top, changed(top, next), success, failure) {
                Ok(_) => return Some(number),
                Err(now) => top = now,
            }
        }
    }

    /// Puts `number`, whose link is `below`, on top. Nothing refers to it any more: the caller has made sure.
    pub(crate) fn push(&self, number: u32, below: &AtomicU32) {
        let mut top = self.0.load(Ordering::Acquire);
        loop {
            below.store(top as u32, Ordering::Relaxed);
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            match self.0.compare_exchange_weak(top, changed(top, number + 1), success, failure) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }
}
