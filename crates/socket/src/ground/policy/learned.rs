//! What waits teach: how many rounds are worth it, whether the peer is on this core, whether sleeps are
//! short. Owns: the words of one connection that remember it, and their reset.
//!
//! Threads that wait on one connection at once may overwrite each other's words: only speed depends on them.

use super::rules::{Measured, Rules};
use core::marker::PhantomData;
use os::time::Cycles;
use sync::{AtomicU32, AtomicU64, Ordering};

/// Rounds that a wait is worth, kept as the bits by which they differ from what an answer is worth at first:
/// so the state of a process, of which one window is a part, is zero at first.
#[derive(Debug)]
pub(crate) struct Window(AtomicU32);

const ZERO: u32 = Measured::ROUNDS_FOR_ANSWER;

impl Window {
    pub(crate) const fn new(rounds: u32) -> Self {
        Window(AtomicU32::new(rounds ^ ZERO))
    }

    pub(crate) fn reset(&self) {
        self.set(Measured::ROUNDS_AT_FIRST);
    }

    #[inline]
    pub(super) fn set(&self, rounds: u32) {
        self.0.store(rounds ^ ZERO, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn rounds(&self) -> u32 {
        self.0.load(Ordering::Relaxed) ^ ZERO
    }

    /// A wait of `rounds` rounds was worth it, in its `round`th: one that barely was gets more.
    #[inline]
    pub(super) fn grow(&self, round: u32, rounds: u32, most: u32) {
        if round * 2 >= rounds && rounds < most {
            self.set((rounds * 2).min(most));
        }
    }

    /// What came is nothing that looks would have found: however short the sleep was, the spin before it only
    /// kept the core from whoever made it. (A thread that moves messages between connections and the threads
    /// of its own process: ZeroMQ's.) Down to none.
    pub(crate) fn shrink(&self) {
        self.set(self.rounds() / 2);
    }

    /// KVM's halt-polling rule: a short sleep, which a longer spin would have saved, grows the window; a long
    /// one shrinks it.
    pub(crate) fn learn<R: Rules>(&self, slept: Cycles, most: u32) {
        let rounds = self.rounds();
        let is_short = slept < R::SHORT_SLEEP;
        self.set(if is_short { (rounds * 2).max(2).min(most) } else { (rounds / 2).max(1) });
    }
}

/// What one connection's waits have taught.
#[derive(Debug)]
pub(crate) struct Learned<R = Measured> {
    pub(crate) window: Window,
    /// Yields one after the other that gave the core to another program of ours, and how many of them are too
    /// many.
    shared_yields: AtomicU32,
    shared_yields_max: AtomicU32,
    /// Short sleeps in a row, of which the last were naps.
    naps: AtomicU32,
    /// When a sleep last ended that was no nap.
    slept_properly: AtomicU64,
    rules: PhantomData<fn() -> R>,
}

impl<R: Rules> Learned<R> {
    pub(crate) const fn new() -> Self {
        Learned {
            window: Window::new(R::ROUNDS_AT_FIRST),
            shared_yields: AtomicU32::new(0),
            shared_yields_max: AtomicU32::new(R::SHARED_YIELDS.0),
            naps: AtomicU32::new(0),
            slept_properly: AtomicU64::new(0),
            rules: PhantomData,
        }
    }

    /// Nothing, as for a new connection.
    pub(crate) fn reset(&self) {
        let Learned { window, shared_yields, shared_yields_max, naps, slept_properly, rules: _ } = self;
        window.set(R::ROUNDS_AT_FIRST);
        shared_yields.store(0, Ordering::Relaxed);
        shared_yields_max.store(R::SHARED_YIELDS.0, Ordering::Relaxed);
        naps.store(0, Ordering::Relaxed);
        Cycles::NONE.store(slept_properly);
    }

    /// Counts yields to programs of ours.
    pub(super) fn note_yield(&self, was_shared: bool) {
        let shared = self.shared_yields.load(Ordering::Relaxed);
        if was_shared {
            self.shared_yields.store(shared + 1, Ordering::Relaxed);
        } else if shared > 0 {
            self.shared_yields.store(0, Ordering::Relaxed);
            self.shared_yields_max.store(R::SHARED_YIELDS.0, Ordering::Relaxed);
        }
    }

    /// Whether to sleep once instead of yielding, so that the peer gets a CPU of its own if there is one.
    pub(super) fn is_time_to_part(&self) -> bool {
        let most = self.shared_yields_max.load(Ordering::Relaxed);
        if self.shared_yields.load(Ordering::Relaxed) < most {
            return false;
        }
        self.shared_yields.store(0, Ordering::Relaxed);
        self.shared_yields_max.store((most * 2).min(R::SHARED_YIELDS.1), Ordering::Relaxed);
        true
    }

    /// Whether the next sleep is a nap.
    pub(super) fn is_nap_due(&self, now: Cycles) -> bool {
        let naps = self.naps.load(Ordering::Relaxed);
        let is_overdue = naps >= R::NAPS_FROM.saturating_add(R::PROPER_EVERY.0)
            && now.since(Cycles::load(&self.slept_properly)) >= R::PROPER_EVERY.1;
        naps >= R::NAPS_FROM && !is_overdue
    }

    /// A nap is over: in vain, or with what was waited for.
    pub(super) fn note_nap(&self, is_granted: bool) {
        let naps = self.naps.load(Ordering::Relaxed).saturating_add(1);
        self.naps.store(if is_granted { naps } else { 0 }, Ordering::Relaxed);
    }

    /// A proper sleep is over. Counts short ones that ended with what was waited for; another kind starts
    /// over.
    pub(super) fn note_sleep(&self, from: Cycles, now: Cycles, is_granted: bool) {
        let naps = self.naps.load(Ordering::Relaxed).saturating_add(1).min(R::NAPS_FROM);
        let is_short = now.since(from) < R::SHORT_NAP;
        self.naps.store(if is_granted && is_short { naps } else { 0 }, Ordering::Relaxed);
        now.store(&self.slept_properly);
    }
}
