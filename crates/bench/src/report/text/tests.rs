//! Snapshots of the text. A change of a snapshot is a change that people see.

use super::*;
use crate::cell::Cell;
use crate::compare::mock::{MockExecutor, connected, plan, run, stream, study};
use crate::compare::plan::Plan;
use crate::path::Path;

fn model(cell: &Cell, round: usize) -> uperf::result::Run {
    let (times, cost) = match cell.path {
        Path::Smc => (9.0, 0.1),
        Path::Unix => (1.8, 0.6),
        _ => (1.0, 1.0),
    };
    let machine = [1.0, 1.03, 0.96][round];
    let times = times * machine;
    let run = if cell.profile.starts_with("str") {
        stream(20.0 * times, 25_000.0 * cost)
    } else {
        run(20_000.0 * times, 40.0 * cost)
    };
    connected(run, cell.connections, if cell.path == Path::Smc { cell.connections } else { 0 }, &[])
}

fn example() -> Plan {
    plan(&["rr1c-200x1000", "str-readx30k"], &[1, 50], &[Path::TcpVeth, Path::Unix, Path::Smc])
}

#[test]
fn a_comparison_reads_like_this() {
    let study = study(example(), &mut MockExecutor::new(model));
    let text = text(&study, usize::MAX);
    let expected = include_str!("compare.txt");
    assert_eq!(text, expected, "\n{text}");
}

#[test]
fn the_first_line_tells_who_fell_back() {
    let fall_back = |cell: &Cell, n| connected(model(cell, n), 50, 38, &[("0x03010000", 12)]);
    let study = study(plan(&["rr"], &[50], &[Path::Smc]), &mut MockExecutor::new(fall_back));
    let text = text(&study, usize::MAX);
    let first = text.lines().next();
    assert_eq!(first, Some("36 of 150 smc connections stayed on TCP in 3 of 3 runs: 0x03010000 (36)"));
}

#[test]
fn nothing_measured_is_still_a_report() {
    let mut executor = MockExecutor::default();
    executor.fail("rr 1 smc", "no sockets");
    let text = text(&study(plan(&["rr"], &[1], &[Path::Smc]), &mut executor), usize::MAX);
    assert!(text.starts_with("rr, 1 connection over smc could not be measured: no sockets\n"), "{text}");
    assert!(text.contains("machine: 2 x Example CPU"), "{text}");
}

#[test]
fn goals_say_their_verdicts_and_what_they_stand_on() {
    let study = crate::report::html::example::judged();
    let text = text(&study, usize::MAX);
    let row =
        |start: &str| text.lines().find(|line| line.trim_start().starts_with(start)).unwrap_or_default();
    let short = row("str-readx30k, 1 connection: throughput");
    for word in ["tcp-veth", "short", "4.16x", "6.6x", "4x"] {
        assert!(short.contains(word), "{word}: {short}");
    }
    for (start, words) in [
        ("1000 idle connections: CPU", ["pass", "0.000 %", "<= 0 %", "<= 0.1 %"]),
        ("1000 idle connections: memory", ["short", "44.8 KiB", "<= 40 KiB", "<= 140 KiB"]),
        ("read, write on a pipe", ["no library", "short", "0.986x", "0.985..0.987"]),
        ("redis GET", ["tcp-loopback", "below floor", "0.99x", "1.4x"]),
        ("nginx", ["not measured: wrk is not here", "install the package wrk", "1.8x", "1.3x"]),
    ] {
        assert!(words.iter().all(|word| row(start).contains(word)), "{words:?}: {}", row(start));
    }
    let missing = row("crr-200x1000, 1 connection: transactions");
    assert!(missing.contains("not measured") && !missing.contains("went away"), "{missing}");
    assert!(
        text.starts_with("crr-200x1000, 1 connection over smc could not be measured: the server went away\n")
    );
    assert!(text.contains(" goals reached, "), "{text}");
}

#[test]
fn tables_are_cut_to_the_width_and_say_all_the_same() {
    use crate::report::html::example::{compared, judged, swept};
    for study in [compared(), judged(), swept()] {
        for width in [60, 80, 120] {
            let text = text(&study, width);
            let is_table = |line: &&str| line.contains("  ") || line.contains('─');
            let longest = text.lines().filter(is_table).map(|line| line.chars().count()).max();
            assert!(longest.is_some_and(|longest| longest <= width), "{width}: {longest:?}\n{text}");
            assert!(text.contains("99.9") || !study.goals.is_empty(), "no column is lost: {text}");
        }
    }
}

#[test]
fn where_others_were_at_work_that_is_the_first_line() {
    let study = crate::report::html::example::troubled();
    let text = text(&study, 80);
    assert!(text.starts_with("no verdict: up to "), "{text}");
    for word in [study.started.clone(), study.command.clone(), study.machine.sentence()] {
        assert!(text.contains(&word), "{word}: {text}");
    }
    let csv = crate::report::csv::emit(&study).expect("CSV");
    assert!(csv.lines().skip(1).all(|row| row.contains("no verdict: ")), "{csv}");
    let json = crate::report::json::emit(&study).expect("JSON");
    assert!(json.contains("\"verdict\":[\"no verdict: "), "{json}");
}
