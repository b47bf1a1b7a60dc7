//! Addresses where an offer was waited for in vain: a port that a listener with the library shares with one
//! without it (SO_REUSEPORT), or whose connections are served by a program without it. Owns: for how long
//! nothing is offered there.
//!
//! All processes of the user learn from one's wait, since many programs make one connection only. Two seconds
//! after the first time, twice as long after each further one; whoever gives no cause for long enough begins
//! anew.

use crate::door::Tier;
use crate::fabric::Fabric;
use os::net::Endpoint;
use shm::registry::{DOUBTS, Doubt, RegistryMap};
use sync::Ordering::Relaxed;

/// Most that is waited: 2^9 seconds.
const TIMES_MAX: u32 = 9;
/// A port that has been quiet for so many times its last penalty is as good as new.
const QUIET_TIMES: u64 = 16;

/// What an entry says: until when, in seconds, and how often it went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    until: u64,
    times: u32,
}

impl State {
    fn from_word(word: u64) -> Self {
        State { until: word >> 32, times: (word as u32).min(TIMES_MAX) }
    }

    fn word(self) -> u64 {
        self.until << 32 | u64::from(self.times)
    }

    fn penalty(times: u32) -> u64 {
        1 << times.min(TIMES_MAX)
    }

    /// Whether its time is over; `None` if it says what no process of ours wrote.
    fn is_over(self, now: u64) -> Option<bool> {
        (self.until <= now + Self::penalty(TIMES_MAX)).then_some(self.until <= now)
    }

    /// After one more wait in vain.
    fn worse(self, now: u64) -> Self {
        let is_forgotten = now > self.until + QUIET_TIMES * Self::penalty(self.times);
        let times = if is_forgotten { 1 } else { (self.times + 1).min(TIMES_MAX) };
        State { until: now + Self::penalty(times), times }
    }
}

/// A number for an address and a port, never 0. (Two addresses of the same number share their doubts.)
pub(crate) fn number(at: Endpoint) -> u64 {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    let (ends, _) = at.addr.as_chunks::<8>();
    let start = u64::from(at.family) << 16 | u64::from(at.port);
    let sum = ends
        .iter()
        .fold(start, |sum, end| (sum ^ u64::from_ne_bytes(*end)).wrapping_mul(ODD).rotate_left(29));
    sum.wrapping_mul(ODD).max(1)
}

fn entry(map: &RegistryMap, number: u64) -> &Doubt {
    &map.doubts[(number >> 32) as usize % DOUBTS]
}

/// Seconds of the monotonic clock.
fn now() -> u64 {
    os::time::monotonic_ns() / 1_000_000_000
}

/// Whether nothing is to be offered at `target` now.
pub(crate) fn is_doubted(map: &RegistryMap, target: Endpoint) -> bool {
    let number = number(target);
    let entry = entry(map, number);
    entry.at.load(Relaxed) == number
        && State::from_word(entry.until.load(Relaxed)).is_over(now()) == Some(false)
}

/// An offer at `target` was waited for in vain.
pub(crate) fn add(map: &RegistryMap, target: Endpoint) {
    let number = number(target);
    let entry = entry(map, number);
    let is_known = entry.at.swap(number, Relaxed) == number;
    let before = if is_known { entry.until.load(Relaxed) } else { 0 };
    entry.until.store(State::from_word(before).worse(now()).word(), Relaxed);
}

impl<T: Tier> Fabric<T> {
    /// An offer at `target` was waited for in vain: nothing is offered there for a while.
    pub fn doubt(&self, target: Endpoint) {
        if let Some(map) = self.tier.mapped() {
            add(map, target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_grow_and_fade() {
        let mut state = State::from_word(0);
        let mut now = 100_000;
        let waits: Vec<u64> = (0..12)
            .map(|_| {
                state = state.worse(now);
                let wait = state.until - now;
                now = state.until + 1;
                wait
            })
            .collect();
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 512, 512, 512, 512]);
        assert_eq!(State::from_word(state.word()), state);
        let over = [100, 500, 511, 512, 513].map(|until| State { until, times: 1 }.is_over(500 - 400));
        assert_eq!(over, [Some(true), Some(false), Some(false), Some(false), Some(false)]);
        assert_eq!(State { until: 613, times: 1 }.is_over(100), None, "no penalty is that long");
        assert_eq!(state.worse(state.until + 512 * 16).times, TIMES_MAX);
        assert_eq!(state.worse(state.until + 512 * 16 + 1).times, 1);
    }

    #[test]
    fn addresses_and_ports_are_told_apart() {
        let at = |last: u8, port| Endpoint {
            family: 2,
            port,
            addr: [127, 0, 0, last, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            scope: 0,
        };
        assert_ne!(number(at(1, 80)), number(at(2, 80)));
        assert_ne!(number(at(1, 80)), number(at(1, 81)));
        assert_eq!(number(at(1, 80)), number(at(1, 80)));
    }
}
