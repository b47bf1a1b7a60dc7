//! What `smcd stats` counts. Owns: what the numbers are, and their order in json and cache.

use wire::Reason;

/// Size classes of buffers and requests, in the names of smc-tools.
const CLASSES: [&str; 9] = ["8K", "16K", "32K", "64K", "128K", "256K", "512K", "1024K", "G_1024K"];

/// What can happen to buffers, in the order and the names of smc-tools.
const BUFFER_EVENTS: [(&str, Kind); 7] = [
    ("SIZE_SM_PEER", Kind::Traffic),
    ("SIZE_SM", Kind::Traffic),
    ("FULL_PEER", Kind::Traffic),
    ("FULL", Kind::Traffic),
    ("REUSE", Kind::Total),
    ("ALLOC", Kind::Total),
    ("DGRADE", Kind::Total),
];

/// One direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Direction {
    /// Buffers by size: those in use now.
    pub(super) buffers: [u64; 9],
    /// Requests by size.
    pub(super) sizes: [u64; 9],
    pub(super) too_small_peer: u64,
    pub(super) too_small: u64,
    pub(super) full_peer: u64,
    pub(super) full: u64,
    pub(super) reuses: u64,
    pub(super) allocations: u64,
    pub(super) downgrades: u64,
    pub(super) bytes: u64,
    pub(super) requests: u64,
    /// Bytes of buffers in use now.
    pub(super) usage: u64,
}

/// Fallbacks of one role by reason.
pub(super) type Fallbacks = Vec<(Reason, u32)>;

/// Everything counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stats {
    pub(super) tx: Direction,
    pub(super) rx: Direction,
    /// Connections of SMC v1 and v2, by role.
    pub(super) client: [u64; 2],
    pub(super) server: [u64; 2],
    pub(super) sendpage: u64,
    pub(super) urgent: u64,
    pub(super) splice: u64,
    pub(super) cork: u64,
    pub(super) nodelay: u64,
    /// Failed handshakes: client, server.
    pub(super) handshake_errors: [u64; 2],
    /// Fallbacks: client, server.
    pub(super) fallbacks: [Fallbacks; 2],
}

/// How a number behaves over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Never shrinks: if it does, the registry is a new one.
    Total,
    /// Totals of closed connections and what living ones have moved so far: killing a program takes its part
    /// away.
    Traffic,
    /// What there is now: not to be subtracted from.
    Gauge,
}

/// A number with its key in json.
pub(super) struct Counter<'a> {
    pub(super) key: String,
    pub(super) value: &'a mut u64,
    pub(super) kind: Kind,
}

