//! Signal handlers of this process, as the kernel has them. Owns: which of them count for the question
//! whether a call goes on, and that a signal which comes while a call has given its core away ends it as it
//! would have ended a sleep.

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
            if word != 0 && places.contains(&word) {
                return true;
            }
            at += WORD;
        }
    }
    true
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
const THAT_COUNT: u64 = !(0b1111 << 3 | 1 << 7 | 1 << 10 | 1 << 30 | 0b111 << 31);

/// A signal that has a handler, and whether calls go on after it.
fn handler(signal: u32) -> Option<(u32, bool)> {
    const SA_RESTART: u64 = 0x1000_0000;
    let mut action = SigAction::default();
    // SAFETY: asking for a disposition writes one kernel sigaction with an 8-byte mask.
    unsafe { syscall!(nr::__NR_rt_sigaction, signal, 0, &raw mut action, 8) };
    (action.handler > 1).then_some((signal, action.flags & SA_RESTART != 0))
}

/// Signals of the calling thread, held back while its core is away: a yield does not tell whether a handler
/// ran. They come when this is dropped.
pub struct HeldBack {
    /// What the program blocks.
    blocked: u64,
}

/// A handler ran where a call might have slept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupted {
    /// Whether calls without a time limit go on after all that ran (SA_RESTART).
    pub restarts: bool,
}

const SIG_BLOCK: i32 = 0;
const SIG_SETMASK: i32 = 2;

/// Holds them back from now on. `None` where that may not be.
pub fn hold_back() -> Option<HeldBack> {
    if crate::confined::is_confined() {
        return None;
    }
    let (all, mut blocked) = (THAT_COUNT, 0u64);
    // SAFETY: the mask is read, and the former one written, of eight bytes each.
    let made = unsafe { syscall!(nr::__NR_rt_sigprocmask, SIG_BLOCK, &raw const all, &raw mut blocked, 8) };
    crate::check(made).ok().map(|_| HeldBack { blocked })
}

impl HeldBack {
    /// The signals that wait.
    fn waiting(&self) -> u64 {
        let mut pending = 0u64;
        // SAFETY: the set is written, of eight bytes.
        unsafe { syscall!(nr::__NR_rt_sigpending, &raw mut pending, 8) };
        pending & THAT_COUNT & !self.blocked
    }

    /// Whether one waits, be it one that nobody handles.
    pub fn has_any(&self) -> bool {
        self.waiting() != 0
    }

    /// Lets them come; what ran, if any handler did.
    pub fn let_come(self) -> Option<Interrupted> {
        let waiting = self.waiting();
        let signals = (1..=64u32).filter(|signal| waiting & 1 << (signal - 1) != 0);
        signals.filter_map(handler).fold(None, |so_far, (_, restarts)| {
            let others_restart = so_far.is_none_or(|Interrupted { restarts }| restarts);
            Some(Interrupted { restarts: restarts && others_restart })
        })
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        // SAFETY: the mask is read, of eight bytes.
        unsafe { syscall!(nr::__NR_rt_sigprocmask, SIG_SETMASK, &raw const self.blocked, 0, 8) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_and_libcs_own_signals_do_not_count() {
        let not: Vec<u32> = (1..=64).filter(|signal| THAT_COUNT & 1 << (signal - 1) == 0).collect();
        assert_eq!(not, [4, 5, 6, 7, 8, 11, 31, 32, 33, 34]);
    }

    /// In a thread of its own, whose mask is nobody else's.
    #[test]
    fn what_is_held_back_comes_and_is_told_of_if_it_is_handled() {
        std::thread::spawn(|| {
            const SIGCHLD: u32 = 17;
            let quiet = hold_back().expect("no filter");
            assert!(!quiet.has_any());
            assert_eq!(quiet.let_come(), None);
            let ignored = hold_back().expect("no filter");
            crate::process::raise_on_self(SIGCHLD);
            assert!(ignored.has_any(), "it waits, though nobody handles it");
            assert_eq!(ignored.let_come(), None);
            let after = hold_back().expect("no filter");
            assert!(!after.has_any(), "it has come");
        })
        .join()
        .expect("no assertion failed");
    }
}
