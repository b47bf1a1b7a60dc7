//! Signal handlers of this process, as the kernel has them. Owns: which of them count for the question
//! whether a call goes on.

use crate::raw::{nr, syscall};

/// `struct kernel_sigaction` of x86-64 and aarch64.
#[repr(C)]
#[derive(Default)]
struct SigAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// Whether the calling thread runs on the stack that it has set aside for handlers; `true` if the kernel will
/// not say.
pub fn is_on_a_stack_apart() -> bool {
    const SS_ONSTACK: u32 = 1;
    /// `stack_t`.
    #[repr(C)]
    #[derive(Default)]
    struct Stack {
        start: usize,
        flags: u32,
        len: usize,
    }
    let mut now = Stack::default();
    // SAFETY: asking for the stack writes one `stack_t`.
    let asked = crate::check(unsafe { syscall!(nr::__NR_sigaltstack, 0, &raw mut now) });
    asked.is_err() || now.flags & SS_ONSTACK != 0
}

/// What [`crate::process::all_handlers_restart`] says, asked of the kernel now.
pub(crate) fn all_handlers_restart() -> bool {
    const SA_RESTART: u64 = 0x1000_0000;
    /// SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS.
    const FAULTS: [u32; 7] = [4, 5, 6, 7, 8, 11, 31];
    const LIBCS: core::ops::RangeInclusive<u32> = 32..=34;
    (1..=64u32).filter(|signal| !FAULTS.contains(signal) && !LIBCS.contains(signal)).all(|signal| {
        let mut action = SigAction::default();
        // SAFETY: asking for a disposition writes one kernel sigaction with an 8-byte mask.
        unsafe { syscall!(nr::__NR_rt_sigaction, signal, 0, &raw mut action, 8) };
        action.handler <= 1 || action.flags & SA_RESTART != 0
    })
}
