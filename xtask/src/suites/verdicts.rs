//! What test runners print, read as (case, verdict). Owns nothing: text in, table out; a line that is not
//! understood is the program's own output.

use std::collections::BTreeMap;

/// How one case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// As the suite expects, be it an expected failure.
    Passed,
    /// Failed, or ended by an error.
    Failed,
    /// Not run, for a reason of the suite's.
    Skipped,
    /// Begun, and never heard of again: a crash, or the time limit.
    Unfinished,
    /// Not even begun.
    Missing,
}

/// A case is named by its part and its name there.
pub(super) type Cases = BTreeMap<(String, String), Verdict>;

/// A table of one part.
pub(super) type Reader = fn(&str) -> BTreeMap<String, Verdict>;

/// Python's unittest, verbose: `name (module.Class.name) ... ok`, with the program's own output in between.
pub(super) fn unittest(text: &str) -> BTreeMap<String, Verdict> {
    let mut cases = BTreeMap::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        if let Some((kind, name)) = heading(line) {
            cases.insert(name, kind);
            continue;
        }
        if let Some(name) = python_name(line) {
            cases.entry(name.clone()).or_insert(Verdict::Unfinished);
            open = Some(name);
        }
        let said = line.rsplit("... ").next().unwrap_or(line).trim();
        if let (Some(name), Some(verdict)) = (&open, python_verdict(without_time(said)))
            && cases.get(name) == Some(&Verdict::Unfinished)
        {
            cases.insert(name.clone(), verdict);
        }
    }
    cases
}

/// `ERROR: name (module.Class.name)` in the list of what failed: certain, whatever stood between name and
/// verdict above.
fn heading(line: &str) -> Option<(Verdict, String)> {
    let rest = line.strip_prefix("ERROR: ").or_else(|| line.strip_prefix("FAIL: "))?;
    Some((Verdict::Failed, python_name(rest)?))
}

fn python_name(line: &str) -> Option<String> {
    let (name, rest) = line.split_once(" (")?;
    let (place, _) = rest.split_once(')')?;
    let is_word =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "_.<>".contains(c));
    if !is_word(name) || !is_word(place) || !place.contains('.') {
        return None;
    }
    // From Python 3.11 on the place names the method, too.
    Some(if place.ends_with(name) { place.into() } else { format!("{place}.{name}") })
}

/// Some suites say how long a case took: `0.11s ok`.
fn without_time(said: &str) -> &str {
    let is_time = |word: &str| word.strip_suffix('s').is_some_and(|digits| digits.parse::<f64>().is_ok());
    said.split_once(' ').filter(|(word, _)| is_time(word)).map_or(said, |(_, rest)| rest.trim_start())
}

fn python_verdict(said: &str) -> Option<Verdict> {
    match said.split([' ', '(']).next()? {
        "ok" | "expected" => Some(Verdict::Passed),
        "FAIL" | "ERROR" | "unexpected" => Some(Verdict::Failed),
        "skipped" => Some(Verdict::Skipped),
        _ => None,
    }
}

/// Test Anything Protocol: `ok 3 - name`, `not ok 4 - name # SKIP why`; a name that comes twice is numbered.
/// What `prove` runs is told apart by its file, as in `t/one.t .. `.
pub(super) fn tap(text: &str) -> BTreeMap<String, Verdict> {
    let mut cases = Numbered::default();
    let mut file = "";
    for line in text.lines().map(str::trim_start) {
        if let Some((name, dots)) = line.split_once(' ')
            && name.ends_with(".t")
            && dots.starts_with("..")
        {
            file = name;
        }
        if let Some((name, verdict)) = tap_line(line) {
            cases.insert(format!("{file} {name}").trim_start(), verdict);
        }
    }
    cases.cases
}

/// What `prove` says of each file: `t/one.t .. ok`, `t/two.t .. skipped: why`, `t/three.t .. Failed 1/4
/// subtests` (on a line of its own where the file has printed something).
pub(super) fn prove(text: &str) -> BTreeMap<String, Verdict> {
    let mut cases = BTreeMap::new();
    let mut file = "";
    for line in text.lines().map(|line| line.rsplit('\r').next().unwrap_or(line)) {
        let mut said = line;
        if let Some((name, dots)) = line.split_once(' ')
            && name.ends_with(".t")
            && dots.starts_with("..")
        {
            file = name;
            said = dots.trim_start_matches('.').trim();
            cases.entry(file.to_owned()).or_insert(Verdict::Unfinished);
        }
        let verdict = match said {
            "ok" => Verdict::Passed,
            _ if said.starts_with("skipped: ") => Verdict::Skipped,
            _ if said.starts_with("Failed ") || said.starts_with("Dubious") => Verdict::Failed,
            _ => continue,
        };
        if let Some(slot) = cases.get_mut(file) {
            *slot = verdict;
        }
    }
    cases
}

