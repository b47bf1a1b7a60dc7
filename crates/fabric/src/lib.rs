//! The ISM device as a library: who listens, who wants to connect, and which memory they share.
//!
//! Owns: the registry file and its rows, the verdict word's place and its swaps (what it means is `proto::verdict`'s), the offered segments (client side), the attached
//! segments (server side) and their slots. Invariants: nothing is opened or mapped before the first listen() or the
//! first connect() to an enabled listener; whatever cannot be had ends as a [`wire::reason::Reason`], never as an error
//! of the program; a row or slot of a dead process is reclaimed by what the kernel says (byte locks, sock_diag).
//! Does not own: bytes of a connection (`socket`), who is allowed to see what beyond one user (the host tier).
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod address;
pub mod attach;
pub mod closing;
pub mod config;
pub mod connection;
pub mod doubt;
pub mod fallback;
pub mod leaving;
pub mod local;
pub mod observe;
pub mod offer;
pub mod slot;
pub mod totals;
pub mod turn;
pub mod verdict;

pub use local::{listener, member, process, registry};
pub use wire::reason::Reason;
