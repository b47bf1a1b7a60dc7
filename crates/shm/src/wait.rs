//! Wait words: how a sleeper asks to be rung, and how the other side learns it at no cost while nobody
//! sleeps.
//!
//! Owns: the arm / publish protocol. Sleeper: `arm`, then look again, then sleep. Publisher: publish, then
//! `take_ring`. Both put a full fence between their store and their load (store-buffering); a write barrier
//! is not enough (virtio learned it the hard way, Linux commit a72caae21803). Checked with loom in
//! `loom_tests`.

use sync::{AtomicU32, Ordering, fence};

const ONCE: u32 = 1;
const STICKY: u32 = 2;
const NAP: u32 = 4;

/// How those who wait want to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked(u32);

impl Asked {
    /// At all.
    #[inline]
    pub fn anyhow(self) -> bool {
        self.0 != 0
    }

    /// By their doorbell.
    #[inline]
    pub fn bell(self) -> bool {
        self.0 & (ONCE | STICKY) != 0
    }

    /// By a futex wake on the word itself.
    #[inline]
    pub fn nap(self) -> bool {
        self.0 & NAP != 0
    }
}

/// One word: zero while nobody waits.
#[derive(Debug)]
#[repr(transparent)]
pub struct WaitWord(AtomicU32);

impl Default for WaitWord {
    fn default() -> Self {
        Self::new()
    }
}

impl WaitWord {
    /// A word nobody waits on.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        WaitWord(AtomicU32::new(0))
    }

    /// A word nobody waits on.
    #[cfg(loom)]
    pub fn new() -> Self {
        WaitWord(AtomicU32::new(0))
    }

    /// Asks for one ring. The caller must look at the condition again before it sleeps.
    #[inline]
    pub fn arm(&self) {
        self.0.fetch_or(ONCE, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Asks for a ring at every publication until [`WaitWord::reset`]: edge-triggered registrations need each
    /// edge.
    #[inline]
    pub fn arm_sticky(&self) {
        self.0.fetch_or(STICKY | ONCE, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Asks to be woken by a futex wake on [`WaitWord::futex`], once; returns the value to sleep on. The
    /// caller must look at the condition again before it sleeps.
    #[inline]
    pub fn arm_nap(&self) -> u32 {
        let value = self.0.fetch_or(NAP, Ordering::SeqCst) | NAP;
        fence(Ordering::SeqCst);
        value
    }

    /// The word as the kernel's futex calls need it.
    #[inline]
    pub fn futex(&self) -> &AtomicU32 {
        &self.0
    }

    /// Without a publication: whether somebody naps and must be woken. Their request is taken.
    #[inline]
    pub fn take_nap(&self) -> bool {
        self.0.load(Ordering::SeqCst) & NAP != 0 && self.0.fetch_and(!NAP, Ordering::SeqCst) & NAP != 0
    }

    /// Takes a request for one ring back; whether one stood. Somebody else may have made it: the caller looks
    /// afterwards whether anybody waits, and asks again.
    pub fn disarm(&self) -> bool {
        let stood = self.0.fetch_and(!ONCE, Ordering::SeqCst) & ONCE != 0;
        fence(Ordering::SeqCst);
        stood
    }

    /// Withdraws every request.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether somebody seems to sleep; a hint.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Whether a ring asked for once has not been given yet.
    pub fn is_armed(&self) -> bool {
        self.0.load(Ordering::Relaxed) & ONCE != 0
    }

    /// After a publication: how the publisher must tell. At most one publisher is asked per [`WaitWord::arm`]
    /// or [`WaitWord::arm_nap`].
    #[inline]
    pub fn take_ring(&self) -> Asked {
        fence(Ordering::SeqCst);
        let seen = self.0.load(Ordering::Relaxed);
        if seen == 0 {
            return Asked(0);
        }
        Asked(self.0.fetch_and(!(ONCE | NAP), Ordering::SeqCst))
    }

    /// After a publication: whether someone waits. Does not take the request: the publisher may find it too
    /// early to ring.
    #[inline]
    pub fn is_waited_for(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) != 0
    }
}
