//! Children that borrow their parent's memory until they become another program. Invariant: a child makes
//! calls on descriptors, execv and _exit only, on memory that was ready before.

use super::Fd;
use std::ffi::CStr;

/// A child by `vfork(2)` that tries to become `path` and exits with 3 if it cannot; returns its pid.
#[allow(deprecated, reason = "what programs do is what is tested")]
pub fn vfork_exec(path: &CStr) -> i32 {
    let argv = [path.as_ptr(), std::ptr::null()];
    // SAFETY: the child calls execv and _exit only, on memory that was ready before.
    unsafe {
        let pid = libc::vfork();
        if pid == 0 {
            libc::execv(path.as_ptr(), argv.as_ptr());
            libc::_exit(3);
        }
        pid
    }
}

/// A child by `vfork(2)` that has `fd` as its standard input, too, becomes `path` with these `args`, and
/// exits with 3 if it cannot; returns its pid.
pub fn vfork_exec_reading(fd: Fd, path: &CStr, args: &[&CStr]) -> i32 {
    vfork_exec_at([fd, 0], -1, path, args)
}

/// The same with the first under the second number, and `gone` closed.
#[allow(deprecated, reason = "what programs do is what is tested")]
pub fn vfork_exec_at([fd, number]: [Fd; 2], gone: Fd, path: &CStr, args: &[&CStr]) -> i32 {
    let argv: Vec<*const libc::c_char> =
        args.iter().map(|arg| arg.as_ptr()).chain([core::ptr::null()]).collect();
    // SAFETY: the child, on a stack of which the parent sees nothing until it has gone on, calls dup2, close,
    // execv and _exit only; the strings outlive it.
    unsafe {
        let pid = libc::vfork();
        if pid == 0 {
            libc::dup2(fd, number);
            libc::close(gone);
            libc::execv(path.as_ptr(), argv.as_ptr());
            libc::_exit(3);
        }
        pid
    }
}

/// A child by `vfork(2)` that tidies up as those do that start programs: it closes `gone`, puts `other` in
/// the place of `replaced`, closes all from `from` on and becomes /bin/true. Returns its pid.
#[allow(deprecated, reason = "what programs do is what is tested")]
pub fn vfork_tidying(gone: Fd, other: Fd, replaced: Fd, from: u32) -> i32 {
    let path = c"/bin/true";
    let argv = [path.as_ptr(), std::ptr::null()];
    // SAFETY: the child makes calls on its descriptors, execv and _exit only, on memory that was ready
    // before.
    unsafe {
        let pid = libc::vfork();
        if pid == 0 {
            let is_done = libc::close(gone) == 0
                && libc::dup2(other, replaced) == replaced
                && libc::close_range(from, u32::MAX, 0) == 0;
            if is_done {
                libc::execv(path.as_ptr(), argv.as_ptr());
            }
            libc::_exit(3);
        }
        pid
    }
}

/// A child by `vfork(2)` that uses what it makes of its descriptors: a copy of `fd`, which it closes again,
/// and `fd` itself with `other` in its place, which it closes, too. Ends with the number of the step that
/// failed, or 0. Returns its pid.
#[allow(deprecated, reason = "what programs do is what is tested")]
pub fn vfork_at_work(fd: Fd, other: Fd) -> i32 {
    // SAFETY: the child makes calls on its descriptors and _exit only; its variables are in registers or on
    // the part of the stack that its parent does not look at before it has ended.
    unsafe {
        let pid = libc::vfork();
        if pid == 0 {
            let copy = libc::dup(fd);
            let steps = [
                libc::write(copy, c"copy".as_ptr().cast(), 4) == 4,
                libc::close(copy) == 0,
                libc::write(copy, c"gone".as_ptr().cast(), 4) == -1,
                libc::dup2(other, fd) == fd,
                libc::write(fd, c"pipe".as_ptr().cast(), 4) == 4,
                libc::close(fd) == 0,
                libc::write(fd, c"none".as_ptr().cast(), 4) == -1,
            ];
            libc::_exit(steps.iter().position(|step| !step).map_or(0, |at| at as i32 + 1));
        }
        pid
    }
}
