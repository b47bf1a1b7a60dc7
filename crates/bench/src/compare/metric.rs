//! What is read off a [`Run`]: one table of metrics with name, unit and direction, for statistics and reports alike.

use serde::{Deserialize, Serialize};

use crate::compare::stats::Distribution;
use uperf::result::Run;

/// A number that a run has, or cannot tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Metric {
    /// Transactions per second, all connections together.
    Rate,
    /// Gigabits per second, both directions.
    Throughput,
    /// Mean time of a transaction as the studies print it: time, times connections, through transactions.
    TransactionTime,
    /// Percentiles of the time of a transaction.
    P50,
    /// 90th.
    P90,
    /// 99th.
    P99,
    /// 99.9th.
    P999,
    /// The longest.
    Max,
    /// CPU time of both ends per gigabit moved.
    CpuPerGigabit,
    /// Of the server alone, as the studies print it.
    ServerCpuPerGigabit,
    /// Of the whole host, interrupts and everybody else included.
    HostCpuPerGigabit,
    /// CPU time of both ends per transaction.
    CpuPerTransaction,
    /// Of the server alone.
    ServerCpuPerTransaction,
    /// Context switches of both ends per transaction.
    SwitchesPerTransaction,
}

/// How a metric is called and read.
pub(crate) struct About {
    /// Which one.
    pub(crate) metric: Metric,
    /// For people.
    pub(crate) title: &'static str,
    /// Of the numbers.
    pub(crate) unit: &'static str,
    /// Whether less is better.
    pub(crate) lower_is_better: bool,
}

const fn more(metric: Metric, title: &'static str, unit: &'static str) -> About {
    About { metric, title, unit, lower_is_better: false }
}

const fn less(metric: Metric, title: &'static str, unit: &'static str) -> About {
    About { metric, title, unit, lower_is_better: true }
}

/// Every metric, in the order of [`Metric`].
pub(crate) const ALL: [About; 14] = [
    more(Metric::Rate, "transactions per second", "/s"),
    more(Metric::Throughput, "throughput", "Gb/s"),
    less(Metric::TransactionTime, "transaction time", "us"),
    less(Metric::P50, "p50", "us"),
    less(Metric::P90, "p90", "us"),
    less(Metric::P99, "p99", "us"),
    less(Metric::P999, "p99.9", "us"),
    less(Metric::Max, "max", "us"),
    less(Metric::CpuPerGigabit, "CPU of both ends", "us/Gb"),
    less(Metric::ServerCpuPerGigabit, "CPU of the server", "us/Gb"),
    less(Metric::HostCpuPerGigabit, "CPU of the whole host", "us/Gb"),
    less(Metric::CpuPerTransaction, "CPU of both ends per transaction", "us"),
    less(Metric::ServerCpuPerTransaction, "CPU of the server per transaction", "us"),
    less(Metric::SwitchesPerTransaction, "context switches per transaction", ""),
];

impl Metric {
    /// Its row of the table.
    pub(crate) fn about(self) -> &'static About {
        &ALL[self as usize]
    }

    /// For programs.
    pub(crate) fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_default()
    }

    /// Where in the distribution it stands; 1 is the longest pass.
    pub(crate) fn quantile(self) -> Option<f64> {
        match self {
            Metric::P50 => Some(0.5),
            Metric::P90 => Some(0.9),
            Metric::P99 => Some(0.99),
            Metric::P999 => Some(0.999),
            Metric::Max => Some(1.0),
            _ => None,
        }
    }

    /// How many times better `ours` is than `theirs`: above 1 is better, whatever the metric.
    pub(crate) fn times_better(self, ours: f64, theirs: f64) -> f64 {
        if self.about().lower_is_better { theirs / ours } else { ours / theirs }
    }
}

/// All metrics of one run, in the order of [`ALL`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figures([Option<f64>; ALL.len()]);

impl Figures {
    /// Reads them off `run`.
    pub(crate) fn of(run: &Run) -> Self {
        let latency = Distribution::merged([&run.latency]);
        Self(ALL.map(|about| match about.metric.quantile() {
            Some(quantile) => {
                let counted = latency.as_ref().map(|all| all.at_ns(quantile));
                counted.or_else(|| told_ns(run, quantile)).map(|ns| ns / 1e3)
            }
            None => read(run, about.metric).filter(|value| value.is_finite()),
        }))
    }

