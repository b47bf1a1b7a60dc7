//! SMC's decisions without I/O: the CLC handshake, the one-word verdict, connection states and closing.
//!
//! The contract of every machine here: `handle_*` takes what came in (or what the application did), the
//! return value says what must go out. Time is an event (`Input::Timeout`), never read. No sockets, no
//! pointers, no allocation, no panic on any input; peer values are judged before they reach a caller.
//! Invariants owned: both ends reach the same verdict (`verdict`), a lying peer is answered with a code from
//! one table (`handshake::fault`) and breaks only its own connection, and what follows from a close on either
//! side is in one table (`conn`). Does not own bytes and cursors: those are `shm`'s.
#![no_std]
#![forbid(unsafe_code)]

pub mod conn;
pub mod handshake;
pub mod verdict;

pub use wire::{BufferClass, Eid};
