//! What becomes of a connection: is it shared, whose answer is due, by which way do its bytes go, how does a
//! call sleep. Owns: that each of these is decided in one place, whichever call asks.

pub(crate) mod answer;
pub(crate) mod claim;
pub mod decide;
pub(crate) mod detour;
pub(crate) mod handover;
pub mod home;
pub mod wait;