fn tap_line(line: &str) -> Option<(String, Verdict)> {
    let (passed, rest) = match (line.strip_prefix("ok "), line.strip_prefix("not ok ")) {
        (Some(rest), _) => (Verdict::Passed, rest),
        (_, rest) => (Verdict::Failed, rest?),
    };
    let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    number.parse::<u32>().ok()?;
    let rest = rest.trim_start_matches("- ");
    let (name, remark) = rest.split_once("# ").unwrap_or((rest, ""));
    let remark = remark.to_ascii_uppercase();
    let verdict = match passed {
        _ if remark.starts_with("SKIP") => Verdict::Skipped,
        _ if remark.starts_with("TODO") => Verdict::Passed,
        verdict => verdict,
    };
    let name = name.trim();
    Some((if name.is_empty() { format!("({number})") } else { name.to_owned() }, verdict))
}

/// A table in which a name that comes again gets a number.
#[derive(Default)]
struct Numbered {
    cases: BTreeMap<String, Verdict>,
    counts: BTreeMap<String, u32>,
}

impl Numbered {
    fn insert(&mut self, name: &str, verdict: Verdict) {
        let count = self.counts.entry(name.to_owned()).or_default();
        *count += 1;
        let key = if *count == 1 { name.to_owned() } else { format!("{name} [{count}]") };
        self.cases.insert(key, verdict);
    }
}

/// A name, a separator and a word at the end of the line, as several runners print it.
fn lines_ending(
    text: &str,
    words: &[(&str, Verdict)],
    name: fn(&str) -> Option<&str>,
) -> BTreeMap<String, Verdict> {
    let mut cases = Numbered::default();
    for line in text.lines() {
        let Some(end) = words.iter().find(|(word, _)| line.trim_end().ends_with(word)) else { continue };
        if let Some(name) = name(line.trim_end().trim_end_matches(end.0)) {
            cases.insert(name, end.1);
        }
    }
    cases.cases
}

/// libevent's tinytest: `main/methods: [forking] OK`.
pub(super) fn tinytest(text: &str) -> BTreeMap<String, Verdict> {
    let mut cases = BTreeMap::new();
    let mut open = String::new();
    for line in text.lines() {
        if let Some((name, _)) = line.split_once(": ")
            && name.contains('/')
            && !name.contains(' ')
        {
            name.clone_into(&mut open);
            cases.insert(open.clone(), Verdict::Unfinished);
        }
        let verdict = match line.rsplit([' ', '[']).next().unwrap_or_default() {
            "OK" => Verdict::Passed,
            "SKIPPED" | "DISABLED" | "SKIPPED]" | "DISABLED]" => Verdict::Skipped,
            "FAILED" | "FAILED]" => Verdict::Failed,
            _ => continue,
        };
        if let Some(slot) = cases.get_mut(&open) {
            *slot = verdict;
        }
    }
    cases
}

/// `cargo test`: `test name ... ok`.
pub(super) fn cargo(text: &str) -> BTreeMap<String, Verdict> {
    let words =
        [(" ... ok", Verdict::Passed), (" ... FAILED", Verdict::Failed), (" ... ignored", Verdict::Skipped)];
    lines_ending(text, &words, |line| line.strip_prefix("test "))
}

/// Twisted's trial: a tree of names by indentation, `test_name ... [OK]` at its leaves.
pub(super) fn trial(text: &str) -> BTreeMap<String, Verdict> {
    let mut cases = BTreeMap::new();
    let mut path: Vec<(usize, String)> = vec![];
    for line in text.lines() {
        if line.starts_with("====") {
            break;
        }
        let name = line.trim_start();
        let depth = line.len() - name.len();
        if let Some((leaf, said)) = name.split_once(" ... ") {
            let place: Vec<&str> = path.iter().filter(|(d, _)| *d < depth).map(|(_, n)| n.as_str()).collect();
            let verdict = match said.trim() {
                "[OK]" | "[TODO]" => Verdict::Passed,
                "[SKIPPED]" => Verdict::Skipped,
                "[FAIL]" | "[ERROR]" | "[SUCCESS!?!]" => Verdict::Failed,
                _ => Verdict::Unfinished,
            };
            cases.insert(format!("{}.{leaf}", place.join(".")), verdict);
        } else if !name.is_empty() && !name.contains(' ') {
            path.retain(|(d, _)| *d < depth);
            path.push((depth, name.into()));
        }
    }
    cases
}

