//! Addresses where an offer was waited for in vain: a port that a listener with the library shares with one
//! without it (SO_REUSEPORT), or whose connections are served by a program without it. Owns: for how long
//! nothing is offered there.
//!
//! All processes of the user learn from one's wait, since many programs make one connection only. Two seconds
//! after the first time, twice as long after each further one; whoever gives no cause for long enough begins
//! anew. One cause counts once, however many wait for it: an offer that was made before the last lesson was
//! learnt teaches nothing new. Where it is known who listens, the doubt is of that
//! process: another one at the address is another matter.

use crate::address::number;
use crate::door::Tier;
use crate::fabric::Fabric;
use crate::process::ProcessId;
use crate::slot::SlotView;
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

/// The number of an address where `owner` listens. (Who is far is known by the address alone: nobody can say
/// before connect() who is there.)
fn number_of(at: Endpoint, owner: ProcessId) -> u64 {
    let word = if owner.is_far() { 0 } else { owner.word() };
    (number(at) ^ word.wrapping_mul(0xC2B2_AE3D_27D4_EB4F).rotate_left(32)).max(1)
}

fn entry(map: &RegistryMap, number: u64) -> &Doubt {
    &map.doubts[(number >> 32) as usize % DOUBTS]
}

/// Seconds of the monotonic clock.
fn now() -> u64 {
    os::time::monotonic_ns() / 1_000_000_000
}

/// Whether nothing is to be offered to `owner` at `target` now.
pub(crate) fn is_doubted(map: &RegistryMap, target: Endpoint, owner: ProcessId) -> bool {
    let number = number_of(target, owner);
    let entry = entry(map, number);
    entry.at.load(Relaxed) == number
        && State::from_word(entry.until.load(Relaxed)).is_over(now()) == Some(false)
}

/// What an entry says of a number, in short; 0 if it says nothing. (Of two lessons one in 256 looks like the
/// other: it counts once more.)
fn lesson(entry: &Doubt, number: u64) -> u8 {
    if entry.at.load(Relaxed) == number { short(entry.until.load(Relaxed)) } else { 0 }
}

fn short(word: u64) -> u8 {
    let State { until, times } = State::from_word(word);
    until as u8 ^ (times as u8) << 4
}

/// What was offered when the entry said `seen` was waited for in vain.
fn learn(entry: &Doubt, number: u64, seen: u8, now: u64) {
    let is_known = entry.at.swap(number, Relaxed) == number;
    let before = if is_known { entry.until.load(Relaxed) } else { 0 };
    if is_known && short(before) != seen {
        return;
    }
    entry.until.store(State::from_word(before).worse(now).word(), Relaxed);
}

/// Nothing is known of a number any more.
fn forgive(entry: &Doubt, number: u64) {
    if entry.at.load(Relaxed) == number && entry.until.load(Relaxed) != 0 {
        entry.until.store(0, Relaxed);
    }
}

impl<T: Tier> Fabric<T> {
    /// What is known of `target` when something is offered there, in the slot `offered`: for
    /// [`Fabric::doubt`].
    pub fn lesson(&self, target: Endpoint, offered: &SlotView) -> u8 {
        let number = self.number_of(target, offered);
        self.tier.mapped().map_or(0, |map| lesson(entry(map, number), number))
    }

    /// What lies in `offered` was waited for in vain, at `target`: nothing is offered there for a while. (Who
    /// offered it when less was known, as [`Fabric::lesson`] told him, adds nothing.)
    pub fn doubt(&self, target: Endpoint, offered: &SlotView, seen: u8) {
        let number = self.number_of(target, offered);
        if let Some(map) = self.tier.mapped() {
            learn(entry(map, number), number, seen, now());
        }
    }

    /// Somebody far at `target` has taken up what lies in `offered`: what was learnt of the address is over.
    /// (Of a port that is shared with a program without the library one answer says little, and such a
    /// program is in this namespace.)
    pub fn trust(&self, target: Endpoint, offered: &SlotView) {
        let number = self.number_of(target, offered);
        if let Some(entry) = self.tier.mapped().map(|map| entry(map, number)) {
            forgive(entry, number);
        }
    }

    fn number_of(&self, target: Endpoint, offered: &SlotView) -> u64 {
        let group = self.offers.home_of(offered).and_then(|home| self.offers.group_of(home));
        number_of(target, ProcessId::from_word(group.map_or(0, |group| group.peer.load(Relaxed))))
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
        let worse = |now| state.worse(now).times;
        assert_eq!([worse(state.until + 512 * 16), worse(state.until + 512 * 16 + 1)], [TIMES_MAX, 1]);
    }

    #[test]
    fn what_was_offered_before_a_lesson_teaches_nothing_new() {
        let entry = Doubt { at: 0.into(), until: 0.into() };
        let state = || State::from_word(entry.until.load(Relaxed));
        let seen = lesson(&entry, 7);
        (0..10).for_each(|n| learn(&entry, 7, seen, 1_000 + n));
        assert_eq!(state(), State { until: 1_002, times: 1 }, "ten that waited for one stall");
        learn(&entry, 7, lesson(&entry, 7), 1_010);
        assert_eq!(state(), State { until: 1_014, times: 2 }, "and who was offered something since");
        learn(&entry, 8, 0, 1_020);
        assert_eq!((lesson(&entry, 7), state()), (0, State { until: 1_022, times: 1 }), "another address");
        learn(&entry, 7, seen, 1_030);
        assert_eq!(state(), State { until: 1_032, times: 1 }, "of which nothing is known any more");
    }

    #[test]
    fn who_is_trusted_again_begins_anew() {
        let entry = Doubt { at: 0.into(), until: 0.into() };
        let times = || State::from_word(entry.until.load(Relaxed)).times;
        (0..5).for_each(|n| learn(&entry, 7, lesson(&entry, 7), 1_000 + 10 * n));
        let before = times();
        forgive(&entry, 8);
        assert_eq!((before > 1, times()), (true, before), "another address");
        forgive(&entry, 7);
        learn(&entry, 7, lesson(&entry, 7), 9_000);
        assert_eq!(times(), 1);
    }

    #[test]
    fn another_listener_at_an_address_is_another_matter() {
        let at = Endpoint { family: 2, port: 80, addr: [1; 16], scope: 0 };
        let [one, other] = [1, 2].map(|generation| ProcessId { row: 7, generation });
        assert_ne!(number_of(at, one), number_of(at, other));
        let [far, farther] = [1, 2].map(ProcessId::behind);
        assert_eq!(number_of(at, far), number_of(at, farther), "of whom nobody knows before");
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
