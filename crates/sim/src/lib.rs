//! Several processes in one of the machine's, over a simulated kernel: for tests only, so there is nothing
//! here without them. Owns: that equal seeds give equal runs, and that no system call of the rooms below
//! reaches the machine (but for memory, which is real).
//!
//! `kernel` is the simulated one, `program` what a program sees of it, with the library or without.
#![forbid(unsafe_code)]

#[cfg(test)]
mod kernel;
#[cfg(test)]
mod program;
#[cfg(test)]
mod tests;
