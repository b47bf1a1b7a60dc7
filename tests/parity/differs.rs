//! What differs from TCP on purpose: `differs.txt` has the lines. Invariant: a difference that is gone is
//! told of as one that is new.

use isthmus_tests::Mode;

/// How the names of these cases begin.
pub(crate) const GROUP: &str = "differs.";
/// What a case says where this kernel or user does not let it show the difference.
const NOT_HERE: &str = "not here: ";
const TABLE: &str = include_str!("differs.txt");

/// What the case is to print in this mode, whose own end is enabled or not, from what it prints over TCP.
pub(crate) fn expected(
    case: &str,
    tcp: Vec<String>,
    is_own_enabled: bool,
    mode: Mode,
) -> Result<Vec<String>, String> {
    let Some(told) = entry(TABLE, case) else {
        return if case.starts_with(GROUP) {
            Err(format!("    {case} is not in differs.txt"))
        } else {
            Ok(tcp)
        };
    };
    if tcp.iter().any(|line| line.starts_with(NOT_HERE)) {
        return Ok(tcp);
    }
    if mode == Mode::Smc || (told.is_of_one_end && is_own_enabled) { told.replace(tcp) } else { Ok(tcp) }
}

/// What one case differs in.
struct Entry {
    /// Wherever its own end is enabled, and not only where both are.
    is_of_one_end: bool,
    /// What TCP prints, and what is there instead.
    lines: Vec<(String, String)>,
}

impl Entry {
    fn replace(&self, mut lines: Vec<String>) -> Result<Vec<String>, String> {
        let mut from = 0;
        for (tcp, ours) in &self.lines {
            let at = lines[from..].iter().position(|line| line == tcp);
            let at =
                from + at.ok_or_else(|| format!("    TCP does not say {tcp:?}, as differs.txt has it"))?;
            lines[at].clone_from(ours);
            from = at + 1;
        }
        Ok(lines)
    }
}

/// A case's entry: its name, "(one end)" behind it, and below it lines in pairs, "- " and "+ ".
fn entry(table: &str, case: &str) -> Option<Entry> {
    let mut rest = table.lines().skip_while(|line| line.split(' ').next() != Some(case));
    let is_of_one_end = rest.next()?.ends_with("(one end)");
    let mut lines = vec![];
    while let Some(tcp) = rest.next().and_then(|line| line.strip_prefix("- ")) {
        let ours = rest.next().and_then(|line| line.strip_prefix("+ "));
        lines.push((tcp.to_string(), ours.expect("what is there instead").to_string()));
    }
    Some(Entry { is_of_one_end, lines })
}
