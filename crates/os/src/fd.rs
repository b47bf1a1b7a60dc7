//! File descriptors: close, duplicate to a high number, flags, identity.
//! Owns: the rule that internal descriptors live out of the application's way (see [`raise`]).

use crate::raw::{nr, syscall};
use crate::{Result, check};

/// Lowest number an internal descriptor may get; programs that use `select` or count descriptors stay below.
pub const INTERNAL_FLOOR: i32 = 512;

/// Closes `fd`. Errors are of no use to anyone here and dropped.
pub fn close(fd: i32) {
    // SAFETY: closing a descriptor touches no memory; the callers close only numbers they own.
    unsafe { syscall!(nr::__NR_close, fd) };
}

/// Closes `first..=last` with `flags` as close_range(2).
pub fn close_range(first: u32, last: u32, flags: u32) -> Result<()> {
    // SAFETY: closing descriptors touches no memory.
    check(unsafe { syscall!(nr::__NR_close_range, first, last, flags) }).map(drop)
}

fn fcntl(fd: i32, cmd: u32, arg: usize) -> Result<usize> {
    // SAFETY: only commands with integer arguments pass through here.
    check(unsafe { syscall!(nr::__NR_fcntl, fd, cmd, arg) })
}

/// Moves `fd` to a high number with close-on-exec and closes the low one.
///
/// The number lies above the program's soft descriptor limit when the hard limit leaves room (the limit is lifted
/// for the instant of the duplication, so the program's own numbers are not used up), else in the upper half
/// below it. Errors: whatever the kernel says; `fd` is closed then too.
pub fn raise(fd: i32) -> Result<i32> {
    let moved =
        crate::process::with_room_above_soft_limit(|floor| fcntl(fd, nr::F_DUPFD_CLOEXEC, floor as usize));
    close(fd);
    moved.map(|number| number as i32)
}

/// Whether O_NONBLOCK is set on the open file description.
pub fn is_nonblocking(fd: i32) -> bool {
    fcntl(fd, nr::F_GETFL, 0).is_ok_and(|flags| flags as u32 & nr::O_NONBLOCK != 0)
}

/// Whether FD_CLOEXEC is set on `fd`.
pub fn is_cloexec(fd: i32) -> bool {
    fcntl(fd, nr::F_GETFD, 0).is_ok_and(|flags| flags as u32 & nr::FD_CLOEXEC != 0)
}

/// Sets or clears FD_CLOEXEC.
pub fn set_cloexec(fd: i32, on: bool) -> Result<()> {
    fcntl(fd, nr::F_SETFD, usize::from(on)).map(drop)
}

/// Device and inode of an open descriptor: what it is, whatever its number.
pub fn identity(fd: i32) -> Result<(u64, u64)> {
    // SAFETY: all-zero bytes are a valid `stat`.
    let mut stat: nr::stat = unsafe { core::mem::zeroed() };
    // SAFETY: `stat` is writable for the kernel's struct of this architecture.
    check(unsafe { syscall!(nr::__NR_fstat, fd, &raw mut stat) })?;
    Ok((stat.st_dev as u64, stat.st_ino as u64))
}
