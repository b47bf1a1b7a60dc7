//! Linux system calls as small safe functions: the second of the three unsafe rooms.
//!
//! Owns: every raw system call of the project. The preload library exports the socket symbols of libc, so
//! nothing here may call libc: calls go straight to the kernel and errors come back as values, never through
//! `errno`. (But for `sched_getcpu`, which every libc has and answers without the kernel, and the `poll` it
//! is handed.) Does not own: policy. No function here retries, waits or falls back.
#![cfg_attr(not(any(test, feature = "sim")), no_std)]

pub mod apart;
pub mod bpf;
pub mod confined;
mod decimal;
pub mod diag;
pub mod epoll;
pub mod fd;
pub mod file;
pub mod filter;
pub mod futex;
mod header;
pub mod held_back;
pub mod inherited;
pub mod limits;
pub mod mem;
pub mod namespace;
pub mod net;
mod part;
pub mod passing;
pub mod pipe;
pub mod poll;
pub mod process;
pub mod raw;
mod raw_poll;
pub mod refusal;
pub mod room;
#[cfg(feature = "sim")]
mod seat;
pub mod select;
pub mod signals;
#[cfg(feature = "sim")]
pub mod sim;
mod state;
pub mod time;

pub use raw::Errno;
pub use state::State;

/// Result of a system call.
pub type Result<T> = core::result::Result<T, Errno>;

/// Turns a kernel return value into a `Result`.
#[inline]
pub(crate) fn check(ret: isize) -> Result<usize> {
    match usize::try_from(ret) {
        Ok(value) => Ok(value),
        Err(_) => Err(Errno(-ret as i32)),
    }
}
