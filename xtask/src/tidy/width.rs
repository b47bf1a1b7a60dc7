//! No line is wider than rustfmt would leave it. rustfmt breaks code; it leaves comments alone, and strings
//! that it cannot break.

/// `max_width` of rustfmt.toml.
const WIDTH: usize = 110;
/// Where comments have not been rewrapped yet; to become empty.
const EXCEPTIONS: &[&str] = &["crates/bench/", "crates/uperf/"];

/// One finding for each room among the exceptions that needs to be none.
pub(super) fn check_exceptions(files: &[(String, String)]) -> Vec<String> {
    let needed =
        |room: &&&str| !files.iter().any(|(name, text)| name.starts_with(**room) && first(text).is_some());
    let idle = EXCEPTIONS.iter().filter(needed);
    idle.map(|room| {
        format!("{room}: no line is too wide any more: take it out of EXCEPTIONS in xtask/src/tidy/width.rs")
    })
    .collect()
}

/// A finding for the first line that is too wide.
pub(super) fn check(name: &str, text: &str) -> Option<String> {
    let line = first(text).filter(|_| !EXCEPTIONS.iter().any(|room| name.starts_with(room)))?;
    Some(format!("{name}:{}: wider than {WIDTH}: break the comment where rustfmt would break code", line + 1))
}

fn first(text: &str) -> Option<usize> {
    text.lines().position(|line| line.chars().count() > WIDTH && !is_unbreakable(line))
}

/// A string, an address, or a table in a comment: rustfmt leaves them as they are.
fn is_unbreakable(line: &str) -> bool {
    let trimmed = line.trim_start();
    let is_comment = trimmed.starts_with("//");
    let words = trimmed.split_whitespace().filter(|word| !word.starts_with("//")).count();
    (!is_comment && (line.contains('"') || !line.contains("//")))
        || (is_comment && (words <= 1 || line.contains(" | ")))
}

#[cfg(test)]
mod tests {
    use super::{WIDTH, check};

    #[test]
    fn wide_comments_are_found_and_what_cannot_be_broken_is_left() {
        let word = "x".repeat(WIDTH);
        for wide in [format!("// a {word}"), format!("    /// two {word}"), format!("let a = 1; // a {word}")]
        {
            let found = check("a.rs", &format!("//! Head.\n{wide}\n"));
            assert!(found.is_some_and(|found| found.starts_with("a.rs:2: wider")), "{wide}");
        }
        let narrow = format!("// {}", "x ".repeat((WIDTH - 3) / 2));
        for fine in [narrow, format!("let a = \"{word}\";"), format!("// {word}"), format!("{word} more")] {
            assert_eq!(check("a.rs", &fine), None, "{fine}");
        }
    }
}
