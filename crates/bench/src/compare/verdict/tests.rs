//! Verdicts on studies that no machine measured.

use std::time::Duration;

use super::*;
use crate::cell::Cell;
use crate::compare::mock::{MockExecutor, connected, plan, run, stream, study, study_on};
use crate::compare::quantity::{Lack, Quantity, Take};

fn faster(cell: &Cell, _: usize) -> uperf::result::Run {
    let times = if cell.path == Path::Smc { 21.5 } else { 1.0 };
    let connections = cell.connections;
    let run = if cell.profile == "str" { stream(times, 1000.0) } else { run(1000.0 * times, 10.0) };
    connected(run, connections, if cell.path == Path::Smc { connections } else { 0 }, &[])
}

#[test]
fn a_quiet_study_is_summed_up() {
    let plan = plan(&["rr", "str"], &[1, 50], &[Path::TcpVeth, Path::Smc]);
    let study = study(plan, &mut MockExecutor::new(faster));
    assert_eq!(warnings(&study), Vec::<String>::new());
    assert_eq!(
        headline(&Reading::new(&study)),
        [
            "rr over smc: 21.5 times the transactions per second of tcp-veth on 1 connection, 21.5 times on 50 connections",
            "str over smc: 21.5 times the throughput of tcp-veth on 1 connection, 21.5 times on 50 connections",
        ]
    );
}

#[test]
fn what_differs_in_more_than_connections_has_a_sentence_of_its_own() {
    let mut plan = plan(&["rr"], &[10, 10], &[Path::TcpVeth, Path::Smc]);
    plan.groups[1].setting.server = uperf::Server::Epoll;
    plan.groups[1].setting.variables.insert("size".into(), "64".into());
    let said = headline(&Reading::new(&study(plan, &mut MockExecutor::new(faster)))).join("\n");
    let sentence = "\nrr size=64 (epoll server) over smc: 21.5 times";
    assert!(said.contains(sentence) && said.lines().count() == 2, "{said}");
}

/// Of six runs, beside which others used so much.
fn beside(others: &[f64]) -> Study {
    let mut executor = MockExecutor::new(faster).taking(Duration::from_secs(1));
    let mut host = executor.host();
    host.set_others(others.iter().copied());
    study_on(plan(&["rr"], &[1], &[Path::TcpVeth, Path::Smc]), &mut executor, &mut host)
}

#[test]
fn a_busy_machine_gets_no_verdict() {
    let study = beside(&[0.0, 0.36, 0.0, 0.24, 0.0, 0.12]);
    let expected = "no verdict: up to 30 % of the CPU was used by others during 3 of 6 runs";
    assert_eq!(headline(&Reading::new(&study)), [expected]);
    assert!(calm(&study).contains("3 of 6 runs count as disturbed"), "{}", calm(&study));
}

#[test]
fn one_disturbed_run_of_many_is_borne() {
    let study = beside(&[0.0, 0.36]);
    assert_eq!(refusal(study.seen()), None);
    let one = refusal(study.seen().take(1)).expect("alone it is the majority");
    assert_eq!(one, "30 % of the CPU was used by others during 1 of 1 runs");
}

#[test]
fn connections_that_fell_back_come_first() {
    let plan = plan(&["rr"], &[50], &[Path::TcpVeth, Path::Smc]);
    let codes = [("0x03010000", 10), ("0x0301000a", 2)];
    let mut executor = MockExecutor::new(move |cell, before| {
        let fell_back = cell.path == Path::Smc && before == 1;
        let run = run(1000.0, 10.0);
        if fell_back { connected(run, 50, 38, &codes) } else { connected(run, 50, 50, &[]) }
    });
    executor.fail("rr 50 tcp-veth", "no right to make a namespace");
    let study = study(plan, &mut executor);
    let expected = [
        "12 of 150 smc connections stayed on TCP in 1 of 3 runs: 0x03010000 (10), 0x0301000a (2)",
        "rr, 50 connections over tcp-veth could not be measured: no right to make a namespace",
    ];
    assert_eq!(warnings(&study), expected);
    assert_eq!(headline(&Reading::new(&study)), Vec::<String>::new(), "nothing to compare with");
}

