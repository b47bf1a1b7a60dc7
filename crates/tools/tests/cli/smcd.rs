//! smcd on registries made up.

use super::made_up::{MadeUp, RING};
use super::{Folder, smc, stderr, stdout};
use fabric::Reason;
use fabric::observe::Verdict;
use std::sync::atomic::Ordering::Relaxed;

fn shown(made_up: &MadeUp, arguments: &str) -> String {
    let output = smc(&made_up.folder.0, &format!("smcd {arguments}"));
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    stdout(&output)
}

/// Two SMC connections, one fallback; the first has moved `bytes`.
fn busy(name: &str, bytes: u64) -> MadeUp {
    let made_up = MadeUp::new(name);
    let slot = made_up.connect(1, 40001, Verdict::Smc);
    slot.rings[0].producer.0.prod.store(bytes, Relaxed);
    slot.sides[0].tx.0.count(bytes as usize);
    made_up.connect(2, 40002, Verdict::Smc);
    made_up.connect(3, 40003, Verdict::Plain(Reason::MAX_DMB));
    made_up.map.totals.upgraded[0].store(2, Relaxed);
    made_up.map.totals.upgraded[1].store(2, Relaxed);
    made_up.map.totals.fallbacks[0][0].code.store(Reason::MAX_DMB.0, Relaxed);
    made_up.map.totals.fallbacks[0][0].count.store(1, Relaxed);
    made_up
}

#[test]
fn connections_between_the_same_processes_are_one_link_group() {
    let made_up = busy("smcd-lgr", 0);
    let table = shown(&made_up, "linkgroup");
    let row = table.lines().nth(1).expect("one link group");
    assert!(table.lines().count() == 2 && row[8..].starts_with("    0       2  "), "{table}");
    let id = &row[..8];
    assert_eq!(shown(&made_up, &format!("link show {id}")), table);
    let details = shown(&made_up, &format!("-d linkgroup show {id}"));
    assert!(
        details.contains("#Conns   : 2\n") && details.contains(&format!("DMB      : {} B\n", 2 * RING)),
        "{details}"
    );
    assert!(shown(&made_up, "device").contains("ffff   Yes       1  "));
    let smcss = stdout(&smc(&made_up.folder.0, "smcss -D"));
    assert!(smcss.lines().skip(1).all(|line| line.ends_with(&format!(" {id} "))), "{smcss}");
}

#[test]
fn statistics_add_up_and_can_be_reset() {
    let made_up = busy("smcd-stats", 20_000);
    let text = shown(&made_up, "-d stats");
    assert!(text.contains("  Total connections handled             5\n"), "{text}");
    assert!(text.contains("    Client\n     MAX_DMB                            1\n"), "{text}");
    assert!(text.contains("          20000 (20.00K)\n"), "{text}");
    assert!(text.contains("  Bufs        0       0       0       4       0"), "{text}");
    let json = shown(&made_up, "stats json");
    assert!(
        json.contains("\"SMC_TX_BYTES\":20000,") && json.contains("\"SMC_CLNT_V2_SUCC_CNT\":2,"),
        "{json}"
    );
    assert_eq!(shown(&made_up, "-d stats reset"), text, "a reset shows the numbers for the last time");
    assert!(shown(&made_up, "stats json").contains("\"SMC_TX_BYTES\":0,"));
    assert_eq!(shown(&made_up, "-a stats json"), json);
    made_up.map.totals.upgraded[0].store(1, Relaxed);
    assert!(shown(&made_up, "stats json").contains("\"SMC_TX_BYTES\":20000,"), "a new registry");
}

#[test]
fn without_a_registry_everything_is_zero() {
    let folder = Folder::new("smcd-none");
    for (arguments, text) in [
        ("info", "Kernel Capabilities\nSMC Version:      2.1\n"),
        ("linkgroup", "LG-ID    VLAN  #Conns  PNET-ID \n"),
        ("device", "FID  Type  PCI-ID        PCHID  InUse  #LGs  PNET-ID  \n0000 ISM   "),
        ("stats", "SMC-D Connections Summary\n  Total connections handled             0\n"),
        ("ueid", "ISTHMUS.LOCAL "),
        ("seid", "ISTHMUS-LOCAL-SEID "),
    ] {
        let output = smc(&folder.0, &format!("smcd {arguments}"));
        assert!(output.status.success() && stdout(&output).starts_with(text), "{arguments}: {output:?}");
    }
}

#[test]
fn exit_codes_are_those_of_the_original() {
    let folder = Folder::new("smcd-codes");
    for (arguments, code, said) in [
        ("", 0, "Usage:  smcd  [ OPTIONS ]"),
        ("-v", 255, "smcd utility, isthmus-"),
        ("-x info", 255, "Error: Option \"-x\" is unknown"),
        ("bogus", 1, "Error: Object \"bogus\" is unknown"),
        ("stats help", 255, "Usage: smcd stats"),
        ("ueid add X", 255, "Error: the User EID"),
        ("seid disable", 255, "Error: the System EID"),
    ] {
        let output = smc(&folder.0, &format!("smcd {arguments}"));
        assert_eq!((output.status.code(), stdout(&output)), (Some(code), String::new()), "{arguments}");
        assert!(stderr(&output).starts_with(said), "{arguments}: {}", stderr(&output));
    }
}
