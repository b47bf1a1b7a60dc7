//! The verdict on one connection: one word in shared memory, swapped once. INTENT becomes SMC (by the server
//! only) or PLAIN (by either side, with a reason); the first swap wins and both sides read the same. Pure:
//! the caller loads, asks `Word::choose` or runs `settle`, and applies the answer with compare-and-swap.
//!
//! | bits | field |
//! |---|---|
//! | 0-1 | state: 0 FREE, 1 INTENT, 2 SMC, 3 PLAIN; every pattern has a meaning |
//! | 2-31 | generation of the slot, so that a late swap cannot hit the next connection |
//! | 32-63 | reason code while PLAIN, else 0 |
//!
//! Owns: a decided word never changes within its generation.

use wire::Reason;

/// The word. Any u64 from shared memory is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Word(u64);

/// Generation of a slot, 30 bits, counted modulo 2^30.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generation(u32);

/// What the word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No connection uses the slot.
    Free,
    /// The client offers; nothing is decided.
    Intent,
    /// Shared memory, on both sides.
    Smc,
    /// TCP, on both sides.
    Plain,
}

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The end that called connect().
    Client,
    /// The end that called accept().
    Server,
}

/// What a side asks for, and what both sides read once it is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Shared memory, for good. Only the server may ask for it: only then are both ends known to be ready.
    Smc,
    /// TCP, for good, and why.
    Plain(Reason),
}

/// What to do with the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Swap the word that was read for this one; if it has changed, ask again with what it is now.
    Swap(Word),
    /// Decided already, by us or by the peer.
    Settled(Verdict),
    /// The slot belongs to another connection or to none: the verdict is lost, which only happens after both
    /// ends let go.
    Stale,
    /// A client asked for SMC. Our bug.
    Misuse,
}

const STATE_BITS: u32 = 2;
const STATE_MASK: u64 = 0b11;
const REASON_SHIFT: u32 = 32;
const GENERATION_MASK: u32 = (1 << 30) - 1;

impl Generation {
    /// The low 30 bits of `number`.
    #[inline]
    pub const fn new(number: u32) -> Self {
        Self(number & GENERATION_MASK)
    }

    /// The number, below 2^30.
    #[inline]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The next use of the slot.
    pub const fn next(self) -> Self {
        Self::new(self.0.wrapping_add(1))
    }
}

impl Word {
    const fn pack(state: u64, generation: Generation, reason: Reason) -> Self {
        Self((reason.0 as u64) << REASON_SHIFT | (generation.0 as u64) << STATE_BITS | state)
    }

    /// An unused slot.
    pub const fn free(generation: Generation) -> Self {
        Self::pack(0, generation, Reason(0))
    }

    /// The client's offer, stored before the SYN leaves.
    pub const fn intent(generation: Generation) -> Self {
        Self::pack(1, generation, Reason(0))
    }

    /// From one atomic load.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// For one atomic store or swap.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// What the word says.
    #[inline]
    pub const fn state(self) -> State {
        match self.0 & STATE_MASK {
            0 => State::Free,
            1 => State::Intent,
            2 => State::Smc,
            _ => State::Plain,
        }
    }

    /// Which use of the slot it speaks about.
    #[inline]
    pub const fn generation(self) -> Generation {
        Generation::new((self.0 >> STATE_BITS) as u32)
    }

    /// The reason while PLAIN; zero in every honest word else.
    #[inline]
    pub const fn reason(self) -> Reason {
        Reason((self.0 >> REASON_SHIFT) as u32)
    }

    /// The verdict, once there is one.
    #[inline]
    pub const fn verdict(self) -> Option<Verdict> {
        match self.state() {
            State::Smc => Some(Verdict::Smc),
            State::Plain => Some(Verdict::Plain(self.reason())),
            State::Free | State::Intent => None,
        }
    }

