//! The local tier: one user on one kernel. What its processes tell each other lies in a file of the user; everything else is
//! asked of the kernel, which is neither forged nor out of date. Owns: that file, and who takes part.

pub mod listener;
pub mod member;
mod place;
pub mod process;
pub mod registry;
