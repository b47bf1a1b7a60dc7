//! One connection: send, receive, readiness, shutdown, fallback; and the epoll sets it is in.
//!
//! Owns: the table from descriptor to connection and every decision about a connection in this process.
//! Invariants: the program's descriptor is the kernel's TCP socket for life, so end of stream, reset and peer
//! death are TCP's to tell; bytes still in the ring come before whatever TCP says; nobody writes to TCP
//! before the verdict is PLAIN. Does not own: the C ABI (`preload`), the registry and slots (`fabric`),
//! orderings of shared words (`shm`).
#![cfg_attr(not(any(test, feature = "sim")), no_std)]
#![forbid(unsafe_code)]

mod calls;
mod connection;
mod decisions;
mod ground;
mod occasions;
pub mod process;
mod sets;
mod uses;

// (A module has its name in the crate whichever floor it is on.)
use calls::straight;
pub use calls::{beside, client, close, epoll, poll, queue, server, signals, stream, told};
use connection::{afterwards, conn, end, far, kept, watch};
use decisions::{answer, claim, detour, handover};
pub use decisions::{decide, home, wait};
use ground::{
    borrower, callers, closing, doubt, era, flag, handshake, here, numbers, options, phase, policy, rest,
    waiters, word,
};
pub use ground::{config, table};
pub use occasions::{confine, credentials, exec, exit, fork, lend, spare};
use sets::{doorbell, interest, records, settle};
pub use sets::{enter, unseen};
pub use uses::push;
use uses::{abandoned, brief, held, inherited, ready, release, resting, sleepers};

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
