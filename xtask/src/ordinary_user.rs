//! `cargo xtask test-user`: the black-box tests once more, without privilege.
//!
//! Root builds, an ordinary user runs. The tests are built from a copy of the checkout in a folder that
//! everybody may read, since a root's checkout often stands where nobody else may look, and tests carry the
//! paths they were built in.
//!
//! In ci, where both users test, they share the work: see [`USERS_PART`].

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use cargo_metadata::Message;
use ignore::WalkBuilder;

use crate::exec::Run;
use crate::leftovers;
use crate::workspace::{Workspace, walk_sources};

/// `nobody` on Debian and most others; it needs no entry in the user database.
const UID: u32 = 65_534;
/// The package whose tests run whole programs.
const PACKAGE: &str = "isthmus-tests";
/// One test program may take this long.
const LIMIT: Duration = Duration::from_secs(20 * 60);
/// Loads and counts that ask nothing of who runs them: `test` alone has them, or ci would take too long.
const ONCE: [&str; 2] = ["counts", "soak"];
/// Which part of the work a run of the tests has, where several share it (tests/src/mode.rs).
pub(crate) const PART: &str = "ISTHMUS_PART";
/// The ordinary user's in ci, and what is root's then. Of a parity case either has one end, in all modes; of
/// the scribblers half of the plans; of other tests both have those with both ends enabled, and one of them
/// any other mode.
const USERS_PART: &str = "1/2";
const ROOTS_PART: &str = "2/2";
/// In ci more cases at a time: most of them wait.
pub(crate) const PARITY_THREADS: (&str, &str) = ("PARITY_THREADS", "6");
/// In ci what is random goes on for half as long here as in `test`, liars by other seeds. Plain torture,
/// which tells of the torture alone, is left to `test`.
const SHORTER: [(&str, &str); 8] = [
    PARITY_THREADS,
    ("CALLS_FIRST", "1001"),
    ("TORTURE_SECONDS", "10"),
    ("TORTURE_ROUNDS", "spin,nospin"),
    ("FUZZ_SECONDS", "12"),
    ("FUZZ_SEED", "1001"),
    ("BARS_SCRIBBLE_MS", "200"),
    ("BARS_SCRIBBLE_SEED", "1001"),
];

/// Runs all tests of [`PACKAGE`] as [`UID`].
pub(crate) fn test(ws: &Workspace) -> anyhow::Result<()> {
    run(ws, &[])
}

/// Runs of them what [`checks::test_in_ci`] does not.
///
/// [`checks::test_in_ci`]: crate::checks::test_in_ci
pub(crate) fn test_in_ci(ws: &Workspace) -> anyhow::Result<()> {
    let turn = crate::parity::turn(ws);
    run(ws, &[&[(PART, USERS_PART), (crate::parity::TURN, &turn)], &SHORTER[..]].concat())
}

/// The part that is left to the caller in ci; `None` if all of it is.
pub(crate) fn part_of_the_caller() -> Option<&'static str> {
    is_root().then_some(ROOTS_PART)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn run(ws: &Workspace, settings: &[(&str, &str)]) -> anyhow::Result<()> {
    if !is_root() {
        println!("not root: `cargo xtask test` already runs as an ordinary user");
        return Ok(());
    }
    let stage = Stage::new(ws)?;
    let programs = stage.build()?;
    let here = |program: &&PathBuf| !ONCE.iter().any(|name| is_program(program, name));
    leftovers::none_after(|| {
        programs.iter().filter(here).try_for_each(|program| stage.run(program, settings))
    })
}

/// Whether cargo made `program` from the test `name`.
fn is_program(program: &Path, name: &str) -> bool {
    let stem = program.file_name().and_then(|stem| stem.to_str()).unwrap_or_default();
    stem.rsplit_once('-').is_some_and(|(test, _)| test == name)
}

