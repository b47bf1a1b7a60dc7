//! Arbitrary bytes as CDC messages: no panic, and parse and emit agree.
#![no_main]

#[path = "../../crates/wire/tests/properties/mod.rs"]
#[allow(dead_code, reason = "the other target's property")]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::cdc(bytes));
