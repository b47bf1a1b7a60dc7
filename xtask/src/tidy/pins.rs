//! What is promised has a test: `tests/points.txt` says which tests hold the points in which a program may
//! tell shared memory from TCP, `tests/limitations.txt` which show the differences that LIMITATIONS.md lists.
//! Both are held here against the tests that there are, the second one against the document, too.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::workspace::walk_sources;

const POINTS: &str = "tests/points.txt";
const DIFFERENCES: &str = "tests/limitations.txt";
const DOCUMENT: &str = "LIMITATIONS.md";
/// Behind this, the document tells of things that are not there, or that a daemon has tests of its own for.
const SECTIONS: [&str; 2] = ["## Programs that the library does not reach", "## Different from TCP"];

/// Where the tests of each suite stand.
const SUITES: [(&str, &str); 6] = [
    ("parity", "tests/parity/program"),
    ("bars", "tests/bars"),
    ("e2e", "tests/e2e"),
    ("soak", "tests/soak"),
    ("sim", "crates/sim/src/tests"),
    ("loom", "crates/shm/src"),
];

/// The table of reason codes, and the rooms of the library, which end connections with them.
const REASONS: &str = "crates/wire/src/reason.rs";
const ROOMS: [&str; 3] = ["crates/fabric/src", "crates/socket/src", "crates/preload/src"];
/// Reasons that only a peer which lies, or a mistake of ours, brings about.
const UNSEEN: [&str; 2] = ["SYNCERR", "INTERR"];

/// A line of either table: what it is about, and tests or why there are none.
type Line<'a> = (&'a str, &'a str);

/// One finding for each line without a test, each test that is not there, and each difference without a line.
pub(super) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let read = |name: &str| fs::read_to_string(root.join(name)).with_context(|| format!("{name} is gone"));
    let (points, differences, document) = (read(POINTS)?, read(DIFFERENCES)?, read(DOCUMENT)?);
    let mut tests = BTreeMap::new();
    for (suite, folder) in SUITES {
        tests.insert(suite, super::hooks::sources(&root.join(folder))?.concat());
    }
    let mut findings = vec![];
    for (table, text) in [(POINTS, &points), (DIFFERENCES, &differences)] {
        findings.extend(lines(text).flat_map(|line| lost(table, line, &tests)));
    }
    findings.extend(apart(&document, &lines(&differences).collect::<Vec<_>>()));
    let mut library = String::new();
    for room in ROOMS {
        for entry in walk_sources(&root.join(room)).build() {
            let path = entry.context("cannot walk the library")?.into_path();
            library += &fs::read_to_string(path).unwrap_or_default();
        }
    }
    findings.extend(untold(&document, &read(REASONS)?, &library));
    Ok(findings)
}

/// Findings for reasons that the library gives, and of which the document does not tell.
fn untold(document: &str, table: &str, library: &str) -> Vec<String> {
    let rows = table.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let code = words.next().filter(|word| word.starts_with("0x"))?;
        Some((code.replace('_', ""), words.next()?))
    });
    let is_given = |name: &str| {
        let given = format!("Reason::{name}");
        let mut places = library.split(given.as_str()).skip(1);
        places.any(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
    };
    let given = rows.filter(|(_, name)| !UNSEEN.contains(name) && is_given(name));
    let untold = given.filter(|(code, _)| !document.contains(&format!("`TCP {code}")));
    untold
        .map(|(code, name)| format!("{DOCUMENT}: no row tells of {name} ({code}), which the library gives"))
        .collect()
}

fn lines(table: &str) -> impl Iterator<Item = Line<'_>> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(" | ").unwrap_or((line, "")))
}

/// Findings for the tests of a line that are not there.
fn lost(table: &str, (what, names): Line<'_>, tests: &BTreeMap<&str, String>) -> Vec<String> {
    if names.strip_prefix("none: ").is_some_and(|why| !why.is_empty()) {
        return vec![];
    }
    let is_there = |name: &str| {
        let (suite, test) = name.split_once(' ').unwrap_or_default();
        tests.get(suite).is_some_and(|text| match suite {
            "parity" => text.contains(&format!("\"{test}\"")),
            _ => text.contains(&format!("fn {test}()")),
        })
    };
    let lost = names.split(", ").filter(|name| !is_there(name));
    lost.map(|name| format!("{table}: {what}: there is no `{name}`: name a test that shows it")).collect()
}

/// Findings for items of the document that no line begins like, and for lines that no item begins like.
fn apart(document: &str, lines: &[Line<'_>]) -> Vec<String> {
    let items = items(document);
    let of = |item: &&&str| !lines.iter().any(|(what, _)| item.starts_with(what));
    let untold = items.iter().filter(of).map(|item| {
        let begin: String = item.chars().take(60).collect();
        format!("{DOCUMENT}: `{begin}`: no test shows it: write one, and name it in {DIFFERENCES}")
    });
    let gone = lines.iter().filter(|(what, _)| !items.iter().any(|item| item.starts_with(what)));
    let gone =
        gone.map(|(what, _)| format!("{DIFFERENCES}: `{what}` begins no item of {DOCUMENT}: take it out"));
    untold.chain(gone).collect()
}

/// The first lines of what the sections list.
fn items(document: &str) -> Vec<&str> {
    let mut is_inside = false;
    let inside = document.lines().filter(|line| {
        if line.starts_with("## ") {
            is_inside = SECTIONS.contains(line);
        }
        is_inside
    });
    inside.filter_map(|line| line.strip_prefix("- ")).collect()
}

#[cfg(test)]
mod tests {
    use super::{apart, lines, lost, untold};
    use std::collections::BTreeMap;

    const DOCUMENT: &str =
        "## Different from TCP\n- One thing is so,\n  and so.\n- Another\n## Sizes\n- none\n";

    #[test]
    fn items_without_a_line_and_lines_without_an_item_are_found() {
        let table = "# comment\nOne thing | parity a.b\nA third | parity a.b\n";
        let found = apart(DOCUMENT, &lines(table).collect::<Vec<_>>());
        assert_eq!(found.len(), 2);
        assert!(found[0].contains("`Another`") && found[1].contains("`A third`"), "{found:?}");
    }

    #[test]
    fn reasons_that_no_row_tells_of_are_found() {
        let table =
            "    0x0101_0000 MEM \"MEMORY\"\n    0x0102_0000 MEM_MORE \"\"\n    0x0400_0000 SYNCERR \"\"\n";
        let library = "Err(Reason::MEM_MORE), Reason::SYNCERR";
        assert_eq!(untold("| `TCP 0x01010000`, so |", table, library).len(), 1);
        assert_eq!(untold("| `TCP 0x01020000` |", table, library), Vec::<String>::new());
    }

    #[test]
    fn tests_that_are_not_there_and_reasons_that_are_none_are_found() {
        let tests = BTreeMap::from([
            ("parity", "case(\"a.b\", b)".to_string()),
            ("bars", "fn it_holds() {}".to_string()),
        ]);
        assert!(lost("table", ("this", "parity a.b, bars it_holds"), &tests).is_empty());
        assert!(lost("table", ("this", "none: it is luck"), &tests).is_empty());
        for names in ["parity a", "bars it_hold", "elsewhere a.b", "none: ", ""] {
            assert_eq!(lost("table", ("this", names), &tests).len(), 1, "{names}");
        }
    }
}
