//! Moving bytes between the program's memory and the ring, and their lines between caches.
//!
//! Owns: which copy is used for what length, and how lines are pushed towards the consumer.

#[cfg(not(loom))]
use sync::{AtomicUsize, Ordering};

/// A cache line of the processors that have the instruction.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const LINE: usize = 64;

/// Copies between the ring and the program's memory.
///
/// The preload library names no symbol versions, so its memcpy is the one of GLIBC_2.2.5, made of 16-byte
/// moves; its memmove is the best for the processor. The first is faster at offsets that are seldom aligned
/// (200 bytes there and 1000 back: 770 thousand a second, 660 with 64-byte moves), the second for long runs
/// (30 KiB one way: 97 Gb/s, 70 with the first).
///
/// Both are libc's functions by their names, and so may be somebody else's: see [`copy_unseen`].
///
/// # Safety
/// As of `copy_nonoverlapping`.
#[inline]
pub(crate) unsafe fn copy_run(src: *const u8, dst: *mut u8, count: usize) {
    let long = long();
    // SAFETY: the caller's promise.
    unsafe {
        if count < long {
            core::ptr::copy_nonoverlapping(src, dst, count);
        } else if long != 0 {
            core::ptr::copy(src, dst, count);
        } else {
            copy_by_ourselves(src, dst, count);
        }
    }
}

/// From how many bytes on a run is long.
const LONG: usize = 2048;
/// The same of this process; 0 if no function of libc's is to be called. (One word says both, so that a short
/// run costs one comparison.)
#[cfg(not(loom))]
static LONG_HERE: AtomicUsize = AtomicUsize::new(LONG);

#[inline(always)]
fn long() -> usize {
    #[cfg(not(loom))]
    return LONG_HERE.load(Ordering::Relaxed);
    #[cfg(loom)]
    LONG
}

/// From now on runs are copied without libc. A race detector that has put functions of its own in the place
/// of libc's takes copies of two threads, who used a slot one after the other, for a race: of the order in
/// which they did, words that it does not see decide.
pub fn copy_unseen() {
    #[cfg(not(loom))]
    LONG_HERE.store(0, Ordering::Relaxed);
}

/// # Safety
/// As of `copy_nonoverlapping`.
#[cold]
#[inline(never)]
unsafe fn copy_by_ourselves(src: *const u8, dst: *mut u8, count: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the caller's promise; the ABI has the direction flag clear.
    unsafe {
        core::arch::asm!("rep movsb", inout("rcx") count => _, inout("rsi") src => _, inout("rdi") dst => _,
            options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    for at in 0..count {
        // SAFETY: the caller's promise. (Volatile: or the loop would become a call of memcpy.)
        unsafe { dst.add(at).write_volatile(src.add(at).read_volatile()) };
    }
}

/// Asks the processor to move the lines of `count` bytes from this core's own caches to the one that all
/// cores share: whoever reads them next on another core need not ask this one. (CLDEMOTE, Intel SDM volume 2;
/// where it is not known, its code is a NOP by definition. 200 bytes there and 1000 back: 17 % more, the
/// lines alone 1 010 ns without and 800 ns with.)
///
/// # Safety
/// The bytes are mapped.
#[inline]
pub(crate) unsafe fn hand_over(at: *const u8, count: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // (A loop over a stepped range takes three times the instructions; two lines at once save a quarter.)
        let (mut line, end) = (at.wrapping_sub(at.addr() % LINE), at.wrapping_add(count));
        while line.wrapping_add(LINE) < end {
            // SAFETY: a hint about two lines that are mapped; it changes no memory, no register and no flag.
            unsafe {
                core::arch::asm!("cldemote [{0}]", "cldemote [{0} + {1}]", in(reg) line, const LINE,
                    options(nostack, preserves_flags));
            }
            line = line.wrapping_add(2 * LINE);
        }
        if line < end {
            // SAFETY: as above.
            unsafe {
                core::arch::asm!("cldemote [{}]", in(reg) line, options(nostack, preserves_flags));
            }
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (at, count);
}
