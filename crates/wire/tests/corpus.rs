//! Replays the fuzz corpus (`fuzz/corpus/<target>/`) through the properties, so that what a fuzzer once found
//! stays found.

mod common;
mod properties;

use std::path::Path;

fn replay(target: &str, property: fn(&[u8])) -> usize {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    entries.map(|entry| property(&std::fs::read(entry.unwrap().path()).unwrap())).count()
}

#[test]
fn the_corpus_of_clc_holds() {
    assert!(replay("clc", properties::clc) >= 10);
}

#[test]
fn the_corpus_of_cdc_holds() {
    assert!(replay("cdc", properties::cdc) >= 3);
}

/// The corpus starts from what is known to be valid: every message of `testdata` is in it.
#[test]
fn known_messages_are_in_the_corpus() {
    for (name, bytes) in common::all() {
        let target = if name.starts_with("cdc_") { "cdc" } else { "clc" };
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
        let known =
            std::fs::read_dir(dir).unwrap().any(|e| std::fs::read(e.unwrap().path()).unwrap() == bytes);
        assert!(known, "{name} is missing in fuzz/corpus/{target}");
    }
}
