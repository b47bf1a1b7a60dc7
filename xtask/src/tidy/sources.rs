//! What every source file must be: headed, of a bounded size, finished, without paths of the machine it was
//! written on, and without `unsafe` outside the three rooms made for it.

use std::fs;
use std::path::Path;

use anyhow::Context;
use proc_macro2::{TokenStream, TokenTree};

use super::width;
use crate::workspace::walk_sources;

/// Longest file, in lines. Above 500 ask yourself whether the file has two subjects.
const MAX_LINES: usize = 800;
/// Files that may be longer, each with its reason.
const LONG_FILES: [(&str, &str); 0] = [];
/// Where `unsafe` may stand: the three rooms, and the black-box tests' door to the libc calls that they
/// compare.
const UNSAFE_ROOMS: [&str; 4] = ["crates/shm/", "crates/os/", "crates/preload/", "tests/src/sys/"];
/// Where atomics are `sync`'s, so that the model checker can see them.
const CHECKED_ROOMS: [&str; 5] =
    ["crates/shm/src", "crates/os/src", "crates/fabric/src", "crates/socket/src", "crates/preload/src"];
/// Words for work put off. Spelled in halves, since this file is checked as well.
const PUT_OFF: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X:")];

/// All findings in all files that git would track.
pub(super) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let (mut findings, mut rust) = (vec![], vec![]);
    for entry in walk_sources(root).build() {
        let path = entry.context("cannot walk the checkout")?.into_path();
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        // What is no text has nothing to say to us.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        findings.extend(absolute_paths(&name, &text, root));
        if name.ends_with(".rs") {
            findings.extend(check_rust(&name, &text));
            rust.push((name, text));
        }
    }
    findings.extend(width::check_exceptions(&rust));
    Ok(findings)
}

fn check_rust(name: &str, text: &str) -> Vec<String> {
    let mut findings = vec![];
    if !text.starts_with("//!") {
        findings.push(format!("{name}:1: begin with `//!`: what the file is and which invariant it owns"));
    }
    let lines = text.lines().count();
    if lines > MAX_LINES && !LONG_FILES.iter().any(|(file, _)| *file == name) {
        findings.push(format!(
            "{name}: {lines} lines: split it by subject (a table may be named in LONG_FILES, with a reason)"
        ));
    }
    findings.extend(width::check(name, text));
    findings.extend(put_off(name, text));
    match text.parse::<TokenStream>() {
        Ok(tokens) => check_tokens(name, tokens, &mut findings),
        Err(error) => findings.push(format!("{name}: no Rust: {error}")),
    }
    findings
}

fn put_off(name: &str, text: &str) -> Vec<String> {
    let lines = text.lines().enumerate().filter(|(_, line)| PUT_OFF.iter().any(|word| line.contains(word)));
    lines
        .map(|(i, _)| format!("{name}:{}: work put off: do it, or write it down as an issue", i + 1))
        .collect()
}

fn absolute_paths(name: &str, text: &str, root: &Path) -> Option<String> {
    let root = format!("{}/", root.display());
    let line = text.lines().position(|line| line.contains(&root))?;
    Some(format!("{name}:{}: a path of this machine: make it relative to the checkout", line + 1))
}

/// Looks at tokens, so comments and strings never count.
fn check_tokens(name: &str, tokens: TokenStream, findings: &mut Vec<String>) {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    for (i, tree) in trees.iter().enumerate() {
        let line = tree.span().start().line;
        let next_is =
            |symbol: char| matches!(trees.get(i + 1), Some(TokenTree::Punct(p)) if p.as_char() == symbol);
        match tree {
            TokenTree::Group(group) => {
                if is_attribute(&trees, i) && group.stream().to_string().starts_with("ignore") {
                    findings.push(format!(
                        "{name}:{line}: an ignored test: mend it, or assert what happens today"
                    ));
                }
                check_tokens(name, group.stream(), findings);
            }
            TokenTree::Ident(word)
                if word == "unsafe" && !UNSAFE_ROOMS.iter().any(|room| name.starts_with(room)) =>
            {
                findings.push(format!("{name}:{line}: unsafe: put it behind a safe function of shm or os"));
            }
            TokenTree::Ident(word)
                if word == "atomic" && CHECKED_ROOMS.iter().any(|room| name.starts_with(room)) =>
            {
                findings
                    .push(format!("{name}:{line}: atomic: take it from `sync`, as the model checker does"));
            }
            TokenTree::Ident(word) if (word == "todo" || word == "unimplemented") && next_is('!') => {
                findings.push(format!("{name}:{line}: {word}!: finish it, or return an error"));
            }
            _ => {}
        }
    }
}

fn is_attribute(trees: &[TokenTree], i: usize) -> bool {
    i > 0 && matches!(&trees[i - 1], TokenTree::Punct(p) if p.as_char() == '#')
}

#[cfg(test)]
mod tests {
    use super::{MAX_LINES, absolute_paths, check_rust};
    use std::path::Path;

    fn findings(name: &str, body: &str) -> Vec<String> {
        check_rust(name, &format!("//! Head.\n{body}"))
    }

    #[test]
    fn a_tidy_file_has_no_finding() {
        let body = "#![forbid(unsafe_code)]\n// unsafe, todo!() in words\nfn f() -> &'static str { \"unsafe { todo!() }\" }\n";
        assert_eq!(findings("crates/wire/src/lib.rs", body), Vec::<String>::new());
    }

    #[test]
    fn each_rule_finds_its_breach_and_names_the_line() {
        let cases = [
            ("fn f() { unsafe { g() } }", "src/x.rs:2: unsafe"),
            ("fn f() { todo!() }", "src/x.rs:2: todo!"),
            ("mod t { #[test]\n#[ignore = \"slow\"]\nfn f() {} }", "src/x.rs:3: an ignored test"),
            (concat!("// FIX", "ME: later"), "src/x.rs:2: work put off"),
            ("fn f( {", "src/x.rs: no Rust"),
        ];
        for (body, wanted) in cases {
            let found = findings("src/x.rs", body);
            assert!(found.len() == 1 && found[0].starts_with(wanted), "{body}: {found:?}");
        }
    }

    #[test]
    fn heads_and_sizes_are_checked() {
        assert!(check_rust("a.rs", "fn f() {}")[0].starts_with("a.rs:1: begin with"));
        assert_eq!(findings("a.rs", &"\n".repeat(MAX_LINES - 1)).len(), 0);
        assert_eq!(findings("a.rs", &"\n".repeat(MAX_LINES)).len(), 1);
    }

    #[test]
    fn atomics_of_what_is_preloaded_are_the_model_checkers() {
        let body = "use core::sync::atomic::AtomicU32;";
        assert_eq!(findings("crates/socket/src/lib.rs", body).len(), 1);
        assert_eq!(findings("crates/bench/src/main.rs", body).len(), 0);
    }

    #[test]
    fn unsafe_may_stand_in_its_rooms() {
        let body = "fn f() { unsafe { g() } }";
        assert_eq!(findings("crates/shm/src/ring.rs", body).len(), 0);
        assert_eq!(findings("crates/fabric/src/lib.rs", body).len(), 1);
    }

    #[test]
    fn paths_of_the_machine_are_found() {
        let root = Path::new("/home/somebody/isthmus");
        assert!(
            absolute_paths("a.md", "one\nsee /home/somebody/isthmus/target", root)
                .is_some_and(|f| f.starts_with("a.md:2"))
        );
        assert_eq!(absolute_paths("a.md", "see target/isthmus", root), None);
    }
}