impl Stats {
    /// The 65 numbers of `smcd stats json`, in its order.
    pub(super) fn counters(&mut self) -> Vec<Counter<'_>> {
        let Stats { tx, rx, client: [client_v1, client_v2], server: [server_v1, server_v2], .. } = self;
        let mut all = vec![];
        let mut add = |key: &str, value, kind| all.push(Counter { key: format!("SMC_{key}"), value, kind });
        for (name, classes, kind) in [
            ("INT_TX_BUF", &mut tx.buffers, Kind::Gauge),
            ("INT_RX_BUF", &mut rx.buffers, Kind::Gauge),
            ("USR_TX_BUF", &mut tx.sizes, Kind::Traffic),
            ("USR_RX_BUF", &mut rx.sizes, Kind::Traffic),
        ] {
            for (value, class) in classes.iter_mut().zip(CLASSES) {
                add(&format!("{name}_{class}"), value, kind);
            }
        }
        for (name, values) in [
            (
                "TX",
                [
                    &mut tx.too_small_peer,
                    &mut tx.too_small,
                    &mut tx.full_peer,
                    &mut tx.full,
                    &mut tx.reuses,
                    &mut tx.allocations,
                    &mut tx.downgrades,
                ],
            ),
            (
                "RX",
                [
                    &mut rx.too_small_peer,
                    &mut rx.too_small,
                    &mut rx.full_peer,
                    &mut rx.full,
                    &mut rx.reuses,
                    &mut rx.allocations,
                    &mut rx.downgrades,
                ],
            ),
        ] {
            for (value, (what, kind)) in values.into_iter().zip(BUFFER_EVENTS) {
                add(&format!("INT_{name}_BUF_{what}_CNT"), value, kind);
            }
        }
        for (key, value, kind) in [
            ("CLNT_V1_SUCC_CNT", client_v1, Kind::Total),
            ("CLNT_V2_SUCC_CNT", client_v2, Kind::Total),
            ("SRV_V1_SUCC_CNT", server_v1, Kind::Total),
            ("SRV_V2_SUCC_CNT", server_v2, Kind::Total),
            ("SENDPAGE_CNT", &mut self.sendpage, Kind::Traffic),
            ("URG_DATA_CNT", &mut self.urgent, Kind::Traffic),
            ("SPLICE_CNT", &mut self.splice, Kind::Traffic),
            ("CORK_CNT", &mut self.cork, Kind::Traffic),
            ("NDLY_CNT", &mut self.nodelay, Kind::Traffic),
            ("RX_BYTES", &mut rx.bytes, Kind::Traffic),
            ("TX_BYTES", &mut tx.bytes, Kind::Traffic),
            ("RX_CNT", &mut rx.requests, Kind::Traffic),
            ("TX_CNT", &mut tx.requests, Kind::Traffic),
            ("RX_RMB_USAGE", &mut rx.usage, Kind::Gauge),
            ("TX_RMB_USAGE", &mut tx.usage, Kind::Gauge),
        ] {
            add(key, value, kind);
        }
        all
    }

    /// What has been counted since `before`; `None` if that is of another registry.
    pub(super) fn since(&self, before: &Stats) -> Option<Stats> {
        let (mut now, mut before) = (self.clone(), before.clone());
        for (now, before) in now.counters().into_iter().zip(before.counters()) {
            match now.kind {
                Kind::Total => *now.value = now.value.checked_sub(*before.value)?,
                Kind::Traffic => *now.value = now.value.saturating_sub(*before.value),
                Kind::Gauge => {}
            }
        }
        for (now, before) in now.fallbacks.iter_mut().zip(&before.fallbacks) {
            *now = fallbacks_since(now, before)?;
        }
        Some(now)
    }

    /// The 65 numbers of smc-tools; with `details` also what it has in the text only.
    pub(super) fn json(mut self, details: bool) -> String {
        let mut pairs: Vec<String> =
            self.counters().iter().map(|counter| format!("\"{}\":{}", counter.key, counter.value)).collect();
        for (role, name) in ["CLNT", "SRV"].iter().enumerate().filter(|_| details) {
            let fallbacks = &self.fallbacks[role];
            let all: u64 = fallbacks.iter().map(|(_, count)| u64::from(*count)).sum();
            let reasons: Vec<String> =
                fallbacks.iter().map(|(reason, count)| format!("\"{reason}\":{count}")).collect();
            pairs.push(format!("\"SMC_{name}_HS_ERR_CNT\":{}", self.handshake_errors[role]));
            pairs.push(format!("\"SMC_{name}_FBACK_CNT\":{all}"));
            pairs.push(format!("\"SMC_{name}_FBACK_REASONS\":{{{}}}", reasons.join(",")));
        }
        format!("{{\"SMCD\": {{{}}}}}\n", pairs.join(","))
    }
}

fn fallbacks_since(now: &Fallbacks, before: &Fallbacks) -> Option<Fallbacks> {
    let count = |reason| before.iter().find(|(known, _)| *known == reason).map_or(0, |(_, count)| *count);
    let still_there =
        |(reason, count): &(Reason, u32)| *count == 0 || now.iter().any(|(known, _)| known == reason);
    if !before.iter().all(still_there) {
        return None;
    }
    let left: Option<Fallbacks> =
        now.iter().map(|(reason, all)| Some((*reason, all.checked_sub(count(*reason))?))).collect();
    Some(left?.into_iter().filter(|(_, count)| *count > 0).collect())
}
