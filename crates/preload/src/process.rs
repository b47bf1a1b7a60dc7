//! fork and the ends of a process. Owns: the counting of a child's copies before the child exists.

use crate::lifecycle::is_borrowed;
use crate::real::{Buf, forward};
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use socket::{Outcome, exec, exit, fork};

static FORK: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static BARE_FORK: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

type AtFork =
    unsafe extern "C" fn(Option<extern "C" fn()>, Option<extern "C" fn()>, Option<extern "C" fn()>) -> c_int;
type RegisterAtFork = unsafe extern "C" fn(
    Option<extern "C" fn()>,
    Option<extern "C" fn()>,
    Option<extern "C" fn()>,
    *mut c_void,
) -> c_int;

/// Finds libc's functions. Hooks stand for them even where the library is switched off.
pub(crate) fn resolve() {
    FORK.store(crate::real::next(c"fork"), Ordering::Release);
    BARE_FORK.store(crate::real::next(c"_Fork"), Ordering::Release);
}

/// Asks to be told of forks made inside libc (daemon, forkpty).
pub(crate) fn prepare() {
    let glibc = crate::real::next(c"__register_atfork");
    if !glibc.is_null() {
        // SAFETY: glibc's function of this name has this type.
        let register = unsafe { core::mem::transmute::<*mut c_void, RegisterAtFork>(glibc) };
        // SAFETY: the handlers live as long as the process; preload libraries are never unloaded.
        unsafe { register(Some(before), Some(in_parent), Some(in_child), core::ptr::null_mut()) };
        return;
    }
    let posix = crate::real::next(c"pthread_atfork");
    if !posix.is_null() {
        // SAFETY: the POSIX function has this type.
        let register = unsafe { core::mem::transmute::<*mut c_void, AtFork>(posix) };
        // SAFETY: as above.
        unsafe { register(Some(before), Some(in_parent), Some(in_child)) };
    }
}

extern "C" fn before() {
    fork::before_fork();
}

extern "C" fn in_parent() {
    fork::after_fork_in_parent();
}

extern "C" fn in_child() {
    fork::after_fork_in_child();
}

/// fork: libc's, whose handlers (above) do the counting; only a failed fork is ours to see.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fork() -> c_int {
    let pid = call(&FORK, c"fork");
    if pid < 0 {
        fork::after_failed_fork();
    }
    pid
}

/// _Fork (POSIX.1-2024, glibc 2.34): no handlers run, so the counting is done here.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _Fork() -> c_int {
    before();
    let pid = call(&BARE_FORK, c"_Fork");
    match pid {
        0 => in_child(),
        1.. => in_parent(),
        _ => {
            in_parent();
            fork::after_failed_fork();
        }
    }
    pid
}

fn call(function: &AtomicPtr<c_void>, name: &CStr) -> c_int {
    let known = function.load(Ordering::Acquire);
    // Another library's constructor may fork before ours has run.
    let real = if known.is_null() { crate::real::next(name) } else { known };
    if real.is_null() {
        return crate::hook::fail(socket::Errno::ENOSYS) as c_int;
    }
    // SAFETY: dlsym returned fork or _Fork, which have this type.
    let real = unsafe { core::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn() -> c_int>(real) };
    // SAFETY: neither has a precondition that the program does not meet itself.
    unsafe { real() }
}

crate::hook::hooks! {
    fn execve [] (path: Buf, argv: Buf, envp: Buf) -> c_int {
        // SAFETY: the program's own arguments, here and below.
        trying_to_exec(|| unsafe { forward::execve(path, argv, envp) })
    }
    fn execv [] (path: Buf, argv: Buf) -> c_int {
        // SAFETY: as above.
        trying_to_exec(|| unsafe { forward::execv(path, argv) })
    }
    fn execvp [] (file: Buf, argv: Buf) -> c_int {
        // SAFETY: as above.
        trying_to_exec(|| unsafe { forward::execvp(file, argv) })
    }
    fn execvpe [] (file: Buf, argv: Buf, envp: Buf) -> c_int {
        // SAFETY: as above.
        trying_to_exec(|| unsafe { forward::execvpe(file, argv, envp) })
    }
    fn fexecve [] (fd: c_int, argv: Buf, envp: Buf) -> c_int {
        // SAFETY: as above.
        trying_to_exec(|| unsafe { forward::fexecve(fd, argv, envp) })
    }
    fn execveat [] (folder: c_int, path: Buf, argv: Buf, envp: Buf, flags: c_int) -> c_int {
        // SAFETY: as above.
        trying_to_exec(|| unsafe { forward::execveat(folder, path, argv, envp, flags) })
    }
}

/// Connections that go on into the next program are made ready for it; should there be none, all is as it
/// was.
fn trying_to_exec(exec: impl FnOnce() -> c_int) -> Outcome {
    before_exec();
    exec();
    let errno = crate::hook::last();
    after_failed_exec();
    Outcome::Fail(errno)
}

/// Before this process, or a child that borrows its memory, becomes another program.
pub(crate) fn before_exec() {
    if crate::lifecycle::is_active() && !is_borrowed() {
        exec::before_exec();
    } else if crate::lifecycle::is_active() {
        exec::before_borrower_execs();
    }
}

fn after_failed_exec() {
    if crate::lifecycle::is_active() && !is_borrowed() {
        exec::after_failed_exec();
    } else if crate::lifecycle::is_active() {
        exec::after_borrower_failed_to_exec();
    }
}

fn leave(status: c_int) -> ! {
    if !is_borrowed() {
        exit::at_exit();
    }
    loop {
        os::process::exit_group(status);
    }
}

/// exit(2), which ends the calling thread.
pub(crate) fn exit_thread(status: c_int) -> isize {
    if crate::lifecycle::is_active() && !is_borrowed() {
        exit::before_thread_ends();
    }
    // SAFETY: the program's own call, which does not return.
    unsafe { os::raw::call(os::raw::nr::__NR_exit, &[status as usize]) }
}

/// _exit skips destructors, but bytes written before the server answered must still go out.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _exit(status: c_int) -> ! {
    leave(status)
}

/// The same under its C99 name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _Exit(status: c_int) -> ! {
    leave(status)
}
