//! A peer that scribbles over every shared word: neither process crashes nor hangs, its connections end, and
//! those of other peers go on with every byte right. Invariant: what is written is reproducible from the seed
//! that a failure shows; only the segment of the victim client (or the registry of this bed) is ever written
//! to.
//!
//! The layouts are those of `isthmus_tests::words` and `crates/shm/src/registry.rs`; a test that no longer
//! finds the words where it looks for them fails. `BARS_SCRIBBLE_MS` is the time per strategy,
//! `BARS_SCRIBBLE_SEED` the first seed.

use crate::{LIMIT, PROGRAM, assert_nothing_left, good, load, serve, setting, shared_files};
use isthmus_tests::words::{
    self, BELLS, BUFFERS, CURSORS, FLAGS, HEADER, IDENTITY, LOCKS, NONBLOCKING, PAGE, RINGS, SETTLED, SIDES,
    SLEEPERS, Values, WAITS, each, put,
};
use isthmus_tests::{Bed, Mode, Outcome, Running, free_port, has_variant, within};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use testkit::Random;

/// Slots written to: an opener has twenty connections at a time, the others have three.
const SLOTS: u64 = 24;
/// Each client's connections, see `program/hostile.rs`.
const CONNECTIONS: usize = 3;
/// How long the server may hold on to connections whose client is gone.
pub(crate) const LETTING_GO: Duration = Duration::from_secs(8);

/// Where and what.
struct Strategy {
    name: &'static str,
    places: Vec<(u64, usize)>,
    values: Values,
    /// Left alone between two writes, so that some traffic gets by.
    pause: Duration,
}

fn strategies() -> Vec<Strategy> {
    let all: Vec<_> = (0..PAGE / 8).map(|n| (n * 8, 8)).collect();
    let cursors = each(&RINGS, CURSORS);
    let (short, long) = (Duration::ZERO, Duration::from_millis(20));
    let plan = |name, places: &[_], values, pause| Strategy { name, places: places.to_vec(), values, pause };
    vec![
        plan("every word, random", &all, Values::Random, short),
        plan("every word, zero", &all, Values::Zero, short),
        plan("every word, odd, slowly", &all, Values::Odd, long / 20),
        plan("cursors, random", &cursors, Values::Random, long),
        plan("cursors, near", &cursors, Values::Near, long / 20),
        plan("cursors, near, fast", &cursors, Values::Near, short),
        plan("cursors, odd", &cursors, Values::Odd, long),
        plan("wait words, random", &each(&RINGS, WAITS), Values::Random, short),
        plan("wait words, zero", &each(&RINGS, WAITS), Values::Zero, short),
        plan("locks, random", &each(&SIDES, LOCKS), Values::Random, long / 20),
        plan("locks, held by init", &each(&SIDES, LOCKS), Values::HeldByInit, long),
        plan("locks, zero", &each(&SIDES, LOCKS), Values::Zero, short),
        plan("holders and closed, odd", &each(&SIDES, FLAGS), Values::Odd, long),
        plan("holders and closed, random", &each(&SIDES, FLAGS), Values::Random, long),
        plan("O_NONBLOCK, zero", &each(&SIDES, NONBLOCKING), Values::Zero, short),
        plan("O_NONBLOCK, random", &each(&SIDES, NONBLOCKING), Values::Random, short),
        plan("buffers, random", &each(&SIDES, BUFFERS), Values::Random, short),
        plan("buffers, odd", &each(&SIDES, BUFFERS), Values::Odd, short),
        plan("sleepers, odd", &each(&SIDES, SLEEPERS), Values::Odd, long),
        plan(
            "sleepers and holders, random",
            &each(&SIDES, &[SLEEPERS, FLAGS].concat()),
            Values::Random,
            long / 20,
        ),
        plan("bell numbers, small", &each(&SIDES, BELLS), Values::Small, short),
        plan("bell numbers, random", &each(&SIDES, BELLS), Values::Random, short),
        plan("identity, random", IDENTITY, Values::Random, short),
        plan("settled, random", SETTLED, Values::Random, short),
    ]
}

