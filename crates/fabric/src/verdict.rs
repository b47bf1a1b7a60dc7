//! The verdict word: one 64-bit word per connection, changed once, by compare-and-swap.
//!
//! Owns: its encoding (bits 0-7 the state, bits 32-63 the reason code) and the rule "first swap wins": from INTENT the
//! server may make it SMC, either side may make it PLAIN, and nothing ever changes again.

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

/// Tries to decide; `Err` holds the verdict that stood already.
pub fn decide(word: &AtomicU64, wanted: Verdict) -> Result<(), Verdict> {
    let swapped = word.compare_exchange(INTENT, wanted.word(), Ordering::AcqRel, Ordering::Acquire);
    swapped.map(drop).map_err(Verdict::from_word)
}

/// The verdict as it stands.
#[inline]
pub fn read(word: &AtomicU64) -> Verdict {
    Verdict::from_word(word.load(Ordering::Acquire))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_swap_wins_and_everybody_reads_the_same() {
        for _ in 0..2000 {
            let word = AtomicU64::new(Verdict::Intent.word());
            let wishes = [Verdict::Smc, Verdict::Plain(Reason::PEERDECL), Verdict::Plain(Reason::MEM)];
            let word = &word;
            let winners = std::thread::scope(|scope| {
                let deciders = wishes.map(|wish| scope.spawn(move || (wish, decide(word, wish))));
                deciders.map(|thread| thread.join().unwrap())
            });
            let stands = read(word);
            assert_eq!(winners.iter().filter(|(_, outcome)| outcome.is_ok()).count(), 1);
            for (wish, outcome) in winners {
                assert_eq!(outcome.map_or_else(|seen| seen, |()| wish), stands);
            }
        }
    }
}
