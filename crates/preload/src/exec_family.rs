//! execl, execlp, execle, posix_spawn, posix_spawnp. Owns: that their arguments, of which for the first three only the
//! program knows how many there are, reach libc's function as they came: registers and stack stand as they stood when it
//! is jumped to.
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
    POSIX_SPAWN.store(crate::real::next(c"posix_spawn"), Ordering::Release);
    POSIX_SPAWNP.store(crate::real::next(c"posix_spawnp"), Ordering::Release);
}

extern "C" fn not_there() -> c_int {
    crate::hook::fail(socket::Errno::ENOSYS) as c_int
}

/// Does what an exec needs and says where to jump.
fn before(function: &AtomicPtr<c_void>, name: &CStr) -> *const c_void {
    let _ = crate::process::before_exec();
    known(function, name)
}

fn known(function: &AtomicPtr<c_void>, name: &CStr) -> *const c_void {
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

static POSIX_SPAWN: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static POSIX_SPAWNP: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// The new program gets what is not closed on exec, and what file actions duplicate.
fn before_spawn(function: &AtomicPtr<c_void>, name: &CStr, file_actions: *const c_void) -> *const c_void {
    if crate::lifecycle::is_active() && !crate::lifecycle::is_borrowed() {
        socket::close::before_spawn(!file_actions.is_null());
    }
    known(function, name)
}

// (The arguments are in their registers still; the address written to and the path do not matter.)
extern "C" fn before_posix_spawn(
    _: *const c_void,
    _: *const c_void,
    actions: *const c_void,
) -> *const c_void {
    before_spawn(&POSIX_SPAWN, c"posix_spawn", actions)
}

extern "C" fn before_posix_spawnp(
    _: *const c_void,
    _: *const c_void,
    actions: *const c_void,
) -> *const c_void {
    before_spawn(&POSIX_SPAWNP, c"posix_spawnp", actions)
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
    posix_spawn => before_posix_spawn,
    posix_spawnp => before_posix_spawnp,
}
