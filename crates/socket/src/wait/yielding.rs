//! Giving the core away while waiting. Owns: when a yield may pay, and what is learnt from how long one lasted.

use crate::config;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use os::time::Cycles;

/// Looks of a round while the core has nobody else to run.
const PAUSES: u32 = 50;
/// Who has a core for longer computes: a scheduler's slice is 1.4 ms and more. A yield during which nobody did
/// lasted because many took their turn, however long. (500 processes that only exchange messages: 1 to 3 ms.)
const LONG_TURN: Cycles = Cycles::from_ms(1);
/// A yield that lasts longer is long whoever had the core.
const TOO_LONG_YIELD: Cycles = Cycles::from_ms(200);
/// One long yield says little: each counts so much, each short one takes one off, and at this sum nobody yields for a
/// while. (When every long yield counted, 50 connections on a quiet machine of two CPUs lost half their rate.)
const LONG_YIELD_WEIGHT: u32 = 64;
const TOO_MANY: u32 = 256;
/// The sum.
static LONG_YIELDS: AtomicU32 = AtomicU32::new(0);
/// For so long nobody yields then, at first and at most.
const ABSTAIN: (Cycles, Cycles) = (Cycles::from_ms(33), Cycles::from_ms(1_000));
/// A yield that came back later than this found somebody else to run: then a round is a look and
/// a yield. With fifty pauses each, a hundred processes on two cores kept each other waiting for milliseconds.
const IDLE_YIELD: Cycles = Cycles::from_us(10);
/// How long the last yield of this process lasted.
static LAST_YIELD: AtomicU64 = AtomicU64::new(0);
/// Until when this process does not yield, and for how long it last abstained.
static ABSTAINS_UNTIL: AtomicU64 = AtomicU64::new(0);
static ABSTAINED: AtomicU64 = AtomicU64::new(0);

/// Whether a yield may pay: beside somebody who computes, a sleeper is served far sooner than one who yields.
pub(crate) fn may_yield() -> bool {
    if config::spin() == 0 || os::confined::is_confined() {
        return false;
    }
    let until = Cycles::load(&ABSTAINS_UNTIL);
    until == Cycles::NONE || Cycles::now().is_after(until)
}

/// Looks per round: many while the core has nobody else to run.
pub(crate) fn pauses() -> u32 {
    if has_core_alone() { PAUSES } else { 1 }
}

/// Whether the last yield found nobody else who wanted the core.
#[inline]
pub(crate) fn has_core_alone() -> bool {
    Cycles::load(&LAST_YIELD) < IDLE_YIELD
}

/// A moment for somebody who is about to do something: most likely at work on another core if this one is wanted by nobody.
pub(crate) fn pause_or_yield() {
    match has_core_alone() {
        true => (0..PAUSES / 2).for_each(|_| core::hint::spin_loop()),
        false => {
            yield_now();
        }
    }
}

/// A thread is about to wait without its core: its turn there ends. How many on this core have been long so far.
pub(crate) fn end_turn() -> Turn {
    let (core, now) = (os::process::current_cpu(), Cycles::now());
    let long = fabric::registry::mapped().map_or(0, |map| map.turns.end(core, now.word(), LONG_TURN.word()));
    Turn { core, long, ended_at: now }
}

/// The end of a turn.
pub(crate) struct Turn {
    core: u32,
    long: u32,
    ended_at: Cycles,
}

impl Turn {
    /// Whether the core came back so late at `now` because somebody computed.
    fn was_long_until(&self, now: Cycles) -> bool {
        let lasted = now.since(self.ended_at);
        let is_somebodys = || {
            fabric::registry::mapped()
                .is_none_or(|map| map.turns.was_long(self.core, self.long, now.word(), LONG_TURN.word()))
        };
        lasted > TOO_LONG_YIELD || (lasted > LONG_TURN && is_somebodys())
    }
}

/// Gives the core away, and learns what for. Whether another program of ours had it meanwhile, for a short turn: one that
/// this one might be apart from, and no crowd.
pub(crate) fn yield_now() -> bool {
    let turn = end_turn();
    os::process::yield_now();
    let now = Cycles::now();
    let lasted = now.since(turn.ended_at);
    lasted.store(&LAST_YIELD);
    weigh(turn.was_long_until(now), now);
    lasted < IDLE_YIELD
        && fabric::registry::mapped().is_some_and(|map| !map.turns.was_last(turn.core, turn.ended_at.word()))
}

/// Takes note of a yield that ended at `now`; abstains if too many were long.
fn weigh(is_long: bool, now: Cycles) {
    let sum = LONG_YIELDS.load(Ordering::Relaxed);
    let sum = if is_long { sum + LONG_YIELD_WEIGHT } else { sum.saturating_sub(1) };
    LONG_YIELDS.store(sum.min(TOO_MANY - LONG_YIELD_WEIGHT), Ordering::Relaxed);
    if sum >= TOO_MANY {
        let is_again = now.since(Cycles::load(&ABSTAINS_UNTIL)) < ABSTAIN.1;
        let last = if is_again { Cycles::load(&ABSTAINED) } else { Cycles::NONE };
        let span = last.times(2).clamp(ABSTAIN.0, ABSTAIN.1);
        span.store(&ABSTAINED);
        now.plus(span).max(Cycles::from_word(1)).store(&ABSTAINS_UNTIL);
    }
}
