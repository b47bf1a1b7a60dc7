//! Numbers that stand for many: medians, spreads and quartiles of a few rounds, percentiles of merged histograms.
//!
//! The invariant: nothing here invents a number. Of no values there is no median, of no passes no percentile.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use uperf::result::Latency;

/// One number over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    /// The middle one; of an even number the mean of the two in the middle.
    pub(crate) median: f64,
    /// The smallest.
    pub(crate) min: f64,
    /// The largest.
    pub(crate) max: f64,
    /// First quartile: with `q3` an interval that one odd round cannot move far.
    pub(crate) q1: f64,
    /// Third quartile.
    pub(crate) q3: f64,
    /// Of so many rounds.
    pub(crate) rounds: usize,
}

impl Spread {
    /// None of no values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        Self::mixed(values.into_iter().collect(), |below, above, part| below + (above - below) * part)
    }

    /// Of ratios: between two neighbours lies their geometric mean, so what is read the other way round, 1 through each, is
    /// the inverse of every number here. None of no values.
    pub(crate) fn of_ratios(ratios: impl IntoIterator<Item = f64>) -> Option<Self> {
        let positive = ratios.into_iter().filter(|ratio| *ratio > 0.0);
        Self::mixed(positive.collect(), |below, above, part| below * (above / below).powf(part))
    }

    fn mixed(values: Vec<f64>, mix: fn(f64, f64, f64) -> f64) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let at = |quantile| between(&sorted, quantile, mix);
        Some(Self { median: at(0.5), min, max, q1: at(0.25), q3: at(0.75), rounds: sorted.len() })
    }
}

/// The value at `quantile` of a sorted list that is not empty, mixed of two neighbours.
fn between(sorted: &[f64], quantile: f64, mix: fn(f64, f64, f64) -> f64) -> f64 {
    let position = (sorted.len() - 1) as f64 * quantile;
    let (below, above) = (position.floor() as usize, position.ceil() as usize);
    mix(sorted[below], sorted[above], position - position.floor())
}

/// Latencies of several runs as if they had been one: (nanoseconds, passes that took at most so long), ascending, never
/// empty. The values are those of [`Latency`], so merging loses nothing.
pub(crate) struct Distribution(Vec<(u64, u64)>);

impl Distribution {
    /// None if no pass was timed.
    pub(crate) fn merged<'a>(runs: impl IntoIterator<Item = &'a Latency>) -> Option<Self> {
        let mut counts = BTreeMap::<u64, u64>::new();
        for &(value, passes) in runs.into_iter().flat_map(|run| &run.counts_ns).filter(|count| count.1 > 0) {
            *counts.entry(value).or_default() += passes;
        }
        let mut sum = 0;
        let ascending = counts.into_iter().map(|(value, passes)| {
            sum += passes;
            (value, sum)
        });
        let all: Vec<(u64, u64)> = ascending.collect();
        (!all.is_empty()).then_some(Self(all))
    }

    /// Nanoseconds that so large a part of all passes took at most.
    pub(crate) fn at_ns(&self, quantile: f64) -> f64 {
        let wanted = (quantile * self.passes() as f64).ceil() as u64;
        let place = self.0.partition_point(|(_, sum)| *sum < wanted);
        self.0[place.min(self.0.len() - 1)].0 as f64
    }

    /// Passes that were timed.
    pub(crate) fn passes(&self) -> u64 {
        self.0[self.0.len() - 1].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_ignores_one_odd_round_and_shows_it() {
        let spread = Spread::of([3.0, 900.0, 1.0, 2.0, 4.0]).expect("five values");
        assert_eq!((spread.median, spread.q1, spread.q3), (3.0, 2.0, 4.0));
        assert_eq!((spread.min, spread.max, spread.rounds), (1.0, 900.0, 5));
    }

    #[test]
    fn an_even_number_has_the_mean_of_its_middle() {
        let spread = Spread::of([4.0, 2.0]).expect("two values");
        assert_eq!((spread.median, spread.q1, spread.q3), (3.0, 2.5, 3.5));
        assert_eq!(Spread::of([7.0]).map(|one| (one.q1, one.median, one.max)), Some((7.0, 7.0, 7.0)));
    }

    #[test]
    fn ratios_say_the_same_both_ways_round() {
        let ratios = [0.4, 3.0, 1.7, 2.0];
        let (one, other) = (Spread::of_ratios(ratios), Spread::of_ratios(ratios.map(|ratio| 1.0 / ratio)));
        let (one, other) = (one.expect("four"), other.expect("four"));
        for (a, b) in [(one.median, other.median), (one.q1, other.q3), (one.min, other.max)] {
            assert!((a * b - 1.0).abs() < 1e-12, "{a} {b}");
        }
        assert!((one.median - 3.4_f64.sqrt()).abs() < 1e-12, "not the mean of 1.7 and 2.0: {}", one.median);
    }

    #[test]
    fn what_is_no_number_does_not_count() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::NAN, f64::INFINITY]), None);
        assert_eq!(Spread::of([f64::NAN, 5.0]).map(|spread| (spread.median, spread.rounds)), Some((5.0, 1)));
    }

    #[test]
    fn histograms_merge_by_weight() {
        let run = |counts_ns: &[(u64, u64)]| Latency { counts_ns: counts_ns.to_vec(), ..Latency::default() };
        let both = Distribution::merged([&run(&[(100, 980), (2000, 10)]), &run(&[(100, 9), (5000, 1)])]);
        let both = both.expect("passes were timed");
        assert_eq!((both.passes(), both.at_ns(0.5), both.at_ns(0.999)), (1000, 100.0, 2000.0));
        assert_eq!([0.0, 0.989, 0.990, 1.0].map(|at| both.at_ns(at)), [100.0, 100.0, 2000.0, 5000.0]);
        assert!(Distribution::merged([&run(&[])]).is_none());
    }
}
