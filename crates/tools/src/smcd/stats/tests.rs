//! Golden reports, the 65 keys, and the arithmetic of reset.

use super::read::{add_buffers, add_totals, add_traffic};
use super::report;
use crate::smcd::counts::{Direction, Stats};
use fabric::observe::{Calls, Slot, SlotSide, Totals};
use wire::Reason;

fn stats() -> Stats {
    let calls = |bytes, requests, stalls| Calls {
        bytes,
        requests,
        stalls,
        sizes: [requests, 0, 0, 0, 0, 0, 0, 0, 0],
    };
    let mut fallbacks = [[(Reason(0), 0); 32]; 2];
    fallbacks[0][0] = (Reason::PEERNOSMC, 7);
    fallbacks[1][..4].copy_from_slice(&[
        (Reason::MEM, 1),
        (Reason::NOUEID, 5),
        (Reason::PEERDECL, 3),
        (Reason::MAX_DMB, 2),
    ]);
    let totals = Totals {
        upgraded: [2, 3],
        slots_made: 4,
        slots_reused: 1,
        tx: calls(12345, 3, 1),
        rx: calls(999, 4, 9),
        fallbacks,
    };
    let mut stats = Stats::default();
    add_totals(&mut stats, &totals);
    let side = SlotSide { tx: calls(1_000_000, 10, 0), rx: calls(1, 1, 0), ..SlotSide::default() };
    let slot = Slot { ring_size: 65536, server_cookie: 0, sides: [side, side], home: None };
    add_traffic(&mut stats, &slot, 0);
    add_buffers(&mut stats, &slot);
    stats
}

#[test]
fn golden_summary() {
    assert_eq!(
        report::text(&stats(), false),
        "\
SMC-D Connections Summary
  Total connections handled            23
  SMC connections                       5
  Handshake errors                      0
  Avg requests per SMC conn           3.6
  TCP fallback                         18

RX Stats
  Data transmitted (Bytes)           1000 (1.000K)
  Total requests                        5
  Buffer usage (Bytes)              65536 (65.54K)
  Buffer full                           0 (0.00%)
            8KB    16KB    32KB    64KB   128KB   256KB   512KB  >512KB
  Bufs        0       0       0       1       0       0       0       0
  Reqs        5       0       0       0       0       0       0       0

TX Stats
  Data transmitted (Bytes)        1012345 (1.012M)
  Total requests                       13
  Buffer usage (Bytes)              65536 (65.54K)
  Buffer full                           1 (7.69%)
  Buffer full (remote)                  0 (0.00%)
  Buffer too small                      0 (0.00%)
  Buffer too small (remote)             0 (0.00%)
            8KB    16KB    32KB    64KB   128KB   256KB   512KB  >512KB
  Bufs        0       0       0       1       0       0       0       0
  Reqs       13       0       0       0       0       0       0       0

Extras
  Special socket calls                  0
"
    );
}

#[test]
fn golden_details() {
    let text = report::text(&stats(), true);
    let (summary, rest) = text.split_once("\n\n").expect("an empty line");
    assert_eq!(
        summary,
        "\
SMC-D Connections Summary
  Total connections handled            23
  SMC connections                       5 (client 2, server 3)
    v1                                  0
    v2                                  5
  Handshake errors                      0 (client 0, server 0)
  Avg requests per SMC conn           3.6
  TCP fallback                         18 (client 7, server 11)
    Server
     [unknown]                          5
     PEERDECL                           3
     MAX_DMB                            2
    Client
     PEER_NO_SMC                        7"
    );
    assert!(rest.contains("  Buffer full                           0 (0.00%)\n  Buffer downgrades                     0\n  Buffer reuses                         1\n"));
    assert!(text.ends_with(
        "\
Extras
  Special socket calls                  0
    cork                                0
    nodelay                             0
    sendpage                            0
    splice                              0
    urgent data                         0
"
    ));
}

#[test]
fn what_is_in_the_totals_is_not_added_again() {
    let calls = |bytes, requests| Calls { bytes, requests, ..Calls::default() };
    let side =
        SlotSide { tx: calls(100, 10), settled: [Calls::default(), calls(30, 4)], ..SlotSide::default() };
    let mut stats = Stats::default();
    add_traffic(&mut stats, &Slot { ring_size: 65536, server_cookie: 0, sides: [side, side], home: None }, 0);
    assert_eq!((stats.tx.bytes, stats.tx.requests, stats.rx.bytes), (70, 6, 0));
}

