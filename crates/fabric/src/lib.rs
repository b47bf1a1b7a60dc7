//! The ISM device as a library: who listens, who wants to connect, and which memory they share.
//!
//! Owns: rows of intents and connections, the verdict word's place and its swaps (what it means is
//! `proto::verdict`'s), the offered segments (client side), the attached segments (server side) and their
//! slots. Invariants: nothing is opened or mapped before the first listen() or the first connect() to an
//! enabled listener; whatever cannot be had ends as a [`wire::reason::Reason`], never as an error of the
//! program; all state is in one value, [`Fabric`]. Does not own: bytes of a connection (`socket`).
//!
//! What differs between one kernel, containers, guests and hosts is asked through [`door`]s. A tier answers
//! all of them:
//!
//! | question | door | [`local`] |
//! |---|---|---|
//! | where are the rows that all look at, and may this process? | [`door::Directory`] | the user's registry file |
//! | how is a listener announced, and a peer found? | [`door::Rendezvous`] | row by cookie; sock_diag |
//! | where does memory come from, and how is it proven? | [`door::Memory`] | sealed memfd; `/proc/PID/fd`, seals |
//! | how is a sleeper rung? | [`door::Doorbell`] | pipe, opened through `/proc/PID/fd` |
//! | who lives? | [`door::Life`] | byte locks; process id and start time |
//! | what is an intent keyed by? | [`door::Key`] | the kernel's cookie of the client's socket |
//! | who tells the end? | [`door::End`] | TCP, asked by sock_diag |
//! | what carries the handshake? | [`door::Carrier`] | the slot's mailbox |
//!
//! As long as `socket` reaches for cookies, mailboxes and pipes itself, the doors of the key, the carrier and
//! the ring are used by tests only.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod address;
pub mod attach;
mod bells;
pub mod budget;
pub mod closing;
pub mod config;
pub mod door;
pub mod doubt;
pub mod fabric;
pub mod fallback;
mod foreign;
mod groups;
pub mod host;
pub mod leaving;
pub mod local;
pub mod member;
pub mod observe;
pub mod offer;
mod passed;
mod pay;
mod private;
pub mod process;
pub mod revoke;
pub mod rows;
pub mod slot;
mod spare;
pub mod tiers;
pub mod totals;
pub mod turn;
pub mod unasked;
mod unused;
pub mod verdict;
pub mod visit;

pub use fabric::Fabric;
pub use wire::reason::Reason;
