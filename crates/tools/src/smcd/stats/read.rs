//! Numbers out of registries: the totals of closed connections and what living ones have moved so far.
//! Owns: what our counters mean in SMC's words.

use crate::far::{self, End, Far};
use crate::host::Host;
use crate::live::{self, Live};
use crate::registry::Registry;
use crate::smcd::counts::{Direction, Stats};
use fabric::observe::{Calls, Slot, SlotSide, Totals, Verdict};

/// How often the registries are read anew while programs end.
const TRIES: usize = 5;

/// Sums over all registries. A connection that ends between a look at the totals and one at its slot would be
/// missed, or counted twice: the totals have to be the same before and after.
pub(super) fn steady(registries: &[Registry]) -> Stats {
    let totals = |registries: &[Registry]| registries.iter().map(|one| one.view.totals()).collect::<Vec<_>>();
    let (mut stats, mut before) = (all(registries), totals(registries));
    for _ in 0..TRIES {
        let (again, _) = crate::registry::all();
        let now = totals(&again);
        if now == before {
            break;
        }
        (stats, before) = (all(&again), now);
    }
    stats
}

/// The same, as it happens to be.
fn all(registries: &[Registry]) -> Stats {
    let mut stats = Stats::default();
    for registry in registries {
        add_totals(&mut stats, &registry.view.totals());
        for live in
            live::connections(registry).iter().filter(|live| live.connection.verdict == Some(Verdict::Smc))
        {
            add_live(&mut stats, live);
        }
    }
    let host = Host::look(&crate::registry::folder());
    for far in far::connections(&host).iter().filter(|far| far.live.connection.verdict == Some(Verdict::Smc))
    {
        add_far(&mut stats, far);
    }
    stats
}

/// An end counts where what it moves will stand in the totals: if its program uses a registry that is read.
fn add_far(stats: &mut Stats, far: &Far<'_>) {
    let Some(slot) = far.live.slot else { return };
    let is_counted = |end: &Option<End<'_>>| end.is_some_and(|end| end.process.enabled_as.is_some());
    for side in (0..2).filter(|side| is_counted(&far.ends[*side])) {
        add_traffic(stats, &slot, side);
        add_buffers(stats, &slot);
    }
}

pub(super) fn add_totals(stats: &mut Stats, totals: &Totals) {
    stats.client[1] += totals.upgraded[0];
    stats.server[1] += totals.upgraded[1];
    for direction in [&mut stats.tx, &mut stats.rx] {
        direction.allocations += totals.slots_made;
        direction.reuses += totals.slots_reused;
    }
    add_sent(&mut stats.tx, &totals.tx);
    add_received(&mut stats.rx, &totals.rx);
    for (into, from) in stats.fallbacks.iter_mut().zip(&totals.fallbacks) {
        for (reason, count) in from.iter().filter(|(_, count)| *count > 0) {
            match into.iter_mut().find(|(known, _)| known == reason) {
                Some((_, sum)) => *sum = sum.saturating_add(*count),
                None => into.push((*reason, *count)),
            }
        }
    }
}

/// What a killed end has moved counts as long as somebody has the memory.
fn add_live(stats: &mut Stats, live: &Live) {
    let Some(slot) = live.slot else { return };
    for side in 0..2 {
        add_traffic(stats, &slot, side);
    }
    for _ in live.lives.iter().filter(|lives| **lives) {
        add_buffers(stats, &slot);
    }
}

/// What is not in the totals yet.
pub(super) fn add_traffic(stats: &mut Stats, slot: &Slot, side: usize) {
    let SlotSide { rx, tx, settled: [received, sent], .. } = &slot.sides[side];
    add_sent(&mut stats.tx, &rest(tx, sent));
    add_received(&mut stats.rx, &rest(rx, received));
}

fn rest(all: &Calls, settled: &Calls) -> Calls {
    Calls {
        bytes: all.bytes.saturating_sub(settled.bytes),
        requests: all.requests.saturating_sub(settled.requests),
        stalls: all.stalls.saturating_sub(settled.stalls),
        sizes: std::array::from_fn(|class| all.sizes[class].saturating_sub(settled.sizes[class])),
    }
}

pub(super) fn add_buffers(stats: &mut Stats, slot: &Slot) {
    let class = ((slot.ring_size.max(1) - 1) >> 13).checked_ilog2().map_or(0, |log| log as usize + 1).min(8);
    for direction in [&mut stats.tx, &mut stats.rx] {
        direction.buffers[class] += 1;
        direction.usage += u64::from(slot.ring_size);
    }
}

/// A sender that had to wait found the ring full. That ring is its own buffer and the peer's at once; it
/// counts as ours.
fn add_sent(into: &mut Direction, from: &Calls) {
    add_calls(into, from);
    into.full = into.full.saturating_add(from.stalls);
}

/// A receiver that had to wait found the ring empty, which SMC does not count.
fn add_received(into: &mut Direction, from: &Calls) {
    add_calls(into, from);
}

fn add_calls(into: &mut Direction, from: &Calls) {
    // (Whoever has the memory of a connection can write any number there.)
    into.bytes = into.bytes.saturating_add(from.bytes);
    into.requests = into.requests.saturating_add(from.requests);
    for (sum, count) in into.sizes.iter_mut().zip(from.sizes) {
        *sum = sum.saturating_add(count);
    }
}
