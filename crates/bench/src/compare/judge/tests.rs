//! Goals on studies that no machine measured.

use std::time::Duration;

use super::*;
use crate::app::Name;
use crate::cell::Cell;
use crate::compare::goals::{Pace, probes, suite};
use crate::compare::mock::{MockExecutor, run, suite_on, suite_study};
use crate::compare::quantity::{self, Pair, Probe};
use crate::path::Path;
use uperf::Server;

fn pace() -> Pace {
    let (duration, warm_up) = (Duration::from_secs(1), Duration::from_millis(100));
    Pace { duration, rounds: 3, warm_up, ..Pace::default() }
}

/// The whole suite; SMC is `times` as fast as everything else, at `cost` of its CPU time, and what it must not cost at
/// all is a hundredth of that.
fn suite_with(times: f64, cost: f64) -> Study {
    let model = move |cell: &Cell, _: usize| match cell.path {
        Path::Smc => run(1000.0 * times, 1000.0 * cost),
        // Never the reason why something is not reached.
        Path::Bare => run(1000.0 * 150.0, 5.0),
        _ => run(1000.0, 1000.0),
    };
    let quantity = move |quantity: Quantity, _| match quantity.about().unit {
        Unit::Times => Pair { ours: 1000.0 * times, theirs: Some(1000.0) },
        Unit::PercentOfCore => Pair { ours: (cost - 0.01).max(0.0), theirs: None },
        Unit::Bytes => Pair { ours: 400.0 * 1024.0 * cost, theirs: None },
    };
    let mut executor = MockExecutor::new(model).with_quantities(quantity);
    suite_study(suite(&pace(), Path::TcpVeth), &mut executor)
}

/// Ours and theirs of a goal about cells.
fn turns(goal: &Goal) -> Option<(Turn, Turn)> {
    match goal.what {
        What::Turns { ours, theirs, .. } => Some((ours, theirs)),
        What::Quantity { .. } => None,
    }
}

fn words(study: &Study) -> Vec<(String, &'static str)> {
    let judged = judge(&Reading::new(study));
    judged.iter().map(|row| (row.goal.name.clone(), row.verdict.word())).collect()
}

#[test]
fn every_row_points_at_what_it_names() {
    let (plan, goals) = suite(&pace(), Path::TcpVeth);
    let of_cells: Vec<(&Goal, (Turn, Turn))> =
        goals.iter().filter_map(|goal| Some((goal, turns(goal)?))).collect();
    for (goal, (ours, theirs)) in &of_cells {
        let (ours, theirs) = (plan.cell(*ours).expect("planned"), plan.cell(*theirs).expect("planned"));
        assert_eq!(ours.path, Path::Smc, "{}", goal.name);
        assert_ne!(theirs.path, Path::Smc, "{}", goal.name);
        assert_eq!((&ours.profile, ours.server), (&theirs.profile, theirs.server));
        assert!(goal.name.starts_with(&ours.profile) && theirs.environment.is_empty());
        assert_eq!(goal.name.contains("epoll"), ours.server == Server::Epoll);
        assert_eq!(goal.name.contains("SMC_SPIN=0"), ours.environment.contains_key("SMC_SPIN"));
    }
    let is_unix = |turn: Turn| plan.cell(turn).is_some_and(|cell| cell.path == Path::Unix);
    let against_unix = of_cells.iter().filter(|(_, (_, theirs))| is_unix(*theirs));
    assert_eq!((of_cells.len(), against_unix.count(), goals.len()), (80, 27, 90));
}

#[test]
fn every_quantity_is_a_goal_and_every_probe_runs_once() {
    let (_, goals) = suite(&pace(), Path::TcpVeth);
    for about in &quantity::ALL {
        let wanted = What::Quantity { quantity: about.quantity };
        let rows: Vec<&Goal> = goals.iter().filter(|goal| goal.what == wanted).collect();
        assert!(rows.len() == 1 && rows[0].name == about.title, "{}", about.title);
    }
    let probes = probes(&goals);
    for (i, probe) in probes.iter().enumerate() {
        assert!(!probes[..i].contains(probe), "{probe}");
    }
    assert_eq!(probes.len(), 7);
}

