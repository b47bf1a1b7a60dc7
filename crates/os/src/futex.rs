//! Sleeping on a word of shared memory. Owns: nothing; the word's meaning is the caller's.

use crate::raw::{Errno, nr, syscall};
use crate::{Result, check};
use sync::AtomicU32;

/// Sleeps while `word` has the value `seen`, for at most `timeout_ms`. Ok: woken, by a wake or for no reason.
/// Errors: EAGAIN (another value), ETIMEDOUT, EINTR (a signal handler ran). Not a cancellation point.
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

/// Whether the kernel can read the word at `word` (a multiple of four): it compares it, and sleeps for no
/// time at all.
pub fn is_readable(word: usize) -> bool {
    if crate::confined::leaves_nothing() {
        return true;
    }
    const UNLIKELY: u32 = 0x5a17_e0d3;
    let limit = nr::__kernel_timespec { tv_sec: 0, tv_nsec: 0 };
    let what = nr::FUTEX_WAIT | nr::FUTEX_PRIVATE_FLAG;
    // SAFETY: whatever the address, the kernel reads it at its own risk; the timespec outlives the call.
    check(unsafe { syscall!(nr::__NR_futex, word, what, UNLIKELY, &raw const limit, 0, 0) })
        != Err(Errno::EFAULT)
}

/// Whether the kernel can write to the word at `word` (a multiple of four): it adds nothing to it, in one
/// step.
pub fn is_writable(word: usize) -> bool {
    if crate::confined::leaves_nothing() {
        return true;
    }
    static NOBODY_SLEEPS_HERE: AtomicU32 = AtomicU32::new(0);
    // FUTEX_OP_ADD of 0; who may sleep at the word is woken if it holds 0x5a1, and then for no reason, as
    // sleepers must expect.
    const ADD_NOTHING: u32 = 1 << 28 | 0x5a1;
    let what = nr::FUTEX_WAKE_OP | nr::FUTEX_PRIVATE_FLAG;
    // SAFETY: whatever the address, the kernel touches it at its own risk, and changes nothing there.
    let asked =
        unsafe { syscall!(nr::__NR_futex, NOBODY_SLEEPS_HERE.as_ptr(), what, 0, 0, word, ADD_NOTHING) };
    check(asked) != Err(Errno::EFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sync::Ordering;

    #[test]
    fn words_are_asked_for_without_being_changed() {
        let word = AtomicU32::new(7);
        let constant: &'static u32 = &7;
        let at = word.as_ptr().addr();
        assert!(is_readable(at) && is_writable(at) && is_readable(core::ptr::from_ref(constant).addr()));
        assert_eq!(word.load(Ordering::SeqCst), 7);
        for nowhere in [0, 4, 1 << 47, usize::MAX & !3] {
            assert!(!is_readable(nowhere) && !is_writable(nowhere));
        }
        // Code is readable, and not writable.
        let code = (wake as fn(&AtomicU32) as usize) & !3;
        assert!(is_readable(code) && !is_writable(code));
    }

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
