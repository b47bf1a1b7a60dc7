//! Counters of this user that outlive processes. Owns: when they are added to (upgrade, fallback, close).

use crate::registry;
use shm::layout::{SideBlock, Traffic};
use shm::registry::TrafficTotals;
use shm::sync::Ordering::Relaxed;
use shm::{Ring, Side};
use wire::reason::Reason;

/// Counts a connection that moved to shared memory.
pub fn upgraded(side: Side) {
    if let Some(map) = registry::mapped() {
        map.totals.upgraded[side as usize].fetch_add(1, Relaxed);
    }
}

/// Counts a connection that stayed on TCP, by reason. With all entries taken the last one collects the rest.
pub fn fell_back(side: Side, reason: Reason) {
    let Some(map) = registry::mapped() else { return };
    let reasons = &map.totals.fallbacks[side as usize];
    let entry = reasons.iter().find(|entry| {
        let code = entry.code.load(Relaxed);
        code == reason.0 || (code == 0 && entry.code.compare_exchange(0, reason.0, Relaxed, Relaxed).is_ok())
    });
    if let Some(entry) = entry.or(reasons.last()) {
        entry.count.fetch_add(1, Relaxed);
    }
}

/// Adds what one side moved to the totals, at its last close.
pub fn closed(side: &SideBlock, outgoing: Ring, incoming: Ring) {
    let Some(map) = registry::mapped() else { return };
    add(&map.totals.tx, &side.tx.0, outgoing.words().producer.0.prod.load(Relaxed));
    add(&map.totals.rx, &side.rx.0, incoming.words().cons.0.load(Relaxed));
}

fn add(into: &TrafficTotals, from: &Traffic, bytes: u64) {
    into.bytes.fetch_add(bytes, Relaxed);
    into.requests.fetch_add(from.requests.load(Relaxed), Relaxed);
    into.stalls.fetch_add(from.stalls.load(Relaxed), Relaxed);
    for (total, count) in into.sizes.iter().zip(&from.sizes) {
        total.fetch_add(u64::from(count.load(Relaxed)), Relaxed);
    }
}
