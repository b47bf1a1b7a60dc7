//! A process gives its user up: what it shares beyond its own connections is let go, before the kernel makes the change.
//!
//! Owns: what stays. Slots of connections that this process has stay mapped, with their doorbells; of the segments around
//! them, of the registry, and of the descriptors to any of these nothing remains. The addresses stay valid and read as zero.

use crate::slot::SlotView;
use crate::{attach, offer, registry};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use os::mem;
use shm::segment::{SLOTS_MAX, Segment};
use shm::slab::Index;

/// Views of slots that stay, a bit each.
static KEPT: [AtomicU64; crate::slot::VIEWS / 64] = [const { AtomicU64::new(0) }; crate::slot::VIEWS / 64];

/// The slot with this number carries a connection of this process.
pub fn keep(index: Index) {
    if let Some(word) = KEPT.get(index.0 as usize / 64) {
        word.fetch_or(1 << (index.0 % 64), Relaxed);
    }
}

fn is_kept(index: Index) -> bool {
    KEPT.get(index.0 as usize / 64).is_some_and(|word| word.load(Relaxed) & 1 << (index.0 % 64) != 0)
}

/// Lets everything go but what was [kept](keep).
pub fn leave() {
    for (_, view) in SlotView::all().filter(|(index, _)| !is_kept(*index)) {
        view.drop_bells();
    }
    offer::leave(slots_kept);
    attach::leave(slots_kept);
    registry::leave();
    os::diag::forget();
    for word in &KEPT {
        if word.load(Relaxed) != 0 {
            word.store(0, Relaxed);
        }
    }
}

/// Slots of a segment that stay, a bit each.
fn slots_kept(segment: &Segment) -> u64 {
    let views = SlotView::all().filter(|(index, view)| is_kept(*index) && view.segment().is(segment));
    views.fold(0, |slots, (_, view)| slots | 1 << view.number())
}

/// Lets go of a segment but for some of its slots.
pub(crate) fn drop_all_but(segment: &Segment, kept: u64) {
    let _ = mem::retire(segment.header_memory());
    let slots = segment.geometry().slots.min(SLOTS_MAX);
    let is_kept = |slot: u32| kept & 1 << slot != 0;
    let mut first = 0;
    while first < slots {
        let end = (first..slots).find(|slot| is_kept(*slot)).unwrap_or(slots);
        if let Some(memory) = segment.memory_of(first, end) {
            let _ = mem::retire(memory);
        }
        first = end + 1;
    }
}

/// Lets go of one slot.
pub(crate) fn drop_one(segment: &Segment, slot: u32) {
    if let Some(memory) = segment.memory_of(slot, slot + 1) {
        let _ = mem::retire(memory);
    }
}
