//! One program in many orders: what one end sees with the library is what it sees over the simulated TCP.
//! Owns: the comparison, and the words that the two ends exchange.

use super::{connect, listen};
use crate::kernel::Machine;
use crate::program::{Program, simulate, spawn};
use os::net::msg;
use std::sync::{Arc, Mutex};

type Log = Arc<Mutex<Vec<String>>>;
type Part = fn(Program, i32);
type Peer = fn(&Program, i32, &mut Vec<String>);

const ORDERS: u64 = 24;

#[derive(Clone, Copy)]
struct Case {
    /// What the process does whose end matters.
    acts: Part,
    /// What its peer does, and notes.
    sees: Peer,
}

fn start(machine: &'static Machine, is_enabled: bool, is_actor_client: bool, case: Case, log: Log) {
    let sees = move |program: Program, fd: i32| {
        let mut seen = vec![];
        (case.sees)(&program, fd, &mut seen);
        log.lock().unwrap().extend(seen);
    };
    let acts = move |program: Program, fd: i32| (case.acts)(program, fd);
    if is_actor_client {
        spawn(machine, is_enabled, move |program| acts(program, connect(&program)));
        spawn(machine, is_enabled, move |program| {
            let listener = listen(&program);
            let fd = program.accept(listener, false).unwrap();
            sees(program, fd);
        });
    } else {
        spawn(machine, is_enabled, move |program| sees(program, connect(&program)));
        spawn(machine, is_enabled, move |program| {
            let listener = listen(&program);
            let fd = program.accept(listener, false).unwrap();
            program.close(listener).unwrap();
            acts(program, fd);
        });
    }
}

fn seen(seed: u64, is_enabled: bool, is_actor_client: bool, case: Case) -> Vec<String> {
    let log = Log::default();
    let to = log.clone();
    simulate(seed, move |machine| {
        machine.world().once_in = [0, 2, 7, 30][seed as usize % 4];
        start(machine, is_enabled, is_actor_client, case, to);
    });
    core::mem::take(&mut log.lock().unwrap())
}

pub(super) fn as_over_tcp(acts: Part, sees: Peer) {
    let case = Case { acts, sees };
    for is_actor_client in [true, false] {
        let plain = seen(0, false, is_actor_client, case);
        for seed in 0..ORDERS {
            let ours = seen(seed, true, is_actor_client, case);
            assert_eq!(ours, plain, "seed {seed}, the actor is the client: {is_actor_client}");
        }
    }
}

pub(super) fn read_some(program: &Program, fd: i32) -> String {
    let mut bytes = [0; 64];
    match program.recv(fd, &mut bytes, 0) {
        Ok(count) => String::from_utf8_lossy(&bytes[..count]).into_owned(),
        Err(errno) => format!("{errno:?}"),
    }
}

/// Reads until the end, and a little beyond.
pub(super) fn read_all(program: &Program, fd: i32, seen: &mut Vec<String>) {
    let mut text = String::new();
    loop {
        match read_some(program, fd) {
            end if end.is_empty() || end.starts_with("Errno") => {
                seen.extend([text, end, read_some(program, fd)]);
                return;
            }
            more => text += &more,
        }
    }
}

/// Writes until it fails, and a little beyond.
pub(super) fn write_until_it_fails(program: &Program, fd: i32, seen: &mut Vec<String>) {
    let bytes = [7; 30_000];
    while program.send(fd, &bytes, 0).is_ok() {}
    seen.push(format!("{:?}", program.send(fd, &bytes, 0)));
}

pub(super) fn say(program: &Program, fd: i32, text: &str) {
    assert_eq!(program.send(fd, text.as_bytes(), 0), Ok(text.len()));
}

/// Both have used the connection.
pub(super) fn greet(program: &Program, fd: i32) {
    say(program, fd, "hello");
    hear(program, fd, "hello");
    assert_eq!(program.is_shared(fd), program.is_enabled);
}

/// Reads this, and not a byte more.
pub(super) fn hear(program: &Program, fd: i32, text: &str) {
    let mut bytes = vec![0; text.len()];
    assert_eq!(program.recv(fd, &mut bytes, msg::WAITALL), Ok(text.len()));
    assert_eq!(String::from_utf8_lossy(&bytes), text);
}
