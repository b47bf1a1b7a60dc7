//! Giving the core away while waiting. Owns: when a yield may pay, and what is learnt from how long one lasted.

use crate::config;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Looks of a round while the core has nobody else to run.
const PAUSES: u32 = 50;
/// A yield that lasts longer gave the core to somebody who computes. (With 500 processes that only exchange messages it
/// lasts some 600 microseconds; a scheduler's slice is 1.4 ms and more.) About a millisecond.
const LONG_YIELD_CYCLES: u64 = 3_000_000;
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
    if config::spin() == 0 {
        return false;
    }
    let until = ABSTAINS_UNTIL.load(Ordering::Relaxed);
    until == 0 || os::time::cycles().wrapping_sub(until) as i64 > 0
}

/// Looks per round: many while the core has nobody else to run.
pub(crate) fn pauses() -> u32 {
    if LAST_YIELD.load(Ordering::Relaxed) < IDLE_YIELD_CYCLES { PAUSES } else { 1 }
}

/// Gives the core away, and learns what for.
pub(crate) fn yield_now() {
    let from = os::time::cycles();
    os::process::yield_now();
    let to = os::time::cycles();
    LAST_YIELD.store(to.wrapping_sub(from), Ordering::Relaxed);
    let sum = LONG_YIELDS.load(Ordering::Relaxed);
    let is_long = to.wrapping_sub(from) > LONG_YIELD_CYCLES;
    let sum = if is_long { sum + LONG_YIELD_WEIGHT } else { sum.saturating_sub(1) };
    LONG_YIELDS.store(sum.min(TOO_MANY - LONG_YIELD_WEIGHT), Ordering::Relaxed);
    if sum >= TOO_MANY {
        let is_again = to.wrapping_sub(ABSTAINS_UNTIL.load(Ordering::Relaxed)) < ABSTAIN_CYCLES.1;
        let last = if is_again { ABSTAINED.load(Ordering::Relaxed) } else { 0 };
        let span = (last * 2).clamp(ABSTAIN_CYCLES.0, ABSTAIN_CYCLES.1);
        ABSTAINED.store(span, Ordering::Relaxed);
        ABSTAINS_UNTIL.store(to.wrapping_add(span).max(1), Ordering::Relaxed);
    }
}
