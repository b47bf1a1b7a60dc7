//! What all waits of a process have in common: whether it has its core alone, and whether yielding pays.
//! Owns: what is learnt from how long a yield lasted. No clock, no system call, no static.

use super::learned::Window;
use super::rules::{Measured, Rules};
use core::marker::PhantomData;
use os::time::Cycles;
use shm::slices::Slices;
use sync::{AtomicU32, AtomicU64, Ordering};

/// The habits of one process.
#[derive(Debug)]
pub(crate) struct Habits<R = Measured> {
    /// How long the last yield lasted.
    last_yield: AtomicU64,
    /// Until when it does not yield, and for how long it last abstained.
    abstains_until: AtomicU64,
    abstained: AtomicU64,
    /// The sum of long yields.
    long_yields: AtomicU32,
    /// Until when yields are likely to be long.
    long_until: AtomicU64,
    /// What waiting for a server's answer is worth.
    pub(super) answers: Window,
    rules: PhantomData<fn() -> R>,
}

/// A core that its thread has given away, to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandOver {
    core: u32,
    /// How many slices on the core had been long so far.
    long: u32,
    at: Cycles,
}

impl HandOver {
    /// A thread is about to wait without `core`: its slice there ends.
    pub(crate) fn note<R: Rules>(slices: Option<&Slices>, core: u32, now: Cycles) -> Self {
        let long = slices.map_or(0, |slices| slices.end(core, now.word(), R::LONG_SLICE.word()));
        HandOver { core, long, at: now }
    }

    /// How long the core was away, which is back at `now`.
    pub(super) fn lasted(&self, now: Cycles) -> Cycles {
        now.since(self.at)
    }

    /// Whether the core came back so late at `now` because somebody computed.
    fn was_to_a_long_slice<R: Rules>(&self, slices: Option<&Slices>, now: Cycles) -> bool {
        let lasted = now.since(self.at);
        let is_somebodys = || {
            slices
                .is_none_or(|slices| slices.was_long(self.core, self.long, now.word(), R::LONG_SLICE.word()))
        };
        lasted > R::TOO_LONG_YIELD || (lasted > R::LONG_SLICE && is_somebodys())
    }
}

impl<R: Rules> Habits<R> {
    pub(crate) const fn new() -> Self {
        Habits {
            last_yield: AtomicU64::new(0),
            abstains_until: AtomicU64::new(0),
            abstained: AtomicU64::new(0),
            long_yields: AtomicU32::new(0),
            long_until: AtomicU64::new(0),
            answers: Window::new(R::ROUNDS_FOR_ANSWER),
            rules: PhantomData,
        }
    }

    /// Whether the last yield found nobody else who wanted the core.
    #[inline]
    pub(crate) fn has_core_alone(&self) -> bool {
        Cycles::load(&self.last_yield) < R::IDLE_YIELD
    }

    /// Whether nobody is to yield for now: beside somebody who computes, a sleeper is served far sooner than
    /// one who yields.
    #[inline]
    pub(crate) fn abstains(&self, now: impl Fn() -> Cycles) -> bool {
        let until = Cycles::load(&self.abstains_until);
        until != Cycles::NONE && !now().is_after(until)
    }

    /// Whether yields lately were as long as those beside somebody who computes.
    #[inline]
    pub(super) fn was_away_for_a_slice(&self, now: impl Fn() -> Cycles) -> bool {
        let until = Cycles::load(&self.long_until);
        until != Cycles::NONE && !now().is_after(until)
    }

    /// Looks of a round: many while the core has nobody else to run.
    #[inline]
    pub(super) fn looks(&self) -> u32 {
        if self.has_core_alone() { R::LOOKS } else { 1 }
    }

    /// A yield is over. Whether another program of ours had the core meanwhile, for a short slice: one that
    /// this one might be apart from, and no crowd.
    pub(crate) fn note_yield(&self, given: HandOver, slices: Option<&Slices>, now: Cycles) -> bool {
        let lasted = now.since(given.at);
        lasted.store(&self.last_yield);
        if lasted > R::LONG_SLICE {
            now.plus(lasted.times(R::REMEMBERED)).max(Cycles::load(&self.long_until)).store(&self.long_until);
        }
        self.weigh(given.was_to_a_long_slice::<R>(slices, now), now);
        lasted < R::IDLE_YIELD && slices.is_some_and(|slices| !slices.was_last(given.core, given.at.word()))
    }

    /// Takes note of a yield that ended at `now`; abstains if too many were long.
    fn weigh(&self, is_long: bool, now: Cycles) {
        let sum = self.long_yields.load(Ordering::Relaxed);
        let sum = if is_long { sum + R::LONG_YIELD_WEIGHT } else { sum.saturating_sub(1) };
        let is_enough = sum >= R::TOO_MANY;
        // (After it, one long yield more is enough.)
        let kept = if is_enough { R::TOO_MANY - R::LONG_YIELD_WEIGHT } else { sum };
        self.long_yields.store(kept, Ordering::Relaxed);
        if is_enough {
            let is_again = now.since(Cycles::load(&self.abstains_until)) < R::ABSTAIN.1;
            let last = if is_again { Cycles::load(&self.abstained) } else { Cycles::NONE };
            let span = last.times(2).clamp(R::ABSTAIN.0, R::ABSTAIN.1);
            span.store(&self.abstained);
            now.plus(span).max(Cycles::from_word(1)).store(&self.abstains_until);
        }
    }
}
