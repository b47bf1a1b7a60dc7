//! The room in which calls wait. Owns: the system calls that follow from what `policy` says: `spin` looks and
//! yields, `sleep` naps and sleeps.

mod sleep;
mod spin;

pub(crate) use sleep::{
    Blocking, HALF_CLOSED_SLICE_MS, HELD_SLICE_MS, Limit, Patience, SHARED_SLICE_MS, SLICE_MS, Wish,
    outcome_of, sleep, sooner, spin,
};
pub(crate) use spin::{
    hand_over, has_core_alone, learn, learn_of_another, spin_for, spin_on_set, spin_until,
};
