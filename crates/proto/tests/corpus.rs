//! Replays the fuzz corpus of the handshake, so that what a fuzzer once found stays found.

mod properties;

use std::path::Path;

#[test]
fn the_corpus_of_the_handshake_holds() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/handshake");
    let files = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let liked =
        files.filter(|file| properties::handshake(&std::fs::read(file.as_ref().unwrap().path()).unwrap()));
    assert!(liked.count() >= 3, "a PROPOSAL, an ACCEPT and a CONFIRM of the golden vectors get through");
}
