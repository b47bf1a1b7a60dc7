//! Development only: what tests of several rooms share. Invariant: everything here is reproducible from a
//! seed; no clock, no system randomness. `flow` is a model: no product code calls it, tests hold product code
//! against it.

#![forbid(unsafe_code)]

pub mod flow;
pub mod random;
pub mod stream;

pub use random::Random;
pub use stream::Stream;
