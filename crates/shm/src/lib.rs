//! Shared memory: the first of the three unsafe rooms.
//!
//! Rules of this memory, on which every SAFETY comment here leans:
//! 1. The peer maps the same bytes writable and may lie, at any instant, in every one of them, our own
//!    cursors included.
//! 2. No Rust reference to payload bytes exists, ever: they are only copied through raw pointers.
//! 3. Control words are atomics. A value read from them is used after a bound has been put on it, and read
//!    once.
//! 4. A segment is sealed against shrinking before it is mapped, so no access inside the mapping can fault.
//! 5. Nothing here holds a pointer in shared memory; positions are offsets and are masked or checked on use.
//!
//! Owns: layout and the orderings of rings, wait words and side locks. Does not own: system calls (`os`), who
//! may talk to whom (`fabric`), or what a connection does with its bytes (`socket`).
#![cfg_attr(not(any(test, loom)), no_std)]

pub mod bell;
pub mod copy;
pub mod detour;
pub mod far;
mod free_list;
mod hold;
pub mod interest;
mod known;
pub mod layout;
pub mod lent;
pub mod lock;
pub mod mutex;
pub mod registry;
pub mod ring;
pub mod roles;
pub mod roster;
pub mod row;
pub mod segment;
// (Its objects begin as zero bytes, which loom's atomics cannot.)
#[cfg(not(loom))]
pub mod slab;
pub mod slices;
pub mod user;
pub mod wait;

#[cfg(all(test, not(loom)))]
mod detour_tests;
#[cfg(all(test, loom))]
mod loom_bell;
#[cfg(all(test, loom))]
mod loom_detour;
#[cfg(all(test, loom))]
mod loom_edge;
#[cfg(all(test, loom))]
mod loom_hold;
#[cfg(all(test, loom))]
mod loom_home;
#[cfg(all(test, loom))]
mod loom_lent;
#[cfg(all(test, loom))]
mod loom_slab;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod ring_tests;
#[cfg(all(test, not(loom)))]
mod roles_tests;

pub use known::{RxCache, TxCache};
pub use layout::{ClosedBy, Side, SideBlock, SlotHeader};
pub use ring::{PeerMisbehaved, Reader, Ring};
pub use roles::{Consumer, Producer, Receiving, Sending};
pub use segment::Segment;
pub use user::{IoVecs, Piece, Sink, Source, Supply};
