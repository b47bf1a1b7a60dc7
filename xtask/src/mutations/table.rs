//! The mends that can be taken out: what each is for, where it stands, what stands there without it, and the
//! test that fails then. Invariant: each `old` is found exactly once, so that who changes the place is told.

mod below;
mod calls;
mod handed;
mod sets;

use std::fmt;
use std::path::Path;

use anyhow::{Context, bail};

/// A test of the ladder.
#[derive(Clone, Copy)]
pub(super) enum Test {
    /// Cases whose titles contain this.
    Parity(&'static str),
    /// Scripts of random calls: seeds, as `tests/calls` takes them.
    Calls(&'static str),
    /// A test of `tests/bars`.
    Bars(&'static str),
    /// A unit test of a package.
    Unit(&'static str, &'static str),
    /// A model of `shm` under loom.
    Loom(&'static str),
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Test::Parity(name) => write!(f, "parity {name}"),
            Test::Calls(seeds) => write!(f, "calls {seeds}"),
            Test::Bars(name) => write!(f, "bars {name}"),
            Test::Unit(package, name) => write!(f, "{package} {name}"),
            Test::Loom(name) => write!(f, "loom {name}"),
        }
    }
}

/// A replacement.
pub(super) struct Edit {
    pub(super) file: &'static str,
    pub(super) old: &'static str,
    pub(super) new: &'static str,
}

/// One mend.
pub(super) struct Mend {
    pub(super) name: &'static str,
    /// What happens without it.
    pub(super) without: &'static str,
    pub(super) edits: &'static [Edit],
    pub(super) test: Test,
}

impl Mend {
    /// The edits with the text of their files; fails where one does not find its place.
    pub(super) fn places(&self, root: &Path) -> anyhow::Result<Vec<(&'static Edit, String)>> {
        let place = |edit: &'static Edit| {
            let text = std::fs::read_to_string(root.join(edit.file))
                .with_context(|| format!("mutations: {}: no {}", self.name, edit.file))?;
            match text.matches(edit.old).count() {
                1 => Ok((edit, text)),
                count => bail!(
                    "mutations: {}: found {count} times in {}:\n{}\n   How to fix it: follow the change in \
                     xtask/src/mutations/table; what stands there now is to be taken out",
                    self.name,
                    edit.file,
                    edit.old
                ),
            }
        };
        self.edits.iter().map(place).collect()
    }
}

const fn edit(file: &'static str, old: &'static str, new: &'static str) -> Edit {
    Edit { file, old, new }
}

/// All of them.
pub(super) fn mends() -> impl Iterator<Item = &'static Mend> {
    calls::MENDS.iter().chain(sets::MENDS).chain(handed::MENDS).chain(below::MENDS)
}

#[cfg(test)]
mod tests {
    use super::{Test, mends};
    use std::fs;
    use std::path::{Path, PathBuf};

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    /// All files of a folder, as one text.
    fn texts(folder: &str) -> String {
        let walk = ignore::WalkBuilder::new(root().join(folder)).build();
        walk.flatten().filter_map(|entry| fs::read_to_string(entry.path()).ok()).collect()
    }

    #[test]
    fn every_mend_is_where_the_table_says() {
        let lost: Vec<String> =
            mends().filter_map(|mend| mend.places(&root()).err()).map(|error| format!("{error:#}")).collect();
        assert!(lost.is_empty(), "{}", lost.join("\n"));
    }

    #[test]
    fn every_mend_has_a_name_of_its_own_and_a_test_that_exists() {
        for (n, mend) in mends().enumerate() {
            assert!(mends().take(n).all(|other| other.name != mend.name), "{} twice", mend.name);
            assert!(mend.edits.iter().all(|edit| edit.old != edit.new), "{} changes nothing", mend.name);
            let exists = match mend.test {
                Test::Parity(name) => texts("tests/parity/program").contains(&format!("\"{name}")),
                Test::Bars(name) => texts("tests/bars").contains(&format!("fn {name}(")),
                Test::Unit(package, name) => {
                    let text = texts(&format!("crates/{package}/src"));
                    text.contains(&format!("fn {name}(")) || text.contains(&format!("mod {name};"))
                }
                Test::Calls(seeds) => seeds.split("..").all(|seed| seed.parse::<u64>().is_ok()),
                Test::Loom(name) => texts("crates/shm/src").contains(&format!("mod {name};")),
            };
            assert!(exists, "{}: no {}", mend.name, mend.test);
        }
    }
}
