//! Functions that libc builds on its own execve, clone and write without asking the dynamic linker: the exec
//! lists, system, popen, quick_exit, dprintf, perror. We only prepare what they will do to our
//! sockets; and dlopen, before which modules are seen to.
//! Owns: that their arguments, of which often only the program knows how many there are, reach libc's
//! function as they came: registers and stack stand as they stood when it is jumped to.

use crate::lifecycle::has_sockets;
use core::ffi::{CStr, c_char, c_int, c_void};
use sync::{AtomicPtr, AtomicU8, Ordering};

extern "C" fn not_there() -> c_int {
    crate::hook::fail(socket::Errno::ENOSYS) as c_int
}

fn known(function: &AtomicPtr<c_void>, name: &CStr) -> *const c_void {
    let known = function.load(Ordering::Acquire);
    // Another library's constructor may call before ours has run.
    let real = if known.is_null() { crate::real::next(name) } else { known };
    let real = if real.is_null() { crate::modules::elsewhere(name) } else { real };
    if real.is_null() { not_there as *const c_void } else { real }
}

/// This process becomes another program.
fn execs() {
    crate::process::before_exec(false);
}

/// quick_exit ends in libc's own _exit.
fn ends() {
    if has_sockets() {
        socket::exit::at_exit();
    }
}

/// Another program starts, and gets what is not closed on exec.
fn spawns() {
    if has_sockets() {
        socket::lend::before_spawn();
    }
}

/// A program that posix_spawn will start gets a duplicate of `fd`.
fn lends(fd: usize) {
    if has_sockets() {
        socket::lend::before_lending(fd as c_int);
    }
}

/// A module is loaded. What is shared goes back to TCP if that may read and write past us.
fn loads(file: usize, flags: usize) {
    if crate::modules::before_loading(file as *const c_char, flags as c_int) && has_sockets() {
        socket::confine::before_parting();
    }
}

/// Whether dprintf writes past stdio's tables: 1 for yes, 2 for no, 0 while nobody has looked.
static PRINTS_BARE: AtomicU8 = AtomicU8::new(0);

/// glibc has made dprintf a FILE, which `stdio` sees, until 2.36; later ones and musl write to the descriptor
/// itself.
fn learn_how_dprintf_writes() {
    let version = crate::real::next(c"gnu_get_libc_version");
    let is_bare = if version.is_null() {
        true
    } else {
        // SAFETY: glibc's function of this name takes nothing and returns a static string.
        let version = unsafe {
            let version =
                core::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *const c_char>(version);
            CStr::from_ptr(version())
        };
        let mut numbers = version.to_bytes().split(|byte| *byte == b'.').map(number);
        (numbers.next(), numbers.next()) >= (Some(2), Some(37))
    };
    PRINTS_BARE.store(if is_bare { 1 } else { 2 }, Ordering::Relaxed);
}

fn number(digits: &[u8]) -> u32 {
    digits
        .iter()
        .filter(|digit| digit.is_ascii_digit())
        .fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'))
}

const STDERR: c_int = 2;

/// dprintf writes to `fd`.
fn prints(fd: usize) {
    if PRINTS_BARE.load(Ordering::Relaxed) == 1 {
        writes(fd as c_int);
    }
}

/// Writes to `fd` that we shall not see, or by a number that libc makes for itself (perror, as long as
/// nothing was printed): that direction goes back to TCP first.
fn writes(fd: c_int) {
    if has_sockets() {
        socket::stream::demote(fd);
    }
}

