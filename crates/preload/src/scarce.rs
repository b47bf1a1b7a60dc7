//! Calls that make a descriptor. Owns: that none of them fails for want of a number which is ours and not
//! needed: what can be spared is given up, and the call made again.

use crate::hook::hooks;
use crate::lifecycle::{made, made_any, note_made, passed_on};
use crate::real::{Buf, forward};
use core::ffi::c_int;
use socket::Outcome;

fn outcome(call: impl Fn() -> c_int) -> Outcome {
    passed_on(made(call))
}

/// Of a call that makes two, and writes their numbers to `ends`.
fn outcome_of_two(ends: Buf, call: impl Fn() -> c_int) -> Outcome {
    let result = made_any(call);
    if result == 0 {
        // SAFETY: the kernel has just written two numbers there.
        let made = unsafe { ends.cast::<[c_int; 2]>().read_unaligned() };
        made.into_iter().for_each(note_made);
    }
    passed_on(result)
}

hooks! {
    fn socket [] (domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        // SAFETY: the program's own arguments, here and below.
        outcome(|| unsafe { forward::socket(domain, kind, protocol) })
    }
    fn socketpair [] (domain: c_int, kind: c_int, protocol: c_int, ends: Buf) -> c_int {
        // SAFETY: as above.
        outcome_of_two(ends, || unsafe { forward::socketpair(domain, kind, protocol, ends) })
    }
    fn open [] (path: Buf, flags: c_int, mode: u32) -> c_int {
        // SAFETY: as above. (Where C passes no mode, libc does not look at it.)
        outcome(|| unsafe { forward::open(path, flags, mode) })
    }
    fn open64 [] (path: Buf, flags: c_int, mode: u32) -> c_int {
        // SAFETY: as above.
        outcome(|| unsafe { forward::open64(path, flags, mode) })
    }
    fn openat [] (folder: c_int, path: Buf, flags: c_int, mode: u32) -> c_int {
        // SAFETY: as above.
        outcome(|| unsafe { forward::openat(folder, path, flags, mode) })
    }
    fn openat64 [] (folder: c_int, path: Buf, flags: c_int, mode: u32) -> c_int {
        // SAFETY: as above.
        outcome(|| unsafe { forward::openat64(folder, path, flags, mode) })
    }
    fn pipe [] (ends: Buf) -> c_int {
        // SAFETY: as above.
        outcome_of_two(ends, || unsafe { forward::pipe(ends) })
    }
    fn pipe2 [] (ends: Buf, flags: c_int) -> c_int {
        // SAFETY: as above.
        outcome_of_two(ends, || unsafe { forward::pipe2(ends, flags) })
    }
    fn eventfd [] (value: u32, flags: c_int) -> c_int {
        // SAFETY: as above.
        outcome(|| unsafe { forward::eventfd(value, flags) })
    }
    fn timerfd_create [] (clock: c_int, flags: c_int) -> c_int {
        // SAFETY: as above.
        outcome(|| unsafe { forward::timerfd_create(clock, flags) })
    }
    fn signalfd [] (fd: c_int, mask: Buf, flags: c_int) -> c_int {
        // SAFETY: as above.
        outcome(|| unsafe { forward::signalfd(fd, mask, flags) })
    }
    fn inotify_init1 [] (flags: c_int) -> c_int {
        // SAFETY: as above.
        outcome(|| unsafe { forward::inotify_init1(flags) })
    }
    fn memfd_create [] (name: Buf, flags: u32) -> c_int {
        // SAFETY: as above.
        outcome(|| unsafe { forward::memfd_create(name, flags) })
    }    fn creat [creat64] (path: Buf, mode: u32) -> c_int {
        // SAFETY: as above.
        outcome(|| unsafe { forward::creat(path, mode) })
    }
    fn __open_2 [] (path: Buf, flags: c_int) -> c_int {
        // SAFETY: as above.
        outcome(|| unsafe { forward::__open_2(path, flags) })
    }
    fn __open64_2 [] (path: Buf, flags: c_int) -> c_int {
        // SAFETY: as above.
        outcome(|| unsafe { forward::__open64_2(path, flags) })
    }
    fn __openat_2 [] (folder: c_int, path: Buf, flags: c_int) -> c_int {
        // SAFETY: as above.
        outcome(|| unsafe { forward::__openat_2(folder, path, flags) })
    }
    fn __openat64_2 [] (folder: c_int, path: Buf, flags: c_int) -> c_int {
        // SAFETY: as above.
        outcome(|| unsafe { forward::__openat64_2(folder, path, flags) })
    }
    fn inotify_init [] () -> c_int {
        // SAFETY: as above.
        outcome(|| unsafe { forward::inotify_init() })
    }
    fn pidfd_open [] (pid: c_int, flags: u32) -> c_int {
        // SAFETY: as above.
        outcome(|| unsafe { forward::pidfd_open(pid, flags) })
    }
    fn posix_openpt [] (flags: c_int) -> c_int {
        // SAFETY: as above.
        outcome(|| unsafe { forward::posix_openpt(flags) })
    }
}
