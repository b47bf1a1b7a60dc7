//! What a run came to, all strands added up.

use std::collections::BTreeMap;

use super::groups::{Party, SlaveLink};
use super::host;
use crate::exit::Exit;
use crate::profile::model::{Flowop, Group, StrandKind, Transaction};
use crate::result::{HostUsage, Latency, Run, Usage};
use crate::strand::{Counts, StrandReport, Timing, TransactionReport};
use crate::wire::Goodbye;

/// The name of the transaction that counts.
const MEASURED: &str = "measured";

/// Everything that is told at the end.
pub(crate) struct Summary {
    /// How it ended.
    pub(crate) exit: Exit,
    /// Why it did not end well, as a sentence.
    pub(crate) failure: Option<String>,
    /// From the end of the handshake to the end of the last strand.
    pub(crate) elapsed_ns: u64,
    /// All transactions of all strands.
    pub(crate) counts: Counts,
    /// Group by group.
    pub(crate) groups: Vec<GroupSum>,
    /// Slave by slave.
    pub(crate) slaves: Vec<Slave>,
    /// The measured transaction.
    pub(crate) run: Run,
}

/// One group.
pub(crate) struct GroupSum {
    pub(crate) name: String,
    /// Those that were begun.
    pub(crate) transactions: Vec<TransactionSum>,
    /// What each strand moved, and how long it worked.
    pub(crate) strands: Vec<(Counts, u64)>,
}

/// One transaction of a group, all strands.
#[derive(Default)]
pub(crate) struct TransactionSum {
    pub(crate) name: String,
    /// When the first strand began.
    pub(crate) begin_ns: u64,
    /// When the last one ended.
    pub(crate) end_ns: u64,
    pub(crate) counts: Counts,
    pub(crate) usage: Usage,
    pub(crate) passes: Timing,
    pub(crate) latency: BTreeMap<u64, u64>,
    /// By the names of the flowops; empty if they were not timed.
    pub(crate) flowops: Vec<(String, Timing)>,
}

/// One slave.
pub(crate) struct Slave {
    pub(crate) host: String,
    /// None if it did not say goodbye.
    pub(crate) goodbye: Option<Goodbye>,
}

impl TransactionSum {
    fn new(transaction: &Transaction) -> Self {
        Self { name: transaction.name.clone(), begin_ns: u64::MAX, ..Self::default() }
    }

    fn add(&mut self, report: &TransactionReport, flowops: &[Flowop]) {
        self.begin_ns = self.begin_ns.min(report.begin_ns);
        self.end_ns = self.end_ns.max(report.end_ns);
        self.counts = self.counts.plus(report.counts);
        self.usage = self.usage + report.usage;
        self.passes.merge(&report.passes);
        for &(ns, count) in &report.latency.counts_ns {
            *self.latency.entry(ns).or_default() += count;
        }
        if self.flowops.is_empty() && !report.flowops.is_empty() {
            self.flowops =
                flowops.iter().map(|flowop| (flowop.kind.to_string(), Timing::default())).collect();
        }
        for ((_, sum), timing) in self.flowops.iter_mut().zip(&report.flowops) {
            sum.merge(timing);
        }
    }

    /// From the first strand's start to the last one's end.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }
}

impl GroupSum {
    fn new(group: &Group, reports: &[StrandReport]) -> Self {
        let mut transactions = vec![];
        for (number, transaction) in group.transactions.iter().enumerate() {
            let mut sum = TransactionSum::new(transaction);
            let parts = reports.iter().filter_map(|report| report.transactions.get(number));
            parts.for_each(|part| sum.add(part, &transaction.flowops));
            if sum.end_ns > 0 {
                transactions.push(sum);
            }
        }
        let strands = reports.iter().map(|report| (report.counts(), report.elapsed_ns())).collect();
        Self { name: group.name.clone(), transactions, strands }
    }

