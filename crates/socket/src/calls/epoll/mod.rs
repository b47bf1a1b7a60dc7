//! epoll sets, of which some hold our sockets. Owns: what a wait reports.
//!
//! The program's own kernel set stays the authority: it holds the TCP socket (for FIN, RST and, before the
//! answer, for everything) and the doorbell, both with a cookie of ours as data. After a wait, cookies are
//! turned back: readiness is computed from the rings, the records of one socket are merged, and the program's
//! own data is put in. So nested sets, several waiters, sets shared by fork and signals work as the kernel
//! has them.
//!
//! A wait looks at the rings first: members that lately had something to report are looked at without a
//! system call, and need no ring of their doorbell while the program is busy. The rest, and all before a
//! sleep, are armed.

mod ctl;
#[cfg(test)]
mod ctl_tests;
mod ends;
mod entries;
mod lazy;
mod polled;
mod rounds;
mod telling;
mod turns;
mod wait;

pub(crate) use ctl::hand_on;
pub use ctl::{
    ctl, is_fresh, note_added, note_asked, note_created, note_early, note_modified, note_passed,
    note_received, release_fresh,
};
pub(crate) use entries::Batches;
pub(crate) use polled::has_something;
pub use polled::prepare_to_be_nested;
pub(crate) use polled::prepare_to_be_polled;
pub(crate) use rounds::{look_after_watched, slice_ms};
pub use wait::{Kernel, is_ours, wait};
