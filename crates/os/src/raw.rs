//! The system call instruction for x86-64 and aarch64, and the kernel's error numbers.
//! Owns: the calling convention. Every other module of this room argues why its arguments are sound.

use core::arch::asm;

pub use linux_raw_sys::general as nr;

/// A positive kernel error number (`asm-generic/errno.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident)*) => {
        impl Errno {
            $(
                #[doc = concat!("The kernel's `", stringify!($name), "`.")]
                pub const $name: Errno = Errno(linux_raw_sys::errno::$name as i32);
            )*
        }
    };
}
errnos! { EAGAIN EALREADY EBADF ECONNRESET EEXIST EFAULT EINPROGRESS EINTR EINVAL EISCONN EMFILE EMSGSIZE
ENOENT ENOMEM ENOSYS ENOTCONN ENOTSOCK ENOTTY EOPNOTSUPP EPERM EPIPE ETIMEDOUT EACCES ESRCH EIO ESPIPE EDESTADDRREQ EXDEV }
errnos! { ENFILE ENOSPC EDQUOT ECONNREFUSED }

impl Errno {
    /// Whether something has run out: descriptors, memory, room on a file system.
    pub fn is_shortage(self) -> bool {
        matches!(self, Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOSPC | Errno::EDQUOT)
    }
}

/// Issues system call `number` with six arguments and returns the kernel's raw answer (`-errno` on failure).
///
/// # Safety
/// The caller answers for what the kernel does with the arguments: pointers must be valid for the call's
/// reads and writes, and the call must not break memory that Rust code relies on.
#[inline]
pub unsafe fn syscall6(number: u32, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
    #[cfg(feature = "sim")]
    if let Some(machine) = crate::seat::taken() {
        // SAFETY: forwarded promise of the caller.
        return unsafe { machine.system_call(number, [a, b, c, d, e, f]) };
    }
    // SAFETY: forwarded promise of the caller.
    unsafe { real6(number, [a, b, c, d, e, f]) }
}

/// The instruction itself: the machine's kernel.
///
/// # Safety
/// As for [`syscall6`].
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn real6(number: u32, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let ret: isize;
    // SAFETY: the x86-64 kernel ABI: rcx and r11 are clobbered, all else is preserved; the caller vouches for
    // the arguments.
    unsafe {
        asm!("syscall", inlateout("rax") number as usize => ret, in("rdi") a, in("rsi") b, in("rdx") c,
             in("r10") d, in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    ret
}

/// The instruction itself: the machine's kernel.
///
/// # Safety
/// As for [`syscall6`].
#[inline(always)]
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn real6(number: u32, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let ret: isize;
    // SAFETY: the aarch64 kernel ABI preserves all registers but x0; the caller vouches for the arguments.
    unsafe {
        asm!("svc 0", in("x8") number as usize, inlateout("x0") a => ret, in("x1") b, in("x2") c, in("x3") d,
             in("x4") e, in("x5") f, options(nostack));
    }
    ret
}

/// `syscall!(NR, args...)`: the raw call with up to six arguments, each cast to `usize`.
macro_rules! syscall {
    ($n:expr) => { $crate::raw::syscall6($n, 0, 0, 0, 0, 0, 0) };
    ($n:expr, $a:expr) => { $crate::raw::syscall6($n, $a as usize, 0, 0, 0, 0, 0) };
    ($n:expr, $a:expr, $b:expr) => { $crate::raw::syscall6($n, $a as usize, $b as usize, 0, 0, 0, 0) };
    ($n:expr, $a:expr, $b:expr, $c:expr) => {
        $crate::raw::syscall6($n, $a as usize, $b as usize, $c as usize, 0, 0, 0)
    };
    ($n:expr, $a:expr, $b:expr, $c:expr, $d:expr) => {
        $crate::raw::syscall6($n, $a as usize, $b as usize, $c as usize, $d as usize, 0, 0)
    };
    ($n:expr, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr) => {
        $crate::raw::syscall6($n, $a as usize, $b as usize, $c as usize, $d as usize, $e as usize, 0)
    };
    ($n:expr, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr) => {
        $crate::raw::syscall6($n, $a as usize, $b as usize, $c as usize, $d as usize, $e as usize, $f as usize)
    };
}
pub(crate) use syscall;

/// The same with the arguments in a slice; missing ones are 0.
///
/// # Safety
/// As for [`syscall6`].
pub unsafe fn call(number: u32, args: &[usize]) -> isize {
    let at = |index: usize| args.get(index).copied().unwrap_or(0);
    // SAFETY: forwarded promise of the caller.
    unsafe { syscall6(number, at(0), at(1), at(2), at(3), at(4), at(5)) }
}
