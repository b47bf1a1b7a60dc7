//! What a set asks of one socket, and which doorbell stands for it in the kernel's set. Owns: that no record
//! which the kernel spent on nothing stays spent (EPOLLONESHOT), and that an answer to one question is not
//! taken for the next.
//!
//! Several threads meet here. One asks (EPOLL_CTL_ADD, EPOLL_CTL_MOD), with the connection's turn; others
//! hear what the kernel reports, and report it themselves or let it go. The rules:
//! 1. Everything that is asked gets a number of its own. Who reports looks at the question first
//!    ([`Interest::seen`]) and takes exactly that one off ([`Interest::fire`]): an answer that was found for
//!    an older question leaves the newer standing.
//! 2. The kernel takes a ONESHOT record off as it reports it. Who lets such a report go loads the record
//!    again, with the turn: whoever was just asking has finished then, and what he wrote down is complete.
//! 3. The doorbell's number is known before the kernel can report it ([`Interest::attach`]).
//!
//! Private memory of one process. Checked with loom in `loom_bell`.

use sync::{AtomicU32, AtomicU64, Ordering};

/// Nothing is to be reported until it is asked again.
const FIRED: u64 = 1 << 32;
/// Counts questions, above the events.
const NEXT: u64 = 1 << 33;

/// EPOLLONESHOT: a question that is answered once. No other is ever taken off.
pub const ONCE: u32 = 1 << 30;

/// A question, as somebody saw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen(u64);

impl Seen {
    /// The events asked for.
    #[inline]
    pub fn events(self) -> u32 {
        self.0 as u32
    }

    /// Whether it has been answered once and for all.
    #[inline]
    pub fn is_fired(self) -> bool {
        self.0 & FIRED != 0
    }

    /// Whether nothing is asked: it was taken back for good, or not asked yet.
    #[inline]
    pub fn is_none(self) -> bool {
        self.0 & (NEXT - 1) == FIRED
    }

    /// Whether both are the same question, answered or not.
    #[inline]
    pub fn is_same_question(self, other: Seen) -> bool {
        (self.0 ^ other.0) & !FIRED == 0
    }
}

/// What is asked of one socket by one set.
#[derive(Debug)]
pub struct Interest {
    /// Events, whether ONESHOT has been delivered, and the number of the question.
    word: AtomicU64,
    /// The doorbell's descriptor in the kernel's set plus one; 0 while there is none.
    bell: AtomicU32,
    /// The kernel is asked already, and `word` does not say so yet.
    is_being_asked: AtomicU32,
}

impl Default for Interest {
    fn default() -> Self {
        Self::new()
    }
}

impl Interest {
    /// Asks for nothing.
    pub fn new() -> Self {
        Interest { word: AtomicU64::new(FIRED), bell: AtomicU32::new(0), is_being_asked: AtomicU32::new(0) }
    }

    /// The question as it stands.
    #[inline]
    pub fn seen(&self) -> Seen {
        Seen(self.word.load(Ordering::Acquire))
    }

    /// Asks for `events`. What stood before is returned: it is taken off by nobody else. The caller has the
    /// turn.
    #[inline]
    pub fn ask(&self, events: u32) -> Seen {
        self.replace(u64::from(events))
    }

    /// Asks for nothing any more. What stood before is returned. The caller has the turn.
    pub fn withdraw(&self) -> Seen {
        self.replace(FIRED)
    }

    /// The caller has the turn: nobody else changes the number, and `fire` only a question that is answered
    /// [`ONCE`]; any other nobody else changes at all.
    #[inline]
    fn replace(&self, with: u64) -> Seen {
        let before = self.word.load(Ordering::Acquire);
        let after = (before & !(NEXT - 1)).wrapping_add(NEXT) | with;
        if before as u32 & ONCE != 0 {
            return Seen(self.word.swap(after, Ordering::AcqRel));
        }
        self.word.store(after, Ordering::Release);
        Seen(before)
    }

    /// Takes the question off that was `seen`, which is to be answered [`ONCE`]: exactly one thread may
    /// report it. `false` if it does not stand any more.
    pub fn fire(&self, seen: Seen) -> bool {
        if seen.is_fired() || seen.events() & ONCE == 0 {
            return false;
        }
        let fired = self.word.compare_exchange(seen.0, seen.0 | FIRED, Ordering::AcqRel, Ordering::Relaxed);
        fired.is_ok()
    }

    /// The kernel's record is about to be changed: whoever hears of it waits for what is asked. (Until
    /// [`end_asking`](Interest::end_asking), with the turn.)
    #[inline]
    pub fn begin_asking(&self) {
        self.is_being_asked.store(1, Ordering::SeqCst);
    }

    /// It is written down, or the kernel refused.
    #[inline]
    pub fn end_asking(&self) {
        self.is_being_asked.store(0, Ordering::Release);
    }

    /// Whether what the kernel told may be the answer to what is not written down yet.
    #[inline]
    pub fn is_being_asked(&self) -> bool {
        self.is_being_asked.load(Ordering::SeqCst) != 0
    }

    /// The doorbell's descriptor in the set, if it has one.
    #[inline]
    pub fn bell(&self) -> Option<i32> {
        self.bell.load(Ordering::Acquire).checked_sub(1).map(|bell| bell as i32)
    }

    /// Puts a doorbell into the set by `put`. The caller has the turn.
    pub fn attach<T>(&self, bell: i32, put: impl FnOnce(i32) -> T) -> T {
        // Known first: the kernel may report it, and have to be told to load it again, before `put` returns.
        self.bell.store(bell as u32 + 1, Ordering::Release);
        put(bell)
    }

    /// Takes the doorbell's number out.
    pub fn detach(&self) -> Option<i32> {
        self.bell.swap(0, Ordering::AcqRel).checked_sub(1).map(|bell| bell as i32)
    }

    /// A record was spent on nothing: `put` loads it again unless all has been answered, for then whoever
    /// asks next does. The caller has the turn.
    pub fn reload(&self, put: impl FnOnce(Seen)) {
        let seen = self.seen();
        if !seen.is_fired() {
            put(seen);
        }
    }
}
