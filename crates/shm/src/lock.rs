//! Side locks: one per side and direction, in shared memory, so that threads and forked processes that share
//! a socket take turns. Owns: exclusion between holders of one side; never between the two sides.
//!
//! The word names its owner, so a lock is never inherited locked by a fork child (the word is shared, not
//! copied), a signal handler that interrupts its own thread is told so instead of spinning for ever, and the
//! lock of a killed process can be taken over.

use sync::{AtomicU64, Ordering, pause};

/// Names a thread: process id in the upper half, a number unique to the thread within its process in the
/// lower.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner(pub u64);

impl Owner {
    /// Makes an owner; `thread` need not be a kernel id, only unique within the process.
    pub fn new(pid: u32, thread: u32) -> Self {
        Owner(u64::from(pid) << 32 | u64::from(thread))
    }

    fn pid_of(word: u64) -> u32 {
        (word >> 32) as u32
    }
}

/// Why a lock is not to be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denied {
    /// The same thread already holds it: a signal handler interrupted it.
    Reentered,
    /// The same living owner for longer than any holder needs: the word lies.
    Stuck,
    /// Nobody has it any more: what was done under it is at an end.
    Ended,
    /// The owner is stopped, frozen or deep in the kernel: it has the lock until it goes on, whenever that
    /// is.
    HeldUp,
}

/// What an owner is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// It exists no more, or has ended: the lock is nobody's.
    Nothing,
    /// It may run.
    Living,
    /// It cannot run until somebody lets it.
    Stopped,
}

/// Longest time one owner is believed: holders copy at most a ring's worth of bytes.
const PATIENCE_NS: u64 = 2_000_000_000;

/// How to wait and whom to believe alive: supplied by the caller, since this room makes no system call.
pub trait Patience {
    /// Called between attempts after the short spin, for the `times`th time in this wait. Who only yields
    /// never lets one of lower priority on, which may be the owner: after some yields it must sleep.
    fn give_way(&self, times: u32);
    /// What process `pid` is doing. `is_late`: it has had the lock for longer than any holder needs that
    /// runs, so that even a costly look is due.
    fn doing(&self, pid: u32, is_late: bool) -> Doing;
    /// A monotonic clock in nanoseconds.
    fn now_ns(&self) -> u64;
    /// Whether the calling thread may have interrupted itself. If not, a call of its own that had the lock
    /// was left for good, by a jump out of a handler.
    fn may_be_interrupted(&self) -> bool {
        true
    }
}

/// For how long, and over how many looks without a break, the word has named the same owner.
#[derive(Default)]
struct Believed {
    word: u64,
    looks: u32,
    since_ns: u64,
}

/// A stopped or frozen waiter makes no looks: time alone proves nothing.
const LOOKS_BEFORE_DOUBT: u32 = 2000;

impl Believed {
    fn look(&mut self, word: u64) {
        if word != self.word {
            *self = Believed { word, ..Believed::default() };
        }
        self.looks = self.looks.saturating_add(1);
    }

    /// Whether the owner is dead. Errors: it lives, and is not worth waiting for.
    #[cold]
    fn is_dead(&mut self, patience: &impl Patience) -> Result<bool, Denied> {
        let is_late = self.is_too_long(patience.now_ns());
        match patience.doing(Owner::pid_of(self.word), is_late) {
            Doing::Nothing => Ok(true),
            Doing::Stopped => Err(Denied::HeldUp),
            Doing::Living if is_late => Err(Denied::Stuck),
            Doing::Living => Ok(false),
        }
    }

    fn is_too_long(&mut self, now_ns: u64) -> bool {
        if self.since_ns == 0 {
            self.since_ns = now_ns;
        }
        self.looks > LOOKS_BEFORE_DOUBT && now_ns.saturating_sub(self.since_ns) > PATIENCE_NS
    }
}

/// The word of a lock that nobody takes any more.
const ENDED: u64 = u64::MAX;

/// The lock word, zero when free.
#[derive(Debug)]
#[repr(transparent)]
pub struct SideLock(AtomicU64);

const SPINS: u32 = 40;
const ATTEMPTS_BEFORE_ASKING: u32 = 200;
/// Who sleeps between attempts asks more often.
const SLEEPS_BEFORE_ASKING: u32 = 8;
/// So many times is the core given away before the waiter sleeps: some 20 us where nobody else wants it,
/// longer than a copy takes.
pub const YIELDS: u32 = 64;

