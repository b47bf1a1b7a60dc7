//! The one door for atomics of what runs in a program: core's, or loom's under `--cfg loom`. A file that
//! took core's directly would be invisible to the model checker (`cargo xtask tidy` finds it). Owns: nothing
//! else.
#![cfg_attr(not(loom), no_std)]

#[cfg(not(loom))]
pub use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(loom)]
pub use loom::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

/// Tells the core that this is a wait loop.
#[inline]
pub fn pause() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// Stores `value`, with release, where others may be changing `word` by read-modify-write at the same time.
/// (In C++'s memory model the two have one order; loom has none for them, and may show the older for ever:
/// there it is a swap.)
#[inline(always)]
pub fn publish(word: &AtomicU64, value: u64) {
    #[cfg(not(loom))]
    word.store(value, Ordering::Release);
    #[cfg(loom)]
    word.swap(value, Ordering::AcqRel);
}

/// Between two accesses in the one order of all that are `SeqCst`. (In C++'s memory model these need nothing
/// more; loom knows that order of fences alone: there it is one.)
#[inline(always)]
pub fn in_one_order() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}
