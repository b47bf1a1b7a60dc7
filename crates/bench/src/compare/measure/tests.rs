//! The loop, with an executor that runs nothing and a host that obeys.

use std::time::Duration;

use super::*;
use crate::app::Name;
use crate::compare::mock::{MockExecutor, MockHost, plan};
use crate::compare::quantity::{Pair, Quantity, Take};
use crate::path::Path;

const PATHS: [Path; 3] = [Path::TcpVeth, Path::Unix, Path::Smc];

struct Outcome {
    measured: Measured,
    ran: Vec<String>,
    told: Vec<Step>,
}

fn measure(plan: &Plan, executor: &mut MockExecutor, host: &mut MockHost, wait: Duration) -> Outcome {
    let flag = executor.stop_flag();
    let mut told = vec![];
    let mut bench = Bench {
        world: executor,
        host,
        stop: &|| flag.get(),
        tell: &mut |news| {
            if let News::Begins(step) = news {
                told.push((*step).clone());
            }
        },
        wait,
    };
    let measured = bench.measure(plan);
    Outcome { measured, ran: executor.ran(), told }
}

fn simply(plan: &Plan, executor: &mut MockExecutor) -> Outcome {
    let mut host = executor.host();
    measure(plan, executor, &mut host, Duration::ZERO)
}

#[test]
fn every_turn_of_every_round_runs_in_its_order() {
    let plan = plan(&["rr"], &[1, 50], &PATHS);
    let outcome = simply(&plan, &mut MockExecutor::default());
    let first: Vec<&str> = outcome.ran.iter().step_by(3).map(String::as_str).collect();
    assert_eq!(
        first,
        ["rr 1 tcp-veth", "rr 50 tcp-veth", "rr 1 unix", "rr 50 unix", "rr 1 smc", "rr 50 smc"],
        "in each round another path is first"
    );
    assert_eq!(outcome.measured.samples.len(), plan.runs());
    assert_eq!(outcome.measured.ending, Ending::Complete);
}

#[test]
fn a_cell_that_fails_takes_nothing_with_it() {
    let plan = plan(&["rr"], &[1, 50], &PATHS);
    let mut executor = MockExecutor::default();
    executor.fail("rr 50 unix", "no sockets left\n  in this house");
    let Measured { samples, failures, ending } = simply(&plan, &mut executor).measured;
    assert_eq!(failures.len(), 1, "it is not tried again");
    assert_eq!(failures[0].reason, "no sockets left; in this house");
    assert_eq!(failures[0].turn, Turn { group: 1, contender: 1 });
    assert_eq!((samples.len(), ending), (plan.runs() - usize::from(plan.rounds), Ending::Complete));
}

#[test]
fn a_stop_ends_it_after_the_current_run() {
    let plan = plan(&["rr"], &[1], &PATHS);
    let mut executor = MockExecutor::default();
    executor.stop_after(4);
    let Measured { samples, ending, .. } = simply(&plan, &mut executor).measured;
    assert_eq!((samples.len(), ending), (4, Ending::Interrupted));
}

#[test]
fn a_budget_ends_it_between_rounds_and_no_run_begins_after_it() {
    let mut plan = plan(&["rr"], &[1], &PATHS);
    // A third round would end after 18 s, a second one after 1.2 s, and not even the first one is finished.
    for (budget, of_a_run, runs) in [(17, 2, 6), (1, 0, 3), (3, 2, 2)] {
        plan.budget = Some(Duration::from_secs(budget));
        let mut executor = MockExecutor::default().taking(Duration::from_secs(of_a_run));
        let Measured { samples, ending, .. } = simply(&plan, &mut executor).measured;
        assert_eq!((samples.len(), ending), (runs, Ending::OutOfTime), "{budget} s");
    }
}

#[test]
fn what_is_left_follows_from_what_was_seen() {
    let plan = plan(&["rr"], &[1], &PATHS);
    let guess = plan.guess_all();
    let mut executor = MockExecutor::default().taking(Duration::from_secs(10));
    let Outcome { told, .. } = simply(&plan, &mut executor);
    assert_eq!((told[0].left, told[0].done), (guess, 0));
    // Eight of nine runs are left, and the first took 10 s and a look of 0.2 s.
    assert!((told[1].left.as_secs_f64() - 8.0 * 10.2).abs() < 0.01, "{:?}", told[1].left);
    assert_eq!(told.len(), 9);
}

