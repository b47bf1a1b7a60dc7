//! Placeholder until the room is furnished.
#![no_std]
#![forbid(unsafe_code)]
