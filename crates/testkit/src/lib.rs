//! Development only: what tests of several rooms share. Invariant: everything here is reproducible from a seed; no
//! clock, no system randomness.

#![forbid(unsafe_code)]

pub mod random;
pub mod stream;

pub use random::Random;
pub use stream::Stream;
