//! A work order off the wire to a group. Owns the bounds of what a master may order: whatever passes here is a group that
//! can be run, so nothing behind it asks about numbers again.

use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;

use super::{BUSY, CANFAIL, NON_BLOCKING, PROCESSES, RANDOM_SIZE, TCP_NODELAY, WorkOrder};
use crate::profile::model::{Flowop, FlowopKind, Group, Place, StrandKind, Transaction, Until};
use crate::profile::options::{Options, Protocol, Size};
use crate::wire::{GroupHead, RawFlowop, TransactionHead};

/// Strands of one group: ten times what anybody measures, and threads enough to fill a machine.
const MAX_STRANDS: u32 = 10_000;
/// uperf's own bound: shm.h, NUM_BARRIER.
const MAX_TRANSACTIONS: u32 = 100;
/// More than a profile of sensible length has.
const MAX_FLOWOPS: u32 = 10_000;
/// One read or write. Linux itself moves 2 GiB at most.
pub(super) const MAX_SIZE: u32 = 1 << 30;
/// What the buffers of all strands of a group may take together.
const MAX_BUFFERS: u64 = 64 << 30;
/// The group that a work order of the master at `master` asks for. An error is the end of a sentence for that master.
pub(crate) fn from_wire(order: &WorkOrder, master: &str) -> anyhow::Result<Group> {
    check_head(&order.head)?;
    let transactions: anyhow::Result<Vec<Transaction>> = order
        .transactions
        .iter()
        .map(|(head, flowops)| transaction_from_wire(head, flowops, master))
        .collect();
    let kind =
        if order.head.strand_flags & PROCESSES > 0 { StrandKind::Processes } else { StrandKind::Threads };
    let group =
        Group { name: "Group0".into(), strands: order.head.strands, kind, transactions: transactions? };
    let sizes = group.transactions.iter().flat_map(|t| &t.flowops).filter_map(|f| f.options.size);
    let largest = sizes.map(Size::largest).max().unwrap_or(0);
    if u64::from(largest) * u64::from(group.strands) > MAX_BUFFERS {
        bail!("{} strands with buffers of {largest} bytes are more than {MAX_BUFFERS} bytes", group.strands);
    }
    Ok(group)
}

/// Whether the numbers in the head of a work order are such that the rest of it may be read.
pub(crate) fn check_head(head: &GroupHead) -> anyhow::Result<()> {
    within("strands", head.strands, MAX_STRANDS)?;
    within("transactions", head.transactions, MAX_TRANSACTIONS)
}

/// The same for the head of a transaction.
pub(crate) fn check_transaction(head: &TransactionHead) -> anyhow::Result<()> {
    if head.flowops > MAX_FLOWOPS {
        bail!("a transaction of {} flowops; {MAX_FLOWOPS} are possible", head.flowops);
    }
    Ok(())
}

fn within(what: &str, number: u32, most: u32) -> anyhow::Result<()> {
    if (1..=most).contains(&number) {
        return Ok(());
    }
    bail!("{number} {what} were ordered; 1 to {most} are possible")
}

fn transaction_from_wire(
    head: &TransactionHead,
    flowops: &[RawFlowop],
    master: &str,
) -> anyhow::Result<Transaction> {
    check_transaction(head)?;
    let until = match head.duration_ns {
        0 => Until::Iterations(head.iterations),
        duration_ns => Until::Duration(Duration::from_nanos(duration_ns)),
    };
    let flowops: anyhow::Result<Vec<Flowop>> = (1..)
        .zip(flowops)
        .map(|(column, raw)| {
            let place = Place { line: head.id.saturating_add(1), column };
            flowop_from_wire(raw, place, master)
                .with_context(|| format!("flowop {column} of transaction {}", head.id))
        })
        .collect();
    Ok(Transaction {
        name: format!("Txn{}", head.id),
        until,
        rate: NonZeroU32::new(head.rate),
        flowops: flowops?,
    })
}

fn flowop_from_wire(raw: &RawFlowop, place: Place, master: &str) -> anyhow::Result<Flowop> {
    let number = usize::try_from(raw.kind).ok().and_then(|kind| kind.checked_sub(1));
    let kind = number.and_then(|kind| FlowopKind::value_variants().get(kind)).copied();
    let kind = kind.with_context(|| format!("there is no flowop {}", raw.kind))?;
    // Done zero times: nothing.
    let kind = if raw.count == 0 { FlowopKind::Nop } else { kind };
    let options = options_from_wire(raw, kind, master)?;
    if kind.moves_bytes() && !kind.sends_files() && options.size.is_none() {
        bail!("a {kind} needs a size");
    }
    if kind == FlowopKind::Think && options.duration.is_none() {
        bail!("a think needs a duration");
    }
    Ok(Flowop { kind, options, place })
}

fn options_from_wire(raw: &RawFlowop, kind: FlowopKind, master: &str) -> anyhow::Result<Options> {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let is_set = |flag| raw.flags & flag > 0;
    // An address of its own, given by the profile, is the remote one for us, and the other way round.
    let (remotehost, localhost) = match text(&raw.localhost) {
        Some(other) => (Some(other), text(&raw.remotehost)),
        None => (Some(master.to_owned()), None),
    };
    Ok(Options {
        size: size_from_wire(raw)?,
        rsize: (raw.rsize > 0).then_some(raw.rsize),
        count: raw.count.max(1),
        repeat: raw.repeat.max(1),
        batch_size: u32::try_from(raw.batch_size).unwrap_or(u32::MAX).max(1),
        port: Some(u16::try_from(raw.port).context("a port above 65535")?).filter(|&port| port > 0),
        protocol: protocol_from_wire(raw.protocol, kind)?,
        conn: NonZeroU32::new(raw.conn),
        remotehost,
        localhost,
        wndsz: u32::try_from(raw.wndsz).ok().filter(|&bytes| bytes > 0),
        timeout: Some(Duration::from_nanos(raw.timeout_ns)).filter(|timeout| !timeout.is_zero()),
        duration: Some(Duration::from_nanos(raw.duration_ns)).filter(|duration| !duration.is_zero()),
        nfiles: raw.nfiles.max(1),
        dir: text(&raw.dir),
        cc: text(&raw.cc),
        busy: is_set(BUSY),
        tcp_nodelay: is_set(TCP_NODELAY),
        canfail: is_set(CANFAIL),
        non_blocking: is_set(NON_BLOCKING),
    })
}

fn size_from_wire(raw: &RawFlowop) -> anyhow::Result<Option<Size>> {
    let size = if raw.flags & RANDOM_SIZE > 0 {
        Some(Size::Random { min: raw.size_min, max: raw.size_max })
    } else {
        (raw.size > 0).then_some(Size::Fixed(raw.size))
    };
    match size {
        Some(Size::Random { min, max }) if min == 0 || min > max => {
            bail!("a random size from {min} to {max} bytes")
        }
        Some(size) if size.largest() > MAX_SIZE => {
            bail!("a size of {} bytes; {MAX_SIZE} are possible", size.largest())
        }
        size => Ok(size),
    }
}

fn protocol_from_wire(number: u32, kind: FlowopKind) -> anyhow::Result<Protocol> {
    match number {
        // Only what opens a connection says what it is.
        0 if !kind.opens() => Ok(Protocol::Tcp),
        1 => Ok(Protocol::Tcp),
        2 => Ok(Protocol::Unix),
        3 => bail!("smc_bench has no protocol=udp; tcp and unix are possible"),
        _ => bail!("protocol {number} is none that smc_bench has; tcp and unix are possible"),
    }
}
