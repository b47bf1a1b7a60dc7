//! errno. Owns: it is set on failure and untouched on success, and nobody else writes it.

use socket::Errno;

unsafe extern "C" {
    fn __errno_location() -> *mut i32;
}

pub(crate) use libc_errno as errno_location;

/// libc's own errno accessor.
pub(crate) unsafe extern "C" fn libc_errno() -> *mut i32 {
    // SAFETY: glibc and musl export it; it has no precondition.
    unsafe { __errno_location() }
}

/// Sets errno and returns -1.
#[cold]
pub(crate) fn fail(errno: Errno) -> isize {
    // SAFETY: the location is the calling thread's own.
    unsafe { *__errno_location() = errno.0 };
    -1
}

/// The calling thread's errno.
pub(crate) fn last() -> Errno {
    // SAFETY: as in `fail`.
    Errno(unsafe { *__errno_location() })
}

/// The result of a raw system call as a C function returns it.
#[inline]
pub(crate) fn from_raw(ret: isize) -> isize {
    if ret < 0 { fail(Errno(-ret as i32)) } else { ret }
}