/// A folder with `src`, `dist`, `target`, all readable, and a `home` that belongs to the ordinary user.
/// Removed at the end.
struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    fn new(ws: &Workspace) -> anyhow::Result<Self> {
        let folder =
            tempfile::Builder::new().prefix("isthmus-user-").tempdir().context("no temporary folder")?;
        let stage = Self { folder };
        fs::set_permissions(stage.folder.path(), fs::Permissions::from_mode(0o755))?;
        copy_tree(&ws.root(), &stage.part("src"), &walk_sources(&ws.root()))?;
        for part in ["bin", "lib", "share"] {
            let (from, to) = (ws.dist().join(part), stage.part("dist").join(part));
            copy_tree(&from, &to, WalkBuilder::new(&from).standard_filters(false))
                .with_context(|| format!("cannot copy {part}: run `cargo xtask dist` first"))?;
        }
        fs::create_dir(stage.part("home"))?;
        std::os::unix::fs::chown(stage.part("home"), Some(UID), Some(UID))?;
        Ok(stage)
    }

    fn part(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Builds the tests and returns the programs that cargo made.
    fn build(&self) -> anyhow::Result<Vec<PathBuf>> {
        let output = Run::cargo("the compiler's message above names the place")
            .args(["test", "--no-run", "--package", PACKAGE, "--message-format", "json-render-diagnostics"])
            .with(|c| {
                c.current_dir(self.part("src")).env("CARGO_TARGET_DIR", self.part("target"));
                c.env("CARGO_INCREMENTAL", "0");
            })
            .output()?;
        let mut programs = vec![];
        for message in Message::parse_stream(&output[..]) {
            if let Message::CompilerArtifact(artifact) = message.context("unreadable message from cargo")?
                && artifact.profile.test
            {
                programs.extend(artifact.executable.map(PathBuf::from));
            }
        }
        if programs.is_empty() {
            bail!(
                "cargo built no test program of {PACKAGE}.\n   How to fix it: does tests/Cargo.toml still say so?"
            );
        }
        // In the order of their names: cargo reports them as they are done.
        programs.sort();
        Ok(programs)
    }

    fn run(&self, program: &Path, settings: &[(&str, &str)]) -> anyhow::Result<()> {
        Run::new(program, "run it as an ordinary user: `cargo xtask dist && cargo test -p isthmus-tests`")
            .limit(LIMIT)
            .with(|c| {
                // Setting the uid also drops root's supplementary groups.
                c.uid(UID).gid(UID).current_dir(self.part("src/tests"));
                c.env("ISTHMUS_DIST", self.part("dist")).env("CARGO_MANIFEST_DIR", self.part("src/tests"));
                c.envs(settings.iter().copied());
                c.env("PATH", open_path()).env("USER", "nobody").env("LOGNAME", "nobody");
                for variable in ["HOME", "TMPDIR", "XDG_RUNTIME_DIR"] {
                    c.env(variable, self.part("home"));
                }
            })
            .go()
    }
}

/// The PATH without folders that only root can enter.
fn open_path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let open = std::env::split_paths(&path).filter(|folder| folder.ancestors().all(is_open));
    std::env::join_paths(open).unwrap_or_default()
}

fn is_open(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|meta| meta.permissions().mode() & 0o001 != 0)
}

/// Copies what the walk finds: files, folders and links. Everybody may read the copy.
fn copy_tree(from: &Path, to: &Path, walk: &WalkBuilder) -> anyhow::Result<()> {
    for entry in walk.build() {
        let entry = entry?;
        let copy = to.join(entry.path().strip_prefix(from)?);
        copy_entry(entry.path(), &copy).with_context(|| format!("cannot copy {}", entry.path().display()))?;
    }
    Ok(())
}

fn copy_entry(from: &Path, to: &Path) -> std::io::Result<()> {
    let meta = fs::symlink_metadata(from)?;
    if meta.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from)?, to);
    }
    if meta.is_dir() {
        fs::create_dir_all(to)?;
        return fs::set_permissions(to, fs::Permissions::from_mode(0o755));
    }
    if meta.is_file() {
        fs::copy(from, to)?;
        fs::set_permissions(to, fs::Permissions::from_mode(meta.permissions().mode() | 0o444))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::copy_tree;
    use ignore::WalkBuilder;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn copies_keep_links_and_can_be_read() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("deep")).expect("made");
        fs::write(from.join("deep/file"), "x").expect("written");
        fs::set_permissions(from.join("deep/file"), fs::Permissions::from_mode(0o700)).expect("set");
        std::os::unix::fs::symlink("deep/file", from.join("link")).expect("linked");
        copy_tree(&from, &to, WalkBuilder::new(&from).standard_filters(false)).expect("copied");
        assert_eq!(fs::read_to_string(to.join("link")).expect("followed"), "x");
        assert!(to.join("link").is_symlink());
        assert_eq!(fs::metadata(to.join("deep/file")).expect("there").permissions().mode() & 0o777, 0o744);
    }
}