/// The victim's segment.
struct Segment {
    memory: File,
    slots: u64,
    slot_len: u64,
}

impl Segment {
    /// The first sealed memfd of ours in `pid` whose first slot has seen traffic.
    fn of(pid: i32) -> Option<Segment> {
        let link =
            |p: &PathBuf| std::fs::read_link(p).is_ok_and(|l| l.to_string_lossy().contains("isthmus-dmb"));
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let path = fds.flatten().map(|e| e.path()).find(link)?;
        let memory = OpenOptions::new().read(true).write(true).open(path).ok()?;
        let mut header = [0u8; 24];
        memory.read_exact_at(&mut header, 0).ok()?;
        if header[..8] == [0; 8] {
            // Made, but not written yet.
            return None;
        }
        assert_eq!(&header[..12], b"ISTHMUS\x01\x0b\0\0\0", "another layout: these tests must follow it");
        let ring = u32::from_le_bytes(header[16..20].try_into().expect("four bytes"));
        let slots = u64::from(u32::from_le_bytes(header[12..16].try_into().expect("four bytes")));
        let segment = Segment { memory, slots, slot_len: PAGE + 2 * u64::from(ring) };
        RINGS.iter().any(|at| segment.word(PAGE + at, 8) != 0).then_some(segment)
    }

    /// The segment of a client that is about to make its first connection.
    fn appearing(client: &mut Running, what: &str) -> Segment {
        let mut segment = None;
        within(Duration::from_secs(5), || {
            segment = Segment::of(client.pid());
            segment.is_some() || !client.alive()
        });
        segment.unwrap_or_else(|| panic!("{what}: no segment: {}", client.output()))
    }

    /// Waits until a client's connections are surely established, whichever way they go.
    fn appearing_or_tcp(client: &mut Running) {
        within(Duration::from_millis(300), || Segment::of(client.pid()).is_some() || !client.alive());
        std::thread::sleep(Duration::from_millis(100));
    }

    fn word(&self, at: u64, width: usize) -> u64 {
        let mut bytes = [0u8; 8];
        let _ = self.memory.read_at(&mut bytes[..width], at);
        u64::from_le_bytes(bytes)
    }

    /// Scribbles over the first `slots` slots until `end`.
    fn scribble(&self, plan: &Strategy, slots: u64, random: &mut Random, end: Instant) {
        while Instant::now() < end {
            for slot in 0..slots.min(self.slots) {
                self.scribble_at(PAGE + slot * self.slot_len, &plan.places, plan.values, random);
            }
            std::thread::sleep(plan.pause);
        }
    }

    /// The header of the segment, which only newcomers read.
    fn scribble_header(&self, values: Values, random: &mut Random, end: Instant) {
        while Instant::now() < end {
            self.scribble_at(0, HEADER, values, random);
        }
    }

    fn scribble_at(&self, base: u64, places: &[(u64, usize)], values: Values, random: &mut Random) {
        for &(at, width) in places {
            let value = values.one(random, || self.word(base + at, width));
            put(&self.memory, base + at, width, value);
        }
    }
}

fn millis() -> u64 {
    setting("BARS_SCRIBBLE_MS", 400)
}

fn first_seed() -> u64 {
    setting("BARS_SCRIBBLE_SEED", 5000)
}

/// Those of a test's plans that this run has, each with its seed.
fn with_seeds<P>(test: &str, plans: impl IntoIterator<Item = P>) -> impl Iterator<Item = (P, u64)> {
    let numbered = plans.into_iter().zip((first_seed()..).step_by(10)).enumerate();
    numbered.filter(|(nth, _)| has_variant(test, *nth)).map(|(_, with_seed)| with_seed)
}

