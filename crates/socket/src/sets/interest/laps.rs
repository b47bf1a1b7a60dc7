//! Where a set stands whose answers came out full. Owns: whose lap it is, and how much of it is left.
//!
//! The words of `epoll::turns`, which has the rules. (Of several threads one may overwrite what another has
//! noted; then somebody is told a turn early or late.)

use super::registration::{Registration, registrations};
use shm::slab::Index;
use sync::{AtomicU32, Ordering};

const NOBODYS: u32 = 0;
const RINGS: u32 = 1;
const KERNELS: u32 = 2;
const UNKNOWN: u32 = u32::MAX;

/// The laps of a set.
pub(crate) struct Laps {
    whose: AtomicU32,
    /// Of the rings' lap: so many members are still to be looked at.
    pub(crate) left: AtomicU32,
    /// Whose doorbell ends the kernel's lap, plus one.
    marker: AtomicU32,
    /// It stands behind all that the kernel has not told yet.
    is_placed: AtomicU32,
    /// Told by the rings since the kernel's last lap.
    told: AtomicU32,
    /// Told by the kernel in its lap, and in the one before (`UNKNOWN`).
    told_by_kernel: AtomicU32,
    told_before: AtomicU32,
    /// The kernel's lap began somewhere in its list.
    is_part: AtomicU32,
}

impl Laps {
    pub(crate) const fn new() -> Self {
        Laps {
            whose: AtomicU32::new(NOBODYS),
            left: AtomicU32::new(0),
            marker: AtomicU32::new(0),
            is_placed: AtomicU32::new(0),
            told: AtomicU32::new(0),
            told_by_kernel: AtomicU32::new(0),
            told_before: AtomicU32::new(UNKNOWN),
            is_part: AtomicU32::new(0),
        }
    }

    /// Whether the last answer came out full.
    #[inline]
    pub(crate) fn are_on(&self) -> bool {
        self.whose.load(Ordering::Relaxed) != NOBODYS
    }

    pub(crate) fn is_kernels(&self) -> bool {
        self.whose.load(Ordering::Relaxed) == KERNELS
    }

    /// All that is ready was told.
    pub(crate) fn end(&self) {
        self.whose.store(NOBODYS, Ordering::Relaxed);
        self.marker.store(0, Ordering::Relaxed);
        self.told_before.store(UNKNOWN, Ordering::Relaxed);
        self.told_by_kernel.store(0, Ordering::Relaxed);
    }

    /// The rings' lap, over so many members.
    pub(crate) fn begin_rings(&self, left: u32) {
        self.left.store(left, Ordering::Relaxed);
        self.whose.store(RINGS, Ordering::Relaxed);
    }

    pub(crate) fn begin_kernels(&self) {
        self.told.store(0, Ordering::Relaxed);
        self.told_by_kernel.store(0, Ordering::Relaxed);
        self.whose.store(KERNELS, Ordering::Relaxed);
    }

    /// The kernel's lap, of which something was told without a marker.
    pub(crate) fn begin_kernels_part(&self) {
        self.begin_kernels();
        self.is_part.store(1, Ordering::Relaxed);
    }

    /// The rings told of so many more. How many since the kernel's last lap.
    pub(crate) fn count_told(&self, more: usize) -> u32 {
        let told = self.told.load(Ordering::Relaxed).saturating_add(more as u32);
        self.told.store(told, Ordering::Relaxed);
        told
    }

    pub(crate) fn marker(&self) -> Option<&'static Registration> {
        registrations().get(Index(self.marker.load(Ordering::Relaxed).checked_sub(1)?))
    }

    pub(crate) fn mark(&self, marker: Index, is_placed: bool) {
        self.marker.store(marker.0 + 1, Ordering::Relaxed);
        self.is_placed.store(u32::from(is_placed), Ordering::Relaxed);
        if !is_placed {
            self.is_part.store(1, Ordering::Relaxed);
        }
    }

    /// The marker stands behind all that the kernel has to tell of.
    pub(crate) fn note_placed(&self) {
        self.is_placed.store(1, Ordering::Relaxed);
    }

    /// The kernel told of so many more.
    pub(crate) fn count_told_by_kernel(&self, more: usize) {
        self.told_by_kernel.fetch_add(more as u32, Ordering::Relaxed);
    }

    /// The kernel's lap has come to its end.
    pub(crate) fn end_kernels(&self) {
        let told = self.told_by_kernel.load(Ordering::Relaxed);
        let is_part = self.is_part.swap(0, Ordering::Relaxed) != 0;
        self.told_before.store(if is_part { UNKNOWN } else { told }, Ordering::Relaxed);
    }

    /// How many the kernel told of in its last lap, if that was a whole one.
    pub(crate) fn told_before(&self) -> Option<u32> {
        Some(self.told_before.load(Ordering::Relaxed)).filter(|before| *before != UNKNOWN)
    }

    /// Whether the kernel's last lap told of something.
    pub(crate) fn has_kernel_told(&self) -> bool {
        self.told_by_kernel.load(Ordering::Relaxed) > 0
    }

    /// How many the kernel will name up to the end of its lap, if it is as the one before.
    pub(crate) fn left_of_kernels(&self) -> Option<u32> {
        Some(self.told_before()?.saturating_sub(self.told_by_kernel.load(Ordering::Relaxed)) + 1)
    }

    pub(crate) fn is_placed(&self) -> bool {
        self.is_placed.load(Ordering::Relaxed) != 0
    }
}