/// test-unit and minitest, verbose: `  test_name:  .: (0.01)` below `Class:`, or `Class#name = 0.01 s = .`.
pub(super) fn ruby(text: &str) -> BTreeMap<String, Verdict> {
    let mut cases = BTreeMap::new();
    for line in text.lines() {
        // "[ 12/300] TestSocket#test_x = 0.01 s" and then the mark at the end: ".", "F", "E", "S".
        let Some((_, rest)) = line.split_once("] ") else { continue };
        let Some((name, said)) = rest.split_once(" = ") else { continue };
        let verdict = match said.rsplit("s = ").next().unwrap_or_default().trim() {
            "." => Verdict::Passed,
            "S" => Verdict::Skipped,
            "F" | "E" => Verdict::Failed,
            mark if mark.ends_with('F') || mark.ends_with('E') => Verdict::Failed,
            _ => Verdict::Passed,
        };
        cases.insert(name.into(), verdict);
    }
    // Where no mark is printed the list at the end says what failed: "  1) Failure:", and then
    // "TestSocket#test_x [file:12]:".
    for (line, next) in text.lines().zip(text.lines().skip(1)) {
        if (line.ends_with(") Failure:") || line.ends_with(") Error:"))
            && let Some(name) = next.split(" [").next().filter(|name| name.contains('#'))
        {
            cases.insert(name.trim_end_matches(':').into(), Verdict::Failed);
        }
    }
    cases
}

/// PHP's run-tests: `PASS name [file]`.
pub(super) fn php(text: &str) -> BTreeMap<String, Verdict> {
    let mut cases = BTreeMap::new();
    for line in text.lines() {
        let words = [
            ("PASS ", Verdict::Passed),
            ("FAIL ", Verdict::Failed),
            ("SKIP ", Verdict::Skipped),
            ("XFAIL ", Verdict::Passed),
        ];
        let Some((rest, verdict)) = words.iter().find_map(|(w, v)| Some((line.strip_prefix(w)?, v))) else {
            continue;
        };
        let file = rest.rsplit_once('[').and_then(|(_, end)| end.split(']').next());
        cases.insert(file.unwrap_or(rest).into(), *verdict);
    }
    cases
}

/// OpenJDK's jtreg: `Passed: java/net/Socket/A.java`.
pub(super) fn jtreg(text: &str) -> BTreeMap<String, Verdict> {
    let mut cases = BTreeMap::new();
    for line in text.lines() {
        let words =
            [("Passed: ", Verdict::Passed), ("FAILED: ", Verdict::Failed), ("Error: ", Verdict::Failed)];
        let Some((name, verdict)) = words.iter().find_map(|(w, v)| Some((line.strip_prefix(w)?, v))) else {
            continue;
        };
        // (Counts come in the same words.)
        if name.contains(".java") || name.contains(".sh") {
            cases.insert(name.trim().into(), *verdict);
        }
    }
    cases
}

