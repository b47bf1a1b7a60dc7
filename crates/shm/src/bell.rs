//! What a process has asked its doorbell for. Owns: the order of asking, draining and looking, which decides
//! whether a ring can be eaten with nobody looking.
//!
//! A doorbell mirrors a level: it is readable whenever something that a sleeper of this process waits for may
//! have come true. The peer takes a wait word, then rings. On this side, who sets and who clears what:
//! - `asked` for a direction: set after its wait word is armed; an unarmed word with the mark means "rung, or
//!   about to be".
//! - `kicked`: set after a ring of our own, and by whoever saw the doorbell readable.
//! - Who drains clears the marks first, drains, and then either looks again for everybody who waits
//!   ([`Bell::rearm`]), or makes sure by a full fence that all who wait look for themselves before they sleep
//!   ([`Bell::silence`]).
//! - A ring says that the condition held when the publisher looked, which may have been before the word was
//!   armed anew: who is rung and finds nothing asks again.
//!
//! A ring without a mark costs nothing but a doorbell that stays readable until somebody sees it; a mark
//! without a ring costs a look. What must never be is an empty doorbell, an unarmed word and a sleeper.
//!
//! Private memory of one process; the wait words are shared. Checked with loom in `loom_bell` and
//! `loom_edge`.

use crate::wait::WaitWord;
use sync::{AtomicU32, Ordering, fence};

const ASKED_DATA: u32 = 1;
const ASKED_SPACE: u32 = 2;
const KICKED: u32 = 4;

/// The pipe behind it.
pub trait Pipe {
    /// Makes it readable.
    fn ring(&self);
    /// Takes every ring out.
    fn drain(&self);
}

/// A direction that somebody waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// Nobody waits.
    No,
    /// The next publication is to ring.
    Once,
    /// Every publication is to ring.
    Always,
}

/// The two words that this side waits on.
#[derive(Clone, Copy)]
pub struct Words<'a> {
    /// For bytes that come in.
    pub data: &'a WaitWord,
    /// For room for bytes that go out.
    pub space: &'a WaitWord,
}

/// The marks of one doorbell.
#[derive(Debug)]
pub struct Bell(AtomicU32);

impl Default for Bell {
    fn default() -> Self {
        Self::new()
    }
}

impl Bell {
    /// Nothing asked for.
    pub fn new() -> Self {
        Bell(AtomicU32::new(0))
    }

    /// Begins a new life.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    #[inline]
    fn has(&self, bits: u32) -> bool {
        self.0.load(Ordering::Relaxed) & bits != 0
    }

    #[inline]
    fn mark(&self, bit: u32) {
        if !self.has(bit) {
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Whether someone may have rung since the doorbell was last drained.
    pub fn may_have_rung(&self, words: Words<'_>) -> bool {
        self.has(KICKED)
            || (self.has(ASKED_DATA) && !words.data.is_armed())
            || (self.has(ASKED_SPACE) && !words.space.is_armed())
    }

    /// Whether nothing rung is pending, as far as is known.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        !self.has(KICKED)
    }

    /// Asks to be rung. The caller looks at the condition afterwards.
    #[inline]
    pub fn ask(&self, words: Words<'_>, data: Wanted, space: bool) {
        match data {
            Wanted::No => {}
            Wanted::Once => words.data.arm(),
            Wanted::Always => words.data.arm_sticky(),
        }
        if data != Wanted::No {
            self.mark(ASKED_DATA);
        }
        if space {
            words.space.arm();
            self.mark(ASKED_SPACE);
        }
    }

    /// Asks to be rung for room no longer. After it the caller looks whether anybody waits for it, and
    /// calls [`Bell::rearm`] if so: who is not seen then sees the word unarmed. (Who was rung already finds
    /// the mark.)
    pub fn forget_space(&self, words: Words<'_>) {
        if words.space.disarm() {
            self.0.fetch_and(!ASKED_SPACE, Ordering::Relaxed);
        }
    }

    /// Rings for others of this process: they look again.
    pub fn kick(&self, pipe: &impl Pipe) {
        // Rung first, marked after: a mark without a ring costs a look, a ring without a mark would seldom be
        // drained.
        pipe.ring();
        self.mark(KICKED);
    }

    /// Someone saw the doorbell readable: whoever rang, it must be drained.
    pub fn note_rung(&self) {
        self.mark(KICKED);
    }

    /// Drains the doorbell if need be, asks for what `wanted` says, and rings if `is_loud` (given whether it
    /// was drained) finds that it is there already for others than the caller. `wanted` is read after the
    /// drain: who came before it is looked for, who comes after it arms for himself. Returns whether it rang.
    pub fn rearm(
        &self,
        words: Words<'_>,
        pipe: &impl Pipe,
        wanted: impl FnOnce() -> (Wanted, bool),
        is_loud: impl FnOnce(bool) -> bool,
    ) -> bool {
        let was_rung = self.may_have_rung(words);
        if was_rung {
            self.0.store(0, Ordering::Relaxed);
            pipe.drain();
        }
        let (data, space) = wanted();
        self.ask(words, data, space);
        let is_loud = is_loud(was_rung);
        if is_loud {
            self.kick(pipe);
        }
        is_loud
    }

    /// Empties a doorbell that was seen readable and has nothing to tell. What is still asked for stays so.
    /// After it the caller looks whether anybody sleeps who relies on it, and if so calls [`Bell::rearm`]:
    /// who is not seen then sees the word unarmed.
    pub fn silence(&self, words: Words<'_>, pipe: &impl Pipe) {
        let cleared = |word: &WaitWord, asked: u32| if word.is_armed() { 0 } else { asked };
        let gone = KICKED | cleared(words.data, ASKED_DATA) | cleared(words.space, ASKED_SPACE);
        self.0.fetch_and(!gone, Ordering::Relaxed);
        pipe.drain();
        fence(Ordering::SeqCst);
    }
}
