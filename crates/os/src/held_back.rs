//! Signals that come while a call has given its core away. Owns: that they end it as they would have ended a
//! sleep.

use crate::raw::{nr, syscall};
use crate::signals::{THAT_COUNT, handler};

/// Signals of the calling thread, held back while its core is away: a yield does not tell whether a handler
/// ran. They come when this is dropped.
pub struct HeldBack {
    /// What the program blocks.
    blocked: u64,
}

/// Holds signals back between the sleeps of a call that may sleep again: one that comes then would find no
/// sleep to interrupt. Returns what the program blocks, for the sleeps and for [`let_go`]; there is nothing
/// to drop, for cancellation unwinds through them.
pub fn hold_between_sleeps() -> Option<u64> {
    let held = if crate::poll::has_masks() { hold_back() } else { None };
    held.map(|held| core::mem::ManuallyDrop::new(held).blocked)
}

/// They come.
pub fn let_go(blocked: u64) {
    drop(HeldBack { blocked });
}

/// Those that wait come now, between two sleeps of a call that holds them back there: with the program's
/// mask, for a handler may leave by a jump. EINTR if one ran that ends calls.
pub(crate) fn let_through(blocked: u64) -> crate::Result<()> {
    let came = HeldBack { blocked }.let_come();
    core::mem::forget(hold_back());
    match came {
        Some(Interrupted { restarts: false }) => Err(crate::Errno::EINTR),
        _ => Ok(()),
    }
}

/// A handler ran where a call might have slept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupted {
    /// Whether calls without a time limit go on after all that ran (SA_RESTART).
    pub restarts: bool,
}

const SIG_BLOCK: i32 = 0;
const SIG_SETMASK: i32 = 2;

/// Holds them back from now on. `None` where that may not be.
pub fn hold_back() -> Option<HeldBack> {
    if crate::confined::is_confined() {
        return None;
    }
    let (all, mut blocked) = (THAT_COUNT, 0u64);
    // SAFETY: the mask is read, and the former one written, of eight bytes each.
    let made = unsafe { syscall!(nr::__NR_rt_sigprocmask, SIG_BLOCK, &raw const all, &raw mut blocked, 8) };
    crate::check(made).ok().map(|_| HeldBack { blocked })
}

impl HeldBack {
    /// The signals that wait.
    fn waiting(&self) -> u64 {
        let mut pending = 0u64;
        // SAFETY: the set is written, of eight bytes.
        unsafe { syscall!(nr::__NR_rt_sigpending, &raw mut pending, 8) };
        pending & THAT_COUNT & !self.blocked
    }

    /// Whether one waits, be it one that nobody handles.
    pub fn has_any(&self) -> bool {
        self.waiting() != 0
    }

    /// Lets them come; what ran, if any handler did.
    pub fn let_come(self) -> Option<Interrupted> {
        let waiting = self.waiting();
        let signals = (1..=64u32).filter(|signal| waiting & 1 << (signal - 1) != 0);
        signals.filter_map(handler).fold(None, |so_far, (_, restarts)| {
            let others_restart = so_far.is_none_or(|Interrupted { restarts }| restarts);
            Some(Interrupted { restarts: restarts && others_restart })
        })
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        // SAFETY: the mask is read, of eight bytes.
        unsafe { syscall!(nr::__NR_rt_sigprocmask, SIG_SETMASK, &raw const self.blocked, 0, 8) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own, whose mask is nobody else's.
    #[test]
    fn what_is_held_back_comes_and_is_told_of_if_it_is_handled() {
        std::thread::spawn(|| {
            const SIGCHLD: u32 = 17;
            let quiet = hold_back().expect("no filter");
            assert!(!quiet.has_any());
            assert_eq!(quiet.let_come(), None);
            let ignored = hold_back().expect("no filter");
            crate::process::raise_on_self(SIGCHLD);
            assert!(ignored.has_any(), "it waits, though nobody handles it");
            assert_eq!(ignored.let_come(), None);
            let after = hold_back().expect("no filter");
            assert!(!after.has_any(), "it has come");
        })
        .join()
        .expect("no assertion failed");
    }
}
