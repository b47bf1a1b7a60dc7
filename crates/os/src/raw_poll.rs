//! poll(2) by itself: its words, and the call without libc. What waits by way of libc stands above it, in
//! `poll` and `select`.

use crate::raw::{nr, syscall};
use crate::{Errno, Result, check};
use sync::{AtomicPtr, Ordering};

pub use linux_raw_sys::general::pollfd as PollFd;

/// `POLL*` bits (`asm-generic/poll.h`).
#[allow(missing_docs)]
pub mod bits {
    pub const IN: i16 = 0x001;
    pub const PRI: i16 = 0x002;
    pub const OUT: i16 = 0x004;
    pub const ERR: i16 = 0x008;
    pub const HUP: i16 = 0x010;
    pub const NVAL: i16 = 0x020;
    pub const RDNORM: i16 = 0x040;
    pub const RDBAND: i16 = 0x080;
    pub const WRNORM: i16 = 0x100;
    pub const WRBAND: i16 = 0x200;
    pub const RDHUP: i16 = 0x2000;
}

/// Signature of `__errno_location`.
pub type ErrnoLocation = unsafe extern "C" fn() -> *mut i32;

static LIBC_ERRNO: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Installs libc's `__errno_location`.
pub(crate) fn use_errno(errno: ErrnoLocation) {
    LIBC_ERRNO.store(errno as *mut (), Ordering::Relaxed);
}

/// What libc's `function` says, and what it left in errno if it failed. The program finds its errno as it
/// was: its call may go on, and succeed. To be called after [`use_errno`] only.
pub(crate) fn ask_libc(function: impl FnOnce() -> i32) -> Result<usize> {
    let location = LIBC_ERRNO.load(Ordering::Relaxed);
    // SAFETY: stored together with the poll pointer by `use_libc`.
    let location = unsafe { core::mem::transmute::<*mut (), ErrnoLocation>(location) };
    // SAFETY: `__errno_location` returns the calling thread's errno.
    let errno = unsafe { location() };
    // SAFETY: as above; nobody but this thread uses it.
    let before = unsafe { *errno };
    usize::try_from(function()).map_err(|_| {
        // SAFETY: as above.
        Errno(unsafe { core::mem::replace(&mut *errno, before) })
    })
}

/// As `poll::wait`, by a raw system call: not a cancellation point.
pub fn wait_raw(fds: &mut [PollFd], timeout_ms: i32) -> Result<usize> {
    if crate::confined::is_strict() {
        // Nothing can be told, and nobody can sleep: the rings are looked at again soon.
        crate::confined::pause();
        fds.iter_mut().for_each(|entry| entry.revents = 0);
        return Ok(0);
    }
    let limit = nr::__kernel_timespec {
        tv_sec: i64::from(timeout_ms) / 1000,
        tv_nsec: (i64::from(timeout_ms) % 1000) * 1_000_000,
    };
    let limit_ptr = if timeout_ms < 0 { core::ptr::null() } else { &raw const limit };
    // SAFETY: the slice and the timespec outlive the call; no signal mask is passed.
    let told = check(unsafe { syscall!(nr::__NR_ppoll, fds.as_mut_ptr(), fds.len(), limit_ptr, 0, 8) });
    match told {
        Err(errno) if crate::confined::is_confined() && errno != Errno::EINTR => {
            by_older_name(fds, timeout_ms, errno)
        }
        told => told,
    }
}

/// Behind a filter that does not know the newer one.
#[cold]
fn by_older_name(fds: &mut [PollFd], timeout_ms: i32, errno: Errno) -> Result<usize> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the slice outlives the call.
    return check(unsafe { syscall!(nr::__NR_poll, fds.as_mut_ptr(), fds.len(), timeout_ms) })
        .map_err(|_| errno);
    #[cfg(not(target_arch = "x86_64"))]
    Err(errno)
}

/// Whether a read of `fd` would find nothing: no bytes, no end, no error. (Of a kernel that does not answer
/// nothing is known.)
pub(crate) fn is_still(fd: i32) -> bool {
    let mut one = [PollFd { fd, events: bits::IN | bits::RDHUP, revents: 0 }];
    wait_raw(&mut one, 0) == Ok(0)
}
