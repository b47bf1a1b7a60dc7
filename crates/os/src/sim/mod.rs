//! A kernel that is a value: for tests, system calls of a thread may go to one instead of the machine's.
//! Compiled with the feature `sim` only. Owns: which thread has which kernel, and as which process it runs.
//!
//! What such a kernel maps is real memory, and its files are real memfds: so whatever stands above works as
//! it is, atomics included.

mod backing;
mod call;
mod decode;
mod image;

pub use backing::{Backing, Twin};
pub use call::{Call, FileAbout, Lock};
pub(crate) use decode::dispatch;
pub use image::{Ground, Range, fork, place};

use crate::state::State;
use core::cell::Cell;

/// A kernel as one thread of a process sees it.
pub trait Kernel: Sync {
    /// Carries out a call; returns what the kernel would, a number or an error.
    fn call(&self, call: Call<'_>) -> crate::Result<usize>;

    /// What the counter of the core says: three per nanosecond. It moves on with every look.
    fn cycles(&self) -> u64;
}

/// Where a thread sits: its kernel, and what this room remembers of its process.
pub struct Seat {
    /// The kernel.
    pub kernel: &'static dyn Kernel,
    /// The process's own.
    pub state: &'static State,
}

std::thread_local! {
    static SEAT: Cell<Option<&'static Seat>> = const { Cell::new(None) };
}

/// From now on the calling thread sits there; `None`: on the machine itself.
pub fn sit(seat: Option<&'static Seat>) {
    SEAT.set(seat);
}

/// Where the calling thread sits.
#[inline]
pub fn seat() -> Option<&'static Seat> {
    SEAT.get()
}
