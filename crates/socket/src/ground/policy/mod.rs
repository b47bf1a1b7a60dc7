//! How long waiting is worth it, and how. Owns: what a waiter does next (`waiter`, by `rules`) and what waits
//! teach (`learned`, `habits`). No system call, no static: `wait` has those, and `simulation` runs all of
//! this in virtual time.

mod habits;
mod learned;
mod rules;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod waiter;

pub(crate) use habits::{Habits, HandOver};
pub(crate) use learned::{Learned, Window};
pub(crate) use rules::{Measured, Rules};
pub(crate) use waiter::{For, Saw, Step, Waiter};