#[test]
fn connections_that_used_smc_are_counted_over_all_runs() {
    let used = |model: fn(&Cell, usize) -> uperf::result::Run, path| {
        smc_use(&study(plan(&["rr"], &[50], &[path]), &mut MockExecutor::new(model)))
    };
    let all = used(|_, _| connected(run(1e3, 1.0), 50, 50, &[]), Path::Smc);
    assert_eq!(all.as_deref(), Some("150 of 150 connections over smc used SMC-D"));
    let some = used(|_, _| connected(run(1e3, 1.0), 50, 48, &[("0x03010000", 2)]), Path::Smc);
    assert!(some.is_some_and(|line| line.starts_with("144 of 150 ") && line.contains("0x03010000 (6)")));
    let untold = used(|_, _| uperf::result::Run { connections: None, ..run(1e3, 1.0) }, Path::Smc);
    assert!(untold.is_some_and(|line| line.contains("unknown")));
    assert_eq!(used(|_, _| run(1e3, 1.0), Path::Unix), None);
}

#[test]
fn what_nobody_could_tell_is_said() {
    let plan = plan(&["rr"], &[1], &[Path::Smc]);
    let blind = |_: &Cell, _| uperf::result::Run { connections: None, ..run(1000.0, 10.0) };
    let warned = warnings(&study(plan.clone(), &mut MockExecutor::new(blind)));
    assert!(warned.len() == 1 && warned[0].contains("in 3 of 3 runs"), "{warned:?}");
    let nameless = |_: &Cell, _| connected(run(1000.0, 10.0), 1, 0, &[]);
    let warned = warnings(&study(plan, &mut MockExecutor::new(nameless)));
    assert_eq!(
        warned,
        ["3 of 3 smc connections had not told in 3 of 3 runs that they share memory, nor why not"]
    );
}

#[test]
fn the_same_reason_is_said_once() {
    let plan = plan(&["rr"], &[1, 10, 50], &[Path::TcpVeth, Path::Smc]);
    let mut executor = MockExecutor::default();
    for cell in ["rr 1 smc", "rr 10 smc", "rr 50 smc"] {
        executor.fail(cell, "no library here");
    }
    executor.fail("rr 10 tcp-veth", "no bridge");
    let expected = [
        "rr, 1 connection over smc and 2 more could not be measured: no library here",
        "rr, 10 connections over tcp-veth could not be measured: no bridge",
    ];
    let mut warned = warnings(&study(plan, &mut executor));
    warned.sort();
    assert_eq!(warned, expected);
}

#[test]
fn an_early_end_is_said() {
    let plan = plan(&["rr"], &[1], &[Path::TcpVeth]);
    let mut executor = MockExecutor::default();
    executor.stop_after(2);
    assert_eq!(warnings(&study(plan, &mut executor)), ["interrupted after 2 of 3 runs"]);
}

#[test]
fn a_plain_peer_is_expected_to_stay_plain() {
    let warned = |smcd| {
        let model = move |_: &Cell, _| connected(run(1000.0, 10.0), 2000, smcd, &[]);
        warnings(&study(plan(&["crr"], &[1], &[Path::SmcClient]), &mut MockExecutor::new(model)))
    };
    assert_eq!(warned(0), Vec::<String>::new());
    assert_eq!(warned(3), ["9 of 6000 smc-client connections used SMC, so their peer was not plain"]);
}

#[test]
fn what_quantities_ran_over_and_lack_is_said() {
    let seen = |smcd| Connections { total: 50, smcd, ..Connections::default() };
    let take = |quantity, smcd| Take {
        quantity,
        round: 0,
        interference: None,
        pairs: vec![],
        connections: Some(seen(smcd)),
    };
    let lack = |quantity, is_absent| Lack { quantity, reason: "why".into(), is_absent };
    let good = study(plan(&["rr"], &[1], &[Path::Unix]), &mut MockExecutor::default());
    let takes = vec![take(Quantity::RedisGet, 50), take(Quantity::PlainPeer, 0)];
    let absent = vec![lack(Quantity::Nginx, true)];
    assert_eq!(warnings(&Study { takes, lacks: absent, ..good.clone() }), Vec::<String>::new());
    let takes = vec![take(Quantity::RedisGet, 48), take(Quantity::PlainPeer, 1)];
    let lacks = vec![lack(Quantity::IdleCpu, false), lack(Quantity::IdleMemory, false)];
    let expected = [
        "1 of 50 connections of crr-200x1000, 1 connection, plain server used SMC, so their peer was not plain",
        "2 of 50 connections of redis GET, 50 connections had not told that they share memory, nor why not",
        "1000 idle connections and 1 more could not be measured: why",
    ];
    assert_eq!(warnings(&Study { takes, lacks, ..good }), expected);
}
