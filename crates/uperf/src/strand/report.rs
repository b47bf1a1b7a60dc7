//! What a strand came to: plain values that cross a pipe as JSON and are added up by whoever directs the strands.

use serde::{Deserialize, Serialize};

use super::control::Counts;
use crate::result::{Latency, Usage};

/// How often something was done and how long it took, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Timing {
    /// How often.
    pub(crate) count: u64,
    /// All together.
    pub(crate) total_ns: u64,
    /// On a CPU, all together; 0 if it was not asked for.
    pub(crate) cpu_ns: u64,
    /// The slowest.
    pub(crate) max_ns: u64,
    /// The fastest; u64::MAX before the first.
    pub(crate) min_ns: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self { count: 0, total_ns: 0, cpu_ns: 0, max_ns: 0, min_ns: u64::MAX }
    }
}

impl Timing {
    /// One more.
    pub(crate) fn add(&mut self, ns: u64) {
        self.add_times(1, ns);
    }

    /// `count` more, of which only the sum is known.
    pub(crate) fn add_times(&mut self, count: u64, ns: u64) {
        self.count += count;
        self.total_ns += ns;
        self.max_ns = self.max_ns.max(ns);
        self.min_ns = self.min_ns.min(ns);
    }

    /// Adds what somebody else did.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.total_ns += other.total_ns;
        self.cpu_ns += other.cpu_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.min_ns = self.min_ns.min(other.min_ns);
    }
}

/// One transaction of one strand.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TransactionReport {
    /// When it began: CLOCK_MONOTONIC.
    pub(crate) begin_ns: u64,
    /// When it ended.
    pub(crate) end_ns: u64,
    /// What it moved.
    pub(crate) counts: Counts,
    /// What it used.
    pub(crate) usage: Usage,
    /// Its passes.
    pub(crate) passes: Timing,
    /// The same as a histogram; empty at a slave.
    pub(crate) latency: Latency,
    /// Its flowops in their order, if that was asked for.
    pub(crate) flowops: Vec<Timing>,
}

/// One strand, from its first transaction to its last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StrandReport {
    /// Those that were begun.
    pub(crate) transactions: Vec<TransactionReport>,
    /// Why it ended before its time, as a sentence.
    pub(crate) failure: Option<String>,
}

impl StrandReport {
    /// Everything that it moved.
    pub(crate) fn counts(&self) -> Counts {
        self.transactions.iter().fold(Counts::default(), |sum, transaction| sum.plus(transaction.counts))
    }

    /// From the first transaction's begin to the last one's end.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        let begin = self.transactions.first().map_or(0, |transaction| transaction.begin_ns);
        self.transactions.last().map_or(0, |transaction| transaction.end_ns).saturating_sub(begin)
    }
}
