//! One connection: send, receive, readiness, shutdown, fallback; and the epoll sets it is in.
//!
//! Owns: the table from descriptor to connection and every decision about a connection in this process.
//! Invariants: the program's descriptor is the kernel's TCP socket for life, so end of stream, reset and peer
//! death are TCP's to tell; bytes still in the ring come before whatever TCP says; nobody writes to TCP
//! before the verdict is PLAIN. Does not own: the C ABI (`preload`), the registry and slots (`fabric`),
//! orderings of shared words (`shm`).
#![cfg_attr(not(any(test, feature = "sim")), no_std)]
#![forbid(unsafe_code)]

mod abandoned;
mod afterwards;
mod answer;
mod borrower;
mod brief;
mod calls;
mod claim;
pub mod client;
pub mod close;
mod closing;
pub mod config;
pub mod confine;
mod conn;
pub mod credentials;
pub mod decide;
mod detour;
mod doorbell;
mod doubt;
mod end;
pub mod enter;
pub mod epoll;
mod era;
pub mod exec;
pub mod exit;
mod far;
mod flag;
pub mod fork;
mod handover;
mod handshake;
mod held;
mod here;
pub mod home;
mod inherited;
mod interest;
mod kept;
pub mod lend;
mod numbers;
mod options;
mod phase;
mod policy;
pub mod poll;
pub mod process;
pub mod push;
pub mod queue;
mod ready;
mod records;
mod release;
mod rest;
mod resting;
pub mod server;
mod settle;
pub mod signals;
mod sleepers;
pub mod spare;
mod straight;
pub mod stream;
pub mod table;
pub mod told;
pub mod unseen;
pub mod wait;
mod waiters;
mod watch;
mod word;

pub use fabric::Reason;
pub use held::has_been_any;
pub use interest::set::has_been_any as has_been_any_set;
pub use os::Errno;
pub use shm::copy::copy_unseen;
pub use shm::user as buffer;

/// What a hook does with its call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Done here, with this result.
    Done(usize),
    /// Failed here, with this errno.
    Fail(Errno),
    /// Not ours (any more): call libc.
    Forward,
}

impl From<Result<usize, Errno>> for Outcome {
    fn from(result: Result<usize, Errno>) -> Self {
        result.map_or_else(Outcome::Fail, Outcome::Done)
    }
}
