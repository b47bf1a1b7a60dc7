//! A process that has installed a filter of system calls. Owns: the answer to "may we make a call that the
//! plain program would not?"
//!
//! The filter of a sandbox knows the program, not this library: a call outside its list is refused at best,
//! and kills the process more often. From then on we make do with what nearly every such list has: read,
//! write, the poll family, futex, mmap of private memory, clocks, and getpid where the filter leaves that.
//! Everything else in this room answers from memory, or says that it cannot be told. Where a filter refuses
//! one of these, none is made at all.

use crate::part::Part as _;
use sync::{AtomicBool, AtomicU8, Ordering};

/// What a process may still call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Calls {
    /// Whatever it likes.
    All = 0,
    /// What a filter lets through that was made for the plain program.
    Filtered = 1,
    /// read, write and exit (SECCOMP_MODE_STRICT).
    Fewest = 2,
    /// Nothing but what the program calls, as it calls it.
    Programs = 3,
}

/// What is known of the filter of a process.
pub(crate) struct Filter {
    calls: AtomicU8,
    /// Whether getpid is not to be called.
    withholds_id: AtomicBool,
    /// Whether a handler did not restart calls when it came.
    interrupts: AtomicBool,
}

impl Filter {
    pub(crate) const fn new() -> Self {
        let [withholds_id, interrupts] = [const { AtomicBool::new(false) }; 2];
        Filter { calls: AtomicU8::new(Calls::All as u8), withholds_id, interrupts }
    }
}

/// From now on, in this process and its children, only `calls` are made. `All` takes it back: the filter was
/// refused.
pub fn confine(calls: Calls) {
    if calls != Calls::All && !is_confined() {
        Filter::here().interrupts.store(!crate::signals::all_handlers_restart(), Ordering::Relaxed);
    }
    Filter::here().calls.store(calls as u8, Ordering::SeqCst);
    if calls != Calls::Filtered {
        Filter::here().withholds_id.store(calls != Calls::All, Ordering::SeqCst);
    }
}

/// Whether the filter does not let us ask who we are: then it is what was known before, in a child as well.
pub fn withhold_id(on: bool) {
    Filter::here().withholds_id.store(on, Ordering::SeqCst);
}

/// Whether that is so.
#[inline]
pub fn withholds_id() -> bool {
    Filter::here().withholds_id.load(Ordering::Relaxed)
}

/// Whether a filter stands.
#[inline]
pub fn is_confined() -> bool {
    Filter::here().calls.load(Ordering::Relaxed) != Calls::All as u8
}

/// Whether it leaves read and write alone, or not even these.
#[inline]
pub fn is_strict() -> bool {
    Filter::here().calls.load(Ordering::Relaxed) >= Calls::Fewest as u8
}

/// Whether no call is made but the program's own.
#[inline]
pub fn leaves_nothing() -> bool {
    Filter::here().calls.load(Ordering::Relaxed) == Calls::Programs as u8
}

/// What was true of the signal handlers when the filter came.
pub(crate) fn handlers_restart() -> bool {
    !Filter::here().interrupts.load(Ordering::Relaxed)
}

/// A moment without a system call.
pub(crate) fn pause() {
    (0..1000).for_each(|_| sync::pause());
}

/// Gives the core to any other runnable thread.
#[inline]
pub fn yield_now() {
    if is_confined() {
        return pause();
    }
    // SAFETY: sched_yield has no arguments.
    unsafe { crate::raw::syscall!(crate::raw::nr::__NR_sched_yield) };
}