/// The words that start the loads: the server, and how its clients talk to it.
const THREADS: ([&str; 2], &str) = (["hostile", "server"], "client");
const EPOLL: ([&str; 2], &str) = (["many", "server"], "paced");

fn client(bed: &Bed, how: &str, port: u64, ms: u64, seed: u64) -> Running {
    bed.start(&mut load(bed.client(PROGRAM), &["hostile", how], &[port, ms, seed]), &format!("client{seed}"))
}

/// Every connection of an unscribbled client: all bytes came back, then the end.
pub(crate) fn assert_untouched(bed: &Bed, what: &str, outcome: Outcome) {
    let text = good(bed, what, outcome);
    let whole = text.lines().filter(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        matches!(words[..], ["sent", sent, "got", got, "then", "EOF"] if sent == got && sent != "0")
    });
    assert_eq!(whole.count(), CONNECTIONS, "{what}: {text}");
}

/// Ended by itself with a code of its own: not by a signal, and within its time.
fn assert_own_end(bed: &Bed, what: &str, mut program: Running) -> String {
    if !within(Duration::from_secs(12), || !program.alive()) {
        panic!("{what}: hangs\n{}\n{}", stacks(program.pid()), bed.connections());
    }
    let outcome = program.finish(Duration::ZERO);
    assert!(outcome.status.is_some_and(|s| s.code().is_some()), "{what}: {outcome}");
    outcome.out
}

/// Where each thread of a process waits, for the report of a failure.
pub(crate) fn stacks(pid: i32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |p: PathBuf, name: &str| std::fs::read_to_string(p.join(name)).unwrap_or_default();
    let all = |p: &PathBuf| ["stat", "wchan", "syscall"].map(|name| of(p.clone(), name)).join(" ");
    tasks.map(|t| all(&t.path())).collect()
}

