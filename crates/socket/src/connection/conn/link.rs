//! What a socket is tied to: a row of the registry, and a slot. Owns: that all of it is there before the slot
//! is seen.

use crate::here::fabric;
use fabric::rows::RowId;
use fabric::slot::SlotView;
use shm::Side;
use shm::slab::{Index, OnceRef};
use sync::{AtomicU32, AtomicU64, Ordering};

#[repr(C)]
pub(crate) struct Link {
    /// The slot itself.
    pub(super) slot: OnceRef<SlotView>,
    /// Of the slot, while it was this connection's.
    pub(super) generation: AtomicU32,
    /// Number of the slot.
    pub(super) view: AtomicU32,
    /// Registry row; meaningful from Intent or the server's claim on.
    pub(super) row: AtomicU64,
    /// Cookie of the client's socket, key of the row.
    pub(super) cookie: AtomicU64,
    /// The era in which it was tied to its slot: a fork that was under way has not counted the child's copy.
    pub(super) tied_era: AtomicU64,
}

impl Link {
    pub(super) const fn new() -> Self {
        Link {
            slot: OnceRef::new(),
            generation: AtomicU32::new(0),
            row: AtomicU64::new(0),
            view: AtomicU32::new(u32::MAX),
            cookie: AtomicU64::new(0),
            tied_era: AtomicU64::new(0),
        }
    }

    /// For another socket. (What is stored before the slot at every tie has no meaning without it.)
    pub(super) fn reset(&self) {
        let Link { slot, generation: _, row: _, view, cookie: _, tied_era: _ } = self;
        view.store(u32::MAX, Ordering::Relaxed);
        slot.take();
    }

    pub(super) fn tie(&self, to: Tie) {
        self.row.store(to.row.word(), Ordering::Relaxed);
        self.cookie.store(to.cookie, Ordering::Relaxed);
        self.generation.store(to.generation, Ordering::Relaxed);
        self.tied_era.store(crate::era::now(), Ordering::Relaxed);
        self.view.store(to.view.0, Ordering::Release);
        if let Some(view) = fabric().view(to.view) {
            view.tie(to.generation);
            self.slot.set(view);
        }
    }
}

/// What [`Conn::tie`](super::Conn::tie) ties a socket to.
#[derive(Clone, Copy)]
pub(crate) struct Tie {
    pub(crate) side: Side,
    pub(crate) row: RowId,
    pub(crate) view: Index,
    pub(crate) cookie: u64,
    /// Of the slot.
    pub(crate) generation: u32,
}
