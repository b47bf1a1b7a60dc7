//! The loads of the soak. Each goes on for a time, checks every byte and says on its last line how many
//! rounds it made and how long the longest took. Invariant: a wrong byte, a lost answer or an error is a line
//! with "BAD" and exit 1.
//!
//! `soak-load short server PORT`, `soak-load short client PORT SECONDS [HELLO ANSWER]`,
//! `soak-load edge server PORT`, `soak-load edge client PORT SECONDS SEED`,
//! `soak-load workers server PORT`, `soak-load workers client PORT SECONDS`,
//! `soak-load clients PORT SECONDS`, `soak-load servers PORT SECONDS`

mod edge;
mod short;
mod successors;
mod workers;

use std::time::{Duration, Instant};

/// Nothing waits longer for an answer: what takes as long is lost.
const LOST: Duration = Duration::from_secs(12);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let text = |i: usize| args.get(i).map_or("", String::as_str);
    let number = |i: usize| text(i).parse::<u64>().unwrap_or(0);
    let result = match (text(0), text(1)) {
        ("short", "server") => short::server(number(2) as u16),
        ("short", "client") => short::client(number(2) as u16, number(3), text(4), text(5)),
        ("edge", "server") => edge::server(number(2) as u16),
        ("edge", "client") => edge::client(number(2) as u16, number(3), number(4)),
        ("workers", "server") => workers::server(number(2) as u16),
        ("workers", "client") => workers::client(number(2) as u16, number(3)),
        ("clients", _) => successors::clients(number(1) as u16, number(2)),
        ("servers", _) => successors::servers(number(1) as u16, number(2)),
        _ => Err("usage: soak-load LOAD server|client PORT SECONDS".to_string()),
    };
    match result {
        Ok(line) => println!("{line}"),
        Err(line) => {
            println!("BAD {line}");
            std::process::exit(1);
        }
    }
}

/// Rounds, and the longest of them.
#[derive(Default)]
struct Tally {
    rounds: u64,
    longest: Duration,
}

impl Tally {
    fn note(&mut self, begun: Instant) {
        self.rounds += 1;
        self.note_open(begun);
    }

    /// One that is not over: it may never be.
    fn note_open(&mut self, begun: Instant) {
        self.longest = self.longest.max(begun.elapsed());
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rounds {} longest {} ms", self.rounds, self.longest.as_millis())
    }
}
