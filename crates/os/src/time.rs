//! The monotonic clock and the core's counter. Owns: the kernel's own code for the clock, once it is known;
//! and what a cycle of the counter is taken for.

use crate::raw::{nr, syscall};
use sync::{AtomicPtr, AtomicU64, Ordering};

/// What the counter of a core says, or the distance of two such readings: cheap, unserialised, for judging
/// waits and for patience that may be a third longer or shorter, never for the program's own time limits. A
/// reading may wrap, a distance is compared as it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Cycles(u64);

impl Cycles {
    /// What every distance is made with, whatever the core: counters run at 2 to 4 per nanosecond.
    const PER_US: u64 = 3_000;

    /// No distance; also the reading that stands for "never".
    pub const NONE: Cycles = Cycles(0);

    /// About so many microseconds.
    pub const fn from_us(us: u64) -> Self {
        Cycles(us * Self::PER_US)
    }

    /// About so many milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Cycles::from_us(ms * 1_000)
    }

    /// The counter now. Some 10 ns.
    #[inline]
    pub fn now() -> Self {
        Cycles(counter())
    }

    /// From this reading's or distance's [`Cycles::word`].
    #[inline]
    pub const fn from_word(word: u64) -> Self {
        Cycles(word)
    }

    /// As a plain number, for memory that is shared.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// What was noted in `place`. (Relaxed: a noted reading orders nothing.)
    #[inline]
    pub fn load(place: &AtomicU64) -> Self {
        Cycles(place.load(Ordering::Relaxed))
    }

    /// Notes it in `place`.
    #[inline]
    pub fn store(self, place: &AtomicU64) {
        place.store(self.0, Ordering::Relaxed);
    }

    /// From the reading `earlier` to this one.
    #[inline]
    pub const fn since(self, earlier: Cycles) -> Self {
        Cycles(self.0.wrapping_sub(earlier.0))
    }

    /// The reading so much later, or the sum of two distances.
    #[inline]
    pub const fn plus(self, distance: Cycles) -> Self {
        Cycles(self.0.wrapping_add(distance.0))
    }

    /// So many times the distance, at most as many as there are.
    #[inline]
    pub const fn times(self, times: u64) -> Self {
        Cycles(self.0.saturating_mul(times))
    }

    /// Whether the reading `earlier` is past.
    #[inline]
    pub const fn is_after(self, earlier: Cycles) -> bool {
        self.since(earlier).0 as i64 > 0
    }
}

/// What the counter says where reading it is forbidden (SECCOMP_MODE_STRICT): looks, each as long as a short
/// pause.
fn counted() -> u64 {
    const CYCLES_PER_LOOK: u64 = 10_000;
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    LOOKS.fetch_add(CYCLES_PER_LOOK, Ordering::Relaxed)
}

/// `__vdso_clock_gettime`, by whatever name an architecture has it.
pub type KernelClock = unsafe extern "C" fn(u32, *mut nr::__kernel_timespec) -> i32;

static CLOCK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Installs what the kernel maps into every process (vdso(7)): not libc's function, which a program may have
/// replaced.
pub fn use_kernel_clock(clock: KernelClock) {
    CLOCK.store(clock as *mut (), Ordering::Release);
}

/// CLOCK_MONOTONIC in nanoseconds: some 25 ns, or a system call until the kernel's own code is known.
pub fn monotonic_ns() -> u64 {
    if crate::confined::is_strict() {
        return counted() / (Cycles::PER_US / 1_000);
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

/// The core's counter, at about three per nanosecond.
#[inline]
fn counter() -> u64 {
    if crate::confined::is_strict() {
        return counted();
    }
    #[cfg(feature = "sim")]
    if let Some(machine) = crate::seat::taken() {
        return machine.cycles();
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

#[cfg(test)]
mod tests {
    use super::Cycles;
    use sync::AtomicU64;

    #[test]
    fn a_millisecond_is_a_thousand_microseconds() {
        assert_eq!(Cycles::from_ms(20), Cycles::from_us(20_000));
        assert_eq!(Cycles::from_us(10).times(2), Cycles::from_us(20));
        assert!(Cycles::from_us(10) < Cycles::from_us(11));
    }

    #[test]
    fn readings_may_wrap() {
        let before = Cycles::from_word(u64::MAX - 5);
        let after = before.plus(Cycles::from_word(10));
        assert_eq!(after.since(before), Cycles::from_word(10));
        assert!(after.is_after(before) && !before.is_after(after) && !after.is_after(after));
    }

    #[test]
    fn the_counter_runs_and_is_noted() {
        let (place, from) = (AtomicU64::new(0), Cycles::now());
        from.store(&place);
        while !Cycles::now().is_after(from) {}
        assert_eq!(Cycles::load(&place), from);
    }
}
