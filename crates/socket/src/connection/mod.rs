//! A connection: its words, and its side of the slot. Owns: that whoever has one finds all that belongs to
//! it here, and none of who waits for it.

pub(crate) mod afterwards;
pub(crate) mod conn;
pub(crate) mod end;
pub(crate) mod far;
pub(crate) mod kept;
pub(crate) mod watch;
