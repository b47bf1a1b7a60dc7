//! What came of a run. Invariant: the last line names every class of fault with its number, and "CLEAN"
//! stands there only if there was none.

use crate::board::{BEGUN, CUT, ERROR, OVER_TCP, SHARED};
use crate::run::run;
use crate::script::{SERVERS, Script, Side, Step};
use crate::watchdog::server_name;
use std::collections::BTreeMap;

const CLASSES: [&str; 12] = [
    "foreign", "wrong", "lost", "doubled", "hang", "reset", "crash", "connect", "peek", "zero", "panic",
    "operator",
];

/// Prints all; whether there was no fault.
pub(crate) fn tell() -> bool {
    let mut styles: BTreeMap<String, u64> = BTreeMap::new();
    let mut over_tcp: BTreeMap<String, u64> = BTreeMap::new();
    let (mut connections, mut bytes, mut resets, mut cuts, mut shared, mut tcp) = (0, 0, 0, 0, 0, 0);
    let board = run().board;
    for number in 0..board.frontier() {
        let ends = Side::BOTH.map(|side| board.end(number, side));
        if !ends[0].is(BEGUN) {
            continue;
        }
        connections += 1;
        bytes += ends[0].received() + ends[1].received();
        let either = |flag| u64::from(ends.iter().any(|e| e.is(flag)));
        resets += either(ERROR);
        cuts += either(CUT);
        shared += either(SHARED);
        tcp += either(OVER_TCP);
        let script = Script::of(run().seed, number);
        if either(OVER_TCP) > 0 {
            *over_tcp.entry(reason(&script)).or_insert(0) += 1;
        }
        count_styles(&script, &mut styles);
    }
    for (index, _) in SERVERS.iter().enumerate() {
        styles.entry(format!("server {}", server_name(index))).or_insert(0);
    }
    println!("styles: {}", list(&styles));
    if shared > 0 {
        println!("over TCP: {}", list(&over_tcp));
    }
    let share = 100 * shared / (shared + tcp).max(1);
    println!(
        "seed {}: {connections} connections, {bytes} bytes, {cuts} broken on purpose, {resets} with an error seen, \
         {share} % of {} by shared memory",
        run().seed,
        shared + tcp
    );
    if crate::home::is_wanted() {
        let [home, asked] = board.home();
        println!(
            "{home} connections were taken off shared memory by the operator, who was asked {asked} times"
        );
    }
    faults()
}

fn list(counts: &BTreeMap<String, u64>) -> String {
    counts.iter().map(|(name, n)| format!("{name}: {n}")).collect::<Vec<_>>().join(", ")
}

/// What may have kept a connection off shared memory: its server, and what happens in its middle.
fn reason(script: &Script) -> String {
    let steps = script.plans.iter().flat_map(|plan| plan.lanes.iter().flatten());
    let middle =
        steps.filter_map(|step| if let Step::Mid(mid) = step { Some(format!(" {mid:?}")) } else { None });
    server_name(script.port()) + &middle.collect::<String>()
}

fn count_styles(script: &Script, styles: &mut BTreeMap<String, u64>) {
    let mut add = |name: String| *styles.entry(name).or_insert(0) += 1;
    add(format!("server {}", server_name(script.port())));
    for side in Side::BOTH {
        let plan = script.plan(side);
        add(format!("wait {:?}", plan.wait));
        for step in plan.lanes.iter().chain([&plan.finale]).flatten() {
            match step {
                Step::Mid(mid) => add(format!("middle {mid:?}")),
                Step::End(ending) => add(format!("end {ending:?}")),
                _ => {}
            }
        }
    }
}

fn faults() -> bool {
    let text = std::fs::read_to_string(run().folder.join("faults")).unwrap_or_default();
    let count = |class: &str| text.lines().filter(|l| l.starts_with(&format!("FAULT {class}"))).count();
    let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
    for line in text.lines() {
        let class = line.split_whitespace().nth(1).unwrap_or_default();
        let n = shown.entry(class).or_insert(0);
        *n += 1;
        if *n <= 6 {
            println!("{line}");
        }
    }
    let words: Vec<String> = CLASSES.iter().map(|c| format!("{c} {}", count(c))).collect();
    let clean = run().board.faults() == 0 && text.is_empty();
    println!("{}: {}", if clean { "CLEAN" } else { "FAULTY" }, words.join(", "));
    clean
}
