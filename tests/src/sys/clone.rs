//! Children with memory of their own, made in every way but fork(2).

use super::{Errno, errno, exit_now};
use libc::{c_int, c_long, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

/// By which function a child is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cloned {
    /// `clone(3)`, without CLONE_VM.
    Clone,
    /// The same as glibc's `__clone`.
    UnderClone,
    /// `_Fork(3)`.
    BareFork,
    /// `syscall(SYS_fork)`.
    Fork,
    /// `syscall(SYS_clone)`.
    Number,
    /// `syscall(SYS_clone3)`.
    Number3,
    /// The system call instruction, which no library sees.
    Unseen,
}

impl Cloned {
    /// All of them that go by a function.
    pub const SEEN: [Cloned; 6] =
        [Cloned::Clone, Cloned::UnderClone, Cloned::BareFork, Cloned::Fork, Cloned::Number, Cloned::Number3];
}

/// Runs `child` in a process made that way, which ends with its result; returns the pid.
pub fn cloned(how: Cloned, child: impl FnOnce() -> u8) -> i32 {
    let pid = match how {
        Cloned::Clone | Cloned::UnderClone => return by_function(how, child),
        Cloned::BareFork => super::int_by_name("_Fork", &[]).map_or(-1, |pid| pid as c_long),
        // SAFETY: each child goes on with a copy of this memory and stack.
        Cloned::Fork => unsafe { libc::syscall(SYS_FORK, FORK_FLAGS, 0, 0, 0, 0) },
        // SAFETY: as above.
        Cloned::Number => unsafe { libc::syscall(libc::SYS_clone, FORK_FLAGS, 0, 0, 0, 0) },
        // SAFETY: as above.
        Cloned::Unseen => unsafe { unseen() },
        Cloned::Number3 => {
            // flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls.
            let wanted = [0u64, 0, 0, 0, FORK_FLAGS as u64, 0, 0, 0];
            // SAFETY: the structure is a live local; the child goes on with a copy of this memory and stack.
            unsafe { libc::syscall(libc::SYS_clone3, wanted.as_ptr(), size_of_val(&wanted)) }
        }
    };
    match pid {
        0 => exit_now(run(child)),
        pid if pid > 0 => pid as i32,
        _ => panic!("{how:?}: {}", errno()),
    }
}

const FORK_FLAGS: c_long = libc::SIGCHLD as c_long;
#[cfg(target_arch = "x86_64")]
const SYS_FORK: c_long = libc::SYS_fork;
#[cfg(not(target_arch = "x86_64"))]
const SYS_FORK: c_long = libc::SYS_clone;

fn run(child: impl FnOnce() -> u8) -> u8 {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(101)
}

static FORKED: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_signal(_: c_int) {
    let saved = errno();
    // SAFETY: the child goes on where its parent was interrupted, and makes libc calls only.
    let pid = unsafe { libc::fork() };
    FORKED.store(pid, Ordering::SeqCst);
    super::set_errno(saved.0);
}

/// From now on the handler of `signal`, after which calls go on, forks.
pub fn fork_in_handler(signal: c_int) {
    // SAFETY: fork may be called in a handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}

/// The child that the handler has made last.
pub fn forked() -> i32 {
    FORKED.load(Ordering::SeqCst)
}

fn by_function<F: FnOnce() -> u8>(how: Cloned, child: F) -> i32 {
    extern "C" fn start<F: FnOnce() -> u8>(child: *mut c_void) -> c_int {
        // SAFETY: this process's copy of what the parent keeps in its frame below; taken once.
        let child = unsafe { (*child.cast::<Option<F>>()).take() };
        child.map_or(102, run).into()
    }
    let mut stack = vec![0u64; 1 << 16];
    let mut child = Some(child);
    // SAFETY: the end of a live allocation; the child has its own copy of it.
    let top = unsafe { stack.as_mut_ptr().add(stack.len()) };
    let (top, arg) = (top.cast::<c_void>(), (&raw mut child).cast::<c_void>());
    let pid = match how {
        Cloned::UnderClone => {
            let args = [start::<F> as *const () as usize, top as usize, libc::SIGCHLD as usize, arg as usize];
            super::int_by_name("__clone", &args)
        }
        // SAFETY: a function, a stack and an argument that live as long as the child needs them.
        _ => super::ret32(unsafe { libc::clone(start::<F>, top, libc::SIGCHLD, arg) }),
    };
    std::mem::forget(child);
    pid.map_or_else(|errno: Errno| panic!("{how:?}: {errno}"), |pid| pid as i32)
}

/// Runs `child` in a process that shares its parent's memory and not its descriptors (CLONE_VM), or its
/// descriptors and not its memory (CLONE_FILES); returns the pid. Meanwhile the parent may only wait.
pub fn cloned_apart<F: FnOnce() -> u8>(flags: c_int, child: F) -> i32 {
    extern "C" fn start<F: FnOnce() -> u8>(child: *mut c_void) -> c_int {
        // SAFETY: what was leaked below; taken once in each memory.
        let child = unsafe { (*child.cast::<Option<F>>()).take() };
        child.map_or(102, |child| child()).into()
    }
    // (It may outlive this call, and nobody knows when it has ended.)
    let stack = vec![0u64; 1 << 16].leak();
    let child: *mut Option<F> = Box::into_raw(Box::new(Some(child)));
    // SAFETY: the end of a live allocation, and an argument that lives as long.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(stack.len());
        super::ret32(libc::clone(start::<F>, top.cast(), flags | libc::SIGCHLD, child.cast()))
    };
    pid.unwrap_or_else(|errno| panic!("{flags:x}: {errno}")) as i32
}

/// # Safety
/// The child has one thread, and a copy of its parent's stack.
unsafe fn unseen() -> c_long {
    #[cfg(target_arch = "x86_64")]
    {
        let mut pid = libc::SYS_clone;
        // SAFETY: the kernel's convention; the child goes on behind the instruction.
        unsafe {
            std::arch::asm!("syscall", inlateout("rax") pid, in("rdi") FORK_FLAGS, in("rsi") 0, in("rdx") 0,
                in("r10") 0, in("r8") 0, lateout("rcx") _, lateout("r11") _);
        }
        pid
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let mut pid = FORK_FLAGS;
        // SAFETY: as above.
        unsafe {
            std::arch::asm!("svc 0", in("x8") libc::SYS_clone, inlateout("x0") pid, in("x1") 0, in("x2") 0,
                in("x3") 0, in("x4") 0);
        }
        pid
    }
}