#[test]
fn a_part_of_the_suite_plans_no_more_than_it_needs() {
    let only = |text: &str| suite(&Pace { only: text.into(), ..pace() }, Path::TcpVeth);
    let (plan, goals) = only("crr-200x1000, 1 connection");
    assert_eq!((plan.groups.len(), plan.round(0).len(), goals.len()), (1, 2, 2), "and one quantity");
    let (plan, goals) = only("idle");
    assert_eq!((plan.groups.len(), probes(&goals)), (0, vec![Probe::Idle]));
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
        ("crr-200x1000, 1 connection, plain server", "pass"),
        ("redis GET", "pass"),
        ("1000 idle connections: CPU", "below floor"),
        ("1000 idle connections: memory", "short"),
    ] {
        assert_eq!(word(&good, row), expected, "{row}");
    }
    let bad = suite_with(0.95, 1.1);
    assert_eq!(word(&bad, "crr-200x1000"), "short");
    assert_eq!(word(&bad, "rate-200x1000"), "short");
    assert_eq!(word(&bad, "crr-200x1000, 1 connection, plain server"), "short");
    assert_eq!(word(&bad, "read, write on a pipe"), "below floor");
    let text = tally(&judge(&Reading::new(&bad)));
    assert_eq!(text, "0 of 90 goals reached, 15 short, 75 below floor");
}

#[test]
fn a_percentile_counts_by_how_much_shorter_it_is() {
    let study = suite_with(15.0, 0.1);
    let judged = judge(&Reading::new(&study));
    let row = judged
        .iter()
        .find(|row| matches!(row.goal.what, What::Turns { metric: Metric::P99, .. }))
        .expect("it is in the table");
    let ratio = row.reached.expect("measured").median;
    assert!((14.5..15.5).contains(&ratio), "{ratio}");
    assert_eq!(row.verdict, Verdict::Short);
}

#[test]
fn what_the_machine_forbids_is_told_from_what_is_broken() {
    let model = |cell: &Cell, _: usize| match cell.path {
        Path::Smc => run(39_000.0, 100.0),
        Path::Bare => run(40_000.0, 100.0),
        _ => run(1000.0, 1000.0),
    };
    let study = suite_study(suite(&pace(), Path::TcpVeth), &mut MockExecutor::new(model));
    let judged = judge(&Reading::new(&study));
    let row = |against: &str| {
        let start = "rr1c-200x1000, 1 connection: transactions";
        judged.iter().find(|row| row.goal.name.starts_with(start) && row.against == against).expect("a row")
    };
    let forbidden = Verdict::Forbidden("bare, the limit of this machine, reaches 40.0x".into());
    assert_eq!((&row("tcp-veth").verdict, row("tcp-veth").verdict.is_failure()), (&forbidden, false));
    assert_eq!((&row("bare").verdict, &row("unix").verdict), (&Verdict::Pass, &Verdict::Pass));
    assert!(tally(&judged).contains(" not possible on this machine"), "{}", tally(&judged));
}

