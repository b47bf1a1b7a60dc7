//! Random schedules: processes that send, read, wait, fork, exec, close, reset and are killed at moments
//! drawn from a seed, held against a model of TCP.
//!
//! A failure says its seed and the smallest schedule found that fails as well. `SIM_SEED` runs one seed,
//! `SIM_SEEDS` so many (`cargo xtask sim --seeds N`).

mod actor;
mod model;
mod plan;

use super::{PORT, Pattern, listen};
use crate::program::{Program, spawn, try_to_simulate};
use actor::{Actor, Stage};
use model::{Model, Who};
use os::Errno;
use plan::{Blow, Plan};
use std::sync::{Arc, Mutex};

const FIRST_PORT: u16 = 10_000;
/// How many seeds the tests of every day try.
const SHORT: u64 = 200;

fn client(program: Program, stage: Stage, conn: usize, ops: Vec<plan::Op>) {
    let who = Who { conn, end: 0 };
    let fd = loop {
        let fd = program.socket().expect("a socket");
        program.bind(fd, FIRST_PORT + conn as u16).expect("a port of its own");
        stage.model().holds(who, program.here.pid);
        match program.connect(fd, PORT) {
            Ok(()) => break fd,
            Err(Errno(111)) => {
                let _ = program.close(fd);
                stage.model().has_let_go(who, program.here.pid);
            }
            Err(errno) => panic!("connect gave {errno:?}"),
        }
        let is_over = stage.model().has_listened && stage.model().listener.is_none();
        if is_over {
            return;
        }
        program.nap(1_000_000);
    };
    Actor { program, stage, who, fd, set: None }.act(ops.into());
}

fn server(program: Program, stage: Stage, plan: Plan) {
    let pid = program.here.pid;
    let listener = listen(&program);
    (stage.model().listener, stage.model().has_listened) = (Some(pid), true);
    let mut children = vec![];
    for accepted in 0..plan.accepts {
        let fd = program.accept(listener, false).expect("a connection");
        let conn = usize::from(program.peer_port(fd) - FIRST_PORT);
        let who = Who { conn, end: 1 };
        stage.model().holds(who, pid);
        let ops = plan.conns[conn].ops[1].clone().into();
        let is_last = accepted + 1 == plan.accepts;
        if is_last {
            stage.model().listener = None;
            let _ = program.close(listener);
        }
        let here = Actor { program, stage: stage.clone(), who, fd, set: None };
        if plan.is_served_in_turn && is_last {
            here.act(ops);
            break;
        }
        children.push(here.serve_by_child((!is_last).then_some(listener), ops));
    }
    if stage.model().listener == Some(pid) {
        stage.model().listener = None;
    }
    children.into_iter().for_each(|child| program.await_end(child));
}

/// Kills or stops who holds an end at that moment.
fn strike(program: Program, stage: &Stage, blow: Blow) {
    program.nap(blow.after_us * 1000);
    let Some(pid) = stage.model().holder(Who { conn: blow.conn, end: blow.end }) else { return };
    if blow.stops_us == 0 {
        stage.model().is_killed(pid);
        return program.kill(pid);
    }
    program.stop(pid, true);
    program.nap(blow.stops_us * 1000);
    program.stop(pid, false);
}

/// How many connections were in shared memory; the error says what went wrong.
fn run(plan: &Plan) -> Result<usize, String> {
    let model = Arc::new(Mutex::new(Model::new(plan.conns.len())));
    let stage = Stage { model: model.clone(), pattern: Pattern::get() };
    let plan = plan.clone();
    try_to_simulate(plan.seed, move |machine| {
        let judge = stage.clone();
        {
            let mut world = machine.world();
            (world.once_in, world.tcp_room) = (plan.once_in, plan.tcp_room);
            world.misses_once_in = 9;
        }
        machine.on_stuck(Box::new(move |world| {
            let mut model = judge.model();
            let pid = model.whom_to_kill(world)?.ok_or("everybody waits, and nobody for another")?;
            model.is_killed(pid);
            world.kill(pid);
            Ok(())
        }));
        for (number, conn) in plan.conns.iter().enumerate() {
            let (stage, ops, spin) = (stage.clone(), conn.ops[0].clone(), plan.spin);
            spawn(machine, conn.is_client_enabled, move |program| {
                program.set_spin(spin);
                client(program, stage, number, ops);
            });
        }
        for blow in plan.blows.clone() {
            let stage = stage.clone();
            spawn(machine, false, move |program| strike(program, &stage, blow));
        }
        let (is_enabled, spin) = (plan.is_server_enabled, plan.spin);
        spawn(machine, is_enabled, move |program| {
            program.set_spin(spin);
            server(program, stage, plan);
        });
    })?;
    let model = model.lock().map_err(|_| "the model is broken")?;
    Ok(model.conns.iter().filter(|conn| conn.was_shared).count())
}

fn seeds() -> core::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse::<u64>().ok());
    match (number("SIM_SEED"), number("SIM_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, many) => 0..many.unwrap_or(SHORT),
    }
}

/// So many failures are told, with what is left of their schedules.
const MOST_TOLD: usize = 4;

#[test]
fn random_schedules_end_as_over_tcp() {
    let (mut shared, mut failures) = (0, vec![]);
    for seed in seeds() {
        let plan = Plan::new(seed);
        match run(&plan) {
            Ok(count) => shared += count,
            Err(why) => {
                let (plan, why) = plan.shrink(why, |plan| run(plan).map(drop));
                failures.push(format!("SIM_SEED={seed}: {why}\nthe smallest schedule that fails: {plan:?}"));
            }
        }
        if failures.len() == MOST_TOLD {
            break;
        }
    }
    println!("{} seeds, {shared} connections in shared memory", seeds().count());
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(seeds().count() < 10 || shared > seeds().count() / 3, "most connections stayed on TCP");
}
