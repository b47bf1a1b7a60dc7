//! What a load generator came to. Nothing in here measures.
//! Times are nanoseconds.

use serde::{Deserialize, Serialize};
use uperf::result::{Connections, Run, Usage};

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
    /// Median.
    pub(crate) p50_ns: Option<f64>,
    /// 99th percentile.
    pub(crate) p99_ns: Option<f64>,
    /// The longest.
    pub(crate) max_ns: Option<f64>,
}

/// One measured slice.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Slice {
    /// What the generator counted.
    pub(crate) counted: Counted,
    /// CPU time of all processes of the server, per request; opening and closing of the connections is in it.
    pub(crate) server_cpu_ns: f64,
    /// What the connections ran over, as seen while it ran.
    pub(crate) connections: Connections,
}

impl Slice {
    /// As every other part of this program takes it: of `connections`, with what the generator told.
    pub(crate) fn run(&self, profile: &str, connections: u32) -> Run {
        let Counted { requests, rate, latency } = self.counted;
        let told = [(500, latency.p50_ns), (990, latency.p99_ns), (1000, latency.max_ns)];
        let told_ns = told.into_iter().filter_map(|(part, ns)| Some((part, ns? as u64))).collect();
        let cpu_ns = (self.server_cpu_ns * requests as f64) as u64;
        Run {
            profile: profile.into(),
            strands: connections,
            elapsed_ns: (requests as f64 / rate * 1e9) as u64,
            operations: requests,
            transactions: requests,
            latency: uperf::result::Latency { told_ns, ..Default::default() },
            server: Some(Usage { cpu_ns, ..Usage::default() }),
            connections: Some(self.connections.clone()),
            ..Run::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_a_run_that_tells_what_the_generator_told() {
        let latency = Latency { p99_ns: Some(2e6), ..Latency::default() };
        let connections = Connections { total: 9, smcd: 8, ..Connections::default() };
        let counted = Counted { requests: 1000, rate: 500.0, latency };
        let run = Slice { counted, server_cpu_ns: 3e3, connections }.run("redis GET", 9);
        assert_eq!((run.elapsed_ns, run.transactions, run.strands), (2_000_000_000, 1000, 9));
        assert_eq!(run.latency.told_ns, [(990, 2_000_000)]);
        assert_eq!(run.server.map(|used| used.cpu_ns), Some(3_000_000));
        assert_eq!((run.client, run.connections.map(|seen| seen.smcd)), (None, Some(8)));
    }
}
