//! The monotonic clock. Owns: the kernel's own code for it, once it is known.

use crate::raw::{nr, syscall};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// What [`cycles`] counts where reading the counter is forbidden (SECCOMP_MODE_STRICT): looks, each as long as a short pause.
fn counted() -> u64 {
    const CYCLES_PER_LOOK: u64 = 10_000;
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    LOOKS.fetch_add(CYCLES_PER_LOOK, Ordering::Relaxed)
}

/// `__vdso_clock_gettime`, by whatever name an architecture has it.
pub type KernelClock = unsafe extern "C" fn(u32, *mut nr::__kernel_timespec) -> i32;

static CLOCK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Installs what the kernel maps into every process (vdso(7)): not libc's function, which a program may have replaced.
pub fn use_kernel_clock(clock: KernelClock) {
    CLOCK.store(clock as *mut (), Ordering::Release);
}

/// CLOCK_MONOTONIC in nanoseconds: some 25 ns, or a system call until the kernel's own code is known.
pub fn monotonic_ns() -> u64 {
    if crate::confined::is_strict() {
        return cycles() / 3;
    }
    let mut now = nr::__kernel_timespec { tv_sec: 0, tv_nsec: 0 };
    let clock = CLOCK.load(Ordering::Acquire);
    if clock.is_null() {
        // SAFETY: `now` is writable for a timespec.
        unsafe { syscall!(nr::__NR_clock_gettime, nr::CLOCK_MONOTONIC, &raw mut now) };
    } else {
        // SAFETY: `use_kernel_clock` stored a function of exactly this type.
        let clock = unsafe { core::mem::transmute::<*mut (), KernelClock>(clock) };
        // SAFETY: as for the system call, which it makes itself where it must.
        unsafe { clock(nr::CLOCK_MONOTONIC, &raw mut now) };
    }
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
