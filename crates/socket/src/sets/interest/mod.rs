//! Which epoll sets a socket is in, and what they ask of it. Owns: the registrations and the order of a set's
//! members, in memory; the kernel's records of them are `records`'s.

pub(crate) mod arrival;
pub(crate) mod events;
pub(crate) mod laps;
pub(crate) mod registration;
pub(crate) mod set;
#[cfg(test)]
mod set_tests;
pub(crate) mod waited;
