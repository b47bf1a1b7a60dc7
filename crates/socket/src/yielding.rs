//! Giving the core away while waiting. Owns: when a yield may pay, and what is learnt from how long one lasted.

use crate::config;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Looks of a round while the core has nobody else to run.
const PAUSES: u32 = 50;
/// Who has a core for longer computes: a scheduler's slice is 1.4 ms and more. About a millisecond. A yield during which
/// nobody did lasted because many took their turn, however long. (500 processes that only exchange messages: 1 to 3 ms.)
const LONG_TURN_CYCLES: u64 = 3_000_000;
/// A yield that lasts longer is long whoever had the core: some 200 milliseconds.
const TOO_LONG_YIELD_CYCLES: u64 = 600_000_000;
/// One long yield says little: each counts so much, each short one takes one off, and at this sum nobody yields for a
/// while. (When every long yield counted, 50 connections on a quiet machine of two CPUs lost half their rate.)
const LONG_YIELD_WEIGHT: u32 = 64;
const TOO_MANY: u32 = 256;
/// The sum.
static LONG_YIELDS: AtomicU32 = AtomicU32::new(0);
/// For so long nobody yields then, at first and at most: about 30 milliseconds and a second.
const ABSTAIN_CYCLES: (u64, u64) = (100_000_000, 3_000_000_000);
/// A yield that came back later than this (some 10 microseconds) found somebody else to run: then a round is a look and
/// a yield. With fifty pauses each, a hundred processes on two cores kept each other waiting for milliseconds.
const IDLE_YIELD_CYCLES: u64 = 30_000;
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
    let until = ABSTAINS_UNTIL.load(Ordering::Relaxed);
    until == 0 || os::time::cycles().wrapping_sub(until) as i64 > 0
}

/// Looks per round: many while the core has nobody else to run.
pub(crate) fn pauses() -> u32 {
    if has_core_alone() { PAUSES } else { 1 }
}

/// Whether the last yield found nobody else who wanted the core.
#[inline]
pub(crate) fn has_core_alone() -> bool {
    LAST_YIELD.load(Ordering::Relaxed) < IDLE_YIELD_CYCLES
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
    let (core, now) = (os::process::current_cpu(), os::time::cycles());
    let long = fabric::registry::mapped().map_or(0, |map| map.turns.end(core, now, LONG_TURN_CYCLES));
    Turn { core, long, ended_at: now }
}

/// The end of a turn.
pub(crate) struct Turn {
    core: u32,
    long: u32,
    ended_at: u64,
}

impl Turn {
    /// Whether the core came back so late at `now` because somebody computed.
    fn was_long_until(&self, now: u64) -> bool {
        let lasted = now.wrapping_sub(self.ended_at);
        let is_somebodys = || {
            fabric::registry::mapped()
                .is_none_or(|map| map.turns.was_long(self.core, self.long, now, LONG_TURN_CYCLES))
        };
        lasted > TOO_LONG_YIELD_CYCLES || (lasted > LONG_TURN_CYCLES && is_somebodys())
    }
}

/// Gives the core away, and learns what for. Whether another program of ours had it meanwhile, for a short turn: one that
/// this one might be apart from, and no crowd.
pub(crate) fn yield_now() -> bool {
    let turn = end_turn();
    os::process::yield_now();
    let now = os::time::cycles();
    let lasted = now.wrapping_sub(turn.ended_at);
    LAST_YIELD.store(lasted, Ordering::Relaxed);
    weigh(turn.was_long_until(now), now);
    lasted < IDLE_YIELD_CYCLES
        && fabric::registry::mapped().is_some_and(|map| !map.turns.was_last(turn.core, turn.ended_at))
}

/// Takes note of a yield that ended at `now`; abstains if too many were long.
fn weigh(is_long: bool, now: u64) {
    let sum = LONG_YIELDS.load(Ordering::Relaxed);
    let sum = if is_long { sum + LONG_YIELD_WEIGHT } else { sum.saturating_sub(1) };
    LONG_YIELDS.store(sum.min(TOO_MANY - LONG_YIELD_WEIGHT), Ordering::Relaxed);
    if sum >= TOO_MANY {
        let is_again = now.wrapping_sub(ABSTAINS_UNTIL.load(Ordering::Relaxed)) < ABSTAIN_CYCLES.1;
        let last = if is_again { ABSTAINED.load(Ordering::Relaxed) } else { 0 };
        let span = (last * 2).clamp(ABSTAIN_CYCLES.0, ABSTAIN_CYCLES.1);
        ABSTAINED.store(span, Ordering::Relaxed);
        ABSTAINS_UNTIL.store(now.wrapping_add(span).max(1), Ordering::Relaxed);
    }
}