#[test]
fn what_others_do_is_seen_before_and_during_a_run() {
    let plan = plan(&["rr"], &[1], &[Path::Smc]);
    let mut executor = MockExecutor::default().taking(Duration::from_secs(1));
    let mut host = executor.host();
    host.set_others([0.0, 0.5, 0.5, 0.0, 0.0, 0.0]);
    let Measured { samples, .. } = measure(&plan, &mut executor, &mut host, Duration::ZERO).measured;
    let disturbed: Vec<bool> = samples.iter().map(Sample::is_disturbed).collect();
    assert_eq!(disturbed, [true, true, false], "during the first, before the second");
}

#[test]
fn waiting_for_quiet_has_one_limit_for_all() {
    let plan = plan(&["rr"], &[1], &[Path::Smc]);
    let mut executor = MockExecutor::default();
    let mut host = executor.host();
    host.set_others([0.9; 200]);
    let Outcome { measured, .. } = measure(&plan, &mut executor, &mut host, Duration::from_secs(20));
    assert!(measured.samples.iter().all(Sample::is_disturbed), "it measures all the same");
    let waited = host.now();
    assert!((Duration::from_secs(20)..Duration::from_secs(26)).contains(&waited), "{waited:?}");
}

#[test]
fn a_blind_host_is_no_reason_not_to_measure() {
    let plan = plan(&["rr"], &[1], &[Path::Smc]);
    let mut executor = MockExecutor::default();
    let mut host = executor.host().blind();
    let Measured { samples, .. } = measure(&plan, &mut executor, &mut host, Duration::ZERO).measured;
    assert!(samples.iter().all(|sample| sample.interference.is_none()) && samples.len() == 3);
}

#[test]
fn a_probe_has_its_rounds_and_one_that_fails_takes_nothing_with_it() {
    let probes = [Probe::Descriptors, Probe::App(Name::Redis), Probe::Idle];
    let mut executor =
        MockExecutor::default().with_quantities(|_, round| Pair { ours: f64::from(round), theirs: None });
    executor.lack(Probe::App(Name::Redis), "redis-server is not here", true);
    let Taken { takes, lacks, ending } = take(&probes, &mut executor);
    for quantity in [Quantity::Pipe, Quantity::File, Quantity::IdleCpu, Quantity::IdleMemory] {
        let rounds = takes.iter().filter(|one| one.quantity == quantity).map(|one| one.pairs[0].ours);
        assert_eq!(rounds.collect::<Vec<_>>(), [0.0, 1.0], "{quantity:?}");
    }
    assert!(takes.iter().all(|one| one.interference.is_some()), "each round is watched");
    let lacking: Vec<Quantity> = lacks.iter().map(|lack| lack.quantity).collect();
    assert_eq!((lacking, ending), (vec![Quantity::RedisSet, Quantity::RedisGet], Ending::Complete));
    assert!(lacks.iter().all(|lack| lack.is_absent && lack.reason == "redis-server is not here"));
}

#[test]
fn a_round_that_fails_ends_its_probe_alone() {
    let mut executor = MockExecutor::default();
    executor.fail("pipes and files 1 smc", "no pipe");
    let Taken { takes, lacks, .. } = take(&[Probe::Descriptors, Probe::Idle], &mut executor);
    let of_idle = |one: &Take| matches!(one.quantity, Quantity::IdleCpu | Quantity::IdleMemory);
    assert!(takes.len() == 4 && takes.iter().all(of_idle), "{takes:?}");
    assert!(lacks.iter().all(|lack| !lack.is_absent && lack.reason == "no pipe") && lacks.len() == 2);
}

#[test]
fn a_stop_ends_it_after_the_current_round() {
    let mut executor = MockExecutor::default();
    executor.stop_after(1);
    let Taken { takes, lacks, ending } = take(&[Probe::Descriptors, Probe::Idle], &mut executor);
    assert_eq!((takes.len(), lacks.len(), ending), (2, 0, Ending::Interrupted));
}

/// Two rounds of each.
fn take(probes: &[Probe], executor: &mut MockExecutor) -> Taken {
    let (flag, mut host) = (executor.stop_flag(), executor.host());
    let stop = || flag.get();
    let mut bench =
        Bench { world: executor, host: &mut host, stop: &stop, tell: &mut |_| {}, wait: Duration::ZERO };
    bench.take(probes, 2, Duration::from_secs(1))
}
