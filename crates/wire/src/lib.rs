//! SMC wire formats: bytes to values and back, for CLC (the handshake) and CDC (the cursors), and what
//! programs and the host daemon say to each other.
//!
//! Every message has three verbs: `parse` (untrusted bytes to a value), `len` (bytes the value needs) and
//! `emit` (value to bytes). Invariants owned here: no input makes `parse` panic; a list never exceeds the
//! protocol's limit (`limits`); unknown and reserved values survive a round trip; `parse(emit(x)) == x`, and
//! `emit(parse(b)) == b` for every message whose sections lie in the usual order. No allocation, no `std`, no
//! judgement: whether a value makes sense is decided by `proto`.
//!
//! ```
//! use wire::clc::{Decline, Message};
//! let decline = Decline::new(2, wire::Reason::NOUEID);
//! let mut bytes = [0; wire::limits::MESSAGE_MAX];
//! let len = decline.emit(&mut bytes)?;
//! assert_eq!(Message::parse(&bytes[..len])?, Message::Decline(decline));
//! # Ok::<(), wire::Error>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

mod buffer_class;
mod bytes;
pub mod cdc;
pub mod clc;
mod cursor;
mod eid;
mod error;
pub mod host;
pub mod limits;
mod list;
pub mod pcap;
pub mod reason;

pub use buffer_class::BufferClass;
pub use cursor::Cursor;
pub use eid::{Eid, EidError};
pub use error::Error;
pub use list::List;
pub use reason::Reason;
