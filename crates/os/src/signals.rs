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

/// Whether the calling thread may be in a handler that runs below what it has interrupted: the kernel leaves
/// the place to which a handler returns on the stack, and no such place stands above here. (A call from which
/// the thread has jumped lies below.) `is_readable` says of a word whether it is there
/// (`futex::is_readable`). Not to be asked behind a filter of system calls.
#[cfg(target_arch = "x86_64")]
pub fn may_be_in_a_handler(is_readable: impl Fn(usize) -> bool) -> bool {
    /// Stacks are looked at so far up; further up anything may be.
    const PAGES: usize = 64;
    const PAGE: usize = 4096;
    const WORD: usize = size_of::<usize>();
    #[cfg(feature = "sim")]
    if let Some(machine) = crate::seat::taken() {
        return machine.is_in_a_handler();
    }
    let Some(places) = return_places() else { return true };
    let here = [0usize; 2];
    let mut at = here.as_ptr().addr().next_multiple_of(WORD);
    for _ in 0..PAGES {
        if !is_readable(at) {
            return false;
        }
        let end = (at + 1).next_multiple_of(PAGE);
        while at < end {
            // SAFETY: a word of a page that is there: of this thread's own stack, or beyond its end, where it
            // is only compared.
            let word = unsafe { core::ptr::with_exposed_provenance::<usize>(at).read_volatile() };
            if word != 0 && places.contains(&word) && is_frame(at, &is_readable) {
                return true;
            }
            at += WORD;
        }
    }
    true
}

/// Whether what begins at `at` with the place of return looks like what the kernel puts there (`struct
/// rt_sigframe`): programs leave such places alone on the stack, too, in what they have set a handler with.
#[cfg(target_arch = "x86_64")]
fn is_frame(at: usize, is_readable: impl Fn(usize) -> bool) -> bool {
    /// In words behind the place of return: uc_flags, uc_link, the code segment that was interrupted.
    const FLAGS: usize = 1;
    const LINK: usize = 2;
    const SEGMENTS: usize = 24;
    const KNOWN_FLAGS: usize = 0b111;
    const USER_CODE: usize = 0x33;
    let word = |index: usize| {
        let place = at + index * size_of::<usize>();
        // SAFETY: a word of a page that is there, as above.
        is_readable(place)
            .then(|| unsafe { core::ptr::with_exposed_provenance::<usize>(place).read_volatile() })
    };
    word(FLAGS).is_some_and(|flags| flags & !KNOWN_FLAGS == 0)
        && word(LINK) == Some(0)
        && word(SEGMENTS).is_some_and(|segments| segments & 0xFFFF == USER_CODE)
}

/// The same where the kernel leaves nothing that could be told from anything else.
#[cfg(not(target_arch = "x86_64"))]
pub fn may_be_in_a_handler(_is_readable: impl Fn(usize) -> bool) -> bool {
    true
}

/// Where handlers of this process return to (SA_RESTORER): one place, as a rule. `None` if there are many.
#[cfg(target_arch = "x86_64")]
fn return_places() -> Option<[usize; 4]> {
    let mut places = [0; 4];
    for signal in 1..=64u32 {
        let mut action = SigAction::default();
        // SAFETY: as below.
        unsafe { syscall!(nr::__NR_rt_sigaction, signal, 0, &raw mut action, 8) };
        if action.handler > 1 && !places.contains(&action.restorer) {
            *places.iter_mut().find(|place| **place == 0)? = action.restorer;
        }
    }
    Some(places)
}

/// What [`crate::process::all_handlers_restart`] says, asked of the kernel now.
pub(crate) fn all_handlers_restart() -> bool {
    handlers().all(|(_, restarts)| restarts)
}

/// The signals (bit 0 for number 1) whose handlers have SA_RESTART, if there are others that have not; else
/// none.
pub(crate) fn restarting_beside_others() -> u64 {
    let (mut restarting, mut are_others) = (0, false);
    for (signal, restarts) in handlers() {
        if restarts {
            restarting |= 1 << (signal - 1);
        } else {
            are_others = true;
        }
    }
    if are_others { restarting } else { 0 }
}

/// The signals that have a handler and count (see [`crate::process::all_handlers_restart`]), and whether
/// calls go on after it.
fn handlers() -> impl Iterator<Item = (u32, bool)> {
    (1..=64u32).filter(|signal| THAT_COUNT & 1 << (signal - 1) != 0).filter_map(handler)
}

/// All but SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV and SIGSYS, which a thread's own faults raise,
/// and libc's own, 32 to 34.
pub(crate) const THAT_COUNT: u64 = !(0b1111 << 3 | 1 << 7 | 1 << 10 | 1 << 30 | 0b111 << 31);

/// A signal that has a handler, and whether calls go on after it.
pub(crate) fn handler(signal: u32) -> Option<(u32, bool)> {
    const SA_RESTART: u64 = 0x1000_0000;
    let mut action = SigAction::default();
    // SAFETY: asking for a disposition writes one kernel sigaction with an 8-byte mask.
    unsafe { syscall!(nr::__NR_rt_sigaction, signal, 0, &raw mut action, 8) };
    (action.handler > 1).then_some((signal, action.flags & SA_RESTART != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_and_libcs_own_signals_do_not_count() {
        let not: Vec<u32> = (1..=64).filter(|signal| THAT_COUNT & 1 << (signal - 1) == 0).collect();
        assert_eq!(not, [4, 5, 6, 7, 8, 11, 31, 32, 33, 34]);
    }
}
