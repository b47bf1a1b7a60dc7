//! uperf's tables: the same columns in the same places.

use std::fmt::Write;

use super::numbers::{rate, seconds, size, time};
use crate::master::{Nic, Slave, Summary};
use crate::strand::{Counts, Timing};

/// `Txn2      138.22M /   1.00(s) =     1.16Gb/s      241251op/s `
pub(super) fn summary(name: &str, counts: Counts, took_s: f64) -> String {
    let per_second = |count: f64| if took_s > 0.0 { count / took_s } else { 0.0 };
    let bytes = counts.bytes() as f64;
    format!(
        "{name:<8.8} {}/{took_s:7.2}(s) = {} {:10.0}op/s ",
        size(bytes, 8),
        rate(per_second(bytes * 8.0), 12),
        per_second(counts.operations as f64)
    )
}

pub(super) fn groups(all: &Summary, rule: &str) -> String {
    let mut text = format!("\nGroup Details\n{rule}");
    for group in &all.groups {
        text += &(summary(&group.name, group.counts(), seconds(group.elapsed_ns())) + "\n");
    }
    text + "\n"
}

pub(super) fn strands(all: &Summary, rule: &str) -> String {
    let mut text = format!("\nStrand Details\n{rule}");
    for group in &all.groups {
        for (number, (counts, elapsed_ns)) in group.strands.iter().enumerate() {
            text += &(summary(&format!("Thr{number}"), *counts, seconds(*elapsed_ns)) + "\n");
        }
    }
    text + "\n"
}

pub(super) fn transactions(all: &Summary, rule: &str) -> String {
    let mut text = averages("Txn", rule);
    for group in &all.groups {
        for (number, transaction) in group.transactions.iter().enumerate() {
            text += &average(&format!("Txn{number}"), &transaction.passes);
        }
    }
    text + "\n"
}

pub(super) fn flowops(all: &Summary, rule: &str) -> String {
    let mut text = averages("Flowop", rule);
    let transactions = all.groups.iter().flat_map(|group| &group.transactions);
    for (name, timing) in transactions.flat_map(|transaction| &transaction.flowops) {
        text += &average(name, timing);
    }
    text + "\n"
}

fn averages(what: &str, rule: &str) -> String {
    format!("\n{what:<15}    Count         avg         cpu         max         min \n{rule}")
}

fn average(name: &str, timing: &Timing) -> String {
    if timing.count == 0 {
        return String::new();
    }
    let each = |ns: u64| time((ns / timing.count) as f64, 11);
    format!(
        "{name:<15} {:8} {}{}{}{}\n",
        timing.count,
        each(timing.total_ns),
        each(timing.cpu_ns),
        time(timing.max_ns as f64, 11),
        time(timing.min_ns as f64, 11)
    )
}

pub(super) fn packets(before: &[Nic], after: &[Nic], took_s: f64, rule: &str) -> String {
    let heads =
        format!("{:<5}  {:>10}  {:>10}  {:>11}  {:>11}\n", "Nic", "opkts/s", "ipkts/s", "obits/s", "ibits/s");
    let mut text = format!("\nNetstat statistics for this run\n{rule}{heads}");
    for nic in after {
        let Some(old) = before.iter().find(|old| old.name == nic.name) else { continue };
        let each = |new: u64, old: u64| new.wrapping_sub(old) as f64 / took_s;
        let (out, into) = (each(nic.packets_out, old.packets_out), each(nic.packets_in, old.packets_in));
        if out == 0.0 && into == 0.0 {
            continue;
        }
        let bits =
            [each(nic.bytes_out, old.bytes_out), each(nic.bytes_in, old.bytes_in)].map(|b| rate(b * 8.0, 11));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<5}  {out:10.0}  {into:10.0}  {} {}", nic.name, bits[0], bits[1]);
    }
    text + rule
}

/// One line of the last table.
#[derive(Clone, Copy, Default)]
struct Parting {
    elapsed_ns: u64,
    bytes: u64,
    operations: u64,
    errors: u64,
}

impl Parting {
    fn rate(&self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { self.bytes as f64 * 8.0 / seconds(self.elapsed_ns) }
    }

    fn errors(&self) -> f64 {
        if self.operations == 0 { 0.0 } else { 100.0 * self.errors as f64 / self.operations as f64 }
    }

    fn line(&self, host: &str) -> String {
        format!(
            "{host:<15.15} {}{}{}{:12} {:11.2}\n",
            time(self.elapsed_ns as f64, 8),
            size(self.bytes as f64, 10),
            rate(self.rate(), 12),
            self.operations,
            self.errors()
        )
    }
}

pub(super) fn goodbyes(all: &Summary, rule: &str) -> String {
    let mut text = format!(
        "\nRun Statistics\nHostname            Time       Data   Throughput   Operations      Errors\n{rule}"
    );
    let mut slaves = Parting::default();
    for Slave { host, goodbye } in &all.slaves {
        let Some(goodbye) = goodbye else {
            let _ = writeln!(text, "{host:<15.15} said no goodbye");
            continue;
        };
        let (elapsed_ns, bytes) = (goodbye.elapsed_ns, goodbye.bytes);
        let own = Parting { elapsed_ns, bytes, operations: goodbye.operations, errors: goodbye.errors };
        text += &own.line(host);
        slaves.elapsed_ns = slaves.elapsed_ns.max(own.elapsed_ns);
        slaves.bytes = slaves.bytes.saturating_add(own.bytes);
        slaves.operations = slaves.operations.saturating_add(own.operations);
        slaves.errors = slaves.errors.saturating_add(own.errors);
    }
    if all.slaves.len() > 1 {
        text += &slaves.line("Total");
    }
    let errors: u64 = all.groups.iter().map(|group| group.counts().errors).sum();
    let (bytes, operations) = (all.counts.bytes(), all.counts.operations);
    let master = Parting { elapsed_ns: all.elapsed_ns, bytes, operations, errors };
    text += &master.line("master");
    text + rule + &difference(master, slaves)
}

/// By how much the slaves had less than the master.
fn difference(master: Parting, slaves: Parting) -> String {
    let less = |ours: f64, theirs: f64| {
        if ours == 0.0 || theirs == 0.0 { 0.0 } else { 100.0 - 100.0 * theirs / ours }
    };
    let counted = |ours: u64, theirs: u64| less(ours as f64, theirs as f64);
    format!(
        "{:<15} {:7.2}% {:9.2}% {:11.2}% {:11.2}% {:10.2}%\n\n",
        "Difference(%)",
        counted(master.elapsed_ns, slaves.elapsed_ns),
        counted(master.bytes, slaves.bytes),
        less(master.rate(), slaves.rate()),
        counted(master.operations, slaves.operations),
        master.errors().max(slaves.errors())
    )
}

#[cfg(test)]
mod tests {
    use super::summary;
    use crate::strand::Counts;

    #[test]
    fn a_line_is_uperfs_to_the_letter() {
        let counts = Counts { sent: 24_155_586, received: 120_777_933, operations: 241_251, errors: 0 };
        let some = "Txn2      138.22M /   1.00(s) =     1.16Gb/s      241251op/s ";
        assert_eq!(summary("Txn2", counts, 1.0), some);
        let none = "Txn1            0 /   1.00(s) =            0           0op/s ";
        assert_eq!(summary("Txn1", Counts::default(), 1.0), none);
    }
}
