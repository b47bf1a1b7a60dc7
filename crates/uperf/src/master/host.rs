//! /proc/stat and /proc/net/dev: what the whole host did while strands worked.

use std::collections::HashMap;

use procfs::net::{DeviceStatus, dev_status};
use procfs::{CurrentSI, KernelStats};

use crate::result::HostUsage;

/// CPU time of the host since it booted; None where /proc is not there.
pub(super) fn cpu() -> Option<HostUsage> {
    // Guests' time is in user's.
    let all = KernelStats::current().ok()?.total;
    let other = |ticks: Option<u64>| ticks.unwrap_or_default();
    let busy = all.user + all.nice + all.system + other(all.irq) + other(all.softirq) + other(all.steal);
    let ns = 1_000_000_000 / procfs::ticks_per_second().max(1);
    Some(HostUsage { busy_ns: busy * ns, idle_ns: (all.idle + other(all.iowait)) * ns })
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
    let nic = |one: DeviceStatus| Nic {
        name: one.name,
        bytes_in: one.recv_bytes,
        packets_in: one.recv_packets,
        bytes_out: one.sent_bytes,
        packets_out: one.sent_packets,
    };
    let mut all: Vec<Nic> = dev_status().into_iter().flat_map(HashMap::into_values).map(nic).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}
