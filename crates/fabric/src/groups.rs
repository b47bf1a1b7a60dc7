//! The tables of what this process offers: link groups, their segments, and queues of slots that were used
//! before. Owns: the queues; which slot may be lent again is decided in `offer`.

use crate::slot::{SlotView, Views};
use crate::turn::Turn;
use shm::segment::{SLOTS_MAX, Segment};
use shm::slab::{Index, LEAF, OnceRef, Slab};
use sync::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Most segments of one process at once: 65 536 connections.
pub(crate) const SEGMENTS: usize = 1024;
/// Most link groups of one process at once.
pub(crate) const GROUPS: usize = 1024;
/// Group of a segment that belongs to none: its addresses serve the next one of its shape.
pub(crate) const SPARE: u32 = u32::MAX;

/// A segment this process offers. The address range and geometry never change; what it shows may.
pub(crate) struct Offered {
    pub(crate) segment: OnceRef<Segment>,
    /// Of what it shows now; the one in the segment is of what it showed first.
    pub(crate) nonce: AtomicU64,
    /// Under which a peer finds it; -1 for none.
    pub(crate) number: AtomicI32,
    /// How many slots it has, and how many of them were used so far by its group.
    pub(crate) slots: AtomicU32,
    pub(crate) used: AtomicU32,
    pub(crate) group: AtomicU32,
    /// Bytes that were paid for it.
    pub(crate) paid: AtomicU64,
    /// Views of its slots, plus one.
    pub(crate) views: [AtomicU32; SLOTS_MAX as usize],
}

/// Slots shared with one peer process and one ring size.
pub(crate) struct Group {
    /// 0 for a group that is none any more.
    pub(crate) peer: AtomicU64,
    /// In which it was made: what a fork child finds of its parent's is the parent's to hand out.
    pub(crate) era: AtomicU32,
    pub(crate) ring_size: AtomicU32,
    pub(crate) id: AtomicU32,
    /// Segments made for it.
    pub(crate) segments: AtomicU32,
    /// Segment with unused slots, plus one.
    pub(crate) current: AtomicU32,
    pub(crate) free: List,
    pub(crate) closing: List,
}

/// A queue of slots through `SlotView::next`; only touched while holding the turn of [`Offers`].
pub(crate) struct List {
    head: AtomicU32,
    tail: AtomicU32,
    len: AtomicU32,
}

/// What this process offers.
pub(crate) struct Offers {
    pub(crate) turn: Turn,
    pub(crate) segments: Slab<Offered, { SEGMENTS / LEAF }>,
    pub(crate) groups: Slab<Group, { GROUPS / LEAF }>,
    pub(crate) values: Slab<Segment, { SEGMENTS / LEAF }>,
    /// Goes on when what was made so far is to be handed out no more.
    pub(crate) era: AtomicU32,
    /// The first one of this process: what is older its parent made.
    pub(crate) first_era: AtomicU32,
    /// Which group is looked at next for whether its peer has died.
    pub(crate) hand: AtomicU32,
}

impl Offers {
    pub(crate) const fn new() -> Self {
        Offers {
            turn: Turn::new(),
            segments: Slab::new(),
            groups: Slab::new(),
            values: Slab::new(),
            era: AtomicU32::new(0),
            first_era: AtomicU32::new(0),
            hand: AtomicU32::new(0),
        }
    }

    pub(crate) fn home_of(&self, view: &SlotView) -> Option<&'static Offered> {
        self.segments.get(Index(view.home.load(Relaxed)))
    }

    pub(crate) fn group_of(&self, home: &Offered) -> Option<&'static Group> {
        self.groups.get(Index(home.group.load(Relaxed)))
    }

    /// Every segment that was made.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Index, &'static Offered)> {
        (0..self.segments.made()).filter_map(|index| Some((Index(index), self.segments.get(Index(index))?)))
    }

    /// Whether this process hands its slots out.
    pub(crate) fn is_own(&self, group: &Group) -> bool {
        group.era.load(Relaxed) == self.era.load(Relaxed)
    }

    /// Whether this process made a group, and would be looked at for it, though it may hand it out no more.
    pub(crate) fn is_of_this_process(&self, group: &Group) -> bool {
        group.era.load(Relaxed) >= self.first_era.load(Relaxed)
    }

    /// The same of a segment.
    pub(crate) fn is_made_here(&self, offered: &Offered) -> bool {
        self.group_of(offered).is_some_and(|group| self.is_of_this_process(group))
    }

    /// Every segment that this process has made and shows.
    pub(crate) fn made_here(&self) -> impl Iterator<Item = &'static Offered> {
        self.all().map(|(_, offered)| offered).filter(|offered| self.is_made_here(offered))
    }
}

impl Offered {
    /// Its slots that were used, as this process sees them.
    /// Whether a slot lies in it.
    pub(crate) fn has(&self, view: &SlotView) -> bool {
        self.segment.get().is_some_and(|segment| view.segment().is(segment))
    }

    pub(crate) fn used_views<'a>(
        &'a self,
        views: &'a Views,
    ) -> impl Iterator<Item = (Index, &'static SlotView)> + 'a {
        let numbers = self.views.iter().take(self.used.load(Relaxed) as usize);
        numbers.filter_map(|place| {
            let index = Index(place.load(Relaxed).checked_sub(1)?);
            Some((index, views.get(index)?))
        })
    }
}

impl List {
    pub(crate) const fn new() -> Self {
        List { head: AtomicU32::new(0), tail: AtomicU32::new(0), len: AtomicU32::new(0) }
    }

    /// How many slots are in it.
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Relaxed)
    }

    /// Forgets its slots.
    pub(crate) fn clear(&self) {
        self.head.store(0, Relaxed);
        self.tail.store(0, Relaxed);
        self.len.store(0, Relaxed);
    }

    pub(crate) fn push_back(&self, views: &Views, index: Index, view: &SlotView) {
        view.next.store(0, Relaxed);
        self.len.fetch_add(1, Relaxed);
        match self.tail.swap(index.0 + 1, Relaxed).checked_sub(1).and_then(|last| views.get(Index(last))) {
            Some(last) => last.next.store(index.0 + 1, Relaxed),
            None => self.head.store(index.0 + 1, Relaxed),
        }
    }

    pub(crate) fn push_front(&self, index: Index, view: &SlotView) {
        let first = self.head.swap(index.0 + 1, Relaxed);
        self.len.fetch_add(1, Relaxed);
        view.next.store(first, Relaxed);
        if first == 0 {
            self.tail.store(index.0 + 1, Relaxed);
        }
    }

    pub(crate) fn pop_front(&self, views: &Views) -> Option<(Index, &'static SlotView)> {
        let index = Index(self.head.load(Relaxed).checked_sub(1)?);
        let view = views.get(index)?;
        let next = view.next.load(Relaxed);
        self.head.store(next, Relaxed);
        self.len.fetch_sub(1, Relaxed);
        if next == 0 {
            self.tail.store(0, Relaxed);
        }
        Some((index, view))
    }
}
