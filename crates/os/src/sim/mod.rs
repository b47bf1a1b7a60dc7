//! A kernel that is a value: for tests, system calls of a thread may go to one instead of the machine's.
//! Compiled with the feature `sim` only. Owns: that a thread sits on one (`seat`), and as which process it
//! runs.
//!
//! What such a kernel maps is real memory, and its files are real memfds: so whatever stands above works as
//! it is, atomics included.

mod backing;
mod call;
mod decode;
mod image;

pub use backing::{Backing, Twin};
pub use call::{Call, FileAbout, Lock};
use decode::dispatch;
pub use image::{Ground, Range, fork, part_from_others, place};

use crate::seat::Machine;
use crate::state::State;

/// A kernel as one thread of a process sees it.
pub trait Kernel: Sync {
    /// Carries out a call; returns what the kernel would, a number or an error.
    fn call(&self, call: Call<'_>) -> crate::Result<usize>;

    /// What the counter of the core says: three per nanosecond. It moves on with every look.
    fn cycles(&self) -> u64;

    /// Whether a signal handler runs that has interrupted the thread.
    fn is_in_a_handler(&self) -> bool;
}

/// Where a thread sits: its kernel, and what this room remembers of its process.
pub struct Seat {
    /// The kernel.
    pub kernel: &'static dyn Kernel,
    /// The process's own.
    pub state: &'static State,
}

impl Machine for Seat {
    unsafe fn system_call(&self, number: u32, args: [usize; 6]) -> isize {
        // SAFETY: forwarded promise of the caller.
        unsafe { dispatch(self.kernel, number, args) }
    }

    fn cycles(&self) -> u64 {
        self.kernel.cycles()
    }

    fn is_in_a_handler(&self) -> bool {
        self.kernel.is_in_a_handler()
    }

    fn state(&self) -> *const () {
        core::ptr::from_ref(self.state).cast()
    }
}

/// From now on the calling thread sits there; `None`: on the machine itself.
pub fn sit(seat: Option<&'static Seat>) {
    crate::seat::take(seat.map(|seat| seat as &dyn Machine));
}
