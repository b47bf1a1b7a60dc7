//! What was measured on machines, as relations: that it happens by the rules, and does not without one of
//! them. Invariant: no relation hangs on one seed, and each has room to spare.

use super::{MS, Scenario, Start, Tally, US, run};
use crate::policy::{Measured, Rules};
use os::time::Cycles;

const SEEDS: [u64; 3] = [1, 2, 3];

/// A short sleep teaches nothing.
struct WithoutLearning;
impl Rules for WithoutLearning {
    const SHORT_SLEEP: Cycles = Cycles::NONE;
}

/// Nobody sleeps to be apart from the peer.
struct WithoutParting;
impl Rules for WithoutParting {
    const SHARED_YIELDS: (u32, u32) = (u32::MAX, u32::MAX);
}

/// A round has all its looks, whoever wants the core.
struct WithoutHaste;
impl Rules for WithoutHaste {
    const IDLE_YIELD: Cycles = Cycles::from_ms(1_000);
}

/// A long yield is long, whether one had the core for long or many for a short time.
struct WithoutTurns;
impl Rules for WithoutTurns {
    const TOO_LONG_YIELD: Cycles = Self::LONG_SLICE;
}

/// Nobody stops yielding.
struct WithoutAbstaining;
impl Rules for WithoutAbstaining {
    const TOO_MANY: u32 = u32::MAX;
}

/// Every sleep is proper.
struct WithoutNaps;
impl Rules for WithoutNaps {
    const NAPS_FROM: u32 = u32::MAX;
}

/// Naps are never followed by a proper sleep.
struct WithoutProperSleeps;
impl Rules for WithoutProperSleeps {
    const PROPER_EVERY: (u32, Cycles) = (u32::MAX, Cycles::NONE);
}

/// One pair on two cores that nobody else wants; it answers later than a fresh connection spins.
fn a_pair(seed: u64) -> Scenario {
    Scenario {
        cores: 2,
        pairs: 1,
        work: 30 * US..45 * US,
        start: Start::Apart,
        computed_until: 0,
        until: 8 * MS,
        counted_from: MS,
        seed,
    }
}

/// The same beside somebody who computes on each core.
fn beside_somebody_who_computes(seed: u64) -> Scenario {
    Scenario { computed_until: 80 * MS, until: 80 * MS, counted_from: 20 * MS, ..a_pair(seed) }
}

/// Both ends on one of two cores, until shortly before the scheduler would move one.
fn a_pair_on_one_core(seed: u64) -> Scenario {
    Scenario { work: 200..2 * US, start: Start::Together, until: 5 * MS, ..a_pair(seed) }
}

fn a_crowd(pairs: usize, seed: u64) -> Scenario {
    Scenario { pairs, work: 2 * US..20 * US, start: Start::Anywhere, ..a_pair(seed) }
}

/// A crowd whose every yield lasts for more than a millisecond.
fn a_multitude(seed: u64) -> Scenario {
    Scenario { work: US..8 * US, until: 30 * MS, counted_from: 15 * MS, ..a_crowd(400, seed) }
}

/// Answers that take longer than the longest spin.
fn a_slow_pair(seed: u64) -> Scenario {
    Scenario { work: 200 * US..300 * US, until: 100 * MS, counted_from: 5 * MS, ..a_pair(seed) }
}

fn rests(tally: Tally) -> u64 {
    tally.naps + tally.sleeps
}

#[test]
fn equal_scenarios_give_equal_runs() {
    let [one, same, other] = [1, 1, 2].map(|seed| run::<Measured>(&a_crowd(10, seed)));
    assert_eq!(one, same);
    assert_ne!(one, other);
}

#[test]
fn a_pair_that_has_two_cores_alone_hardly_ever_sleeps() {
    for seed in SEEDS {
        let pair = run::<Measured>(&a_pair(seed));
        assert!(pair.messages > 100 && rests(pair) * 50 < pair.messages, "{pair:?}");
    }
}

#[test]
fn a_pair_goes_on_sleeping_that_does_not_learn_from_short_sleeps() {
    for seed in SEEDS {
        let pair = run::<WithoutLearning>(&a_pair(seed));
        assert!(pair.messages > 50 && rests(pair) * 2 > pair.messages, "{pair:?}");
    }
}

