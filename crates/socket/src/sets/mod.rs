//! Who waits for a connection in an epoll set, and what the kernel was told of it. Owns: that a set's records
//! and what this process knows of them change together, in one turn.

pub(crate) mod doorbell;
pub mod enter;
pub(crate) mod interest;
pub(crate) mod records;
pub(crate) mod settle;
pub mod unseen;
