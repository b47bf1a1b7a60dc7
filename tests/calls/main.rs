//! Random calls: scripts from seeds, done by two processes in turns, over plain TCP and with both ends
//! enabled. Invariant: what every call returned is equal, and where it is not, TCP has never said so either.
//!
//! `cargo test -p isthmus-tests --test calls -- [SEED|FIRST..END]...`; without seeds there are CALLS_SEEDS
//! scripts (240), CALLS_FIRST is the seed of the first one (1). With ISTHMUS_MODES=plain TCP is held against
//! itself. `cargo xtask calls` has thousands.

use isthmus_tests::{Bed, Mode};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_calls-load");
/// Scripts of one pair of processes, one after the other: what one leaves behind the next one meets.
const BATCH: usize = 20;
/// A batch at a time for each.
const THREADS: usize = 3;
/// A batch waits for nothing but what does not come.
const LIMIT: Duration = Duration::from_secs(180);
/// So often is TCP asked for another answer of its own.
const ASKED_AGAIN: u32 = 4;
/// Connections of a script, of up to three, that must have gone by shared memory on average. (Some end before
/// their server looks.)
const LEAST_PER_SCRIPT: u64 = 1;

/// What differs from script to script, by the seed: small rings, no spinning, or neither. (The scripts for
/// small rings have less under way.)
const WAYS: [&[(&str, &str)]; 4] =
    [&[("SMC_SNDBUF", "16384"), ("SMC_RCVBUF", "16384")], &[("SMC_SPIN", "0")], &[], &[]];

/// What scripts have said, by seed.
type Said = BTreeMap<u64, Vec<String>>;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs scripts over TCP or shared memory: what they said.
fn said(bed: &Bed, seeds: &[u64]) -> Result<Said, String> {
    let mut command = bed.client(PROGRAM);
    let way = WAYS[(seeds[0] % WAYS.len() as u64) as usize];
    command.arg("run").args(seeds.iter().map(u64::to_string)).envs(way.iter().copied());
    let outcome = bed.run(&mut command, &format!("calls{}", seeds[0]), LIMIT);
    if !outcome.ok() || !outcome.out.ends_with("puppet exit 0\n") {
        return Err(outcome.to_string());
    }
    Ok(scripts(&outcome.out))
}

fn scripts(text: &str) -> Said {
    let mut said = Said::new();
    for line in text.lines() {
        match (line.strip_prefix("seed "), said.last_entry()) {
            (Some(seed), _) => drop(said.insert(seed.parse().expect("a seed"), vec![])),
            (None, Some(mut script)) => script.get_mut().push(line.to_string()),
            (None, None) => {}
        }
    }
    said
}

/// What is wrong with a batch of scripts.
fn check(seeds: &[u64], mode: Mode, again: &AtomicUsize) -> Vec<String> {
    let (plain, bed) = (Bed::new("calls-plain", Mode::Plain), Bed::new("calls", mode));
    let (oracle, this) = match (said(&plain, seeds), said(&bed, seeds)) {
        (Ok(oracle), Ok(this)) => (oracle, this),
        (Err(why), _) => return vec![format!("over TCP: {why}{}", repeat(seeds[0], seeds))],
        (_, Err(why)) => return vec![format!("{why}{}", repeat(seeds[0], seeds))],
    };
    let mut wrong: Vec<String> = carrier_problem(&bed, seeds).into_iter().collect();
    for seed in seeds {
        let Some(difference) = difference(&oracle[seed], &this[seed]) else { continue };
        if does_tcp_say_so(&plain, *seed, &this[seed]) {
            again.fetch_add(1, Ordering::Relaxed);
            println!("seed {seed}: TCP has two answers\n{difference}");
        } else {
            wrong.push(format!("seed {seed}\n{difference}{}", repeat(*seed, seeds)));
        }
    }
    wrong
}

/// How to do it again.
fn repeat(seed: u64, batch: &[u64]) -> String {
    let all: Vec<String> = batch.iter().map(u64::to_string).collect();
    format!(
        "\n    again: cargo test -p isthmus-tests --test calls -- {seed}\n    with those before it: -- {}",
        all.join(" ")
    )
}

/// Whether it is a matter of chance over TCP, too.
fn does_tcp_say_so(plain: &Bed, seed: u64, script: &[String]) -> bool {
    (0..ASKED_AGAIN).any(|_| said(plain, &[seed]).is_ok_and(|said| said[&seed] == script))
}

/// The first line in which two scripts part, with what came before on the same connection.
fn difference(want: &[String], got: &[String]) -> Option<String> {
    let at = (0..want.len().max(got.len())).find(|at| want.get(*at) != got.get(*at))?;
    let line = |script: &[String]| script.get(at).map_or("(end)".to_string(), String::clone);
    let before: String =
        want[at.saturating_sub(12)..at].iter().map(|line| format!("      {line}\n")).collect();
    Some(format!("{before}    - TCP  {}\n    + this {}", line(want), line(got)))
}

fn carrier_problem(bed: &Bed, seeds: &[u64]) -> Option<String> {
    if bed.mode != Mode::Smc || seeds.len() < BATCH {
        return None;
    }
    let (count, least) = (bed.handshakes(), seeds.len() as u64 * LEAST_PER_SCRIPT);
    (count < least).then(|| format!("from seed {} on only {count} connections by shared memory", seeds[0]))
}

/// The seeds that are named, or as many as the settings say.
fn seeds() -> Vec<u64> {
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("no seed: {text}"));
    let one = |text: &str| match text.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(text)..number(text) + 1,
    };
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let first = setting("CALLS_FIRST", 1);
    match named.is_empty() {
        true => (first..first + setting("CALLS_SEEDS", 240)).collect(),
        false => named.iter().flat_map(|text| one(text)).collect(),
    }
}

/// Seeds of one way each, a batch at a time.
fn batches(seeds: &[u64]) -> Vec<Vec<u64>> {
    let ways = WAYS.len() as u64;
    let of_way = |way| seeds.iter().copied().filter(|seed| seed % ways == way).collect::<Vec<u64>>();
    let in_batches = |seeds: Vec<u64>| seeds.chunks(BATCH).map(<[u64]>::to_vec).collect::<Vec<_>>();
    (0..ways).map(of_way).flat_map(in_batches).collect()
}

fn main() {
    let is_smc = Mode::wanted().contains(&Mode::Smc);
    let mode = if is_smc { Mode::Smc } else { Mode::Plain };
    if std::env::args().any(|arg| arg == "--list") {
        return println!("calls: test");
    }
    let seeds = seeds();
    let batches = batches(&seeds);
    println!("\nrunning {} scripts of random calls", seeds.len());
    let (next, again, wrong) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(vec![]));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(seeds) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = check(seeds, mode, &again);
                    wrong.lock().expect("no panic").extend(found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no panic");
    wrong.iter().for_each(|one| println!("{one}\n"));
    println!("{} scripts have two answers over TCP, too", again.into_inner());
    println!("\ntest result: {} passed; {} failed", seeds.len() - wrong.len(), wrong.len());
    std::process::exit(if wrong.is_empty() { 0 } else { 101 });
}