    /// What `role` may do with the word it has just read, for the connection that owns `generation`.
    pub fn choose(self, generation: Generation, role: Role, wanted: Verdict) -> Step {
        if self.generation() != generation {
            return Step::Stale;
        }
        match (self.state(), role, wanted) {
            (State::Smc, ..) => Step::Settled(Verdict::Smc),
            (State::Plain, ..) => Step::Settled(Verdict::Plain(self.reason())),
            (State::Free, ..) => Step::Stale,
            (State::Intent, Role::Client, Verdict::Smc) => Step::Misuse,
            (State::Intent, Role::Server, Verdict::Smc) => Step::Swap(Self::pack(2, generation, Reason(0))),
            (State::Intent, _, Verdict::Plain(reason)) => Step::Swap(Self::pack(3, generation, reason)),
        }
    }

    /// The word that frees the slot for its next use.
    pub const fn freed(self) -> Self {
        Self::free(self.generation().next())
    }
}

/// How `settle` can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The verdict, and whether it was our swap that made it.
    Verdict {
        /// What both sides read.
        verdict: Verdict,
        /// Whether we made it.
        is_ours: bool,
    },
    /// See `Step::Stale`.
    Stale,
    /// See `Step::Misuse`.
    Misuse,
}

/// Swaps tried before giving up: an honest word changes at most once, so a third try means that the peer
/// plays with it.
const TRIES: usize = 3;

/// Makes or learns the verdict. `first` is the word as loaded; `swap(old, new)` is compare-and-swap and
/// returns the present word if it was not `old`. A word that never holds still counts as stale.
pub fn settle(
    first: Word,
    generation: Generation,
    role: Role,
    wanted: Verdict,
    mut swap: impl FnMut(Word, Word) -> Result<(), Word>,
) -> Settled {
    let mut word = first;
    for _ in 0..TRIES {
        match word.choose(generation, role, wanted) {
            Step::Settled(verdict) => return Settled::Verdict { verdict, is_ours: false },
            Step::Stale => return Settled::Stale,
            Step::Misuse => return Settled::Misuse,
            Step::Swap(new) => match (swap(word, new), new.verdict()) {
                (Ok(()), Some(verdict)) => return Settled::Verdict { verdict, is_ours: true },
                (Ok(()), None) => return Settled::Misuse,
                (Err(now), _) => word = now,
            },
        }
    }
    Settled::Stale
}

#[cfg(test)]
mod tests {
    use super::*;

    const G: Generation = Generation::new(0x2AAA_AAAA);

    #[test]
    fn the_layout_is_the_documented_one() {
        let plain = Word::intent(G).choose(G, Role::Client, Verdict::Plain(Reason::PEERNOSMC));
        let Step::Swap(plain) = plain else { panic!("{plain:?}") };
        assert_eq!(plain.to_bits(), 0x0301_0000 << 32 | 0x2AAA_AAAA << 2 | 3);
        assert_eq!(Word::intent(G).to_bits(), 0x2AAA_AAAA << 2 | 1);
        assert_eq!(Word::default().state(), State::Free);
        assert_eq!(plain.freed(), Word::free(Generation::new(0x2AAA_AAAB)));
        assert_eq!(Generation::new(u32::MAX).next(), Generation::new(0));
    }

    #[test]
    fn only_the_server_chooses_smc() {
        assert_eq!(Word::intent(G).choose(G, Role::Client, Verdict::Smc), Step::Misuse);
        let Step::Swap(smc) = Word::intent(G).choose(G, Role::Server, Verdict::Smc) else { panic!() };
        assert_eq!(smc.verdict(), Some(Verdict::Smc));
        let late = smc.choose(G, Role::Client, Verdict::Plain(Reason::MEM));
        assert_eq!(late, Step::Settled(Verdict::Smc));
    }

    #[test]
    fn a_word_of_another_connection_is_stale() {
        assert_eq!(Word::intent(G.next()).choose(G, Role::Server, Verdict::Smc), Step::Stale);
        assert_eq!(Word::free(G).choose(G, Role::Server, Verdict::Smc), Step::Stale);
    }

    #[test]
    fn a_peer_that_never_holds_the_word_still_is_given_up() {
        let mut swaps = 0;
        let restless = |_, _| {
            swaps += 1;
            Err(Word::intent(G))
        };
        assert_eq!(settle(Word::intent(G), G, Role::Server, Verdict::Smc, restless), Settled::Stale);
        assert_eq!(swaps, TRIES);
    }
}
