//! Numbers that stand for many: medians, spreads and quartiles of a few rounds, percentiles of merged histograms.
//!
//! The invariant: nothing here invents a number. Of no values there is no median, of no passes no percentile.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::result::Latency;

/// Significant digits of a latency, as in [`Latency`].
const DIGITS: u8 = 3;
/// Longer ones count as this long: a minute, beyond any run that is worth its numbers.
const LONGEST_NS: u64 = 60_000_000_000;

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
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let at = |quantile| between(&sorted, quantile);
        Some(Self { median: at(0.5), min, max, q1: at(0.25), q3: at(0.75), rounds: sorted.len() })
    }
}

/// The value at `quantile` of a sorted list that is not empty, linear between two neighbours.
fn between(sorted: &[f64], quantile: f64) -> f64 {
    let position = (sorted.len() - 1) as f64 * quantile;
    let (below, above) = (position.floor() as usize, position.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * (position - position.floor())
}

/// Latencies of several runs as if they had been one.
pub(crate) struct Distribution(Histogram<u64>);

impl Distribution {
    /// None if no pass was timed.
    pub(crate) fn merged<'a>(runs: impl IntoIterator<Item = &'a Latency>) -> Option<Self> {
        let mut all = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)
            .expect("bounds and digits are within hdrhistogram's limits");
        for &(value, times) in runs.into_iter().flat_map(|run| &run.counts_ns) {
            all.saturating_record_n(value, times);
        }
        (!all.is_empty()).then_some(Self(all))
    }

    /// Nanoseconds that so large a part of all passes took at most.
    pub(crate) fn at_ns(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile).min(self.0.max()) as f64
    }

    /// The longest one.
    pub(crate) fn max_ns(&self) -> f64 {
        self.0.max() as f64
    }

    /// Passes that were timed.
    pub(crate) fn passes(&self) -> u64 {
        self.0.len()
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
    fn what_is_no_number_does_not_count() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::NAN, f64::INFINITY]), None);
        assert_eq!(Spread::of([f64::NAN, 5.0]).map(|spread| (spread.median, spread.rounds)), Some((5.0, 1)));
    }

    #[test]
    fn histograms_merge_by_weight() {
        let run = |counts_ns: &[(u64, u64)]| Latency { counts_ns: counts_ns.to_vec() };
        let both = Distribution::merged([&run(&[(100, 980), (2000, 10)]), &run(&[(100, 9), (5000, 1)])]);
        let both = both.expect("passes were timed");
        assert_eq!((both.passes(), both.at_ns(0.5), both.at_ns(0.999)), (1000, 100.0, 2000.0));
        assert!((both.max_ns() - 5000.0).abs() < 5.0, "{}", both.max_ns());
        assert!(Distribution::merged([&run(&[])]).is_none());
    }
}
