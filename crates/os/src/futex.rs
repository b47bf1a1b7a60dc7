//! Sleeping on a word of shared memory. Owns: nothing; the word's meaning is the caller's.

use crate::raw::{nr, syscall};
use crate::{Result, check};
use core::sync::atomic::AtomicU32;

/// Sleeps while `word` has the value `seen`, for at most `timeout_ms`. Ok: woken, by a wake or for no reason. Errors: EAGAIN
/// (another value), ETIMEDOUT, EINTR (a signal handler ran). Not a cancellation point.
pub fn wait(word: &AtomicU32, seen: u32, timeout_ms: u32) -> Result<()> {
    let limit = nr::__kernel_timespec {
        tv_sec: i64::from(timeout_ms / 1000),
        tv_nsec: i64::from(timeout_ms % 1000) * 1_000_000,
    };
    // SAFETY: the word is valid for as long as it is borrowed, the timespec outlives the call.
    check(unsafe { syscall!(nr::__NR_futex, word.as_ptr(), nr::FUTEX_WAIT, seen, &raw const limit, 0, 0) })
        .map(drop)
}

/// Wakes all who sleep on `word`, in whatever process.
pub fn wake(word: &AtomicU32) {
    if crate::confined::is_strict() {
        return;
    }
    // SAFETY: a wake reads nothing but the word's address.
    unsafe { syscall!(nr::__NR_futex, word.as_ptr(), nr::FUTEX_WAKE, i32::MAX, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Errno;
    use core::sync::atomic::Ordering;

    #[test]
    fn who_sleeps_on_a_word_is_woken_and_who_sees_another_value_does_not_sleep() {
        let word = AtomicU32::new(7);
        assert_eq!(wait(&word, 8, 10_000), Err(Errno::EAGAIN));
        assert_eq!(wait(&word, 7, 1), Err(Errno::ETIMEDOUT));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                while word.load(Ordering::SeqCst) == 7 {
                    let _ = wait(&word, 7, 10_000);
                }
            });
            word.store(9, Ordering::SeqCst);
            wake(&word);
            sleeper.join().unwrap();
        });
    }
}
