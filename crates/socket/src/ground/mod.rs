//! The ground floor: rules and numbers without a connection. Owns: that nothing here knows one, so each is
//! tested without a socket.

pub(crate) mod borrower;
pub(crate) mod callers;
pub(crate) mod closing;
pub mod config;
pub(crate) mod doubt;
pub(crate) mod era;
pub(crate) mod flag;
pub(crate) mod handshake;
pub(crate) mod here;
pub(crate) mod numbers;
pub(crate) mod options;
pub(crate) mod phase;
pub(crate) mod policy;
pub(crate) mod rest;
pub mod table;
pub(crate) mod waiters;
pub(crate) mod word;
