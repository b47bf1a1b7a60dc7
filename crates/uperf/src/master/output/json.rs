//! `--json`: a [`Run`], and beside it what `-t` and `-f` ask for.

use std::io;
use std::path::Path;

use serde::Serialize;

use crate::master::{Options, Summary, TransactionSum};
use crate::result::{Latency, Run, Usage};
use crate::strand::{Counts, Timing};

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    run: &'a Run,
    /// Why the numbers are not those of a whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<Group<'a>>,
}

#[derive(Serialize)]
struct Group<'a> {
    name: &'a str,
    transactions: Vec<Transaction<'a>>,
}

#[derive(Serialize)]
struct Transaction<'a> {
    name: &'a str,
    elapsed_ns: u64,
    counts: Counts,
    usage: Usage,
    passes: Timing,
    latency: Latency,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    flowops: Vec<Flowop<'a>>,
}

#[derive(Serialize)]
struct Flowop<'a> {
    kind: &'a str,
    #[serde(flatten)]
    timing: Timing,
}

/// Writes the result of a master to `path`, or to standard output if that is `-`.
pub(crate) fn write(path: &Path, summary: &Summary, options: &Options) -> io::Result<()> {
    let with_detail = options.tables.transactions || options.tables.flowops;
    let groups = summary.groups.iter().filter(|_| with_detail);
    let groups = groups.map(|group| Group {
        name: &group.name,
        transactions: group.transactions.iter().map(transaction).collect(),
    });
    let document =
        Document { run: &summary.run, failure: summary.failure.as_deref(), groups: groups.collect() };
    crate::file::write(path, &(serde_json::to_string(&document)? + "\n"))
}

fn transaction(sum: &TransactionSum) -> Transaction<'_> {
    Transaction {
        name: &sum.name,
        elapsed_ns: sum.elapsed_ns(),
        counts: sum.counts,
        usage: sum.usage,
        passes: sum.passes,
        latency: Latency {
            counts_ns: sum.latency.iter().map(|(&ns, &count)| (ns, count)).collect(),
            ..Latency::default()
        },
        flowops: sum.flowops.iter().map(|(kind, timing)| Flowop { kind, timing: *timing }).collect(),
    }
}
