//! Goals on studies that no machine measured.

use std::time::Duration;

use super::*;
use crate::cell::{Cell, Server};
use crate::compare::mock::{MockExecutor, run, study, study_on};
use crate::compare::study::Study;
use crate::path::Path;

fn pace() -> Pace {
    Pace { duration: Duration::from_secs(1), rounds: 3, warm_up: Duration::from_millis(100) }
}

/// The whole suite; SMC is `times` as fast as everything else, at `cost` of its CPU time.
fn suite_with(times: f64, cost: f64) -> Study {
    let (plan, goals) = suite(&pace(), Path::TcpVeth);
    let model = move |cell: &Cell, _: usize| match cell.path {
        Path::Smc => run(1000.0 * times, 1000.0 * cost),
        _ => run(1000.0, 1000.0),
    };
    Study { goals, ..study(plan, &mut MockExecutor::new(model)) }
}

fn words(study: &Study) -> Vec<(String, &'static str)> {
    let judged = judge(&Reading::new(study));
    judged.iter().map(|row| (row.goal.name.clone(), row.verdict.word())).collect()
}

#[test]
fn every_row_points_at_what_it_names() {
    let (plan, goals) = suite(&pace(), Path::TcpVeth);
    for goal in &goals {
        let (ours, theirs) =
            (plan.cell(goal.ours).expect("planned"), plan.cell(goal.theirs).expect("planned"));
        assert_eq!(ours.path, Path::Smc, "{}", goal.name);
        assert_ne!(theirs.path, Path::Smc, "{}", goal.name);
        assert_eq!((&ours.profile, ours.server), (&theirs.profile, theirs.server));
        assert!(goal.name.starts_with(&ours.profile) && theirs.environment.is_empty());
        assert_eq!(goal.name.contains("epoll"), ours.server == Server::Epoll);
        assert_eq!(goal.name.contains("SMC_SPIN=0"), ours.environment.contains_key("SMC_SPIN"));
    }
    let against_unix =
        goals.iter().filter(|goal| plan.cell(goal.theirs).is_some_and(|c| c.path == Path::Unix));
    assert_eq!((goals.len(), against_unix.count()), (56, 27));
}

#[test]
fn a_cell_is_planned_once() {
    let (plan, _) = suite(&pace(), Path::TcpVeth);
    let cells: Vec<Cell> = plan.round(0).into_iter().filter_map(|turn| plan.cell(turn)).collect();
    for (i, cell) in cells.iter().enumerate() {
        assert!(!cells[..i].contains(cell), "{cell:?}");
    }
}

#[test]
fn goals_are_reached_missed_and_broken() {
    let word = |study: &Study, start: &str| {
        let found = words(study).into_iter().find(|(name, _)| name.starts_with(start));
        found.unwrap_or_else(|| panic!("no row {start}")).1
    };
    let great = suite_with(200.0, 0.01);
    assert!(words(&great).iter().all(|(_, word)| *word == "pass"), "{:?}", words(&great));
    let good = suite_with(8.0, 0.2);
    for (row, expected) in [
        ("rr1c-200x1000, 1 connection: transactions", "below floor"),
        ("rr1c-200x1000, 10 connections: transactions", "short"),
        ("rr1c-200x1000, 50 connections: transactions", "pass"),
        ("rr1c-200x1000, 50 connections: CPU", "short"),
        ("rr1c-200x1000, 1 connection, SMC_SPIN=0", "pass"),
        ("crr-200x1000", "pass"),
        ("rate-200x1000", "pass"),
    ] {
        assert_eq!(word(&good, row), expected, "{row}");
    }
    let bad = suite_with(0.95, 1.1);
    assert_eq!(word(&bad, "crr-200x1000"), "short");
    assert_eq!(word(&bad, "rate-200x1000"), "short");
    let text = tally(&judge(&Reading::new(&bad)));
    assert_eq!(text, "0 of 56 goals reached, 2 short, 54 below floor");
}

#[test]
fn a_percentile_counts_by_how_much_shorter_it_is() {
    let study = suite_with(15.0, 0.1);
    let judged = judge(&Reading::new(&study));
    let row = judged.iter().find(|row| row.goal.metric == Metric::P99).expect("it is in the table");
    let ratio = row.ratio.expect("measured").median;
    assert!((14.5..15.5).contains(&ratio), "{ratio}");
    assert_eq!(row.verdict, Verdict::Short);
}

#[test]
fn a_failed_cell_leaves_its_rows_unmeasured() {
    let (plan, goals) = suite(&pace(), Path::TcpVeth);
    let mut executor = MockExecutor::default();
    executor.fail("crr-200x1000 1 smc", "the server is gone");
    let study = Study { goals, ..study(plan, &mut executor) };
    let judged = judge(&Reading::new(&study));
    let row = judged.iter().find(|row| row.goal.name.starts_with("crr")).expect("it is in the table");
    assert_eq!(row.verdict, Verdict::NotMeasured("the server is gone".into()));
    assert!(tally(&judged).ends_with(", 1 not measured"));
}

#[test]
fn disturbed_rows_alone_get_no_verdict() {
    let (plan, goals) = suite(&pace(), Path::TcpVeth);
    let first = plan.groups[0].contenders.len();
    let mut executor = MockExecutor::default().taking(Duration::from_secs(1));
    let mut host = executor.host();
    // Somebody else is at work during the first group of the first round, and of the second.
    let mut others = vec![0.0; plan.runs() * 2];
    for round in 0..2 {
        others[round * plan.round(0).len() * 2..][..first * 2].fill(0.4);
    }
    host.set_others(others);
    let study = Study { goals, ..study_on(plan, &mut executor, &mut host) };
    let judged = judge(&Reading::new(&study));
    for row in &judged {
        let is_refused = matches!(&row.verdict, Verdict::Refused(why) if why.contains("4 of 6 runs"));
        assert_eq!(is_refused, row.goal.ours.group == 0, "{}: {:?}", row.goal.name, row.verdict);
    }
}
