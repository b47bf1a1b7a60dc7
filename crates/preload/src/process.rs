//! fork and the ends of a process. Owns: the counting of a child's copies before the child exists.

use crate::lifecycle::is_borrowed;
use crate::real::{Buf, forward};
use core::ffi::{CStr, c_int, c_void};
use os::raw::nr;
use socket::{Outcome, exec, exit, fork};
use sync::{AtomicPtr, Ordering};

static FORK: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static BARE_FORK: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static CLONE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static EXIT: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

type Exit = unsafe extern "C" fn(c_int) -> !;
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
    CLONE.store(crate::real::next(c"clone"), Ordering::Release);
    EXIT.store(crate::real::next(c"_exit"), Ordering::Release);
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
    if socket::confine::stays_out() {
        return;
    }
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
    forking(|| call(&BARE_FORK, c"_Fork") as isize) as c_int
}

/// Makes a child by a call of which no handler is told.
fn forking(make: impl FnOnce() -> isize) -> isize {
    before();
    let pid = make();
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

type Start = unsafe extern "C-unwind" fn(Buf) -> c_int;
type Clone = unsafe extern "C-unwind" fn(Option<Start>, Buf, c_int, Buf, Buf, Buf, Buf) -> c_int;

/// What a child of clone is to run.
struct Begun {
    start: Start,
    arg: Buf,
}

/// The first function of a child that has memory of its own: what it got is counted, and then it is the
/// program's.
unsafe extern "C-unwind" fn begin(begun: Buf) -> c_int {
    in_child();
    // SAFETY: it lies in the frame of `clone`, of which this child has a copy.
    let Begun { start, arg } = unsafe { begun.cast::<Begun>().read() };
    // SAFETY: the program's own function and argument.
    unsafe { start(arg) }
}

/// Whether a child made with these flags has a copy of its parent's memory, and so of the parent's sockets.
fn is_copied(flags: usize) -> bool {
    crate::lifecycle::is_active() && flags & nr::CLONE_VM as usize == 0
}

/// Before a child is made with these flags. A thread is this process; a child that shares memory alone while
/// its parent waits (vfork) is known by what it does.
fn before_child(flags: usize) {
    let [memory, files, waits, thread] = [nr::CLONE_VM, nr::CLONE_FILES, nr::CLONE_VFORK, nr::CLONE_THREAD]
        .map(|flag| flags & flag as usize != 0);
    let parts = if files { !thread } else { memory && !waits };
    if parts {
        crate::lifecycle::parting_from_child();
    }
}

/// clone(2). (Of the last three arguments libc reads those that the flags name.)
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn clone(
    start: Option<Start>,
    stack: Buf,
    flags: c_int,
    arg: Buf,
    parent_tid: Buf,
    tls: Buf,
    child_tid: Buf,
) -> c_int {
    let real = find(&CLONE, c"clone");
    if real.is_null() {
        return crate::hook::fail(socket::Errno::ENOSYS) as c_int;
    }
    // SAFETY: dlsym returned clone, which takes these registers and stack words, named or not.
    let real = unsafe { core::mem::transmute::<*mut c_void, Clone>(real) };
    before_child(flags as usize);
    match start {
        Some(start) if !stack.is_null() && is_copied(flags as usize) => {
            let mut begun = Begun { start, arg };
            let begun = (&raw mut begun).cast();
            // SAFETY: the program's own arguments, but for the function, which calls the program's.
            forking(|| unsafe { real(Some(begin), stack, flags, begun, parent_tid, tls, child_tid) as isize })
                as c_int
        }
        // SAFETY: the program's own arguments.
        _ => unsafe { real(start, stack, flags, arg, parent_tid, tls, child_tid) },
    }
}

/// The same under glibc's other name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __clone(
    start: Option<Start>,
    stack: Buf,
    flags: c_int,
    arg: Buf,
    parent_tid: Buf,
    tls: Buf,
    child_tid: Buf,
) -> c_int {
    // SAFETY: the same contract under another name.
    unsafe { clone(start, stack, flags, arg, parent_tid, tls, child_tid) }
}

