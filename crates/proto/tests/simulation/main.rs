//! Two ends, a queue each, virtual time: handshake, verdict, data and closing together, under delay, late
//! servers, crashes, cursor wrap-around and lies. Every run is made of its seed alone; a failure prints the
//! seed, and `SIMULATION_SEED=n` replays it.

mod end;
mod world;

use world::{Rules, World};

/// Runs per test: a few hundred milliseconds in a debug build.
const SEEDS: u64 = 400;

/// SplitMix64: small, seedable, good enough to choose delays.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From `low` to `high`, both included.
    pub(crate) fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }
}

/// Whether one seed is replayed, so that totals over all seeds mean nothing.
fn is_single() -> bool {
    std::env::var_os("SIMULATION_SEED").is_some()
}

/// Prints the seed of the run that panics.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with SIMULATION_SEED={}", self.0);
        }
    }
}

/// Runs every seed and hands each finished world to `judge`.
fn run(rules: Rules, mut judge: impl FnMut(&World)) {
    let one = std::env::var("SIMULATION_SEED").ok().map(|seed| seed.parse().expect("a number"));
    for number in one.map_or(0..SEEDS, |seed: u64| seed..seed + 1) {
        let seed = Seed(number);
        let mut world = World::new(Rng(seed.0), rules);
        world.run();
        world.check();
        judge(&world);
    }
}

#[test]
fn polite_ends_exchange_everything() {
    let mut turns = 0;
    run(Rules { is_polite: true, ..Rules::default() }, |world| {
        assert!(world.is_smc(), "a prompt server says SMC");
        assert!(world.ends.iter().all(|end| end.received == world.peer_of(end).total), "every byte arrives");
        turns += world.ends.iter().map(|end| end.received / u64::from(world.size)).sum::<u64>();
    });
    assert!(is_single() || turns > SEEDS, "the rings wrap around in most runs");
}

#[test]
fn hasty_ends_lose_only_what_nobody_reads() {
    let mut judged = 0;
    run(Rules::default(), |world| {
        for end in world.ends.iter().filter(|end| end.is_polite && !end.was_reset) {
            assert_eq!(end.received, world.peer_of(end).sent, "an orderly close loses no byte");
            judged += 1;
        }
    });
    assert!(is_single() || judged > SEEDS / 4, "{judged} patient readers");
}

#[test]
fn late_servers_and_impatient_clients_agree() {
    let (mut smc, mut plain) = (0, 0);
    run(Rules { is_server_late: true, ..Rules::default() }, |world| match world.is_smc() {
        true => smc += 1,
        false => plain += 1,
    });
    assert!(is_single() || (smc > 0 && plain > 0), "{smc} SMC, {plain} PLAIN");
}

#[test]
fn a_crash_leaves_the_survivor_with_every_published_byte() {
    let mut crashes = 0;
    run(Rules { crashes: true, is_polite: true, ..Rules::default() }, |world| {
        for end in world.ends.iter().filter(|end| !end.is_dead) {
            let peer = world.peer_of(end);
            if peer.is_dead && world.is_smc() && end.is_established {
                crashes += 1;
                assert_eq!(end.received, peer.published, "complete bytes survive their writer");
            }
        }
    });
    assert!(is_single() || crashes > SEEDS / 4, "{crashes} crashes in mid-connection");
}

#[test]
fn a_liar_breaks_nothing_but_its_own_connection() {
    let mut caught = 0;
    run(Rules { client_lies: true, ..Rules::default() }, |world| {
        caught += u64::from(world.ends[1].caught_a_lie)
    });
    assert!(is_single() || caught > SEEDS / 4, "{caught} lies caught");
}
