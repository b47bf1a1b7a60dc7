//! Guards of the hot paths: instructions per operation, counted by valgrind's callgrind, which no neighbour
//! on the machine can disturb. Invariant: a bound is a count, never a time; a path that became a fifth
//! cheaper must be told here too, or its guard guards nothing.

use isthmus_tests::{Bed, Mode, installed};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_count-load");
const LIMIT: Duration = Duration::from_secs(120);
/// How far a count may lie from what is written here, in percent: compilers differ.
const SLACK: u64 = 5;
/// The same where the clock decides how often the kernel is asked.
const SLACK_BY_CLOCK: u64 = 20;

/// Instructions of a whole run of `kind` with `count` operations.
fn instructions(bed: &Bed, kind: &str, count: u64, is_enabled: bool) -> u64 {
    let mut command = bed.plain("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", PROGRAM, kind, &count.to_string()]);
    // Callgrind takes each byte of a `rep movsb` for an instruction; which processors glibc believes it of
    // differs.
    command.env("GLIBC_TUNABLES", "glibc.cpu.x86_rep_movsb_threshold=1000000000");
    if let Some(library) = bed.library().filter(|_| is_enabled) {
        command.env("LD_PRELOAD", library);
    }
    let outcome = bed.run(&mut command, kind, LIMIT);
    assert!(outcome.ok(), "{kind}: {outcome}");
    let collected = outcome.err.lines().find_map(|line| line.split("Collected :").nth(1)).map(str::trim);
    collected.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no count in {outcome}"))
}

/// The library's instructions per operation: what `count` more operations cost with it and without, so that
/// neither the program itself nor its start and end matter. (What the kernel does is not counted.)
fn per_operation(bed: &Bed, kind: &str, count: u64) -> u64 {
    let [with, without] = [true, false].map(|is_enabled| {
        let [few, many] = [count, 2 * count].map(|count| instructions(bed, kind, count, is_enabled));
        many - few
    });
    (with - without) / count
}

/// `None` where valgrind is missing or plain TCP alone is tested: said, and passed.
fn bed() -> Option<Bed> {
    let is_wanted = Mode::wanted().contains(&Mode::Smc);
    if !is_wanted || installed(&["valgrind"]).is_none() {
        println!("skipped: counting needs valgrind and the product");
        return None;
    }
    Some(Bed::new("counts", Mode::Smc))
}

fn guard(what: &str, counted: u64, expected: u64) {
    guard_within(SLACK, what, counted, expected);
}

fn guard_within(slack: u64, what: &str, counted: u64, expected: u64) {
    println!("{what}: {counted} instructions per operation, {expected} expected");
    let (least, most) = (expected * (100 - slack) / 100, (expected * (100 + slack)).div_ceil(100));
    assert!(counted <= most, "{what}: {counted} instructions per operation, at most {most} are allowed");
    assert!(
        counted >= least,
        "{what}: only {counted} instructions per operation: write that down in {}",
        file!()
    );
}

#[test]
fn a_transaction() {
    let Some(bed) = bed() else { return };
    guard("write 200, read, write 1000, read", per_operation(&bed, "exchange", 2000), 1923);
    assert!(bed.handshakes() > 0, "not over shared memory: {}", bed.connections());
}

#[test]
fn a_block_of_a_stream() {
    let Some(bed) = bed() else { return };
    guard("write 30 KiB, read", per_operation(&bed, "stream", 1000), 6510);
}

#[test]
fn a_transaction_of_an_event_loop() {
    let Some(bed) = bed() else { return };
    // (In the middle of what the clock makes of it, all three: the first is 2 920 where no wait asks the
    // kernel, 3 130 where each does; under callgrind a third to all of them do.)
    guard("the transaction behind epoll_wait", per_operation(&bed, "epoll", 2000), 3000);
    guard("the same with three epoll_ctl", per_operation(&bed, "interest", 2000), 5650);
    let polls = per_operation(&bed, "poll", 2000);
    guard_within(SLACK_BY_CLOCK, "the transaction behind poll", polls, 3000);
}

#[test]
fn a_connection() {
    let Some(bed) = bed() else { return };
    guard("connect, accept, transaction, close", per_operation(&bed, "setup", 200), 13_400);
}

/// What the hooks cost a program on descriptors that are not ours.
#[test]
fn a_foreign_descriptor() {
    let Some(bed) = bed() else { return };
    guard("hooks of write and read on a pipe", per_operation(&bed, "pipe", 5000), 25);
}