/// clone and clone3 by `syscall(2)`.
pub(crate) fn clone_by_number(number: u32, args: [usize; 6]) -> isize {
    /// Up to the stack, which may be null: then the child goes on with a copy of its parent's.
    #[repr(C)]
    struct Wanted {
        flags: u64,
        others: [u64; 4],
        stack: u64,
    }
    let (flags, stack) = if number == nr::__NR_clone {
        (args[0], args[1])
    } else {
        let wanted = args[0] as *const Wanted;
        let is_short = args[1] < size_of::<Wanted>();
        if is_short
            || socket::confine::stays_out()
            || crate::pointers::readable(wanted, size_of::<Wanted>()).is_err()
        {
            ((nr::CLONE_VM | nr::CLONE_FILES | nr::CLONE_THREAD) as usize, 0)
        } else {
            // SAFETY: the program passed a structure of at least this length, and it is there.
            let wanted = unsafe { wanted.read_unaligned() };
            (wanted.flags as usize, wanted.stack as usize)
        }
    };
    before_child(flags);
    // SAFETY: the program's own call.
    let make = || unsafe { os::raw::call(number, &args) };
    crate::hook::from_raw(if stack == 0 && is_copied(flags) { forking(make) } else { make() })
}

/// fork and vfork by `syscall(2)`. The child of either gets memory of its own: one that borrowed ours would
/// return from this function, and its parent once more from what is left of the frame.
#[cfg(target_arch = "x86_64")]
pub(crate) fn fork_by_number(flags: u32) -> isize {
    const SIGCHLD: u32 = 17;
    // SAFETY: no pointers; the child goes on with a copy of this memory.
    let make = || unsafe { os::raw::call(nr::__NR_clone, &[(flags | SIGCHLD) as usize]) };
    crate::hook::from_raw(if is_copied(0) { forking(make) } else { make() })
}

fn find(function: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = function.load(Ordering::Acquire);
    // Another library's constructor may fork before ours has run.
    if known.is_null() { crate::real::next(name) } else { known }
}

fn call(function: &AtomicPtr<c_void>, name: &CStr) -> c_int {
    let real = find(function, name);
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
    before_exec(true);
    exec();
    let errno = crate::hook::last();
    after_failed_exec();
    Outcome::Fail(errno)
}

/// Before this process, or a child that borrows its memory, becomes another program.
pub(crate) fn before_exec(is_failure_told: bool) {
    if socket::confine::stays_out() {
        return;
    }
    if crate::lifecycle::is_active() && !is_borrowed() {
        exec::before_exec(is_failure_told);
    } else if crate::lifecycle::is_active() {
        exec::before_borrower_execs();
    }
}

fn after_failed_exec() {
    if socket::confine::stays_out() {
        return;
    }
    if crate::lifecycle::is_active() && !is_borrowed() {
        exec::after_failed_exec();
    } else if crate::lifecycle::is_active() {
        exec::after_borrower_failed_to_exec();
    }
}

fn prepare_to_leave() {
    if !socket::has_been_any() {
        return;
    }
    match is_borrowed() {
        true => exec::borrower_leaves(),
        false => exit::at_exit(),
    }
}

/// (libc knows what is left to do where a filter refuses exit_group.)
fn leave(status: c_int) -> ! {
    prepare_to_leave();
    let real = EXIT.load(Ordering::Acquire);
    if !real.is_null() {
        // SAFETY: libc's `_exit` has this type.
        let exit = unsafe { core::mem::transmute::<*mut c_void, Exit>(real) };
        // SAFETY: takes an integer, and does not return.
        unsafe { exit(status) };
    }
    loop {
        os::process::exit_group(status);
    }
}

/// exit_group(2) itself, which returns where a filter refuses it.
pub(crate) fn exit_by_number(status: c_int) -> c_int {
    prepare_to_leave();
    // SAFETY: an integer alone.
    crate::hook::from_raw(unsafe { os::raw::call(os::raw::nr::__NR_exit_group, &[status as usize]) }) as c_int
}

/// _exit skips destructors, but what was left unread must be answered by a reset.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _exit(status: c_int) -> ! {
    leave(status)
}

/// The same under its C99 name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _Exit(status: c_int) -> ! {
    leave(status)
}
