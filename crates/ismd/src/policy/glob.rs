//! Patterns of cgroups and programs. Owns: what is read as a pattern can be matched, is no burden to match,
//! and no text is one that ends the daemon.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// As long as the longest path (PATH_MAX of `linux/limits.h`).
const LONGEST: usize = 4096;

/// `*` within a name, `**` across names. Error: what is wrong with it.
fn read(text: &str) -> Result<GlobSet, String> {
    if text.len() > LONGEST {
        return Err(format!("a pattern of {} bytes is longer than {LONGEST}", text.len()));
    }
    let glob = GlobBuilder::new(text).literal_separator(true).build();
    // (A set, though of one: what a single pattern is compiled to may not fail, and panics.)
    let set = glob.and_then(|glob| GlobSetBuilder::new().add(glob).build());
    set.map_err(|error| match error.kind() {
        globset::ErrorKind::Regex(_) => "this pattern is too large".into(),
        kind => kind.to_string(),
    })
}

/// A pattern of paths of cgroups.
pub(super) fn of_cgroup(text: &str) -> Result<GlobSet, String> {
    let can_match =
        ["/", "**", "{", "["].iter().any(|begin| text.strip_prefix('\\').unwrap_or(text).starts_with(begin));
    let set = read(text)?;
    if can_match { Ok(set) } else { Err("no cgroup is called so: its path begins with /".into()) }
}

/// A pattern of programs' file names.
pub(super) fn of_program(text: &str) -> Result<GlobSet, String> {
    let set = read(text)?;
    let is_path = text.contains('/') && !text.contains("**") && !text.contains(['{', '[']);
    if text.is_empty() || is_path {
        return Err("no program is called so: it is a file's name, without a folder".into());
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_the_daemon() {
        let nested = |open: &str, close: &str| open.repeat(2000) + "a" + &close.repeat(2000);
        let texts = ["*".repeat(100_000), "a".repeat(500_000), "?".repeat(LONGEST), "[!a]".repeat(1024)];
        let more = [nested("{", "}"), "{a,b}".repeat(800), "\\".repeat(LONGEST - 1), "[".repeat(9)];
        for text in texts.iter().chain(&more) {
            let is_too_long = text.len() > LONGEST;
            for read in [of_cgroup(text), of_program(text), of_cgroup(&format!("/{text}"))] {
                assert!(read.is_err() || !is_too_long, "{} bytes", text.len());
            }
        }
        assert!(of_program(&"a".repeat(LONGEST)).is_ok_and(|set| set.is_match("a".repeat(LONGEST))));
    }

    #[test]
    fn a_pattern_that_nothing_can_match_is_none() {
        for text in ["", "x", "*", "?a", "user.slice/**"] {
            assert!(of_cgroup(text).is_err(), "{text}");
        }
        for text in ["/", "/a*", "**", "**/x", "{/a,/b}/*", "\\/x"] {
            assert!(of_cgroup(text).is_ok(), "{text}");
        }
        for text in ["", "/usr/bin/redis", "bin/*"] {
            assert!(of_program(text).is_err(), "{text}");
        }
        assert!(of_program("**/redis").is_ok_and(|set| set.is_match("redis")));
        assert!(of_program("redis*").is_ok_and(|set| set.is_match("redis-server")));
    }
}
