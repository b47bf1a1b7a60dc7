//! The verdict word: one 64-bit word per connection, changed once, by compare-and-swap.
//!
//! Owns: its encoding (bits 0-7 the state, 8-31 the row's generation, 32-63 the reason code) and the rule "first swap
//! wins": from INTENT the server may make it SMC, either side may make it PLAIN, and nothing ever changes again until the
//! row serves another connection, under another generation: a late swap cannot hit that one.

use shm::sync::{AtomicU64, Ordering};
use wire::reason::Reason;

const INTENT: u64 = 1;
const SMC: u64 = 2;
const PLAIN: u64 = 3;

/// How a connection carries its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Not decided: the client writes into the offered ring, nobody writes to TCP.
    Intent,
    /// Shared memory, for good.
    Smc,
    /// TCP, for good, and why.
    Plain(Reason),
}

impl Verdict {
    /// The word for this verdict.
    pub fn word(self) -> u64 {
        match self {
            Verdict::Intent => INTENT,
            Verdict::Smc => SMC,
            Verdict::Plain(Reason(code)) => PLAIN | u64::from(code) << 32,
        }
    }

    /// Reads a word; anything unknown is TCP by synchronization error.
    pub fn from_word(word: u64) -> Self {
        match word & 0xff {
            INTENT => Verdict::Intent,
            SMC => Verdict::Smc,
            PLAIN => Verdict::Plain(Reason((word >> 32) as u32)),
            _ => Verdict::Plain(Reason::SYNCERR),
        }
    }
}

/// Which use of a row a word belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Generation(u32);

impl Generation {
    const BITS: u64 = 0xff_ffff;

    /// The generation a word carries.
    #[inline]
    pub fn of(word: u64) -> Self {
        Generation((word >> 8 & Self::BITS) as u32)
    }

    /// From the number kept beside a row's.
    #[inline]
    pub fn from_number(number: u32) -> Self {
        Generation(number & Self::BITS as u32)
    }

    /// The number.
    pub fn number(self) -> u32 {
        self.0
    }

    fn stamp(self, verdict: Verdict) -> u64 {
        verdict.word() | u64::from(self.0) << 8
    }
}

/// Opens a row for another connection: INTENT under the next generation, which is returned.
pub fn begin(word: &AtomicU64) -> Generation {
    let next = Generation::from_number(Generation::of(word.load(Ordering::Relaxed)).0.wrapping_add(1));
    word.store(next.stamp(Verdict::Intent), Ordering::Release);
    next
}

/// Tries to decide; `Err` holds the verdict that stood already.
pub fn decide(word: &AtomicU64, generation: Generation, wanted: Verdict) -> Result<(), Verdict> {
    let expected = generation.stamp(Verdict::Intent);
    let swapped =
        word.compare_exchange(expected, generation.stamp(wanted), Ordering::AcqRel, Ordering::Acquire);
    swapped.map(drop).map_err(|stands| of_generation(stands, generation))
}

/// The verdict as it stands; a row that serves another connection by now says "TCP".
#[inline]
pub fn read(word: &AtomicU64, generation: Generation) -> Verdict {
    of_generation(word.load(Ordering::Acquire), generation)
}

fn of_generation(word: u64, generation: Generation) -> Verdict {
    if Generation::of(word) == generation {
        Verdict::from_word(word)
    } else {
        Verdict::Plain(Reason::SYNCERR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_swap_wins_and_everybody_reads_the_same() {
        for _ in 0..2000 {
            let word = AtomicU64::new(0);
            let generation = begin(&word);
            let wishes = [Verdict::Smc, Verdict::Plain(Reason::PEERDECL), Verdict::Plain(Reason::MEM)];
            let word = &word;
            let winners = std::thread::scope(|scope| {
                let deciders = wishes.map(|wish| scope.spawn(move || (wish, decide(word, generation, wish))));
                deciders.map(|thread| thread.join().unwrap())
            });
            let stands = read(word, generation);
            assert_eq!(winners.iter().filter(|(_, outcome)| outcome.is_ok()).count(), 1);
            for (wish, outcome) in winners {
                assert_eq!(outcome.map_or_else(|seen| seen, |()| wish), stands);
            }
        }
    }

    #[test]
    fn a_late_swap_does_not_hit_the_next_connection() {
        let word = AtomicU64::new(0);
        let first = begin(&word);
        let second = begin(&word);
        assert_eq!(decide(&word, first, Verdict::Smc), Err(Verdict::Plain(Reason::SYNCERR)));
        assert_eq!(read(&word, second), Verdict::Intent);
        assert_eq!(decide(&word, second, Verdict::Smc), Ok(()));
    }
}
