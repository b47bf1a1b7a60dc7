//! Numbers: what one slice came to, and what stands for many.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::workload::{Count, Workload, latencies};

/// One measured slice of one cell, all connections together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Slice {
    /// Operations per second.
    pub(crate) rate: f64,
    /// Bits per second, both directions.
    pub(crate) bits: f64,
    /// Median time of an operation in nanoseconds.
    pub(crate) p50_ns: u64,
    /// 99th percentile.
    pub(crate) p99_ns: u64,
    /// CPU time of all clients and of all servers, nanoseconds per operation; None where the kernel does not tell.
    pub(crate) client_cpu_ns: Option<f64>,
    /// The servers' part.
    pub(crate) server_cpu_ns: Option<f64>,
    /// Connections that used SMC-D, of so many; None if nobody could tell.
    pub(crate) smcd: Option<usize>,
    /// Connections at once.
    pub(crate) connections: usize,
}

/// CPU time in nanoseconds that two groups of processes used during a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpu {
    /// All clients.
    pub(crate) clients_ns: Option<u64>,
    /// All servers.
    pub(crate) servers_ns: Option<u64>,
}

impl Slice {
    /// Adds up what the clients counted. Clients' windows end a few operations apart, so rates are added, not counts.
    pub(crate) fn new(workload: Workload, counts: &[Count], cpu: Cpu, smcd: Option<usize>) -> Self {
        let rate: f64 = counts.iter().filter(|c| c.elapsed_ns > 0).map(rate).sum();
        let operations: u64 = counts.iter().map(|count| count.operations).sum();
        let per_operation = |ns: Option<u64>| ns.map(|ns| ns as f64 / operations.max(1) as f64);
        let latencies = merged(counts);
        Self {
            rate,
            bits: rate * workload.bytes() as f64 * 8.0,
            p50_ns: latencies.value_at_quantile(0.50),
            p99_ns: latencies.value_at_quantile(0.99),
            client_cpu_ns: per_operation(cpu.clients_ns),
            server_cpu_ns: per_operation(cpu.servers_ns),
            smcd,
            connections: counts.len(),
        }
    }

    /// The median of each number over several slices of the same cell; the worst count of SMC-D connections.
    pub(crate) fn median(slices: &[Slice]) -> Self {
        let of = |number: fn(&Slice) -> f64| median(slices.iter().map(number).collect());
        let maybe = |number: fn(&Slice) -> Option<f64>| {
            slices.iter().map(number).collect::<Option<Vec<_>>>().map(median)
        };
        Self {
            rate: of(|s| s.rate),
            bits: of(|s| s.bits),
            p50_ns: of(|s| s.p50_ns as f64) as u64,
            p99_ns: of(|s| s.p99_ns as f64) as u64,
            client_cpu_ns: maybe(|s| s.client_cpu_ns),
            server_cpu_ns: maybe(|s| s.server_cpu_ns),
            smcd: slices.iter().map(|s| s.smcd).min().flatten(),
            connections: slices.first().map_or(0, |s| s.connections),
        }
    }

    /// CPU of both ends, nanoseconds per operation.
    pub(crate) fn cpu_ns(&self) -> Option<f64> {
        Some(self.client_cpu_ns? + self.server_cpu_ns?)
    }

    /// CPU of both ends, microseconds per 10^9 bits moved.
    pub(crate) fn cpu_us_per_gigabit(&self) -> Option<f64> {
        let bits_per_operation = self.bits / self.rate;
        Some(self.cpu_ns()? / 1e3 / bits_per_operation * 1e9)
    }
}

fn rate(count: &Count) -> f64 {
    count.operations as f64 * 1e9 / count.elapsed_ns as f64
}

fn merged(counts: &[Count]) -> Histogram<u64> {
    let mut all = latencies();
    for &(value, times) in counts.iter().flat_map(|count| &count.latencies_ns) {
        all.saturating_record_n(value, times);
    }
    all
}

/// The middle value; of an even number the mean of both.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::REQUEST_RESPONSE;

    #[test]
    fn rates_add_and_latencies_merge() {
        let count = |latencies_ns: &[(u64, u64)]| Count {
            operations: 1000,
            elapsed_ns: 500_000_000,
            latencies_ns: latencies_ns.to_vec(),
        };
        let cpu = Cpu { clients_ns: Some(4_000_000), servers_ns: Some(6_000_000) };
        let slice = Slice::new(REQUEST_RESPONSE, &[count(&[(10, 99)]), count(&[(1000, 1)])], cpu, Some(2));
        assert_eq!((slice.rate, slice.bits), (4000.0, 4000.0 * 9600.0));
        assert_eq!((slice.p50_ns, slice.p99_ns), (10, 10));
        assert_eq!(slice.cpu_ns(), Some(5000.0));
        assert_eq!(slice.cpu_us_per_gigabit(), Some(5.0 / 9600.0 * 1e9));
    }

    #[test]
    fn a_median_ignores_one_odd_slice() {
        assert_eq!(median(vec![3.0, 900.0, 1.0]), 3.0);
        assert_eq!(median(vec![4.0, 2.0]), 3.0);
        let slice = |rate, smcd| Slice { rate, smcd, ..Slice::default() };
        let all = Slice::median(&[slice(1.0, Some(50)), slice(2.0, Some(49)), slice(3.0, Some(50))]);
        assert_eq!((all.rate, all.smcd, all.client_cpu_ns), (2.0, Some(49), None));
    }

    #[test]
    fn one_unknown_count_leaves_the_total_unknown() {
        let slice = |smcd| Slice { smcd, ..Slice::default() };
        assert_eq!(Slice::median(&[slice(Some(1)), slice(None)]).smcd, None);
    }
}
