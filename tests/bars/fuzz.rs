//! Peers that lie with all they have: words, mailbox, rows, and what is under the numbers that they have
//! told. Invariant: a victim lives, and what is honest beside it is whole: its other connections, and those
//! of a pair of processes that has nothing to do with it but the registry. All of a round follows from its
//! seed, but for the clock.
//!
//! `FUZZ_SECONDS` is the time of all rounds (24), `FUZZ_SEED` the seed of the first round, of which each
//! further one has the next.

use crate::hostile::{LETTING_GO, assert_untouched, stacks, threads};
use crate::{PROGRAM, assert_nothing_left, load, serve, setting, shared_files};
use isthmus_tests::{Bed, Mode, Outcome, Running, free_port, within};
use std::time::{Duration, Instant};
use testkit::Random;

/// Longest time of a program that has a second to do.
const LIMIT: Duration = Duration::from_secs(60);

/// How long attackers have, in milliseconds.
const ROUND: u64 = 600;

/// Who is lied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// A server with a thread for each connection.
    Threads,
    /// The same, which looks late at what it accepts.
    Late,
    /// A server with one loop over epoll.
    Loop,
    /// A client.
    Client,
}

const VICTIMS: [Victim; 4] = [Victim::Threads, Victim::Late, Victim::Loop, Victim::Client];

impl Victim {
    /// The words that start its server, the attacked one or that of the attacked client, and the honest
    /// clients.
    fn words(self) -> ([&'static str; 2], &'static str) {
        match self {
            Victim::Threads | Victim::Client => (["hostile", "server"], "client"),
            Victim::Late => (["hostile", "late"], "client"),
            Victim::Loop => (["many", "server"], "paced"),
        }
    }
}

/// A server that lives through all rounds.
struct Server {
    victim: Victim,
    port: u64,
    running: Running,
    threads: usize,
}

impl Server {
    fn new(bed: &Bed, victim: Victim) -> Server {
        let port = u64::from(free_port());
        let running = serve(bed, &victim.words().0, &[port], &format!("{victim:?}"));
        let threads = threads(running.pid());
        Server { victim, port, running, threads }
    }

    fn client(&self, bed: &Bed, ms: u64, seed: u64) -> Running {
        let words = ["hostile", self.victim.words().1];
        bed.start(&mut load(bed.client(PROGRAM), &words, &[self.port, ms, seed]), &format!("honest{seed}"))
    }

    fn assert_lives(&mut self, what: &str) {
        assert!(self.running.alive(), "{what}: the {:?} server died: {}", self.victim, self.running.output());
    }
}

/// How one that ends by itself ended; where it is if it does not.
fn ended(bed: &Bed, what: &str, mut program: Running) -> Outcome {
    if !within(LIMIT, || !program.alive()) {
        panic!("{what}: hangs\n{}{}{}", stacks(program.pid()), program.output(), bed.connections());
    }
    program.finish(LIMIT)
}

fn assert_whole(bed: &Bed, what: &str, program: Running) {
    assert_untouched(bed, what, ended(bed, what, program));
}

fn attackers(bed: &Bed, port: u64, seed: u64) -> Vec<Running> {
    let start = |n| {
        let numbers = [port, ROUND, seed * 100 + n];
        bed.start(&mut load(bed.client(PROGRAM), &["attacker", "client"], &numbers), &format!("attacker{n}"))
    };
    [10, 20].map(start).into()
}

/// What the attackers of a round were about.
fn plans(attackers: &[Running]) -> String {
    attackers.iter().map(|attacker| attacker.output().to_string()).collect()
}

/// For the round's time; meanwhile one of them is stopped for a while.
fn let_them(attackers: &[Running], random: &mut Random) {
    let end = Instant::now() + Duration::from_millis(ROUND);
    let stopped = &attackers[random.below(attackers.len())];
    std::thread::sleep(Duration::from_millis(random.below(ROUND as usize / 2) as u64));
    stopped.signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_millis(random.below(ROUND as usize / 2) as u64));
    stopped.signal(libc::SIGCONT);
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
}

/// Clients lie to a server that has an honest client, too.
fn server_round(bed: &Bed, server: &mut Server, beside: &Server, seed: u64) {
    let what = format!("FUZZ_SEED={seed}, {:?}", server.victim);
    let neighbour = server.client(bed, ROUND + 300, seed + 1_000_000);
    let apart = beside.client(bed, ROUND + 300, seed + 2_000_000);
    let attackers = attackers(bed, server.port, seed);
    let_them(&attackers, &mut Random::new(seed));
    let what = format!("{what}: {}", plans(&attackers));
    drop(attackers);
    server.assert_lives(&what);
    assert_whole(bed, &format!("{what}: the neighbour"), neighbour);
    assert_whole(bed, &format!("{what}: the pair apart"), apart);
    let next = server.client(bed, 100, seed + 3_000_000);
    assert_whole(bed, &format!("{what}: the next client"), next);
    server.assert_lives(&what);
}

/// A server lies to a client that has an honest server, too.
fn client_round(bed: &Bed, honest: &mut Server, beside: &Server, seed: u64) {
    let what = format!("FUZZ_SEED={seed}, a client");
    let liar_port = u64::from(free_port());
    let liar = serve(bed, &["attacker", "server"], &[liar_port, seed * 100], "liar");
    let numbers = [honest.port, liar_port, ROUND + 300, seed + 1_000_000];
    let victim = bed.start(&mut load(bed.client(PROGRAM), &["attacker", "torn"], &numbers), "torn");
    let apart = beside.client(bed, ROUND + 300, seed + 2_000_000);
    let liars = [liar];
    let_them(&liars, &mut Random::new(seed));
    let what = format!("{what}: {}", plans(&liars));
    drop(liars);
    assert_whole(bed, &format!("{what}: the victim"), victim);
    assert_whole(bed, &format!("{what}: the pair apart"), apart);
    honest.assert_lives(&what);
}

#[test]
fn whoever_lies_harms_nobody_else() {
    if !Mode::wanted().contains(&Mode::Smc) {
        return;
    }
    let (bed, before) = (Bed::new("fuzz", Mode::Smc), shared_files());
    let end = Instant::now() + Duration::from_secs(setting("FUZZ_SECONDS", 24));
    let mut servers = VICTIMS.map(|victim| Server::new(&bed, victim));
    let beside = Server::new(&bed, Victim::Threads);
    let first = setting("FUZZ_SEED", 1);
    for seed in first.. {
        let server = &mut servers[seed as usize % VICTIMS.len()];
        match server.victim {
            Victim::Client => client_round(&bed, server, &beside, seed),
            _ => server_round(&bed, server, &beside, seed),
        }
        if Instant::now() >= end {
            println!("FUZZ_SEED={first} to {seed}");
            break;
        }
    }
    for mut server in servers {
        let lets_go = within(LETTING_GO, || threads(server.running.pid()) <= server.threads);
        let pid = server.running.pid();
        assert!(lets_go, "the {:?} server hangs\n{}{}", server.victim, stacks(pid), bed.connections());
        server.assert_lives("at last");
    }
    assert!(bed.handshakes() > 0, "no connection used shared memory");
    drop(beside);
    assert_nothing_left(&bed, &before);
}
