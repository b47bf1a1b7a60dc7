//! Who uses a socket, and what it remembers in bits. Owns: the word that says whether it is anybody's.

use crate::flag::Flags;
use sync::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The count of uses: calls in progress in the lower half, descriptors above, and a bit for an object that is
/// nobody's.
pub(crate) const CALL: u64 = 1;
pub(crate) const FD: u64 = 1 << 32;
pub(crate) const FREE: u64 = 1 << 63;

#[repr(C)]
pub(crate) struct Life {
    /// Descriptors of this process that refer to it, calls in progress, and whether it is in use at all.
    pub(crate) uses: AtomicU64,
    /// The era (see `era`) in which this process was known to be the only one with the socket; 0 for never.
    pub(super) exclusive_era: AtomicU64,
    /// See [`flag`](crate::flag).
    pub(super) flags: AtomicU32,
    pub(super) phase: AtomicU8,
    /// Which end of the connection it is.
    pub(super) side: AtomicU8,
    /// Where it is known of a client's address how its connections end (`brief`), from 1 on.
    pub(super) brief: AtomicU8,
}

impl Life {
    pub(super) const fn new() -> Self {
        Life {
            uses: AtomicU64::new(FREE),
            exclusive_era: AtomicU64::new(0),
            flags: AtomicU32::new(Flags::NONE.word()),
            phase: AtomicU8::new(0),
            side: AtomicU8::new(0),
            brief: AtomicU8::new(0),
        }
    }

    /// For another socket. (Late looks go on counting at the uses; the phase is the table's to change; the
    /// side is a tie's.)
    pub(super) fn reset(&self) {
        let Life { uses: _, exclusive_era, flags, phase: _, side: _, brief } = self;
        exclusive_era.store(0, Ordering::Relaxed);
        brief.store(0, Ordering::Relaxed);
        flags.store(Flags::NONE.word(), Ordering::Relaxed);
    }
}
