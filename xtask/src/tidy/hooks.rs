//! Every hook is called by a test under its own name: `tests/parity/hooks.txt` says by which, and is held
//! here against what `crates/preload` declares and against the tests that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The table.
pub(crate) const TABLE: &str = "tests/parity/hooks.txt";
const HOOKS: &str = "crates/preload/src";

/// One finding for each hook without a test, each line without a hook, and each test that is not there.
pub(super) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let declared: BTreeSet<String> =
        sources(&root.join(HOOKS))?.iter().flat_map(|text| declared(text)).collect();
    let table = table(root)?;
    let mut findings = compare(&declared, &table);
    let mut tests = BTreeMap::new();
    for suite in ["parity", "bars", "e2e"] {
        let folder = if suite == "parity" { "tests/parity/program".into() } else { format!("tests/{suite}") };
        tests.insert(suite, sources(&root.join(folder))?.concat());
    }
    findings.extend(table.iter().filter_map(|(hook, place)| lost(hook, place, &tests)));
    Ok(findings)
}

/// Hooks and where they are called.
pub(crate) fn table(root: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(root.join(TABLE)).with_context(|| format!("{TABLE} is gone"))?;
    Ok(parse(&text))
}

fn parse(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once(' '));
    pairs.map(|(hook, place)| (hook.to_string(), place.trim().to_string())).collect()
}

fn compare(declared: &BTreeSet<String>, table: &BTreeMap<String, String>) -> Vec<String> {
    let untested = declared.iter().filter(|hook| !table.contains_key(*hook)).map(|hook| {
        format!(
            "{hook}: no test calls this hook by its name: write a case (tests/parity/program) and name it in {TABLE}"
        )
    });
    let unknown = table.keys().filter(|hook| !declared.contains(*hook));
    untested
        .chain(unknown.map(|hook| format!("{TABLE}: {hook} is no hook of crates/preload: take it out")))
        .collect()
}

/// A finding if the test at `place` does not exist; `tests` are the sources of each suite.
fn lost(hook: &str, place: &str, tests: &BTreeMap<&str, String>) -> Option<String> {
    let (suite, name) = place.split_once(' ')?;
    let is_there = tests.get(suite).is_some_and(|text| match suite {
        "parity" => text.contains(&format!("\"{name}\"")),
        _ => text.contains(&format!("fn {name}()")),
    });
    (!is_there).then(|| format!("{TABLE}: {hook}: there is no `{place}`: name a test that calls it"))
}

pub(super) fn sources(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut texts = vec![];
    for path in
        entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "rs"))
    {
        texts.push(fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?);
    }
    Ok(texts)
}

/// Names that a file of the preload library exports.
fn declared(text: &str) -> Vec<String> {
    let mut names = vec![];
    // (What is no Rust is found elsewhere.)
    walk(text.parse().unwrap_or_default(), &mut names);
    names
}

fn walk(tokens: TokenStream, names: &mut Vec<String>) {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    let word = |i: usize| match trees.get(i) {
        Some(TokenTree::Ident(word)) => word.to_string(),
        _ => String::new(),
    };
    for (i, tree) in trees.iter().enumerate() {
        let TokenTree::Group(group) = tree else { continue };
        let stream = group.stream();
        if is_exported(group.delimiter(), &stream) {
            // pub unsafe extern "C" fn NAME; in a macro's definition the name is a variable.
            let keyword = (i..trees.len().min(i + 8)).find(|at| word(*at) == "fn");
            names.extend(keyword.map(|at| word(at + 1)).filter(|name| !name.is_empty()));
        }
        let is_macro = i > 1 && matches!(&trees[i - 1], TokenTree::Punct(p) if p.as_char() == '!');
        match is_macro.then(|| word(i - 2)).as_deref() {
            Some("hooks" | "descriptor_hooks" | "data_hooks") => of_hooks(stream, names),
            Some("pass_on") => of_pass_on(stream, names),
            _ => walk(stream, names),
        }
    }
}

fn is_exported(delimiter: Delimiter, stream: &TokenStream) -> bool {
    delimiter == Delimiter::Bracket && stream.to_string().replace(' ', "") == "unsafe(no_mangle)"
}

/// `fn NAME [ALIAS...] (...) -> ... { ... }`, again and again.
fn of_hooks(stream: TokenStream, names: &mut Vec<String>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    for window in trees.windows(3) {
        if let [TokenTree::Ident(keyword), TokenTree::Ident(name), TokenTree::Group(aliases)] = window
            && keyword == "fn"
            && aliases.delimiter() == Delimiter::Bracket
        {
            names.push(name.to_string());
            names.extend(aliases.stream().into_iter().map(|alias| alias.to_string()));
        }
    }
}

/// `NAME, ...;`, again and again.
fn of_pass_on(stream: TokenStream, names: &mut Vec<String>) {
    let mut is_first = true;
    for tree in stream {
        match tree {
            TokenTree::Ident(name) if is_first => {
                names.push(name.to_string());
                is_first = false;
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => is_first = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{compare, declared, lost, parse};
    use std::collections::BTreeMap;

    const SOURCE: &str = r#"
        macro_rules! hooks { ($name:ident) => { #[unsafe(no_mangle)] pub unsafe extern "C" fn $name() {} }; }
        crate::hook::hooks! { fn read [__read other] (fd: c_int) -> isize { f(fd) } fn write [] () -> isize { g() } }
        descriptor_hooks! { fn send [] (fd: c_int) -> isize { h() } }
        data_hooks! { fn recv [] (fd: c_int) -> isize { h() } }
        pass_on! { execl, EXECL, before, |_a, _b| execs(); system, SYSTEM, before, |_a, _b| spawns(); }
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn fork() -> c_int { 0 }
        fn hidden() {}
    "#;

    #[test]
    fn hooks_are_read_in_every_way_they_are_written() {
        let mut names = declared(SOURCE);
        names.sort();
        assert_eq!(names, ["__read", "execl", "fork", "other", "read", "recv", "send", "system", "write"]);
    }

    #[test]
    fn a_hook_without_a_line_and_a_line_without_a_hook_are_found() {
        let declared = ["read".to_string(), "write".to_string()].into();
        let table = parse("# comment\nread   parity data.read\nsplice parity move.splice\n");
        let found = compare(&declared, &table);
        assert_eq!(found.len(), 2);
        assert!(
            found[0].starts_with("write: no test") && found[1].contains("splice is no hook"),
            "{found:?}"
        );
    }

    #[test]
    fn tests_that_are_not_there_are_found() {
        let tests = BTreeMap::from([
            ("parity", "case(\"data.read\", read)".to_string()),
            ("bars", "#[test]\nfn it_holds() {}".to_string()),
        ]);
        for place in ["parity data.read", "bars it_holds"] {
            assert_eq!(lost("read", place, &tests), None);
        }
        for place in ["parity data.rea", "bars it_hold", "elsewhere data.read"] {
            assert!(lost("read", place, &tests).is_some_and(|found| found.contains(place)), "{place}");
        }
    }
}
