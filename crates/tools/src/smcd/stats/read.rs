//! Numbers out of registries: the totals of closed connections and what living ones have moved so far.
//! Owns: what our counters mean in SMC's words.

use super::{Direction, Stats};
use crate::live::{self, Live};
use crate::registry::Registry;
use fabric::observe::{Calls, Slot, Totals, Verdict};

/// Sums over all registries.
pub(super) fn all(registries: &[Registry]) -> Stats {
    let mut stats = Stats::default();
    for registry in registries {
        add_totals(&mut stats, &registry.view.totals());
        for live in
            live::connections(registry).iter().filter(|live| live.connection.verdict == Some(Verdict::Smc))
        {
            add_live(&mut stats, live);
        }
    }
    stats
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

fn add_live(stats: &mut Stats, live: &Live) {
    let Some(slot) = live.slot else { return };
    for side in (0..2).filter(|side| live.lives[*side]) {
        add_side(stats, &slot, side);
    }
}

pub(super) fn add_side(stats: &mut Stats, slot: &Slot, side: usize) {
    add_sent(&mut stats.tx, &slot.sides[side].tx);
    add_received(&mut stats.rx, &slot.sides[side].rx);
    let class = ((slot.ring_size.max(1) - 1) >> 13).checked_ilog2().map_or(0, |log| log as usize + 1).min(8);
    for direction in [&mut stats.tx, &mut stats.rx] {
        direction.buffers[class] += 1;
        direction.usage += u64::from(slot.ring_size);
    }
}

/// A sender that had to wait found the ring full. That ring is its own buffer and the peer's at once; it counts as ours.
fn add_sent(into: &mut Direction, from: &Calls) {
    add_calls(into, from);
    into.full += from.stalls;
}

/// A receiver that had to wait found the ring empty, which SMC does not count.
fn add_received(into: &mut Direction, from: &Calls) {
    add_calls(into, from);
}

fn add_calls(into: &mut Direction, from: &Calls) {
    into.bytes += from.bytes;
    into.requests += from.requests;
    for (sum, count) in into.sizes.iter_mut().zip(from.sizes) {
        *sum += count;
    }
}
