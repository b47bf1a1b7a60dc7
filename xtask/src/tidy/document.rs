//! ARCHITECTURE.md names files, and functions of walks, that are there: who moves or renames one follows in
//! it.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;

use crate::workspace::walk_sources;

/// Where the rows of walks begin and end.
const WALKS: (&str, &str) = ("## The walk of one write()", "## To do this, go there");

/// One finding for each name that leads nowhere.
pub(super) fn check(root: &Path, document: &str) -> anyhow::Result<Vec<String>> {
    let (mut files, mut declared) = (vec![], BTreeSet::new());
    for entry in walk_sources(root).build() {
        let path = entry.context("cannot walk the checkout")?.into_path();
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        if name.ends_with(".rs") {
            declared.extend(functions(&std::fs::read_to_string(&path).unwrap_or_default()));
            files.push(format!("/{name}"));
        }
    }
    Ok(compare(document, &files, &declared))
}

fn compare(document: &str, files: &[String], declared: &BTreeSet<String>) -> Vec<String> {
    let is_there = |name: &&str| files.iter().any(|file| file.ends_with(&format!("/{name}")));
    let named = quoted(document).filter(|name| name.ends_with(".rs") && !name.contains('*'));
    let lost = named.filter(|name| !is_there(name));
    let lost = lost.map(|name| format!("ARCHITECTURE.md: {name} is no file: name the one that it became"));
    let walks =
        document.split(WALKS.0).nth(1).and_then(|rest| rest.split(WALKS.1).next()).unwrap_or_default();
    let steps = walks.lines().filter_map(|line| line.split('|').nth(3));
    let called = steps.flat_map(quoted).filter_map(|name| name.trim_end_matches('!').rsplit("::").next());
    let gone = called.filter(|name| !declared.contains(*name));
    lost.chain(gone.map(|name| format!("ARCHITECTURE.md: a walk goes by {name}, which no file declares")))
        .collect()
}

/// What stands in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// What is declared by `fn`, `macro_rules!`, or a type.
fn functions(text: &str) -> impl Iterator<Item = String> {
    let words =
        text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    let pairs = words.clone().zip(words.skip(1));
    let names = pairs.filter(|(before, _)| ["fn", "macro_rules", "struct", "enum"].contains(before));
    names.map(|(_, name)| name.to_owned()).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::{compare, functions};

    #[test]
    fn what_was_moved_or_renamed_is_found() {
        let page = |file: &str, step: &str| {
            format!(
                "see `{file}`\n## The walk of one write()\n| 1 | `x.rs` | `{step}` | what |\n## To do this, go there\n"
            )
        };
        let files = ["/crates/a/src/x.rs".to_owned(), "/crates/a/src/b/y.rs".to_owned()];
        let declared = functions("pub fn send<T>() {}\nstruct Rows;").collect();
        let found = |file: &str, step: &str| compare(&page(file, step), &files, &declared);
        assert!(found("b/y.rs", "Conn::send").is_empty() && found("y.rs", "Rows").is_empty());
        assert!(found("a/y.rs", "send")[0].contains("a/y.rs is no file"));
        assert!(found("y.rs", "Conn::sent")[0].contains("goes by sent,"));
    }
}
