//! The room in which calls wait. Owns: everything about waiting: what a waiter does next, what it learns, and the system calls.

mod sleep;
mod yielding;

pub(crate) use sleep::{HALF_CLOSED_SLICE_MS, Limit, Patience, SLICE_MS, Wish, learn, sleep, spin, spin_for};
pub(crate) use yielding::{end_turn, has_core_alone, may_yield, pause_or_yield, pauses, yield_now};
