//! Who is in a call on a connection, who lets it go, and what its rings and TCP say. Owns: that a connection
//! lasts as long as the last call that uses it, and that looking changes nothing.

pub(crate) mod abandoned;
pub(crate) mod brief;
pub(crate) mod held;
pub(crate) mod inherited;
pub mod push;
pub(crate) mod ready;
pub(crate) mod release;
pub(crate) mod resting;
pub(crate) mod sleepers;
