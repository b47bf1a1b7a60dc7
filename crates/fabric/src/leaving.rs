//! A process gives its user up: what it shares beyond its own connections is let go, before the kernel makes
//! the change.
//!
//! Owns: what stays. Slots of connections that this process has, or has passed on, stay mapped, with their
//! doorbells; of the segments around them, of the registry, and of the descriptors to any of these nothing
//! remains. The addresses stay valid and read as zero.

use crate::bells;
use crate::door::Tier;
use crate::fabric::Fabric;
use shm::segment::{SLOTS_MAX, Segment};
use shm::slab::Index;

impl<T: Tier> Fabric<T> {
    /// The slot with this number carries a connection of this process.
    pub fn keep(&self, index: Index) {
        self.kept.add(index);
    }

    /// Lets everything go but what was [kept](Self::keep).
    pub fn leave(&self) {
        self.keep_passed_on();
        for (_, view) in self.views.all().filter(|(index, _)| !self.kept.has(*index)) {
            bells::drop_all(view, &self.tier);
        }
        self.leave_offers();
        self.leave_attached();
        self.tier.leave();
        self.kept.forget();
    }

    /// Slots of a segment that stay, a bit each.
    pub(crate) fn slots_kept(&self, segment: &Segment) -> u64 {
        let is_kept =
            |index, view: &crate::slot::SlotView| self.kept.has(index) && view.segment().is(segment);
        let views = self.views.all().filter(|(index, view)| is_kept(*index, view));
        views.fold(0, |slots, (_, view)| slots | 1 << view.number())
    }

    /// Lets go of a segment but for some of its slots.
    pub(crate) fn drop_all_but(&self, segment: &Segment, kept: u64) {
        self.tier.retire(segment.header_memory());
        let slots = segment.geometry().slots.min(SLOTS_MAX);
        let is_kept = |slot: u32| kept & 1 << slot != 0;
        let mut first = 0;
        while first < slots {
            let end = (first..slots).find(|slot| is_kept(*slot)).unwrap_or(slots);
            if let Some(memory) = segment.memory_of(first, end) {
                self.tier.retire(memory);
            }
            first = end + 1;
        }
    }

    /// Lets go of one slot.
    pub(crate) fn drop_one(&self, segment: &Segment, slot: u32) {
        if let Some(memory) = segment.memory_of(slot, slot + 1) {
            self.tier.retire(memory);
        }
    }
}
