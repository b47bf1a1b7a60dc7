//! `cargo xtask test-user`: the black-box tests once more, without privilege.
//!
//! Root builds, an ordinary user runs. Everything that the tests need is copied to a folder which that user can read,
//! since a root's checkout often stands where nobody else may look.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use cargo_metadata::Message;

use crate::exec::Run;
use crate::workspace::Workspace;

/// `nobody` on Debian and most others; it needs no entry in the user database.
const UID: u32 = 65_534;
/// The package whose tests run whole programs.
const PACKAGE: &str = "isthmus-tests";
/// One test program may take this long.
const LIMIT: Duration = Duration::from_secs(8 * 60);

/// Runs the tests of [`PACKAGE`] as [`UID`].
pub(crate) fn test(ws: &Workspace) -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        println!("not root: `cargo xtask test` already runs as an ordinary user");
        return Ok(());
    }
    let programs = test_programs(ws)?;
    let stage = Stage::new(ws)?;
    for program in &programs {
        stage.run(program)?;
    }
    Ok(())
}

/// Builds the tests and returns the programs that cargo made.
fn test_programs(ws: &Workspace) -> anyhow::Result<Vec<PathBuf>> {
    let output = Run::cargo("the compiler's message above names the place")
        .args(["test", "--no-run", "--package", PACKAGE, "--message-format", "json-render-diagnostics"])
        .with(|c| _ = c.current_dir(ws.root()))
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
    Ok(programs)
}

/// A folder that the ordinary user can read (`home` he can write), removed at the end.
struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    fn new(ws: &Workspace) -> anyhow::Result<Self> {
        let folder =
            tempfile::Builder::new().prefix("isthmus-user-").tempdir().context("no temporary folder")?;
        let top = folder.path();
        fs::set_permissions(top, fs::Permissions::from_mode(0o755))?;
        for part in ["bin", "lib", "share"] {
            copy_tree(&ws.dist().join(part), &top.join("dist").join(part))
                .with_context(|| format!("cannot copy {part}: run `cargo xtask dist` first"))?;
        }
        copy_tree(&ws.root().join("tests"), &top.join("tests"))?;
        let home = top.join("home");
        fs::create_dir(&home)?;
        std::os::unix::fs::chown(&home, Some(UID), Some(UID))?;
        Ok(Self { folder })
    }

    fn run(&self, program: &Path) -> anyhow::Result<()> {
        let top = self.folder.path();
        let name = program.file_name().context("a program has a name")?;
        let copy = top.join(name);
        fs::copy(program, &copy)?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
        Run::new(&copy, "run it as an ordinary user: `cargo xtask dist && cargo test -p isthmus-tests`")
            .limit(LIMIT)
            .with(|c| {
                // Setting the uid also drops root's supplementary groups.
                c.uid(UID).gid(UID).current_dir(top.join("tests"));
                c.env("ISTHMUS_DIST", top.join("dist")).env("CARGO_MANIFEST_DIR", top.join("tests"));
                c.env("PATH", open_path()).env("USER", "nobody").env("LOGNAME", "nobody");
                for variable in ["HOME", "TMPDIR", "XDG_RUNTIME_DIR"] {
                    c.env(variable, top.join("home"));
                }
            })
            .go()?;
        Ok(fs::remove_file(copy)?)
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

/// Copies files, folders and links; everybody may read the copy.
fn copy_tree(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let (source, copy) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_tree(&source, &copy)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source)?, &copy)?;
        } else {
            fs::copy(&source, &copy)?;
            let mode = fs::metadata(&source)?.permissions().mode();
            fs::set_permissions(&copy, fs::Permissions::from_mode(mode | 0o444))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::copy_tree;
    use std::fs;

    #[test]
    fn copies_keep_links_and_can_be_read() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("deep")).expect("made");
        fs::write(from.join("deep/file"), "x").expect("written");
        std::os::unix::fs::symlink("deep/file", from.join("link")).expect("linked");
        copy_tree(&from, &to).expect("copied");
        assert_eq!(fs::read_to_string(to.join("link")).expect("followed"), "x");
        assert!(to.join("link").is_symlink());
    }
}
