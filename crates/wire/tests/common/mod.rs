//! Loads `testdata/*.hex`: line 1 tells the origin, `@name` starts a message, the lines after it are its
//! bytes.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::{Path, PathBuf};

/// A message by name.
pub(crate) type Named = (String, Vec<u8>);

/// All messages of one file in `testdata`.
pub(crate) fn load(file: &str) -> Vec<Named> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert!(text.starts_with("# origin: "), "{file}: line 1 must tell the origin");
    let mut messages = Vec::<Named>::new();
    for line in text.lines().skip(1) {
        match line.strip_prefix('@') {
            Some(name) => messages.push((name.to_owned(), Vec::new())),
            None => messages.last_mut().expect("bytes before a name").1.extend(bytes(line)),
        }
    }
    messages
}

/// One message of one file.
pub(crate) fn one(file: &str, name: &str) -> Vec<u8> {
    load(file).into_iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("{file} has no {name}")).1
}

/// All messages of all files.
pub(crate) fn all() -> Vec<Named> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "hex"));
    files.sort();
    files.iter().flat_map(|path| load(path.file_name().unwrap().to_str().unwrap())).collect()
}

/// All CLC messages of all files.
pub(crate) fn all_clc() -> Vec<Named> {
    all().into_iter().filter(|(name, _)| !name.starts_with("cdc_")).collect()
}

fn bytes(line: &str) -> Vec<u8> {
    let digits: Vec<u8> = line.bytes().filter(|c| !c.is_ascii_whitespace()).collect();
    let pair = |p: &[u8]| u8::from_str_radix(std::str::from_utf8(p).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}
