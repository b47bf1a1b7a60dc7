//! Counters of this user that outlive processes. Owns: when they are added to (upgrade, fallback, close),
//! that nothing is added twice, and that a peer which writes nonsense where its connection's numbers lie
//! spoils them by no more than a connection could have moved meanwhile.

use crate::door::Tier;
use crate::fabric::Fabric;
use crate::slot::SlotView;
use os::time::Cycles;
use shm::layout::{Settled, Traffic};
use shm::registry::{RegistryMap, TrafficTotals};
use shm::{Side, SlotHeader};
use sync::AtomicU64;
use sync::Ordering::Relaxed;
use wire::reason::Reason;

/// The counters, if the directory is mapped; else nothing is counted.
#[derive(Clone, Copy)]
pub struct Totals(Option<&'static RegistryMap>);

impl<T: Tier> Fabric<T> {
    /// The counters of this user.
    #[inline]
    pub fn totals(&self) -> Totals {
        Totals(self.tier.mapped())
    }
}

impl Totals {
    /// Counts a connection that moved to shared memory.
    pub fn upgraded(self, side: Side) {
        if let Some(map) = self.0 {
            map.totals.upgraded[side as usize].fetch_add(1, Relaxed);
        }
    }

    /// Counts a connection that stayed on TCP, by reason. With all entries taken the last one collects the
    /// rest.
    pub fn fell_back(self, side: Side, reason: Reason) {
        let Some(map) = self.0 else { return };
        let reasons = &map.totals.fallbacks[side as usize];
        let entry = reasons.iter().find(|entry| {
            let code = entry.code.load(Relaxed);
            code == reason.0
                || (code == 0 && entry.code.compare_exchange(0, reason.0, Relaxed, Relaxed).is_ok())
        });
        if let Some(entry) = entry.or(reasons.last()) {
            entry.count.fetch_add(1, Relaxed);
        }
    }

    /// Adds what both sides have moved and the totals do not have yet. Whoever lets a slot go or takes it
    /// again says so for both: a side whose process was killed cannot. Where the ends share no registry each
    /// says so for its own.
    #[inline]
    pub fn settle(self, view: &SlotView, own: Side) {
        let Some(map) = self.0 else { return };
        let most = Most::in_time(view.time_since_settled());
        settle_side(map, view.header(), own, most);
        if !view.is_far() {
            settle_side(map, view.header(), own.peer(), most);
        }
    }
}

/// What one end can have moved: all that is added lies in memory that its peer can write.
#[derive(Clone, Copy)]
struct Most {
    bytes: u64,
    calls: u64,
}

impl Most {
    /// More than any machine moves.
    const BYTES_PER_CYCLE: u64 = 64;
    /// A call is no shorter.
    const CYCLES_PER_CALL: u64 = 16;
    /// Before an exec, say, which begins the time anew.
    const EARLIER: Cycles = Cycles::from_ms(1);

    fn in_time(time: Cycles) -> Most {
        let cycles = time.plus(Self::EARLIER).word();
        Most { bytes: cycles.saturating_mul(Self::BYTES_PER_CYCLE), calls: cycles / Self::CYCLES_PER_CALL }
    }
}

fn settle_side(map: &RegistryMap, header: &SlotHeader, side: Side, most: Most) {
    let (block, [received, sent]) = (&header.sides[side as usize], &header.settled[side as usize]);
    let written = header.rings[side as usize].producer.0.prod.load(Relaxed);
    let read = header.rings[side.peer() as usize].consumer.0.cons.load(Relaxed);
    add(&map.totals.tx, &block.tx.0, written, sent, most);
    add(&map.totals.rx, &block.rx.0, read, received, most);
}

fn add(into: &TrafficTotals, from: &Traffic, bytes: u64, settled: &Settled, most: Most) {
    // (An end that moved nothing since is most of them: two of three are settled by their peer.)
    let requests = from.requests.load(Relaxed);
    if requests == settled.requests.load(Relaxed) && bytes == settled.bytes.load(Relaxed) {
        return;
    }
    add_rest(&into.bytes, bytes, &settled.bytes, most.bytes);
    add_rest(&into.requests, requests, &settled.requests, most.calls);
    add_rest(&into.stalls, from.stalls.load(Relaxed), &settled.stalls, most.calls);
    for (total, (count, settled)) in into.sizes.iter().zip(from.sizes.iter().zip(&settled.sizes)) {
        let now = count.load(Relaxed);
        if now != settled.load(Relaxed) {
            let before = settled.fetch_max(now, Relaxed);
            total.fetch_add(u64::from(now.saturating_sub(before)).min(most.calls), Relaxed);
        }
    }
}

fn add_rest(total: &AtomicU64, now: u64, settled: &AtomicU64, most: u64) {
    if now != settled.load(Relaxed) {
        let before = settled.fetch_max(now, Relaxed);
        total.fetch_add(now.saturating_sub(before).min(most), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shm::segment::{Geometry, Segment};

    const AN_HOUR: Cycles = Cycles::from_ms(3_600_000);

    fn nothing_yet() -> TrafficTotals {
        TrafficTotals {
            bytes: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            sizes: [const { AtomicU64::new(0) }; shm::layout::BUCKETS],
        }
    }

    fn header() -> &'static SlotHeader {
        let geometry = Geometry { slots: 1, ring_size: 16384 };
        let memory = os::mem::map_private(geometry.len()).expect("memory");
        Segment::format(memory, geometry, 42).and_then(|made| made.slot(0)).expect("slot 0")
    }

    #[test]
    fn a_peer_that_lies_adds_what_could_have_been_moved_and_no_more() {
        let (into, header) = (&nothing_yet(), header());
        let (sent, settled) = (&header.sides[0].tx.0, &header.settled[0][1]);
        let most = Most::in_time(Cycles::from_ms(10));
        for word in [&sent.requests, &sent.stalls] {
            word.store(u64::MAX, Relaxed);
        }
        sent.sizes.iter().for_each(|size| size.store(u32::MAX, Relaxed));
        add(into, sent, u64::MAX, settled, most);
        assert_eq!(into.bytes.load(Relaxed), most.bytes);
        let calls = [&into.requests, &into.stalls, &into.sizes[0], &into.sizes[8]];
        assert_eq!(calls.map(|word| word.load(Relaxed)), [most.calls; 4]);
        assert!(most.bytes < 10 << 30 && most.calls < 10 << 20, "of 10 ms");
    }

    #[test]
    fn what_is_settled_by_several_is_added_once() {
        let (into, header, most) = (&nothing_yet(), header(), Most::in_time(AN_HOUR));
        let (sent, settled) = (&header.sides[0].tx.0, &header.settled[0][1]);
        sent.count(100);
        sent.count(9000);
        for _ in 0..2 {
            add(into, sent, 9100, settled, most);
        }
        sent.count(1);
        add(into, sent, 9101, settled, most);
        let read = [&into.bytes, &into.requests, &into.sizes[0], &into.sizes[1]];
        assert_eq!(read.map(|word| word.load(Relaxed)), [9101, 3, 2, 1]);
        header.reset(7);
        sent.count(5);
        add(into, sent, 5, settled, most);
        assert_eq!((into.bytes.load(Relaxed), into.requests.load(Relaxed)), (9106, 4), "the next connection");
    }
}
