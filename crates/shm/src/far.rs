//! How a role learns how far the other one has come. Owns: what a cursor is believed that did not come by a
//! load.
//!
//! On one machine the other role's word is mapped, and looking at it is a load. Between machines the cursors
//! come in messages, and there are two that a producer must mind: what it wrote may be overwritten once the
//! adapter has read it, and sent once the other end has room for it ([`Least`]).

use crate::ring::PeerMisbehaved;
use sync::{AtomicU64, Ordering};

/// Where the other role's cursor comes from.
pub trait Far {
    /// Whether the other role maps the same words: then looking is what costs, and a byte's place may change.
    const IS_MAPPED: bool;

    /// The cursor as known now; bytes published with it, or freed by it, may be touched.
    fn cursor(&self) -> u64;
}

/// The word itself.
#[derive(Clone, Copy, Debug)]
pub struct Loaded<'a>(pub &'a AtomicU64);

impl Far for Loaded<'_> {
    const IS_MAPPED: bool = true;

    #[inline]
    fn cursor(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// What messages have told. Whoever takes them in is one at a time.
#[derive(Debug)]
pub struct Told {
    at: AtomicU64,
    /// Bytes of the other end's ring: nothing can move further at once.
    size: u64,
    /// Bytes by which the other end's ring is smaller than ours.
    short: u64,
}

impl Told {
    /// Nothing yet. `ours` and `theirs` are the sizes of the two ends' rings in bytes, powers of two.
    pub fn new(ours: u32, theirs: u32) -> Self {
        debug_assert!(ours.is_power_of_two() && theirs.is_power_of_two());
        let (ours, theirs) = (u64::from(ours), u64::from(theirs));
        Told { at: AtomicU64::new(0), size: theirs, short: ours.saturating_sub(theirs) }
    }

    /// A message says that the cursor, which counts modulo 65536 rings of the other end's size, is at `wrap`
    /// and `count`.
    ///
    /// # Errors
    /// [`PeerMisbehaved`] if `count` is no place in the ring, or the cursor would go back or on by
    /// more than the ring.
    pub fn tell(&self, wrap: u16, count: u32) -> Result<(), PeerMisbehaved> {
        if u64::from(count) >= self.size {
            return Err(PeerMisbehaved);
        }
        let before = self.at.load(Ordering::Relaxed);
        let told = u64::from(wrap) * self.size + u64::from(count);
        let forward = told.wrapping_sub(before) % (self.size << 16);
        if forward > self.size {
            return Err(PeerMisbehaved);
        }
        self.at.store(before.wrapping_add(forward), Ordering::Release);
        Ok(())
    }
}

impl Far for &Told {
    const IS_MAPPED: bool = false;

    #[inline]
    fn cursor(&self) -> u64 {
        self.at.load(Ordering::Acquire).wrapping_sub(self.short)
    }
}

/// The lesser of two cursors.
#[derive(Clone, Copy, Debug)]
pub struct Least<A, B>(pub A, pub B);

impl<A: Far, B: Far> Far for Least<A, B> {
    const IS_MAPPED: bool = A::IS_MAPPED && B::IS_MAPPED;

    #[inline]
    fn cursor(&self) -> u64 {
        let (a, b) = (self.0.cursor(), self.1.cursor());
        // (Cursors wrap, and are never half of all numbers apart.)
        if a.wrapping_sub(b).cast_signed() < 0 { a } else { b }
    }
}
