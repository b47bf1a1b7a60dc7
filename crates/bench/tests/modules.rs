//! No two modules of the benchmark need each other: whoever reads one knows what lies below it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Every Rust file below `folder`, tests excepted.
fn text(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            all += &text(&path);
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
            let file = fs::read_to_string(&path).expect("a file");
            all += file.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        }
    }
    all
}

/// What each module at the top of a crate names of the others: `crate::NAME`.
fn arrows(root: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let entries: Vec<_> = fs::read_dir(root).expect("a crate").flatten().map(|entry| entry.path()).collect();
    let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let names: BTreeSet<String> = entries.iter().map(|path| name(path)).collect();
    let needed = |path: &Path| -> BTreeSet<String> {
        let text = if path.is_dir() { text(path) } else { fs::read_to_string(path).expect("a file") };
        let root = if path.is_dir() { path.join("mod.rs") } else { path.to_owned() };
        let root = fs::read_to_string(root).unwrap_or_default().replace("super::", "crate::");
        let code = [text, root].concat();
        let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let words = code
            .split("crate::")
            .skip(1)
            .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>());
        words.filter(|word| names.contains(word) && *word != name(path)).collect()
    };
    let is_module = |path: &&std::path::PathBuf| !["main", "lib"].contains(&name(path).as_str());
    entries.iter().filter(is_module).map(|path| (name(path), needed(path))).collect()
}

/// Modules that are left when everything that needs nothing of the rest has been taken away: a knot.
fn knot(mut arrows: BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, BTreeSet<String>> {
    loop {
        let free: Vec<String> =
            arrows.iter().filter(|(_, needs)| needs.is_empty()).map(|(name, _)| name.clone()).collect();
        if free.is_empty() {
            return arrows;
        }
        for name in &free {
            arrows.remove(name);
            arrows.values_mut().for_each(|needs| {
                needs.remove(name);
            });
        }
    }
}

#[test]
fn no_module_needs_one_that_needs_it() {
    for root in ["src", "../uperf/src"] {
        let arrows = arrows(&Path::new(env!("CARGO_MANIFEST_DIR")).join(root));
        assert!(arrows.values().any(|needs| !needs.is_empty()), "{root}: nothing was read");
        assert_eq!(knot(arrows), BTreeMap::new(), "{root}");
    }
}

#[test]
fn a_knot_is_found() {
    let arrows = [("a", "b"), ("b", "c"), ("c", "b"), ("d", "")].map(|(name, needs)| {
        (name.to_owned(), [needs.to_owned()].into_iter().filter(|name| !name.is_empty()).collect())
    });
    let names: Vec<String> = knot(arrows.into()).into_keys().collect();
    assert_eq!(names, ["a", "b", "c"]);
}