/// Redis: `[ok]: name (12 ms)`.
pub(super) fn redis(text: &str) -> BTreeMap<String, Verdict> {
    let mut cases = Numbered::default();
    for line in text.lines() {
        let words = [
            ("[ok]: ", Verdict::Passed),
            ("[err]: ", Verdict::Failed),
            ("[ignore]: ", Verdict::Skipped),
            ("[skip]: ", Verdict::Skipped),
        ];
        let Some((name, verdict)) = words.iter().find_map(|(w, v)| Some((line.strip_prefix(w)?, v))) else {
            continue;
        };
        let name = name.split(" in tests/").next().unwrap_or(name);
        let name =
            name.rsplit_once(" (").filter(|(_, end)| end.ends_with(" ms)")).map_or(name, |(name, _)| name);
        cases.insert(name, *verdict);
    }
    cases.cases
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Failed, Passed, Skipped, Unfinished};
    use super::*;

    fn pairs(cases: &BTreeMap<String, Verdict>) -> Vec<(&str, Verdict)> {
        cases.iter().map(|(name, verdict)| (name.as_str(), *verdict)).collect()
    }

    #[test]
    fn a_verdict_of_unittest_may_come_lines_later() {
        let text = "test_a (t.C.test_a) ... noise\nmore\nok\ntest_b (t.C.test_b)\nIt does. ... skipped 'why'\n\
                    test_c (t.C) ... FAIL\ntest_d (t.C.test_d) ... hangs\ntest_e (t.C.test_e) ... 0.11s ok\n";
        let cases = unittest(text);
        let want = vec![
            ("t.C.test_a", Passed),
            ("t.C.test_b", Skipped),
            ("t.C.test_c", Failed),
            ("t.C.test_d", Unfinished),
            ("t.C.test_e", Passed),
        ];
        assert_eq!(pairs(&cases), want);
    }

    #[test]
    fn what_the_summary_of_unittest_calls_an_error_is_one() {
        let cases = unittest("test_a (t.C.test_a) ... ok\n=====\nERROR: test_a (t.C.test_a)\n");
        assert_eq!(pairs(&cases), vec![("t.C.test_a", Failed)]);
    }

    #[test]
    fn tap_has_remarks_and_repeated_names() {
        let text = "1..4\nok 1 - x\nnot ok 2 - x\nok 3 - y # skip no net\n  ok 4\nok then\nt/a.t .. \nok 1 # skip\nok 2 - x\n";
        let want = [
            ("(4)", Passed),
            ("t/a.t (1)", Skipped),
            ("t/a.t x", Passed),
            ("x", Passed),
            ("x [2]", Failed),
            ("y", Skipped),
        ];
        assert_eq!(pairs(&tap(text)), want);
    }

    #[test]
    fn prove_has_a_verdict_for_each_file() {
        let text = "t/a.t .. ok\nt/b.t ... skipped: no net\nt/c.t .. \nFailed 1/4 subtests\nt/d.t .. Dubious, test \
                    returned 2\nFailed 3/4 subtests \nt/e.t .. 1/?\nAll tests\n";
        let want = [
            ("t/a.t", Passed),
            ("t/b.t", Skipped),
            ("t/c.t", Failed),
            ("t/d.t", Failed),
            ("t/e.t", Unfinished),
        ];
        assert_eq!(pairs(&prove(text)), want);
    }

    #[test]
    fn tinytest_may_print_before_its_verdict() {
        let cases = tinytest(
            "main/a: OK\nmain/b: [forking] \n  FAIL x.c:1: no\n  [b FAILED]\nmain/c: DISABLED\nmain/d: \n",
        );
        let want = vec![("main/a", Passed), ("main/b", Failed), ("main/c", Skipped), ("main/d", Unfinished)];
        assert_eq!(pairs(&cases), want);
    }

    #[test]
    fn other_runners_are_read() {
        assert_eq!(
            pairs(&cargo("test a::b ... ok\ntest c ... FAILED\n")),
            vec![("a::b", Passed), ("c", Failed)]
        );
        assert_eq!(
            pairs(&trial("m.test\n  Case\n    test_a ... [OK]\n    test_b ...   [SKIPPED]\n")),
            vec![("m.test.Case.test_a", Passed), ("m.test.Case.test_b", Skipped)]
        );
        assert_eq!(
            pairs(&ruby("[ 1/2] TestA#test_x = 0.01 s = .\n[ 2/2] TestA#test_y = 0.01 s = F\n")),
            vec![("TestA#test_x", Passed), ("TestA#test_y", Failed)]
        );
        assert_eq!(
            pairs(&ruby("[1/1] A::TestA#test_x = 0.01 s\n\n  1) Failure:\nA::TestA#test_x [a.rb:1]:\nno.\n")),
            vec![("A::TestA#test_x", Failed)]
        );
        assert_eq!(
            pairs(&php("PASS a b [x/1.phpt] \nSKIP c [x/2.phpt] reason: no\n")),
            vec![("x/1.phpt", Passed), ("x/2.phpt", Skipped)]
        );
        assert_eq!(
            pairs(&jtreg("Passed: java/a/B.java\nFAILED: java/C.java#id0\nTest results: passed: 1\n")),
            vec![("java/C.java#id0", Failed), ("java/a/B.java", Passed)]
        );
        assert_eq!(
            pairs(&redis("[ok]: GET works (3 ms)\n[err]: SET in tests/unit/x.tcl\n")),
            vec![("GET works", Passed), ("SET", Failed)]
        );
    }
}