#[test]
fn a_pair_that_shares_a_core_parts_as_soon_as_it_has_noticed() {
    for seed in SEEDS {
        let [by_rules, without] =
            [run::<Measured>, run::<WithoutParting>].map(|run| run(&a_pair_on_one_core(seed)));
        assert!(by_rules.to_same_core * 10 < by_rules.messages, "{by_rules:?}");
        assert!(without.to_same_core * 10 > without.messages * 9, "{without:?}");
        assert!(by_rules.messages > 2 * without.messages, "{by_rules:?}, {without:?}");
    }
}

#[test]
fn a_crowd_wastes_little_of_its_cores_because_a_round_is_short_where_the_core_is_wanted() {
    for seed in SEEDS {
        let [by_rules, without] = [run::<Measured>, run::<WithoutHaste>].map(|run| run(&a_crowd(50, seed)));
        assert!(by_rules.yields > by_rules.messages && rests(by_rules) > 0, "{by_rules:?}");
        assert!(by_rules.wasted * 3 < by_rules.worked, "{by_rules:?}");
        assert!(without.wasted > 2 * by_rules.wasted, "{by_rules:?}, {without:?}");
        assert!(by_rules.messages * 4 > without.messages * 5, "{by_rules:?}, {without:?}");
    }
}

#[test]
fn signals_are_held_back_beside_somebody_who_computes_and_hardly_ever_in_a_crowd() {
    for seed in SEEDS {
        let crowd = run::<Measured>(&a_crowd(10, seed));
        assert!(crowd.guarded * 4 < crowd.yields, "{crowd:?}");
        let beside = run::<WithoutAbstaining>(&beside_somebody_who_computes(seed));
        assert!(beside.guarded * 10 > beside.yields * 9, "{beside:?}");
    }
}

#[test]
fn a_multitude_goes_on_yielding_because_nobody_of_it_has_a_long_slice() {
    let [by_rules, without] = [run::<Measured>, run::<WithoutTurns>].map(|run| run(&a_multitude(1)));
    assert!(rests(by_rules) * 5 < by_rules.yields, "{by_rules:?}");
    assert!(rests(without) > without.yields, "{without:?}");
    assert!(by_rules.messages * 5 > without.messages * 6, "{by_rules:?}, {without:?}");
}

#[test]
fn beside_somebody_who_computes_sleepers_are_served_and_who_yields_is_not() {
    for seed in SEEDS {
        let scenario = beside_somebody_who_computes(seed);
        let [by_rules, without] = [run::<Measured>, run::<WithoutAbstaining>].map(|run| run(&scenario));
        assert!(rests(by_rules) > 10 * by_rules.yields, "{by_rules:?}");
        assert!(rests(without) < without.yields, "{without:?}");
        assert!(by_rules.messages > 10 * without.messages, "{by_rules:?}, {without:?}");
    }
}

#[test]
fn when_nobody_computes_any_more_waiters_spin_again() {
    let scenario = Scenario { computed_until: 13 * MS, until: 56 * MS, counted_from: 51 * MS, ..a_pair(1) };
    let after = run::<Measured>(&scenario);
    assert!(after.messages > 100 && rests(after) * 50 < after.messages, "{after:?}");
    let during = run::<Measured>(&Scenario { until: 40 * MS, counted_from: 20 * MS, ..scenario });
    assert!(during.messages > 100 && during.yields == 0, "not at once: {during:?}");
}

#[test]
fn sleeps_that_follow_each_other_are_naps_with_a_proper_one_now_and_then() {
    for seed in SEEDS {
        let by_rules = run::<Measured>(&a_slow_pair(seed));
        let [without_naps, without_proper] =
            [run::<WithoutNaps>, run::<WithoutProperSleeps>].map(|run| run(&a_slow_pair(seed)));
        assert!(by_rules.naps > 5 * by_rules.sleeps && by_rules.sleeps > 0, "{by_rules:?}");
        assert!(without_naps.wasted * 2 > by_rules.wasted * 3, "{by_rules:?}, {without_naps:?}");
        assert!(without_proper.naps > 0 && without_proper.sleeps == 0, "{without_proper:?}");
    }
}
