//! Placeholder until the room is furnished.
#![cfg_attr(not(test), no_std)]
