//! /proc/stat and /proc/net/dev: what the whole host did while strands worked.

use std::fs;

use crate::result::HostUsage;

/// USER_HZ: proc(5) promises this unit to programs, whatever the kernel's own tick is; 100 on all architectures of ours.
const NS_PER_TICK: u64 = 1_000_000_000 / 100;

/// CPU time of the host since it booted; None where /proc is not there.
pub(super) fn cpu() -> Option<HostUsage> {
    parse_stat(&fs::read_to_string("/proc/stat").ok()?)
}

fn parse_stat(text: &str) -> Option<HostUsage> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user nice system idle iowait irq softirq steal; guest time is in user already.
    let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|field| field.parse().ok()).collect();
    let idle = ticks.get(3)? + ticks.get(4)?;
    let busy = ticks.iter().sum::<u64>() - idle;
    Some(HostUsage { busy_ns: busy * NS_PER_TICK, idle_ns: idle * NS_PER_TICK })
}

/// What the host did between two readings.
pub(super) fn between(before: Option<HostUsage>, after: Option<HostUsage>) -> Option<HostUsage> {
    let (before, after) = (before?, after?);
    Some(HostUsage {
        busy_ns: after.busy_ns.saturating_sub(before.busy_ns),
        idle_ns: after.idle_ns.saturating_sub(before.idle_ns),
    })
}

/// Counters of a network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nic {
    pub(crate) name: String,
    pub(crate) bytes_in: u64,
    pub(crate) packets_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) packets_out: u64,
}

/// All interfaces of this network namespace.
pub(crate) fn nics() -> Vec<Nic> {
    fs::read_to_string("/proc/net/dev")
        .map(|text| text.lines().filter_map(parse_nic).collect())
        .unwrap_or_default()
}

fn parse_nic(line: &str) -> Option<Nic> {
    let (name, rest) = line.split_once(':')?;
    let fields: Vec<u64> = rest.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    Some(Nic {
        name: name.trim().to_owned(),
        bytes_in: *fields.first()?,
        packets_in: *fields.get(1)?,
        bytes_out: *fields.get(8)?,
        packets_out: *fields.get(9)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_split_into_busy_and_idle() {
        let text = "cpu  10 1 20 300 5 0 4 3 7 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        let usage = parse_stat(text).expect("a line of all CPUs");
        assert_eq!((usage.busy_ns, usage.idle_ns), (380_000_000, 3_050_000_000));
        assert_eq!(parse_stat("intr 1"), None);
    }

    #[test]
    fn interfaces_are_those_of_proc_net_dev() {
        let line = "    lo: 1500 15 0 0 0 0 0 0 1600 16 0 0 0 0 0 0";
        let nic = parse_nic(line).expect("an interface");
        assert_eq!((nic.name.as_str(), nic.bytes_in, nic.packets_out), ("lo", 1500, 16));
        assert_eq!(parse_nic(" face |bytes    packets"), None);
    }
}