#[test]
fn nothing_counted_divides_by_nothing() {
    let text = report::text(&Stats::default(), true);
    assert!(text.contains("Avg requests per SMC conn           0.0\n") && text.contains("0 (0.00%)"));
    assert!(!text.contains("    Server"));
}

#[test]
fn the_last_column_holds_all_large_ones() {
    let rx = Direction { sizes: [1000, 0, 0, 0, 0, 0, 999, 5, 6], ..Direction::default() };
    let text = report::text(&Stats { rx, ..Stats::default() }, false);
    assert!(
        text.contains("  Reqs   1.000K       0       0       0       0       0     999      11\n"),
        "{text}"
    );
}

#[test]
fn json_has_the_65_keys_in_their_order() {
    let json = stats().json(false);
    assert!(json.starts_with("{\"SMCD\": {\"SMC_INT_TX_BUF_8K\":0,\"SMC_INT_TX_BUF_16K\":0,"), "{json}");
    assert!(json.ends_with("\"SMC_RX_RMB_USAGE\":65536,\"SMC_TX_RMB_USAGE\":65536}}\n"), "{json}");
    assert_eq!(json.lines().count(), 1);
    let mut stats = stats();
    let keys: Vec<String> = stats.counters().into_iter().map(|counter| counter.key).collect();
    assert_eq!(keys.len(), 65);
    let at = |key: &str| keys.iter().position(|known| known == key);
    for (key, place) in [
        ("SMC_INT_TX_BUF_G_1024K", 8),
        ("SMC_INT_RX_BUF_8K", 9),
        ("SMC_USR_TX_BUF_8K", 18),
        ("SMC_USR_RX_BUF_G_1024K", 35),
        ("SMC_INT_TX_BUF_SIZE_SM_PEER_CNT", 36),
        ("SMC_INT_TX_BUF_DGRADE_CNT", 42),
        ("SMC_INT_RX_BUF_SIZE_SM_PEER_CNT", 43),
        ("SMC_CLNT_V1_SUCC_CNT", 50),
        ("SMC_SRV_V2_SUCC_CNT", 53),
        ("SMC_SENDPAGE_CNT", 54),
        ("SMC_URG_DATA_CNT", 55),
        ("SMC_SPLICE_CNT", 56),
        ("SMC_CORK_CNT", 57),
        ("SMC_NDLY_CNT", 58),
        ("SMC_RX_BYTES", 59),
        ("SMC_TX_BYTES", 60),
        ("SMC_RX_CNT", 61),
        ("SMC_TX_CNT", 62),
        ("SMC_RX_RMB_USAGE", 63),
    ] {
        assert_eq!(at(key), Some(place), "{key}");
    }
}

#[test]
fn json_with_details_has_the_fallbacks() {
    let json = stats().json(true);
    let wanted = "\"SMC_CLNT_FBACK_CNT\":7,\"SMC_CLNT_FBACK_REASONS\":{\"0x03010000\":7},\"SMC_SRV_HS_ERR_CNT\":0,\"SMC_SRV_FBACK_CNT\":11,";
    assert!(json.contains(wanted) && json.ends_with("\"0x030d0000\":2}}}\n"), "{json}");
}

#[test]
fn only_what_came_since_the_reset_is_shown() {
    let before = stats();
    let mut now = before.clone();
    now.rx.bytes += 100;
    now.client[1] += 1;
    now.fallbacks[0].push((Reason::MEM, 2));
    let since = now.since(&before).expect("the same registry");
    assert_eq!((since.rx.bytes, since.tx.bytes, since.client), (100, 0, [0, 1]));
    assert_eq!(since.fallbacks, [vec![(Reason::MEM, 2)], vec![]]);
    assert_eq!((since.rx.usage, since.rx.buffers[3]), (65536, 1), "what there is now stays");
}

#[test]
fn a_killed_program_takes_its_traffic_along_and_a_new_registry_forgets_the_reset() {
    let before = stats();
    let killed = Stats { tx: Direction { bytes: 1, ..before.tx.clone() }, ..before.clone() };
    assert_eq!(killed.since(&before).map(|since| since.tx.bytes), Some(0));
    assert_eq!(Stats { server: [0, 2], ..before.clone() }.since(&before), None);
    assert_eq!(Stats { fallbacks: [vec![], vec![]], ..before.clone() }.since(&before), None);
}
