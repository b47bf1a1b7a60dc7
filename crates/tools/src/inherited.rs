//! What this process was started with, looked at before the runtime changes it: Rust's start ignores SIGPIPE
//! and opens /dev/null for closed standard descriptors. Owns: those two facts; smc_run hands them on
//! unchanged.

use std::sync::atomic::{AtomicU8, Ordering};

const SIGPIPE_IGNORED: u8 = 8;
/// Bits 0 to 2: descriptor closed. Bit 3: SIGPIPE ignored.
static STATE: AtomicU8 = AtomicU8::new(0);

#[ctor::ctor]
fn look() {
    let closed = (0..3).filter(|fd| os::fd::identity(*fd).is_err()).fold(0, |bits, fd| bits | 1 << fd);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = if ignores_sigpipe(&status) { SIGPIPE_IGNORED } else { 0 };
    STATE.store(closed | ignored, Ordering::Relaxed);
}

/// Reads proc_pid_status(5).
fn ignores_sigpipe(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Bit n-1 is signal n; SIGPIPE is 13.
    mask.is_some_and(|mask| mask >> 12 & 1 != 0)
}

/// Whether whoever started us ignored SIGPIPE.
pub(crate) fn sigpipe_ignored() -> bool {
    STATE.load(Ordering::Relaxed) & SIGPIPE_IGNORED != 0
}

/// Closes those of the descriptors 0 to 2 that were closed at the start.
pub(crate) fn close_what_was_closed() {
    for fd in (0..3).filter(|fd| STATE.load(Ordering::Relaxed) >> fd & 1 != 0) {
        os::fd::close(fd);
    }
}

#[cfg(test)]
mod tests {
    use super::ignores_sigpipe;

    #[test]
    fn the_signal_mask_is_read() {
        assert!(ignores_sigpipe("Name:\tx\nSigIgn:\t0000000000001000\nSigCgt:\t0\n"));
        assert!(!ignores_sigpipe("SigIgn:\t0000000000002000\n"));
        assert!(!ignores_sigpipe(""));
    }
}
