//! The table of segments of other processes that are mapped here. Owns: which connections of this process are
//! on them; what becomes of them is decided in `attach`.

use crate::process::ProcessId;
use crate::slot::{SlotView, Views};
use crate::turn::Turn;
use os::mem::Shared;
use shm::segment::{SLOTS_MAX, Segment};
use shm::slab::{Index, LEAF, Slab};
use sync::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Most segments of other processes mapped here at once.
const SEGMENTS: usize = 4096;
/// A foreign segment mapped here. The address range and geometry never change; what it shows may.
pub(crate) struct Attached {
    pub(crate) memory: Shared,
    pub(crate) segment: Segment,
    pub(crate) nonce: AtomicU64,
    pub(crate) owner: AtomicU64,
    /// What the memory is, under whichever number: whoever has it is its owner, or was started by it.
    pub(crate) identity: [AtomicU64; 2],
    /// Kept so that tools find the memory when its owner is dead; -1 for none.
    pub(crate) kept: AtomicI32,
    /// Bytes that were paid for it.
    pub(crate) paid: AtomicU64,
    /// Views of its slots, plus one.
    pub(crate) views: [AtomicU32; SLOTS_MAX as usize],
}

impl Attached {
    /// Its slots that were used, as this process sees them.
    pub(crate) fn known_views<'a>(
        &'a self,
        views: &'a Views,
    ) -> impl Iterator<Item = &'static SlotView> + 'a {
        self.views.iter().filter_map(|place| views.get(Index(place.load(Relaxed).checked_sub(1)?)))
    }

    /// Whether a connection of this process is on it.
    pub(crate) fn is_used(&self, views: &Views) -> bool {
        self.known_views(views).any(SlotView::is_used)
    }

    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.identity[0].load(Relaxed), self.identity[1].load(Relaxed))
    }
}

/// The segments of others that this process has mapped.
pub(crate) struct Attachments {
    pub(crate) turn: Turn,
    pub(crate) table: Slab<Attached, { SEGMENTS / LEAF }>,
}

impl Attachments {
    pub(crate) const fn new() -> Self {
        Attachments { turn: Turn::new(), table: Slab::new() }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (Index, &'static Attached)> {
        (0..self.table.made()).filter_map(|index| Some((Index(index), self.table.get(Index(index))?)))
    }

    /// A client's row may name its own segments only.
    pub(crate) fn known(&self, nonce: u64, owner: ProcessId) -> Option<(Index, &'static Attached)> {
        self.all().find(|(_, attached)| {
            attached.nonce.load(Relaxed) == nonce && attached.owner.load(Relaxed) == owner.word()
        })
    }

    pub(crate) fn home_of(&self, view: &SlotView) -> Option<&'static Attached> {
        self.table.get(Index(view.home.load(Relaxed)))
    }
}
