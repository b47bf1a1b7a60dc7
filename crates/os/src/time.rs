//! The monotonic clock. Owns: nothing.

use crate::raw::{nr, syscall};

/// What [`cycles`] counts where reading the counter is forbidden (SECCOMP_MODE_STRICT): looks, each as long as a short pause.
fn counted() -> u64 {
    use core::sync::atomic::{AtomicU64, Ordering};
    const CYCLES_PER_LOOK: u64 = 10_000;
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    LOOKS.fetch_add(CYCLES_PER_LOOK, Ordering::Relaxed)
}

/// CLOCK_MONOTONIC in nanoseconds (a real system call, about 100 ns: slow paths only).
pub fn monotonic_ns() -> u64 {
    if crate::confined::is_strict() {
        return cycles() / 3;
    }
    let mut now = nr::__kernel_timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable for a timespec.
    unsafe { syscall!(nr::__NR_clock_gettime, nr::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A cheap, unserialised counter of about three per nanosecond: for judging waits, and for patience that may be a third
/// longer or shorter, never for the program's own time limits.
#[inline]
pub fn cycles() -> u64 {
    if crate::confined::is_strict() {
        return counted();
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: rdtsc has no preconditions on any x86-64 Linux that user space runs on.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let (ticks, per_second): (u64, u64);
        // SAFETY: the virtual counter is readable at EL0 on Linux.
        unsafe {
            core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks);
            core::arch::asm!("mrs {}, cntfrq_el0", out(reg) per_second);
        }
        // It ticks at 24 MHz to 1 GHz.
        ticks.wrapping_mul((3_000_000_000 / per_second.max(1)).max(1))
    }
}
