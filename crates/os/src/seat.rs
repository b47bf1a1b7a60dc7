//! Where a thread sits whose system calls go to a kernel that is a value (`sim`, above everybody). Compiled
//! with the feature `sim` only. Owns: the thread's word for it. Names nothing of this room, so that the
//! instruction itself can ask here.

use core::cell::Cell;

/// What stands for the machine.
pub(crate) trait Machine: Sync {
    /// Carries out a system call; returns what the kernel would.
    ///
    /// # Safety
    /// As for the machine's own call with these words.
    unsafe fn system_call(&self, number: u32, args: [usize; 6]) -> isize;

    /// The counter of the core.
    fn cycles(&self) -> u64;

    /// Whether a signal handler runs that has interrupted the thread.
    fn is_in_a_handler(&self) -> bool;

    /// Where the `State` of the thread's process lies, for the whole life of the program.
    fn state(&self) -> *const ();
}

std::thread_local! {
    static SEAT: Cell<Option<&'static dyn Machine>> = const { Cell::new(None) };
}

/// From now on the calling thread sits there; `None`: on the machine itself.
pub(crate) fn take(machine: Option<&'static dyn Machine>) {
    SEAT.set(machine);
}

/// Where the calling thread sits.
#[inline]
pub(crate) fn taken() -> Option<&'static dyn Machine> {
    SEAT.get()
}
