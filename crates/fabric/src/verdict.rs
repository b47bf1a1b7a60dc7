//! The verdict word in shared memory: atomic loads and swaps around the machine in [`proto::verdict`], which
//! says what the word means and what may become of it.
//!
//! Owns: the orderings, and what is read out of a word that speaks of another connection or of none: TCP, by
//! synchronization error. The first swap wins, and a row that serves another connection does so under another
//! generation, so a late swap cannot hit that one.

pub use proto::verdict::{Generation, Verdict};
use proto::verdict::{Role, Settled, State, Word, settle};
use shm::Side;
use sync::{AtomicU64, Ordering};
use wire::reason::Reason;

/// What a connection reads in a row that is not its own any more.
pub(crate) const LOST: Verdict = Verdict::Plain(Reason::SYNCERR);

/// Opens a row for another connection: INTENT under the next generation, which is returned.
pub fn begin(word: &AtomicU64) -> Generation {
    let next = Word::from_bits(word.load(Ordering::Relaxed)).freed().generation();
    word.store(Word::intent(next).to_bits(), Ordering::Release);
    next
}

/// The row is nobody's until it is opened again.
pub(crate) fn free(word: &AtomicU64) {
    word.store(Word::from_bits(word.load(Ordering::Relaxed)).freed().to_bits(), Ordering::SeqCst);
}

/// Which use of its row a word speaks about.
#[inline]
pub fn generation(word: &AtomicU64) -> Generation {
    Word::from_bits(word.load(Ordering::Acquire)).generation()
}

/// Tries to decide. `Ok` holds the verdict that this call has made, `Err` the one that stands without it.
/// A client that asks for SMC gets TCP by internal error, at both ends.
pub fn decide(
    word: &AtomicU64,
    generation: Generation,
    side: Side,
    wanted: Verdict,
) -> Result<Verdict, Verdict> {
    let swap = |old: Word, new: Word| {
        let swapped =
            word.compare_exchange(old.to_bits(), new.to_bits(), Ordering::AcqRel, Ordering::Acquire);
        swapped.map(drop).map_err(Word::from_bits)
    };
    let first = Word::from_bits(word.load(Ordering::Acquire));
    match settle(first, generation, role(side), wanted, swap) {
        Settled::Verdict { verdict, is_ours: true } => Ok(verdict),
        Settled::Verdict { verdict, is_ours: false } => Err(verdict),
        Settled::Stale => Err(LOST),
        Settled::Misuse => decide(word, generation, side, Verdict::Plain(Reason::INTERR)),
    }
}

const fn role(side: Side) -> Role {
    match side {
        Side::Client => Role::Client,
        Side::Server => Role::Server,
    }
}

/// The verdict as it stands, `None` while there is none: the client writes into the offered ring then, and
/// nobody writes to TCP. A row that serves another connection by now says "TCP".
#[inline]
pub fn read(word: &AtomicU64, generation: Generation) -> Option<Verdict> {
    let word = Word::from_bits(word.load(Ordering::Acquire));
    if word.generation() == generation { said_by(word) } else { Some(LOST) }
}

/// What a word says about the connection that it belongs to.
#[inline]
pub(crate) fn said_by(word: Word) -> Option<Verdict> {
    if word.state() == State::Free { Some(LOST) } else { word.verdict() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEM: Verdict = Verdict::Plain(Reason::MEM);

    #[test]
    fn the_first_swap_wins_and_everybody_reads_the_same() {
        for _ in 0..2000 {
            let word = AtomicU64::new(0);
            let generation = begin(&word);
            assert_eq!(read(&word, generation), None);
            let wishes = [
                (Side::Server, Verdict::Smc),
                (Side::Server, Verdict::Plain(Reason::PEERDECL)),
                (Side::Client, MEM),
            ];
            let word = &word;
            let outcomes = std::thread::scope(|scope| {
                let deciders = wishes
                    .map(|(side, wish)| scope.spawn(move || (wish, decide(word, generation, side, wish))));
                deciders.map(|thread| thread.join().unwrap())
            });
            let stands = read(word, generation);
            assert_eq!(outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).count(), 1);
            for (wish, outcome) in outcomes {
                assert!(outcome.is_err() || outcome == Ok(wish));
                assert_eq!(Some(outcome.unwrap_or_else(|seen| seen)), stands);
            }
        }
    }

    #[test]
    fn a_late_swap_does_not_hit_the_next_connection() {
        let word = AtomicU64::new(0);
        let first = begin(&word);
        let second = begin(&word);
        assert_eq!(decide(&word, first, Side::Server, Verdict::Smc), Err(LOST));
        assert_eq!((read(&word, first), read(&word, second)), (Some(LOST), None));
        assert_eq!(decide(&word, second, Side::Server, Verdict::Smc), Ok(Verdict::Smc));
        assert_eq!(decide(&word, second, Side::Client, MEM), Err(Verdict::Smc));
        assert_eq!((generation(&word), read(&word, second)), (second, Some(Verdict::Smc)));
    }

    #[test]
    fn a_row_that_nobody_has_used_yet_is_tcp() {
        let word = AtomicU64::new(0);
        assert_eq!(read(&word, Generation::default()), Some(LOST));
        assert_eq!(decide(&word, Generation::default(), Side::Server, Verdict::Smc), Err(LOST));
        assert_eq!(word.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_client_cannot_make_it_smc() {
        let word = AtomicU64::new(0);
        let generation = begin(&word);
        let internal = Verdict::Plain(Reason::INTERR);
        assert_eq!(decide(&word, generation, Side::Client, Verdict::Smc), Ok(internal));
        assert_eq!(decide(&word, generation, Side::Server, Verdict::Smc), Err(internal));
    }

    #[test]
    fn the_generation_counts_on_from_its_last_value() {
        let last = Generation::new(u32::MAX);
        let word = AtomicU64::new(Word::intent(last).to_bits());
        assert_eq!((generation(&word), begin(&word)), (last, Generation::new(0)));
        assert_eq!(read(&word, last), Some(LOST));
    }
}
