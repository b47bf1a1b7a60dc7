//! A lock around tables in private memory that a fork child can never find locked: fork copies the word,
//! which then names an owner that the child's [`Waiter`] calls dead. Owns: that it is given back when its
//! guard goes. Who waits, and how, is not known here, since this room makes no system call.

use crate::lock::{Guard, Owner, Patience, SideLock};
use core::marker::PhantomData;

/// How the threads of a process wait, and under which name.
pub trait Waiter: Patience {
    /// The way to wait.
    const PATIENCE: Self;

    /// The calling thread.
    fn me() -> Owner;
}

/// A lock whose threads wait as `W` does.
pub struct Mutex<W>(SideLock, PhantomData<fn() -> W>);

impl<W: Waiter> Mutex<W> {
    /// A free lock.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Mutex(SideLock::new(), PhantomData)
    }

    /// A free lock.
    #[cfg(loom)]
    pub fn new() -> Self {
        Mutex(SideLock::new(), PhantomData)
    }

    /// Waits for the lock. `None` if a signal handler interrupted the holder in this very thread.
    pub fn take(&self) -> Option<Guard<'_>> {
        self.0.lock(W::me(), &W::PATIENCE).ok()
    }
}

impl<W: Waiter> Default for Mutex<W> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::lock::Doing;
    use core::cell::Cell;

    std::thread_local! {
        static PID: Cell<u32> = const { Cell::new(1) };
    }

    /// A process whose id changes as by fork.
    struct Forked;

    impl Patience for Forked {
        fn give_way(&self, _: u32) {}
        fn doing(&self, pid: u32, _: bool) -> Doing {
            if pid == PID.get() { Doing::Living } else { Doing::Nothing }
        }
        fn now_ns(&self) -> u64 {
            0
        }
    }

    impl Waiter for Forked {
        const PATIENCE: Self = Forked;
        fn me() -> Owner {
            Owner::new(PID.get(), 7)
        }
    }

    #[test]
    fn a_thread_that_interrupts_itself_is_told_so_until_the_guard_goes() {
        let mutex: Mutex<Forked> = Mutex::new();
        let guard = mutex.take().expect("free");
        assert!(mutex.take().is_none());
        drop(guard);
        assert!(mutex.take().is_some());
    }

    #[test]
    fn a_child_does_not_wait_for_what_its_parent_held() {
        let mutex: Mutex<Forked> = Mutex::new();
        let _held_by_the_parent = mutex.take().expect("free");
        PID.set(2);
        assert!(mutex.take().is_some());
    }
}