#[test]
fn disturbed_rows_alone_get_no_verdict() {
    let (plan, goals) = suite(&pace(), Path::TcpVeth);
    let probed = goals.iter().filter(|goal| turns(goal).is_none()).count();
    let first = plan.groups[0].contenders.len();
    let mut executor = MockExecutor::default().taking(Duration::from_secs(1));
    let mut host = executor.host();
    // Somebody else is at work during the first group of the first round, and of the second.
    let mut others = vec![0.0; plan.runs() * 2];
    for round in 0..2 {
        others[round * plan.round(0).len() * 2..][..first * 2].fill(0.4);
    }
    // And during the first two rounds of the second probe.
    others.extend([0.0; 2 * 3].into_iter().chain([0.4; 2 * 2]));
    host.set_others(others);
    let study = suite_on((plan, goals), &mut executor, &mut host);
    let judged = judge(&Reading::new(&study));
    let refused = |wanted: &str, row: &Judged<'_>| matches!(&row.verdict, Verdict::Refused(why) if why.contains(wanted));
    for row in judged.iter().filter(|row| turns(row.goal).is_some()) {
        let is_first = turns(row.goal).is_some_and(|(ours, _)| ours.group == 0);
        assert_eq!(refused("4 of 6 runs", row), is_first, "{}: {:?}", row.goal.name, row.verdict);
    }
    let of_quantities: Vec<&Judged<'_>> = judged.iter().filter(|row| turns(row.goal).is_none()).collect();
    assert_eq!(of_quantities.len(), probed);
    for row in of_quantities {
        let is_second = row.goal.name.starts_with("read, write");
        assert_eq!(refused("2 of 3 runs", row), is_second, "{}: {:?}", row.goal.name, row.verdict);
    }
}

#[test]
fn what_could_not_be_measured_is_a_failure_but_a_program_that_is_not_installed() {
    let mut executor = MockExecutor::default();
    executor.fail("crr-200x1000 1 smc", "the server is gone");
    executor.lack(Probe::App(Name::Nginx), "wrk is not here", true);
    executor.lack(Probe::Idle, "no file descriptors", false);
    let study = suite_study(suite(&pace(), Path::TcpVeth), &mut executor);
    let judged = judge(&Reading::new(&study));
    let row = |start: &str| judged.iter().find(|row| row.goal.name.starts_with(start)).expect("in the table");
    assert_eq!(row("nginx").verdict, Verdict::NotHere("wrk is not here".into()));
    assert!(row("nginx").verdict.word() == "not measured" && !row("nginx").verdict.is_failure());
    assert_eq!(row("1000 idle").verdict, Verdict::NotMeasured("no file descriptors".into()));
    assert!(row("1000 idle").verdict.is_failure());
    assert_eq!(row("crr").verdict, Verdict::NotMeasured("the server is gone".into()));
    assert!(tally(&judged).ends_with(", 4 not measured"), "{}", tally(&judged));
}

#[test]
fn one_slow_slice_moves_no_median() {
    let quantity = |_, round| Pair { ours: if round == 1 { 1.0 } else { 99.5 }, theirs: Some(100.0) };
    let mut executor = MockExecutor::default().with_quantities(quantity);
    let study = suite_study(suite(&pace(), Path::TcpVeth), &mut executor);
    let judged = judge(&Reading::new(&study));
    let row = judged.iter().find(|row| row.goal.name.starts_with("read, write on a file")).expect("a row");
    assert_eq!(row.reached.map(|all| (all.median, all.min, all.rounds)), Some((0.995, 0.01, 3)));
    assert_eq!((row.against.as_str(), &row.verdict), ("no library", &Verdict::Pass));
}

#[test]
fn goals_that_were_saved_before_there_were_quantities_are_read() {
    let old = r#"{"name": "rr", "ours": {"group": 0, "contender": 1}, "theirs": {"group": 0, "contender": 0},
        "metric": "rate", "bar": {"at-least": {"goal": 100.0, "floor": 50.0}}}"#;
    let goal: Goal = serde_json::from_str(old).expect("a goal");
    let (ours, theirs) = (Turn { group: 0, contender: 1 }, Turn { group: 0, contender: 0 });
    let what = What::Turns { ours, theirs, metric: Metric::Rate };
    assert_eq!(goal, Goal { name: "rr".into(), what, bar: Bar::AtLeast { goal: 100.0, floor: 50.0 } });
    let (_, goals) = suite(&pace(), Path::TcpVeth);
    let saved = serde_json::to_string(&goals).expect("JSON");
    assert_eq!(serde_json::from_str::<Vec<Goal>>(&saved).expect("the same"), goals);
}
