//! From single runs to the numbers of a report: one [`Line`] per contender and setting.
//!
//! The invariant: a ratio is paired. The two runs that it compares belong to the same round, minutes apart at most; the
//! median is taken of the ratios, never the ratio of medians.

use std::collections::BTreeMap;

use crate::compare::metric::{ALL, Figures, Metric};
use crate::compare::plan::{Contender, Group, Turn};
use crate::compare::stats::{Distribution, Spread};
use crate::compare::study::{Sample, Study};

/// A study with the metrics of each run read once.
pub(crate) struct Reading<'a> {
    /// What is read.
    pub(crate) study: &'a Study,
    rounds: BTreeMap<(Turn, u16), (&'a Sample, Figures)>,
}

/// A metric of one line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Value {
    /// What to show: percentiles of all rounds merged, medians of everything else.
    pub(crate) shown: f64,
    /// Over the rounds.
    pub(crate) spread: Spread,
    /// This contender's number through the baseline's of the same round.
    pub(crate) ratio: Option<Spread>,
}

/// One contender in one setting.
pub(crate) struct Line<'a> {
    /// Its turn.
    pub(crate) turn: Turn,
    /// Its setting and baseline.
    pub(crate) group: &'a Group,
    /// Who it is.
    pub(crate) contender: &'a Contender,
    /// What its runs could tell.
    pub(crate) values: BTreeMap<Metric, Value>,
    /// Of all rounds.
    pub(crate) distribution: Option<Distribution>,
}

impl Line<'_> {
    /// Whether the others of its group are measured against it.
    pub(crate) fn is_baseline(&self) -> bool {
        *self.contender == self.group.baseline
    }

    /// What to show; None if no run could tell.
    pub(crate) fn shown(&self, metric: Metric) -> Option<f64> {
        self.values.get(&metric).map(|value| value.shown)
    }

    /// How many times better than the baseline, above 1 is better; None for the baseline itself.
    pub(crate) fn times_better(&self, metric: Metric) -> Option<f64> {
        Some(metric.times_better(self.ratio(metric)?.median, 1.0))
    }

    /// Its numbers through the baseline's of the same rounds; None for the baseline itself.
    pub(crate) fn ratio(&self, metric: Metric) -> Option<Spread> {
        self.values.get(&metric)?.ratio.filter(|_| !self.is_baseline())
    }

    /// What stands for its cost: CPU per gigabit of both ends, or whatever is known of it.
    pub(crate) fn cost(&self) -> Metric {
        let known = |metric: &&Metric| self.values.contains_key(metric);
        let all = [Metric::CpuPerGigabit, Metric::CpuPerTransaction, Metric::ServerCpuPerTransaction];
        all.iter().find(known).copied().unwrap_or(Metric::CpuPerGigabit)
    }
}

impl<'a> Reading<'a> {
    /// Reads every run.
    pub(crate) fn new(study: &'a Study) -> Self {
        let read = |sample: &'a Sample| ((sample.turn, sample.round), (sample, Figures::of(&sample.run)));
        Self { study, rounds: study.samples.iter().map(read).collect() }
    }

    /// `metric` of `turn` in each round that could tell.
    fn values(&self, turn: Turn, metric: Metric) -> impl Iterator<Item = f64> {
        self.of(turn).filter_map(move |(_, figures)| figures.get(metric))
    }

    fn of(&self, turn: Turn) -> impl Iterator<Item = &(&'a Sample, Figures)> {
        self.rounds.range((turn, 0)..=(turn, u16::MAX)).map(|(_, one)| one)
    }

    /// Both contenders' numbers, of each round in which both could tell.
    pub(crate) fn paired(&self, ours: Turn, theirs: Turn, metric: Metric) -> Vec<(f64, f64)> {
        let pair = |round: u16| {
            let number = |turn| self.rounds.get(&(turn, round)).and_then(|(_, figures)| figures.get(metric));
            Some((number(ours)?, number(theirs)?))
        };
        (0..self.study.plan.rounds).filter_map(pair).collect()
    }

    /// Whose ratio to the baseline of `turn`'s group is 1, if it was planned.
    pub(crate) fn baseline(&self, turn: Turn) -> Option<Turn> {
        let group = self.study.plan.groups.get(turn.group)?;
        let contender = group.contenders.iter().position(|one| *one == group.baseline)?;
        Some(Turn { contender, ..turn })
    }

    /// What stands for the speed of a setting: gigabits where bytes go one way on each connection, else transactions.
    pub(crate) fn main_metric(&self, group: usize) -> Metric {
        let mut own = self.study.samples.iter().filter(|sample| sample.turn.group == group);
        if own.any(|sample| sample.run.is_stream()) { Metric::Throughput } else { Metric::Rate }
    }

    /// What to show of a line. Of a stream a pass is as many pieces as its profile likes: its time, and what one pass
    /// costs, tell nothing to anybody.
    pub(crate) fn shown(&self, line: &Line<'_>, metric: Metric) -> Option<f64> {
        let is_of_a_pass = metric.quantile().is_some()
            || matches!(
                metric,
                Metric::TransactionTime | Metric::CpuPerTransaction | Metric::SwitchesPerTransaction
            );
        let is_stream = self.main_metric(line.turn.group) == Metric::Throughput;
        line.shown(metric).filter(|_| !(is_of_a_pass && is_stream))
    }

