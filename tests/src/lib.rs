//! Shared helpers of the black-box tests: beds with chosen ends enabled, programs under test with limits, and
//! thin wrappers over the socket calls. Nothing here links to the product; it is only ever run.

pub mod bed;
pub mod containers;
pub mod dist;
pub mod mode;
pub mod postgres;
pub mod process;
pub mod scratch;
pub mod sys;
pub mod words;

pub use bed::{Bed, free_port};
pub use mode::{Mode, has_variant, hash};
pub use process::{Outcome, Running, installed, within};
