//! A process gives its user up: what it shares beyond its own connections is let go, before the kernel makes
//! the change.
//!
//! Owns: what stays. Slots that somebody in this process uses, or that it has passed on, stay mapped, with
//! their doorbells; of the segments around them, of the registry, and of the descriptors to any of these
//! nothing remains. The addresses stay valid and read as zero. One thread leaves at a time, and nobody
//! attaches a slot meanwhile: it would be taken from under him. (Who would offer one uses the registry, and
//! is waited for before.)

use crate::bells;
use crate::door::Tier;
use crate::fabric::Fabric;
use crate::slot::SlotView;
use shm::segment::{SLOTS_MAX, Segment};
use shm::slab::Index;

impl<T: Tier> Fabric<T> {
    /// The slot with this number stays, though nobody here uses it.
    pub(crate) fn keep(&self, index: Index) {
        self.kept.add(index);
    }

    fn stays(&self, index: Index, view: &SlotView) -> bool {
        view.is_used() || self.kept.has(index)
    }

    /// Lets everything go but slots that are used, or were passed on.
    pub fn leave(&self) {
        // (Whoever interrupts one of these in his own thread leaves all the same: in this order, he waits for
        // nobody who waits for what he has interrupted.)
        let _turns = (self.attached.turn.take(), self.leaving.take());
        self.keep_passed_on();
        for (_, view) in self.views.all().filter(|(index, view)| !self.stays(*index, view)) {
            bells::drop_all(view, &self.tier);
        }
        self.leave_offers();
        self.leave_attached();
        self.tier.leave();
        self.kept.forget();
    }

    /// Slots of a segment that stay, a bit each.
    pub(crate) fn slots_kept(&self, segment: &Segment) -> u64 {
        let is_kept = |index, view: &SlotView| self.stays(index, view) && view.segment().is(segment);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::Local;
    use os::net::Endpoint;
    use sync::Ordering::Relaxed;

    static FABRIC: Fabric<Local> = Fabric::new(Local::new());

    /// One that has left clears what stays for itself, while another one is about to let the rest go.
    #[test]
    fn what_is_used_stays_however_many_leave_at_once() {
        let at = |port| Endpoint { family: 2, port, ..Endpoint::default() };
        let (_, view) = FABRIC.private_slot(65536, [11, 12], [at(1), at(2)]).expect("a slot");
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..200).for_each(|_| FABRIC.leave()));
            }
        });
        assert!(view.has_bells());
        assert_eq!(view.header().client_cookie.load(Relaxed), 11, "its memory is there");
        FABRIC.detach(view);
        assert!(!view.has_any_bell());
    }
}
