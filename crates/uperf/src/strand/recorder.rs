//! Counts and times of the transaction that a strand is in. Per pass: one difference, one entry in a histogram.

use hdrhistogram::Histogram;

use super::clock::{now_ns, thread_usage};
use super::control::Counts;
use super::report::{Timing, TransactionReport};
use crate::result::{Latency, Usage, histogram};

/// See the module.
#[derive(Default)]
pub(crate) struct Recorder {
    /// Everything so far, all transactions.
    pub(crate) counts: Counts,
    /// Passes of this transaction.
    pub(crate) passes: Timing,
    /// Flowops of this transaction, if they are timed.
    pub(crate) flowops: Vec<Timing>,
    histogram: Option<Histogram<u64>>,
    with_latency: bool,
    begin_ns: u64,
    counts_before: Counts,
    usage_before: Usage,
}

impl Recorder {
    /// `with_latency`: a slave has none worth telling.
    pub(crate) fn new(with_latency: bool) -> Self {
        Self { with_latency, ..Self::default() }
    }

    /// A transaction begins, `flowops` of which are timed.
    pub(crate) fn begin(&mut self, flowops: usize) {
        self.passes = Timing::default();
        self.flowops = vec![Timing::default(); flowops];
        // A new one each time, since only the pages that are counted in become memory.
        self.histogram = self.with_latency.then(histogram);
        self.counts_before = self.counts;
        self.usage_before = thread_usage();
        self.begin_ns = now_ns();
    }

    /// One pass took so long.
    pub(crate) fn pass(&mut self, ns: u64) {
        self.passes.add(ns);
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(ns);
        }
    }

    /// Flowop `index` was done `times` times, which took so long together.
    pub(crate) fn flowop(&mut self, index: usize, times: u64, ns: u64, cpu_ns: u64) {
        if let Some(timing) = self.flowops.get_mut(index) {
            timing.add_times(times, ns);
            timing.cpu_ns += cpu_ns;
        }
    }

    /// The transaction has ended.
    pub(crate) fn end(&mut self) -> TransactionReport {
        let end_ns = now_ns();
        let usage = thread_usage() - self.usage_before;
        self.passes.cpu_ns = usage.cpu_ns;
        TransactionReport {
            begin_ns: self.begin_ns,
            end_ns,
            counts: self.counts.since(self.counts_before),
            usage,
            passes: self.passes,
            latency: self.histogram.as_ref().map(Latency::from).unwrap_or_default(),
            flowops: std::mem::take(&mut self.flowops),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transaction_has_its_own_counts() {
        let mut recorder = Recorder::new(true);
        recorder.begin(0);
        recorder.counts.sent = 5;
        recorder.pass(100);
        recorder.pass(2000);
        let first = recorder.end();
        assert_eq!(first.latency.counts_ns, [(100, 1), (2000, 1)]);
        assert_eq!((first.passes.count, first.passes.total_ns), (2, 2100));
        assert_eq!((first.passes.min_ns, first.passes.max_ns), (100, 2000));
        recorder.begin(0);
        recorder.counts.sent += 2;
        let second = recorder.end();
        assert_eq!((first.counts.sent, second.counts.sent), (5, 2));
        assert_eq!(second.latency.counts_ns, []);
    }

    #[test]
    fn a_slave_keeps_no_histogram() {
        let mut recorder = Recorder::new(false);
        recorder.begin(0);
        recorder.pass(100);
        assert_eq!(recorder.end().latency.counts_ns, []);
    }
}