macro_rules! pass_on {
    ($($name:ident, $pointer:ident, $before:ident, ($($argument:ident),*) $prepare:expr;)*) => {
        $(
            static $pointer: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

            // (The arguments are in their registers still.)
            extern "C" fn $before($($argument: usize),*) -> *const c_void {
                $prepare;
                known(&$pointer, concat_name(concat!(stringify!($name), "\0")))
            }

            // Seven words and eight vectors keep the stack aligned for the call.
            #[cfg(target_arch = "x86_64")]
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() {
                core::arch::naked_asm!(
                    "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                    "sub rsp, 128",
                    "movups [rsp], xmm0", "movups [rsp + 16], xmm1", "movups [rsp + 32], xmm2",
                    "movups [rsp + 48], xmm3", "movups [rsp + 64], xmm4", "movups [rsp + 80], xmm5",
                    "movups [rsp + 96], xmm6", "movups [rsp + 112], xmm7",
                    "call {before}",
                    "mov r11, rax",
                    "movups xmm0, [rsp]", "movups xmm1, [rsp + 16]", "movups xmm2, [rsp + 32]",
                    "movups xmm3, [rsp + 48]", "movups xmm4, [rsp + 64]", "movups xmm5, [rsp + 80]",
                    "movups xmm6, [rsp + 96]", "movups xmm7, [rsp + 112]",
                    "add rsp, 128",
                    "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                    "jmp r11",
                    before = sym $before,
                )
            }

            #[cfg(target_arch = "aarch64")]
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() {
                core::arch::naked_asm!(
                    "stp x29, x30, [sp, #-208]!",
                    "stp x0, x1, [sp, #16]", "stp x2, x3, [sp, #32]",
                    "stp x4, x5, [sp, #48]", "stp x6, x7, [sp, #64]",
                    "stp q0, q1, [sp, #80]", "stp q2, q3, [sp, #112]",
                    "stp q4, q5, [sp, #144]", "stp q6, q7, [sp, #176]",
                    "bl {before}",
                    "mov x16, x0",
                    "ldp x0, x1, [sp, #16]", "ldp x2, x3, [sp, #32]",
                    "ldp x4, x5, [sp, #48]", "ldp x6, x7, [sp, #64]",
                    "ldp q0, q1, [sp, #80]", "ldp q2, q3, [sp, #112]",
                    "ldp q4, q5, [sp, #144]", "ldp q6, q7, [sp, #176]",
                    "ldp x29, x30, [sp], #208",
                    "br x16",
                    before = sym $before,
                )
            }
        )*

        /// Finds libc's functions, for they are hooked even where the library is switched off. Called by the
        /// constructor.
        pub(crate) fn resolve() {
            $( $pointer.store(
                crate::real::next(concat_name(concat!(stringify!($name), "\0"))),
                Ordering::Release,
            ); )*
            learn_how_dprintf_writes();
        }
    };
}

const fn concat_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name without NUL"),
    }
}

pass_on! {
    execl, EXECL, before_execl, () execs();
    execlp, EXECLP, before_execlp, () execs();
    execle, EXECLE, before_execle, () execs();
    quick_exit, QUICK_EXIT, before_quick_exit, () ends();
    posix_spawn_file_actions_adddup2, ADDDUP2, before_adddup2, (_actions, fd) lends(fd);
    system, SYSTEM, before_system, () spawns();
    popen, POPEN, before_popen, () spawns();
    // (glibc tells by the return address who asks: whose RPATH counts.)
    dlopen, DLOPEN, before_dlopen, (file, flags) loads(file, flags);
    dprintf, DPRINTF, before_dprintf, (fd) prints(fd);
    vdprintf, VDPRINTF, before_vdprintf, (fd) prints(fd);
    __dprintf_chk, DPRINTF_CHK, before_dprintf_chk, (fd) prints(fd);
    __vdprintf_chk, VDPRINTF_CHK, before_vdprintf_chk, (fd) prints(fd);
    perror, PERROR, before_perror, () writes(STDERR);
    herror, HERROR, before_herror, () writes(STDERR);
    psiginfo, PSIGINFO, before_psiginfo, () writes(STDERR);
    backtrace_symbols_fd, BACKTRACE, before_backtrace_symbols_fd, (_addresses, _count, fd) writes(fd as c_int);
}