pub(crate) fn threads(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// One strategy against one victim; the server must live, let go of the victim and serve others meanwhile.
fn scribbled(bed: &Bed, server: &mut Running, port: u64, how: &str, plan: &Strategy, seed: u64) {
    let what = format!("{}, seed {seed}", plan.name);
    let before = threads(server.pid());
    let mut victim = client(bed, how, port, millis() + 300, seed);
    let neighbour = client(bed, how, port, millis() + 600, seed + 1_000_000);
    let segment = Segment::appearing(&mut victim, &what);
    let end = Instant::now() + Duration::from_millis(millis());
    segment.scribble(plan, CONNECTIONS as u64 + 1, &mut Random::new(seed), end);
    let out = assert_own_end(bed, &format!("{what}: the victim"), victim);
    assert_eq!(out.lines().count(), CONNECTIONS, "{what}: {out}");
    assert_untouched(bed, &format!("{what}: the neighbour"), neighbour.finish(LIMIT));
    assert!(server.alive(), "{what}: the server died: {}", server.output());
    let is_free = within(LETTING_GO, || threads(server.pid()) <= before);
    assert!(is_free, "{what}: the server hangs\n{}{}", stacks(server.pid()), bed.connections());
}

fn all_strategies(name: &str, (serving, how): ([&str; 2], &str)) {
    if !Mode::wanted().contains(&Mode::Smc) {
        return;
    }
    let bed = Bed::new(name, Mode::Smc);
    let (port, before) = (u64::from(free_port()), shared_files());
    let mut server = serve(&bed, &serving, &[port], "server");
    let only = std::env::var("BARS_SCRIBBLE_ONLY").unwrap_or_default();
    for (plan, seed) in with_seeds(name, strategies()).filter(|(plan, _)| plan.name.contains(&only)) {
        scribbled(&bed, &mut server, port, how, &plan, seed);
    }
    let last = client(&bed, how, port, 200, 7);
    assert_untouched(&bed, "a fresh client", last.finish(LIMIT));
    assert!(server.alive(), "the server died: {}", server.output());
    assert!(bed.handshakes() > 0, "no connection used shared memory");
    drop(server);
    assert_nothing_left(&bed, &before);
}

/// New connections find their doorbells, cookies and the segment's nonce changed. Some strategies leave the
/// header's numbers as they were at last, so the clients that come afterwards are looked at after each.
fn opening_while_scribbled(name: &str, (serving, how): ([&str; 2], &str)) {
    if !Mode::wanted().contains(&Mode::Smc) {
        return;
    }
    let bed = Bed::new(name, Mode::Smc);
    let (port, before) = (u64::from(free_port()), shared_files());
    let mut server = serve(&bed, &serving, &[port], "server");
    let values = [Values::Zero, Values::Random, Values::Odd, Values::Small, Values::Near];
    let bells = each(&SIDES, BELLS);
    for (values, seed) in with_seeds(name, values) {
        for is_header in [true, false] {
            let what = format!("{values:?}, header {is_header}, seed {seed}");
            let mut opener = client(&bed, "opener", port, millis() + 300, seed);
            let neighbour = client(&bed, how, port, millis() + 600, seed + 1_000_000);
            let segment = Segment::appearing(&mut opener, &what);
            let end = Instant::now() + Duration::from_millis(millis());
            let random = &mut Random::new(seed);
            if is_header {
                segment.scribble_header(values, random, end);
            } else {
                let places = [IDENTITY, &bells].concat();
                let plan = Strategy { name: "", places, values, pause: Duration::ZERO };
                segment.scribble(&plan, SLOTS, random, end);
            }
            drop(segment);
            assert_own_end(&bed, &format!("{what}: the opener"), opener);
            assert_untouched(&bed, &format!("{what}: the neighbour"), neighbour.finish(LIMIT));
            serves_others(&bed, port, &what);
            assert!(server.alive(), "{what}: the server died: {}", server.output());
        }
    }
    drop(server);
    assert_nothing_left(&bed, &before);
}

/// A client that comes after the scribbling, with as many connections as the opener ever had.
fn serves_others(bed: &Bed, port: u64, what: &str) {
    let mut next = load(bed.client(PROGRAM), &["many", "client"], &[port, 30]);
    good(bed, &format!("{what}: the next client"), bed.run(&mut next, "next", Duration::from_secs(20)));
}

/// A client's numbers lead to the client's doorbells or nowhere: never to descriptors of the server's own.
#[test]
fn numbers_of_doorbells_never_open_the_servers_own_pipes() {
    if !Mode::wanted().contains(&Mode::Smc) {
        return;
    }
    let bed = Bed::new("scribble-pipes", Mode::Smc);
    let port = u64::from(free_port());
    let mut server = serve(&bed, &["hostile", "keeper"], &[port], "server");
    for seed in (first_seed()..).step_by(10).take(4) {
        let mut opener = client(&bed, "opener", port, millis() + 300, seed);
        let segment = Segment::appearing(&mut opener, "the opener");
        let end = Instant::now() + Duration::from_millis(millis());
        let plan =
            Strategy { name: "", places: each(&SIDES, BELLS), values: Values::Small, pause: Duration::ZERO };
        segment.scribble(&plan, SLOTS, &mut Random::new(seed), end);
        drop(segment);
        assert_own_end(&bed, "the opener", opener);
        let output = server.output();
        assert!(server.alive() && !output.out.contains("BAD"), "seed {seed}: {output}");
    }
    assert!(bed.handshakes() > 0, "no connection used shared memory");
}

#[test]
fn scribbler_against_newcomers_of_threads() {
    opening_while_scribbled("scribble-open-threads", THREADS);
}

#[test]
fn scribbler_against_newcomers_of_epoll() {
    opening_while_scribbled("scribble-open-epoll", EPOLL);
}

#[test]
fn scribbler_against_threads() {
    all_strategies("scribble-threads", THREADS);
}

#[test]
fn scribbler_against_epoll() {
    all_strategies("scribble-epoll", EPOLL);
}

/// The registry's tables: first byte, bytes of a row, number of rows. A row is in use if its first word is
/// not zero.
#[derive(Clone, Copy)]
struct Table {
    at: u64,
    row: usize,
    rows: usize,
}

const REGISTRY_LEN: u64 = 4_296_704;
const PROCESSES: Table = Table { at: 776, row: 40, rows: 2048 };
const LISTENERS: Table = Table { at: 82_696, row: 40, rows: 1024 };
const KEYS: Table = Table { at: 123_712, row: 8, rows: 2048 };
const CONNECTION_ROWS: Table =
    Table { at: words::CONNECTION_ROWS.0, row: words::CONNECTION_ROWS.1, rows: words::CONNECTION_ROWS.2 };
/// When cores were last given away.
const SLICES: Table = Table { at: 353_152, row: 128, rows: 64 };
/// Why sockets stay on TCP.
const REFUSALS: Table = Table { at: 364_544, row: 64, rows: 4096 };
/// One row: the words between the magic number and the totals.
const REGISTRY_HEAD: Table = Table { at: 8, row: 16, rows: 1 };

impl Table {
    fn rows_in_use(self, file: &File) -> Vec<usize> {
        let mut bytes = vec![0; self.row * self.rows];
        file.read_exact_at(&mut bytes, self.at).expect("read the registry");
        let is_used = |row: &[u8]| row[..8].iter().any(|b| *b != 0);
        bytes.chunks(self.row).enumerate().filter(|(_, row)| is_used(row)).map(|(n, _)| n).collect()
    }

    /// Writes over `words` words of 32 bits in the row, beginning with a random one.
    fn scribble_row(self, file: &File, number: usize, words: usize, values: Values, random: &mut Random) {
        let (start, all) = (random.below(self.row / 4), self.row / 4);
        for word in (0..words).map(|n| (start + n) % all) {
            let at = self.at + (number * self.row + word * 4) as u64;
            put(file, at, 4, values.one(random, || 0));
        }
    }
}

/// What is written to which table; `key` is the table that says which rows are in use.
struct RegistryPlan {
    name: &'static str,
    key: Table,
    table: Table,
    words: usize,
    values: Values,
}

impl RegistryPlan {
    /// Scribbles over the rows in use, and over those alone; returns how many there were.
    fn scribble(&self, file: &File, random: &mut Random) -> usize {
        let used = self.key.rows_in_use(file);
        for number in &used {
            self.table.scribble_row(file, *number, self.words, self.values, random);
        }
        used.len()
    }
}

fn registry_plans() -> Vec<RegistryPlan> {
    let plan = |name, key, table, words, values| RegistryPlan { name, key, table, words, values };
    vec![
        plan("connection rows, random", KEYS, CONNECTION_ROWS, 26, Values::Random),
        plan("connection rows, a word", KEYS, CONNECTION_ROWS, 1, Values::Odd),
        plan("connection rows, small", KEYS, CONNECTION_ROWS, 2, Values::Small),
        plan("connection rows, zero", KEYS, CONNECTION_ROWS, 26, Values::Zero),
        plan("keys, random", KEYS, KEYS, 2, Values::Random),
        plan("keys, zero", KEYS, KEYS, 2, Values::Zero),
        plan("processes, random", PROCESSES, PROCESSES, 6, Values::Random),
        plan("processes, zero", PROCESSES, PROCESSES, 1, Values::Zero),
        plan("listeners, a word", LISTENERS, LISTENERS, 1, Values::Odd),
        plan("listeners, random", LISTENERS, LISTENERS, 10, Values::Random),
        plan("listeners, zero", LISTENERS, LISTENERS, 10, Values::Zero),
        plan("slices, random", SLICES, SLICES, 32, Values::Random),
        plan("slices, odd", SLICES, SLICES, 32, Values::Odd),
        plan("refusals, random", SLICES, REFUSALS, 16, Values::Random),
        plan("counters, odd", REGISTRY_HEAD, REGISTRY_HEAD, 4, Values::Odd),
    ]
}

/// The registry of a bed whose server listens at `port`, found to be laid out as these tests believe.
fn registry_file(bed: &Bed, port: u64) -> File {
    let entries = std::fs::read_dir(bed.registry()).expect("the registry's directory").flatten();
    let path = entries.map(|e| e.path()).find(|p| p.is_file()).expect("a registry");
    let file = OpenOptions::new().read(true).write(true).open(path).expect("open the registry");
    let len = file.metadata().expect("its length").len();
    assert!((REGISTRY_LEN..REGISTRY_LEN + PAGE).contains(&len), "another layout: {len} bytes");
    let mut head = [0u8; 12];
    file.read_exact_at(&mut head, 0).expect("its magic number and version");
    assert_eq!(&head, b"ISTHMREG\x07\0\0\0", "another layout: these tests must follow it");
    let mut at = [0u8; 2];
    let is_found = LISTENERS.rows_in_use(&file).iter().any(|row| {
        let address = LISTENERS.at + (row * LISTENERS.row) as u64 + 16;
        file.read_exact_at(&mut at, address).is_ok() && u64::from(u16::from_le_bytes(at)) == port
    });
    assert!(is_found, "another layout: no listener row where it should be");
    file
}

/// The registry under a scribbler while connections open and close: established ones do not notice, new ones
/// may go wrong as long as it lasts, and later ones work, over TCP at worst.
fn registry_scribbled(name: &str, (serving, how): ([&str; 2], &str)) {
    if !Mode::wanted().contains(&Mode::Smc) {
        return;
    }
    let bed = Bed::new(name, Mode::Smc);
    let (port, before) = (u64::from(free_port()), shared_files());
    let mut server = serve(&bed, &serving, &[port], "server");
    let file = registry_file(&bed, port);
    for (plan, seed) in with_seeds(name, registry_plans()) {
        one_registry_plan(&bed, &file, (serving, how), &plan, seed);
        assert!(server.alive(), "{}, seed {seed}: a server died: {}", plan.name, server.output());
    }
    serves_others(&bed, port, "the first server");
    drop(server);
    let left: Vec<_> = shared_files().into_iter().filter(|f| !before.contains(f)).collect();
    assert!(left.is_empty(), "left in /dev/shm: {left:?}");
}

/// Each plan has a server of its own: what an earlier one left must not keep its connections on TCP.
fn one_registry_plan(bed: &Bed, file: &File, load: ([&str; 2], &str), plan: &RegistryPlan, seed: u64) {
    let what = format!("registry: {}, seed {seed}", plan.name);
    let port = u64::from(free_port());
    let mut server = serve(bed, &load.0, &[port], &format!("server{seed}"));
    let mut neighbour = client(bed, load.1, port, millis() + 900, seed + 1_000_000);
    Segment::appearing_or_tcp(&mut neighbour);
    let opener = client(bed, "opener", port, millis() + 300, seed);
    let (end, random) = (Instant::now() + Duration::from_millis(millis()), &mut Random::new(seed));
    let mut rows = 0;
    while Instant::now() < end {
        rows += plan.scribble(file, random);
    }
    assert!(rows > 0, "{what}: nothing in use was found");
    assert_own_end(bed, &format!("{what}: the opener"), opener);
    assert_untouched(bed, &format!("{what}: the neighbour"), neighbour.finish(LIMIT));
    serves_others(bed, port, &what);
    assert!(server.alive(), "{what}: the server died: {}", server.output());
}

#[test]
fn scribbler_against_the_registry_of_threads() {
    registry_scribbled("scribble-registry-threads", THREADS);
}

#[test]
fn scribbler_against_the_registry_of_epoll() {
    registry_scribbled("scribble-registry-epoll", EPOLL);
}
