//! Arbitrary bytes to the handshake machines: no panic, and what is agreed was offered.
#![no_main]

#[path = "../../crates/proto/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    properties::handshake(bytes);
});
