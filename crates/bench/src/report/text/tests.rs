//! Snapshots of the text. A change of a snapshot is a change that people see.

use super::*;
use crate::compare::mock::{MockExecutor, plan, study};
use crate::path::Path;
use crate::report::html::example::{compared, judged, swept, troubled};

#[test]
fn a_comparison_reads_like_this() {
    let text = text(&compared(), usize::MAX);
    let expected = include_str!("compare.txt");
    assert_eq!(text, expected, "\n{text}");
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
    let study = judged();
    let text = text(&study, usize::MAX);
    let row =
        |start: &str| text.lines().find(|line| line.trim_start().starts_with(start)).unwrap_or_default();
    let absent = row("nginx");
    assert!(absent.contains("not measured: wrk is not here: install the package wrk"), "{absent}");
    let missing = row("crr-200x1000, 1 connection: transactions");
    assert!(missing.contains("not measured") && !missing.contains("went away"), "{missing}");
    assert!(
        text.starts_with("crr-200x1000, 1 connection over smc could not be measured: the server went away\n")
    );
    assert!(text.contains(" goals reached, "), "{text}");
}

#[test]
fn tables_are_cut_to_the_width_and_say_all_the_same() {
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
    let study = troubled();
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