    /// None if the run could not tell.
    pub(crate) fn get(&self, metric: Metric) -> Option<f64> {
        self.0[metric as usize]
    }
}

/// Everything that is no percentile. What cannot be divided becomes infinite or NaN.
fn read(run: &Run, metric: Metric) -> Option<f64> {
    let seconds = run.elapsed_ns as f64 / 1e9;
    let transactions = run.transactions as f64;
    let gigabits = run.bits() / 1e9;
    let server_us = run.server.map(|server| server.cpu_ns as f64 / 1e3);
    let both_us = server_us.zip(run.client).map(|(server, client)| server + client.cpu_ns as f64 / 1e3);
    match metric {
        Metric::Rate => Some(transactions / seconds),
        Metric::Throughput => (gigabits > 0.0).then_some(gigabits / seconds),
        Metric::TransactionTime => Some(seconds * 1e6 * f64::from(run.strands) / transactions),
        Metric::CpuPerGigabit => both_us.map(|us| us / gigabits),
        Metric::ServerCpuPerGigabit => server_us.map(|us| us / gigabits),
        Metric::HostCpuPerGigabit => run.host.map(|host| host.busy_ns as f64 / 1e3 / gigabits),
        Metric::CpuPerTransaction => both_us.map(|us| us / transactions),
        Metric::ServerCpuPerTransaction => server_us.map(|us| us / transactions),
        Metric::SwitchesPerTransaction => switches(run).map(|switches| switches / transactions),
        Metric::P50 | Metric::P90 | Metric::P99 | Metric::P999 | Metric::Max => None,
    }
}

fn told_ns(run: &Run, quantile: f64) -> Option<f64> {
    let wanted = (quantile * 1e3).round() as u16;
    run.latency.told_ns.iter().find(|(part, _)| *part == wanted).map(|(_, ns)| *ns as f64)
}

fn switches(run: &Run) -> Option<f64> {
    let ends = [run.client?, run.server?];
    Some(ends.iter().map(|end| (end.voluntary_switches + end.involuntary_switches) as f64).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use uperf::result::{HostUsage, Latency, Usage};

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for about in &ALL {
            assert_eq!(about.metric.about().title, about.title);
        }
    }

    #[test]
    fn every_metric_is_read_in_its_unit() {
        let end =
            |cpu_ns| Usage { cpu_ns, voluntary_switches: 3, involuntary_switches: 1, ..Usage::default() };
        let run = Run {
            strands: 10,
            elapsed_ns: 2_000_000_000,
            transactions: 1000,
            bytes_sent: 200_000,
            bytes_received: 1_000_000,
            latency: Latency { counts_ns: vec![(1500, 1000)], ..Latency::default() },
            client: Some(end(4_000_000)),
            server: Some(end(6_000_000)),
            host: Some(HostUsage { busy_ns: 12_000_000, idle_ns: 0 }),
            ..Run::default()
        };
        let figures = Figures::of(&run);
        let expected = [
            (Metric::Rate, 500.0),
            (Metric::Throughput, 0.0048),
            (Metric::TransactionTime, 20_000.0),
            (Metric::P50, 1.5),
            (Metric::Max, 1.5),
            (Metric::CpuPerGigabit, 10_000.0 / 0.0096),
            (Metric::ServerCpuPerGigabit, 6_000.0 / 0.0096),
            (Metric::HostCpuPerGigabit, 12_000.0 / 0.0096),
            (Metric::CpuPerTransaction, 10.0),
            (Metric::SwitchesPerTransaction, 0.008),
        ];
        for (metric, value) in expected {
            let read = figures.get(metric).unwrap_or_else(|| panic!("{metric:?} is there"));
            assert!((read - value).abs() < value * 2e-3, "{metric:?}: {read} instead of {value}");
        }
    }

    #[test]
    fn what_a_run_cannot_tell_is_none() {
        let figures = Figures::of(&Run::default());
        assert!(ALL.iter().all(|about| figures.get(about.metric).is_none()), "{figures:?}");
    }

    #[test]
    fn better_is_above_one_in_both_directions() {
        assert_eq!(Metric::Rate.times_better(200.0, 100.0), 2.0);
        assert_eq!(Metric::P99.times_better(50.0, 100.0), 2.0);
    }
}