    /// Every contender of every group that was measured at least once, in the order of the plan.
    pub(crate) fn lines(&self) -> Vec<Line<'a>> {
        let turns = self.study.plan.round(0);
        turns.into_iter().filter_map(|turn| self.line(turn)).collect()
    }

    /// The line of `turn`; None if it was never measured.
    pub(crate) fn line(&self, turn: Turn) -> Option<Line<'a>> {
        let (group, contender) = self.study.contender(turn)?;
        self.of(turn).next()?;
        let distribution = Distribution::merged(self.of(turn).map(|(sample, _)| &sample.run.latency));
        let value = |metric| Some((metric, self.value(turn, metric, distribution.as_ref())?));
        let values = ALL.iter().filter_map(|about| value(about.metric)).collect();
        Some(Line { turn, group, contender, values, distribution })
    }

    fn value(&self, turn: Turn, metric: Metric, merged: Option<&Distribution>) -> Option<Value> {
        let spread = Spread::of(self.values(turn, metric))?;
        let merged = metric.quantile().zip(merged).map(|(quantile, all)| all.at_ns(quantile) / 1e3);
        let baseline = self.baseline(turn);
        let pairs = baseline.map(|theirs| self.paired(turn, theirs, metric)).unwrap_or_default();
        let ratio = Spread::of_ratios(pairs.iter().map(|(ours, theirs)| ours / theirs));
        Some(Value { shown: merged.unwrap_or(spread.median), spread, ratio })
    }
}

/// Lines of the same setting together, in their order.
pub(crate) fn groups<'a, 'b>(lines: &[&'b Line<'a>]) -> Vec<Vec<&'b Line<'a>>> {
    lines.chunk_by(|a, b| a.turn.group == b.turn.group).map(<[_]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::mock::{MockExecutor, plan, run, stream, study};
    use crate::path::Path;

    /// A machine that gets slower by the round, for both alike, and once for SMC alone.
    fn slowing() -> Study {
        let plan = plan(&["rr"], &[1], &[Path::TcpVeth, Path::Smc]);
        let model = |cell: &crate::cell::Cell, before: usize| {
            let machine = [10_000.0, 5_000.0, 1_000.0][before];
            let smc = [10.0, 2.0, 12.0][before];
            run(machine * if cell.path == Path::Smc { smc } else { 1.0 }, 10.0)
        };
        study(plan, &mut MockExecutor::new(model))
    }

    #[test]
    fn ratios_are_paired_by_round() {
        let study = slowing();
        let reading = Reading::new(&study);
        let smc = reading.line(Turn { group: 0, contender: 1 }).expect("measured");
        let rate = smc.values[&Metric::Rate];
        // Medians alone would say 12 000 / 5 000 = 2.4.
        assert_eq!((rate.shown, rate.ratio.map(|ratio| ratio.median)), (12_000.0, Some(10.0)));
        assert_eq!(smc.times_better(Metric::Rate), Some(10.0));
        let time = smc.times_better(Metric::TransactionTime).expect("a ratio");
        assert!((time - 10.0).abs() < 1e-9, "a shorter time is as much better: {time}");
    }

    #[test]
    fn a_round_without_both_has_no_ratio() {
        let mut study = slowing();
        study.samples.retain(|sample| (sample.turn.contender, sample.round) != (0, 0));
        let reading = Reading::new(&study);
        let line = reading.line(Turn { group: 0, contender: 1 }).expect("measured");
        let ratio = line.values[&Metric::Rate].ratio.expect("two rounds have both");
        assert_eq!((ratio.rounds, ratio.median), (2, 2.0 * 6_f64.sqrt()), "of 2 and 12 the geometric mean");
        let time = line.values[&Metric::TransactionTime].ratio.expect("the same rounds").median;
        assert!(
            (time * ratio.median - 1.0).abs() < 1e-9,
            "read the other way round it is the inverse: {time}"
        );
    }

    #[test]
    fn percentiles_are_those_of_all_rounds_merged() {
        let study = slowing();
        let lines = Reading::new(&study).lines();
        let merged = lines[0].distribution.as_ref().expect("passes were timed");
        let counts = study.of(lines[0].turn).flat_map(|sample| &sample.run.latency.counts_ns);
        assert_eq!(merged.passes(), counts.map(|(_, passes)| passes).sum::<u64>());
        let p50 = &lines[0].values[&Metric::P50];
        assert!(p50.shown < p50.spread.median, "the fast rounds have more passes: {p50:?}");
    }

    #[test]
    fn the_baseline_is_its_own_measure() {
        let study = slowing();
        let lines = Reading::new(&study).lines();
        assert!(lines[0].is_baseline() && lines[0].times_better(Metric::Rate).is_none());
        let ratio = lines[0].values[&Metric::Rate].ratio;
        assert_eq!(ratio.map(|ratio| (ratio.min, ratio.max)), Some((1.0, 1.0)));
    }

    #[test]
    fn one_way_is_measured_in_gigabits() {
        let plan = plan(&["rr", "str"], &[1], &[Path::Smc]);
        let model =
            |cell: &crate::cell::Cell, _| if cell.profile == "rr" { run(1e4, 1.0) } else { stream(1.0, 1.0) };
        let study = study(plan, &mut MockExecutor::new(model));
        let reading = Reading::new(&study);
        assert_eq!((reading.main_metric(0), reading.main_metric(1)), (Metric::Rate, Metric::Throughput));
        let shown: Vec<bool> =
            reading.lines().iter().map(|line| reading.shown(line, Metric::P99).is_some()).collect();
        assert_eq!(shown, [true, false], "a pass of a stream is not a transaction");
    }

    #[test]
    fn what_was_not_measured_has_no_line() {
        let mut study = slowing();
        study.samples.retain(|sample| sample.turn.contender == 1);
        let lines = Reading::new(&study).lines();
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].values[&Metric::Rate].ratio, None, "nothing to compare with");
    }
}
