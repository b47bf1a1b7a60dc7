//! What a comparison of an application came to: the value that is printed and serialised. Nothing in here measures.
//! Times are nanoseconds.

use serde::{Deserialize, Serialize};

use crate::path::Path;
use uperf::result::Connections;

/// One application over several paths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Comparison {
    /// The server's name.
    pub(crate) application: String,
    /// Its version.
    pub(crate) version: String,
    /// Connections of the load generator.
    pub(crate) connections: u32,
    /// Planned length of a measured slice.
    pub(crate) seconds: u16,
    /// One per test and path.
    pub(crate) lines: Vec<Line>,
    /// Sentences about what was not measured, and why.
    pub(crate) notes: Vec<String>,
}

/// One test over one path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// What was requested.
    pub(crate) test: String,
    /// How the bytes went.
    pub(crate) path: Path,
    /// Medians of all rounds, each number for itself.
    pub(crate) median: Slice,
    /// Each round.
    pub(crate) rounds: Vec<Slice>,
}

/// What a load generator counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counted {
    /// Requests that were answered.
    pub(crate) requests: u64,
    /// Of them, per second.
    pub(crate) rate: f64,
    /// How long they took, as far as the generator tells.
    pub(crate) latency: Latency,
}

/// Latencies as a generator reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    /// Mean.
    pub(crate) mean_ns: Option<f64>,
    /// Median.
    pub(crate) p50_ns: Option<f64>,
    /// 99th percentile.
    pub(crate) p99_ns: Option<f64>,
    /// The longest.
    pub(crate) max_ns: Option<f64>,
}

/// One measured slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Slice {
    /// What the generator counted.
    #[serde(flatten)]
    pub(crate) counted: Counted,
    /// CPU time of all processes of the server, per request; opening and closing of the connections is in it.
    pub(crate) server_cpu_ns: f64,
    /// What the connections ran over, as seen while it ran.
    pub(crate) connections: Connections,
}

impl Slice {
    /// Each number's median. Of the connections, those of the round with the fewest over shared memory.
    pub(crate) fn median(rounds: &[Slice]) -> Slice {
        let of = |number: fn(&Slice) -> Option<f64>| median(rounds.iter().filter_map(number).collect());
        let latency = Latency {
            mean_ns: of(|slice| slice.counted.latency.mean_ns),
            p50_ns: of(|slice| slice.counted.latency.p50_ns),
            p99_ns: of(|slice| slice.counted.latency.p99_ns),
            max_ns: of(|slice| slice.counted.latency.max_ns),
        };
        let requests = of(|slice| Some(slice.counted.requests as f64)).unwrap_or_default() as u64;
        let rate = of(|slice| Some(slice.counted.rate)).unwrap_or_default();
        let worst = rounds.iter().map(|slice| &slice.connections).min_by_key(|seen| (seen.smcd, seen.total));
        Slice {
            counted: Counted { requests, rate, latency },
            server_cpu_ns: of(|slice| Some(slice.server_cpu_ns)).unwrap_or_default(),
            connections: worst.cloned().unwrap_or_default(),
        }
    }
}

/// None of nothing; of an even number of values, the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 0 => Some((values[middle - 1] + values[middle]) / 2.0),
        _ => Some(values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(rate: f64, p50_ns: Option<f64>, smcd: u32) -> Slice {
        let latency = Latency { p50_ns, ..Latency::default() };
        let connections = Connections { total: 9, smcd, ..Connections::default() };
        Slice { counted: Counted { requests: 1, rate, latency }, server_cpu_ns: rate, connections }
    }

    #[test]
    fn medians_are_of_each_number_and_the_worst_round_is_not_hidden() {
        let rounds = [slice(3.0, Some(1.0), 9), slice(1.0, None, 8), slice(9.0, Some(2.0), 9)];
        let median = Slice::median(&rounds);
        assert_eq!((median.counted.rate, median.counted.latency.p50_ns), (3.0, Some(1.5)));
        assert_eq!((median.connections.smcd, median.counted.latency.p99_ns), (8, None));
    }

    #[test]
    fn a_comparison_survives_json() {
        let line = Line {
            test: "GET".into(),
            path: Path::Smc,
            median: slice(2.0, Some(5.0), 1),
            rounds: vec![slice(2.0, Some(5.0), 1)],
        };
        let comparison = Comparison { lines: vec![line], ..Comparison::default() };
        let text = serde_json::to_string(&comparison).expect("serialises");
        assert!(text.contains(r#""rate":2.0"#) && text.contains(r#""path":"smc""#), "{text}");
        assert_eq!(serde_json::from_str::<Comparison>(&text).expect("is read back"), comparison);
    }
}
