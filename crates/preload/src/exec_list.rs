//! execl, execlp, execle. Owns: that their arguments, of which only the program knows how many there are, reach libc's
//! function as they came: registers and stack stand as they stood when it is jumped to.
//!
//! (libc builds these on its own execve without asking the dynamic linker, so the hooks in `process` never see them.)

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

static EXECL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static EXECLP: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static EXECLE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Finds libc's functions. Called by the constructor.
pub(crate) fn resolve() {
    EXECL.store(crate::real::next(c"execl"), Ordering::Release);
    EXECLP.store(crate::real::next(c"execlp"), Ordering::Release);
    EXECLE.store(crate::real::next(c"execle"), Ordering::Release);
}

extern "C" fn not_there() -> c_int {
    crate::hook::fail(socket::Errno::ENOSYS) as c_int
}

/// Does what an exec needs and says where to jump.
fn before(function: &AtomicPtr<c_void>, name: &CStr) -> *const c_void {
    let _ = crate::process::before_exec();
    let known = function.load(Ordering::Acquire);
    let real = if known.is_null() { crate::real::next(name) } else { known };
    if real.is_null() { not_there as *const c_void } else { real }
}

extern "C" fn before_execl() -> *const c_void {
    before(&EXECL, c"execl")
}

extern "C" fn before_execlp() -> *const c_void {
    before(&EXECLP, c"execlp")
}

extern "C" fn before_execle() -> *const c_void {
    before(&EXECLE, c"execle")
}

macro_rules! pass_on {
    ($($name:ident => $before:ident,)*) => { $(
        // Seven words keep the stack aligned for the call; al holds the number of vector registers of a variadic call.
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                "call {before}",
                "mov r11, rax",
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
                "stp x29, x30, [sp, #-80]!",
                "stp x0, x1, [sp, #16]", "stp x2, x3, [sp, #32]", "stp x4, x5, [sp, #48]", "stp x6, x7, [sp, #64]",
                "bl {before}",
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]", "ldp x2, x3, [sp, #32]", "ldp x4, x5, [sp, #48]", "ldp x6, x7, [sp, #64]",
                "ldp x29, x30, [sp], #80",
                "br x16",
                before = sym $before,
            )
        }
    )* };
}

pass_on! {
    execl => before_execl,
    execlp => before_execlp,
    execle => before_execle,
}
