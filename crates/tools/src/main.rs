//! Placeholder until the room is furnished.
fn main() {}
