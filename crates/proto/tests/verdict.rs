//! Both sides read the same verdict, whatever the order in which they look and swap.

use proptest::prelude::*;
use proto::verdict::{Generation, Role, Settled, State, Step, Verdict, Word, settle};
use wire::Reason;

const G: Generation = Generation::new(7);

/// One side as a machine of single memory operations, so that a test can put the other side's between any
/// two.
struct Actor {
    side: Role,
    wanted: Verdict,
    seen: Option<Word>,
    verdict: Option<Verdict>,
    won: bool,
}

impl Actor {
    fn new(side: Role, wanted: Verdict) -> Self {
        Self { side, wanted, seen: None, verdict: None, won: false }
    }

    /// One load, or one compare-and-swap.
    fn step(&mut self, memory: &mut Word) {
        let Some(seen) = self.seen else {
            self.seen = Some(*memory);
            return;
        };
        match seen.choose(G, self.side, self.wanted) {
            Step::Swap(new) if *memory == seen => {
                *memory = new;
                (self.verdict, self.won) = (new.verdict(), true);
            }
            Step::Swap(_) => self.seen = Some(*memory),
            Step::Settled(verdict) => self.verdict = Some(verdict),
            other => panic!("{other:?}"),
        }
    }
}

fn plain(code: u32) -> Verdict {
    Verdict::Plain(Reason(code))
}

fn play(server_wants_smc: bool, schedule: &[bool]) -> (Word, [Actor; 2]) {
    let server = if server_wants_smc { Verdict::Smc } else { plain(2) };
    let mut memory = Word::intent(G);
    let mut actors = [Actor::new(Role::Client, plain(1)), Actor::new(Role::Server, server)];
    // Whatever the schedule, each side gets enough turns at the end.
    let tail = [false, true].repeat(4);
    for turn in schedule.iter().chain(&tail) {
        let actor = &mut actors[usize::from(*turn)];
        if actor.verdict.is_none() {
            actor.step(&mut memory);
        }
    }
    (memory, actors)
}

/// All interleavings of up to ten operations: both sides need at most three each.
#[test]
fn every_interleaving_ends_in_one_verdict() {
    for bits in 0u32..1 << 10 {
        let schedule: Vec<bool> = (0..10).map(|n| bits >> n & 1 == 1).collect();
        for server_wants_smc in [false, true] {
            let (memory, [client, server]) = play(server_wants_smc, &schedule);
            assert_eq!(client.verdict, memory.verdict(), "{schedule:?}");
            assert_eq!(server.verdict, memory.verdict(), "{schedule:?}");
            assert!(client.won != server.won, "exactly one swap wins: {schedule:?}");
        }
    }
}

proptest! {
    #[test]
    fn a_decided_word_never_changes(bits in any::<u64>(), code in any::<u32>()) {
        let word = Word::from_bits(bits);
        prop_assert_eq!(word.to_bits(), bits);
        for side in [Role::Client, Role::Server] {
            for wanted in [Verdict::Smc, plain(code)] {
                let step = word.choose(word.generation(), side, wanted);
                let is_open = word.state() == State::Intent;
                prop_assert_eq!(matches!(step, Step::Swap(_) | Step::Misuse), is_open);
                if let Step::Swap(new) = step {
                    prop_assert_eq!(new.generation(), word.generation());
                    prop_assert!(new.verdict().is_some());
                }
                let other = word.generation().next();
                prop_assert_eq!(word.choose(other, side, wanted), Step::Stale);
            }
        }
    }

    #[test]
    fn settling_against_a_peer_at_any_moment_agrees_with_memory(peer_at in 0usize..3, smc in any::<bool>()) {
        let (mine, theirs) = (if smc { Verdict::Smc } else { plain(1) }, plain(2));
        let mut memory = Word::intent(G);
        let peer = |memory: &mut Word| {
            let Step::Swap(new) = memory.choose(G, Role::Client, theirs) else { return };
            *memory = new;
        };
        let first = memory;
        if peer_at == 0 {
            peer(&mut memory);
        }
        let mut calls = 0;
        let settled = settle(first, G, Role::Server, mine, |old, new| {
            calls += 1;
            if peer_at == calls {
                peer(&mut memory);
            }
            if memory != old {
                return Err(memory);
            }
            memory = new;
            Ok(())
        });
        let verdict = memory.verdict().unwrap();
        prop_assert_eq!(settled, Settled::Verdict { verdict, is_ours: verdict != Verdict::Plain(Reason(2)) });
    }
}