    /// What all strands moved.
    pub(crate) fn counts(&self) -> Counts {
        self.strands.iter().fold(Counts::default(), |sum, (counts, _)| sum.plus(*counts))
    }

    /// How long its transactions took together, gates between them included.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        let begin = self.transactions.iter().map(|transaction| transaction.begin_ns).min();
        let end = self.transactions.iter().map(|transaction| transaction.end_ns).max();
        end.unwrap_or(0).saturating_sub(begin.unwrap_or(0))
    }
}

/// All groups of a run.
pub(super) fn groups(parties: &[Party]) -> Vec<GroupSum> {
    parties.iter().map(|party| GroupSum::new(&party.group, &party.reports())).collect()
}

/// Which transaction counts, by its number: the one that is named so, or else the one with the most operations.
pub(super) fn measured(groups: &[GroupSum]) -> usize {
    let numbered = || groups.iter().flat_map(|group| group.transactions.iter().enumerate());
    let named = numbered().find(|(_, transaction)| transaction.name == MEASURED);
    let most = || {
        let mut operations = BTreeMap::<usize, u64>::new();
        numbered()
            .for_each(|(n, transaction)| *operations.entry(n).or_default() += transaction.counts.operations);
        operations.into_iter().max_by_key(|&(n, count)| (count, std::cmp::Reverse(n))).map_or(0, |(n, _)| n)
    };
    named.map_or_else(most, |(number, _)| number)
}

/// The measured transaction as a [`Run`]. `hosts`: what the host had used before each transaction, and after the last.
pub(super) fn run(
    profile: &str,
    groups: &[GroupSum],
    measured: usize,
    hosts: &[Option<HostUsage>],
    slaves: &[SlaveLink],
) -> Run {
    let parts: Vec<_> = groups.iter().filter_map(|group| group.transactions.get(measured)).collect();
    let begin = parts.iter().map(|part| part.begin_ns).min().unwrap_or(0);
    let end = parts.iter().map(|part| part.end_ns).max().unwrap_or(0);
    let counts = parts.iter().fold(Counts::default(), |sum, part| sum.plus(part.counts));
    let mut latency = BTreeMap::<u64, u64>::new();
    for (&ns, &count) in parts.iter().flat_map(|part| &part.latency) {
        *latency.entry(ns).or_default() += count;
    }
    let host = |number: usize| hosts.get(number).copied().flatten();
    Run {
        profile: profile.to_owned(),
        strands: u32::try_from(groups.iter().map(|group| group.strands.len()).sum::<usize>())
            .unwrap_or(u32::MAX),
        elapsed_ns: end.saturating_sub(begin),
        operations: counts.operations,
        transactions: parts.iter().map(|part| part.passes.count).sum(),
        bytes_sent: counts.sent,
        bytes_received: counts.received,
        one_way: parts.iter().all(|part| part.counts.sent == 0 || part.counts.received == 0),
        latency: Latency { counts_ns: latency.into_iter().collect(), ..Latency::default() },
        client: Some(parts.iter().map(|part| part.usage).sum()),
        server: server(slaves),
        host: host::between(host(measured), host(measured + 1)),
        connections: None,
        errors: groups.iter().map(|group| group.counts().errors).sum(),
    }
}

/// What the slaves' strands used, if all of them tell: slaves of ours do, as JSON in their goodbye.
fn server(slaves: &[SlaveLink]) -> Option<Usage> {
    let told = slaves.iter().map(|slave| serde_json::from_str(&slave.goodbye.as_ref()?.detail).ok());
    let usages: Option<Vec<Usage>> = told.collect();
    usages.filter(|usages| !usages.is_empty()).map(|usages| usages.into_iter().sum())
}

/// How many threads and processes the strands are.
pub(crate) fn kinds(groups: &[Group]) -> (u32, u32) {
    let of = |kind| groups.iter().filter(|group| group.kind == kind).map(|group| group.strands).sum();
    (of(StrandKind::Threads), of(StrandKind::Processes))
}
