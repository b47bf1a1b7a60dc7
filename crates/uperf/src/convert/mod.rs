//! A profile's group in uperf's numbers, and back ([`from_wire()`]).

mod from_wire;

use std::num::NonZeroU32;
use std::time::Duration;

use crate::profile::model::{Flowop, FlowopKind, Group, StrandKind, Transaction, Until};
use crate::profile::options::{Protocol, Size};
use crate::wire::{GroupHead, RawFlowop, TransactionHead};

pub(crate) use from_wire::{check_head, check_transaction, from_wire};

/// uperf.h, STRAND_TYPE_*.
const PROCESSES: u32 = 1 << 1;
const THREADS: u32 = 1 << 2;
/// workorder.h, O_*.
const TCP_NODELAY: u32 = 1 << 1;
const CANFAIL: u32 = 1 << 2;
const NON_BLOCKING: u32 = 1 << 3;
const IDLE: u32 = 1 << 4;
const BUSY: u32 = 1 << 5;
const RANDOM_SIZE: u32 = 1 << 6;

/// uperf's number of a protocol. AF_UNIX has that of uDAPL, which no uperf ever had: it refuses, as it should.
pub(crate) fn protocol_number(protocol: Protocol) -> u32 {
    match protocol {
        Protocol::Tcp => 1,
        Protocol::Unix => 2,
        Protocol::Udp => 3,
    }
}

/// A work order as it goes over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkOrder {
    /// The head of it all.
    pub(crate) head: GroupHead,
    /// The transactions, each with its flowops.
    pub(crate) transactions: Vec<(TransactionHead, Vec<RawFlowop>)>,
}

/// `group`, which is the slave's part already, for the slave at `host`: what belongs to other hosts does nothing.
pub(crate) fn to_wire(group: &Group, host: &str) -> WorkOrder {
    let strand_flags = match group.kind {
        StrandKind::Threads => THREADS,
        StrandKind::Processes => PROCESSES,
    };
    let transactions: Vec<_> = (0..)
        .zip(&group.transactions)
        .map(|(id, transaction)| transaction_to_wire(id, transaction, host))
        .collect();
    let head = GroupHead { strand_flags, strands: group.strands, transactions: count(&transactions) };
    WorkOrder { head, transactions }
}

fn count<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}

fn transaction_to_wire(id: u32, transaction: &Transaction, host: &str) -> (TransactionHead, Vec<RawFlowop>) {
    let (iterations, duration_ns) = match transaction.until {
        Until::Iterations(iterations) => (iterations, 0),
        Until::Duration(duration) => (1, nanos(duration)),
    };
    let rate = transaction.rate.map_or(0, NonZeroU32::get);
    let rate_text = if rate == 0 { String::new() } else { rate.to_string() };
    let flowops: Vec<RawFlowop> =
        transaction.flowops.iter().map(|flowop| flowop_to_wire(flowop, host)).collect();
    (TransactionHead { flowops: count(&flowops), id, rate, iterations, duration_ns, rate_text }, flowops)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn flowop_to_wire(flowop: &Flowop, host: &str) -> RawFlowop {
    let options = &flowop.options;
    let elsewhere = options.remotehost.as_deref().is_some_and(|remote| remote != host);
    let kind = if elsewhere { FlowopKind::Nop } else { flowop.kind };
    let (size, size_min, size_max) = match options.size {
        None => (0, 0, 0),
        Some(Size::Fixed(size)) => (size, 0, 0),
        Some(Size::Random { min, max }) => (0, min, max),
    };
    RawFlowop {
        size,
        size_min,
        size_max,
        rsize: options.rsize.unwrap_or(0),
        protocol: if flowop.kind.opens() { protocol_number(options.protocol) } else { 0 },
        port: options.port.unwrap_or(0).into(),
        flags: flags(flowop),
        nfiles: options.nfiles,
        duration_ns: options.duration.map_or(0, nanos),
        wndsz: options.wndsz.unwrap_or(0).into(),
        count: options.count,
        repeat: options.repeat,
        batch_size: options.batch_size.into(),
        timeout_ns: options.timeout.map_or(0, nanos),
        cc: options.cc.clone().unwrap_or_default(),
        dir: options.dir.clone().unwrap_or_default(),
        remotehost: options.remotehost.clone().unwrap_or_default(),
        localhost: options.localhost.clone().unwrap_or_default(),
        kind: kind as u32 + 1,
        conn: options.conn.map_or(0, NonZeroU32::get),
    }
}

fn flags(flowop: &Flowop) -> u32 {
    let options = &flowop.options;
    let thinks = flowop.kind == FlowopKind::Think;
    let flags = [
        (options.tcp_nodelay, TCP_NODELAY),
        (options.canfail, CANFAIL),
        (options.non_blocking, NON_BLOCKING),
        (thinks && !options.busy, IDLE),
        (options.busy, BUSY),
        (matches!(options.size, Some(Size::Random { .. })), RANDOM_SIZE),
    ];
    flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum()
}

#[cfg(test)]
mod tests;