impl SideLock {
    /// A free lock.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        SideLock(AtomicU64::new(0))
    }

    /// A free lock.
    #[cfg(loom)]
    pub fn new() -> Self {
        SideLock(AtomicU64::new(0))
    }

    /// Takes the lock, waiting as long as a living owner holds it.
    #[inline]
    pub fn lock(&self, me: Owner, patience: &impl Patience) -> Result<Guard<'_>, Denied> {
        if self.try_take(0, me) { Ok(Guard(self)) } else { self.lock_slow(me, patience) }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self, me: Owner) -> Option<Guard<'_>> {
        if self.try_take(0, me) { Some(Guard(self)) } else { None }
    }

    #[inline]
    fn try_take(&self, held: u64, me: Owner) -> bool {
        self.0.compare_exchange(held, me.0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn lock_slow(&self, me: Owner, patience: &impl Patience) -> Result<Guard<'_>, Denied> {
        let mut attempts = 0u32;
        let mut believed = Believed::default();
        loop {
            let held = self.0.load(Ordering::Relaxed);
            believed.look(held);
            if held == ENDED {
                // (In order behind what the last owner did.)
                sync::fence(Ordering::Acquire);
                return Err(Denied::Ended);
            }
            if held == me.0 {
                return if patience.may_be_interrupted() { Err(Denied::Reentered) } else { Ok(Guard(self)) };
            }
            let every = if attempts > SPINS + YIELDS { SLEEPS_BEFORE_ASKING } else { ATTEMPTS_BEFORE_ASKING };
            let is_time_to_ask = held != 0 && attempts % every == every - 1;
            let is_dead = is_time_to_ask && believed.is_dead(patience)?;
            if (held == 0 || is_dead) && self.try_take(held, me) {
                return Ok(Guard(self));
            }
            attempts = attempts.wrapping_add(1);
            if attempts > SPINS { patience.give_way(attempts - SPINS) } else { pause() }
        }
    }

    /// Ends it, if nobody has it: what was done under it stays as it is, for good, and nobody can have been
    /// in the middle of it. No owner is needed for that, so also the other side may say so, and be stopped
    /// or killed at any instruction. Whether it has ended.
    #[must_use]
    pub fn end(&self) -> bool {
        let ended = self.0.compare_exchange(0, ENDED, Ordering::AcqRel, Ordering::Acquire);
        matches!(ended, Ok(_) | Err(ENDED))
    }

    /// Frees it, whoever holds it: for a slot that nobody uses.
    #[inline]
    pub fn reset(&self) {
        self.0.store(0, Ordering::Release);
    }
}

/// Holds a [`SideLock`] until dropped.
#[derive(Debug)]
pub struct Guard<'a>(&'a SideLock);

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.reset();
    }
}

impl Default for SideLock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Dead;
    impl Patience for Dead {
        fn give_way(&self, _: u32) {}
        fn doing(&self, _: u32, _: bool) -> Doing {
            Doing::Nothing
        }
        fn now_ns(&self) -> u64 {
            0
        }
    }

    /// Believes everybody alive, and a second passes at every look at the clock.
    struct Watching(sync::AtomicU64);
    impl Patience for Watching {
        fn give_way(&self, _: u32) {}
        fn doing(&self, _: u32, _: bool) -> Doing {
            Doing::Living
        }
        fn now_ns(&self) -> u64 {
            self.0.fetch_add(1_000_000_000, sync::Ordering::Relaxed)
        }
    }

    #[test]
    fn a_word_that_names_a_living_process_for_ever_is_not_waited_for() {
        let lock = SideLock::new();
        let _held = lock.lock(Owner::new(1, 7), &Dead).unwrap();
        assert_eq!(lock.lock(Owner::new(8, 2), &Watching(0.into())).err(), Some(Denied::Stuck));
    }

    /// Believes that everybody is stopped.
    struct Stopped;
    impl Patience for Stopped {
        fn give_way(&self, _: u32) {}
        fn doing(&self, _: u32, _: bool) -> Doing {
            Doing::Stopped
        }
        fn now_ns(&self) -> u64 {
            1
        }
    }

    /// Has jumped out of its handlers.
    struct Jumped;
    impl Patience for Jumped {
        fn give_way(&self, _: u32) {}
        fn doing(&self, _: u32, _: bool) -> Doing {
            Doing::Living
        }
        fn now_ns(&self) -> u64 {
            0
        }
        fn may_be_interrupted(&self) -> bool {
            false
        }
    }

    #[test]
    fn the_lock_of_a_call_that_its_thread_has_left_is_the_threads_next_calls() {
        let lock = SideLock::new();
        core::mem::forget(lock.lock(Owner::new(7, 2), &Jumped).unwrap());
        drop(lock.lock(Owner::new(7, 2), &Jumped).unwrap());
        assert!(lock.try_lock(Owner::new(8, 2)).is_some());
    }

    #[test]
    fn the_lock_of_a_stopped_process_stays_its_own_and_the_waiter_is_told_soon() {
        let lock = SideLock::new();
        let held = lock.lock(Owner::new(1, 7), &Dead).unwrap();
        assert_eq!(lock.lock(Owner::new(8, 2), &Stopped).err(), Some(Denied::HeldUp));
        drop(held);
        assert!(lock.lock(Owner::new(8, 2), &Stopped).is_ok());
    }

    #[test]
    fn a_lock_that_has_ended_is_nobodys_and_one_that_is_held_does_not_end() {
        let lock = SideLock::new();
        let held = lock.lock(Owner::new(7, 2), &Dead).unwrap();
        assert!(!lock.end());
        drop(held);
        assert!(lock.end() && lock.end());
        assert_eq!(lock.lock(Owner::new(7, 2), &Dead).err(), Some(Denied::Ended));
        assert!(lock.try_lock(Owner::new(7, 2)).is_none());
        lock.reset();
        assert!(lock.lock(Owner::new(7, 2), &Dead).is_ok());
    }

    #[test]
    fn the_lock_of_a_dead_process_is_taken_over() {
        let lock = SideLock::new();
        core::mem::forget(lock.lock(Owner::new(7, 2), &Dead).unwrap());
        lock.lock(Owner::new(8, 2), &Dead).unwrap();
    }

    #[test]
    fn a_signal_handler_is_told_that_its_own_thread_holds_the_lock() {
        let lock = SideLock::new();
        let held = lock.lock(Owner::new(7, 2), &Dead).unwrap();
        assert_eq!(lock.lock(Owner::new(7, 2), &Dead).err(), Some(Denied::Reentered));
        assert!(lock.try_lock(Owner::new(8, 2)).is_none());
        drop(held);
        assert!(lock.lock(Owner::new(7, 2), &Dead).is_ok());
    }
}
