//! The copy of the checkout in which mends are taken out, with what is built of it. Invariant: nothing that
//! is made here is ever what `dist` lays out, and each mend is back before the next one goes.

use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::table::{Mend, Test};
use crate::dist::LIBRARY;
use crate::exec::{self, Run};
use crate::workspace::{PRELOAD, Workspace, walk_sources};

/// What hangs without its mend has failed by then.
const LIMIT: Duration = Duration::from_secs(6 * 60);

/// `target/mutations`: the copy, what cargo builds of it, a layout for the tests, and what they say.
pub(super) struct Scratch<'a> {
    ws: &'a Workspace,
    folder: PathBuf,
    /// Where the tests put their files: some of their programs run as another user.
    files: tempfile::TempDir,
    /// Tests that passed with all mends in place.
    passed: RefCell<Vec<String>>,
}

/// A mend that is out; it comes back when this is dropped.
pub(super) struct TakenOut(Vec<(PathBuf, String)>);

impl Drop for TakenOut {
    fn drop(&mut self) {
        for (path, text) in &self.0 {
            fs::write(path, text).expect("the copy can be written");
        }
    }
}

impl<'a> Scratch<'a> {
    /// Brings the copy up to date and lays out the tools.
    pub(super) fn new(ws: &'a Workspace) -> anyhow::Result<Self> {
        let folder = ws.target().join("mutations");
        let tools = ws.dist().join("bin");
        if !tools.join("smc_run").is_file() {
            anyhow::bail!("no tools in {}: run cargo xtask dist first", tools.display());
        }
        let files = tempfile::Builder::new().prefix("isthmus-mutations-").tempdir()?;
        fs::set_permissions(files.path(), fs::Permissions::from_mode(0o1777))?;
        let scratch = Scratch { ws, folder, files, passed: RefCell::default() };
        fs::create_dir_all(scratch.logs())?;
        copy_tools(&tools, &scratch.layout().join("bin"))?;
        scratch.copy_sources()?;
        Ok(scratch)
    }

    fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    fn layout(&self) -> PathBuf {
        self.folder.join("isthmus")
    }

    /// What each build and each test said.
    pub(super) fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// Only what differs is written, so that cargo builds no more than it must.
    fn copy_sources(&self) -> anyhow::Result<()> {
        let (root, target) = (self.ws.root(), self.ws.target());
        for entry in walk_sources(&root).build() {
            let entry = entry?;
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
            if !is_file || entry.path().starts_with(&target) {
                continue;
            }
            let to = self.tree().join(entry.path().strip_prefix(&root)?);
            let text = fs::read(entry.path())?;
            if fs::read(&to).is_ok_and(|old| old == text) {
                continue;
            }
            fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
            fs::write(to, text)?;
        }
        self.remove_what_is_gone()
    }

    /// A module that has moved would be there twice.
    fn remove_what_is_gone(&self) -> anyhow::Result<()> {
        for entry in walk_sources(&self.tree()).build() {
            let entry = entry?;
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
            if is_file && !self.ws.root().join(entry.path().strip_prefix(self.tree())?).is_file() {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Takes a mend out of the copy.
    pub(super) fn take_out(&self, mend: &Mend) -> anyhow::Result<TakenOut> {
        let mut out = TakenOut(vec![]);
        for (edit, text) in mend.places(&self.tree())? {
            let path = self.tree().join(edit.file);
            // (Two edits of one file: the second begins with what the first has left.)
            let now = fs::read_to_string(&path)?;
            out.0.insert(0, (path.clone(), text));
            fs::write(&path, now.replacen(edit.old, edit.new, 1))?;
        }
        Ok(out)
    }

    /// Builds what the mend's test needs of the copy as it stands.
    pub(super) fn builds(&self, mend: &Mend, how: &str) -> anyhow::Result<bool> {
        let is_known = how == "with" && self.passed.borrow().contains(&mend.test.to_string());
        if is_known {
            return Ok(true);
        }
        let label = format!("{}.{how}.build", mend.name);
        match mend.test {
            Test::Unit(package, _) => {
                self.cargo(&label, |c| _ = c.args(["test", "--no-run", "--lib", "--package", package]))
            }
            Test::Loom(_) => self.cargo(&label, |c| loom(c.arg("test").arg("--no-run"))),
            Test::Parity(_) | Test::Calls(_) | Test::Bars(_) => {
                let args = ["build", "--package", PRELOAD, "--profile", "dist"];
                let is_built = self.cargo(&label, |c| _ = c.args(args))?;
                if is_built {
                    let lib = self.layout().join("lib");
                    fs::create_dir_all(&lib)?;
                    fs::copy(self.folder.join("target/dist/libpreload.so"), lib.join(LIBRARY))?;
                }
                Ok(is_built)
            }
        }
    }

    /// Runs the mend's test. With all mends in place one that has passed is not run again.
    pub(super) fn passes(&self, mend: &Mend, how: &str) -> anyhow::Result<bool> {
        let (said, label) = (mend.test.to_string(), format!("{}.{how}.test", mend.name));
        if how == "with" && self.passed.borrow().contains(&said) {
            return Ok(true);
        }
        let passes = match mend.test {
            Test::Unit(package, name) => {
                self.cargo(&label, |c| _ = c.args(["test", "--lib", "--package", package, name]))
            }
            Test::Loom(name) => self.cargo(&label, |c| loom(c.args(["test", name]))),
            Test::Parity(name) => self.black_box(&label, "parity", &[name]),
            Test::Calls(seeds) => self.black_box(&label, "calls", &[seeds]),
            Test::Bars(name) => self.black_box(&label, "bars", &[name, "--nocapture"]),
        }?;
        if how == "with" && passes {
            self.passed.borrow_mut().push(said);
        }
        Ok(passes)
    }

    /// A test of the checkout itself, over the library that was built of the copy.
    fn black_box(&self, label: &str, suite: &str, args: &[&str]) -> anyhow::Result<bool> {
        let test = ["test", "--quiet", "--package", "isthmus-tests", "--test", suite, "--"];
        self.run(label, |c| {
            c.args(test).args(args).current_dir(self.ws.root());
            c.env("ISTHMUS_DIST", self.layout()).env("ISTHMUS_MODES", "smc");
        })
    }

    /// Cargo on the copy, with a target directory of its own. (What is built many times is not linked as
    /// one.)
    fn cargo(&self, label: &str, adjust: impl FnOnce(&mut Command)) -> anyhow::Result<bool> {
        self.run(label, |c| {
            adjust(c.current_dir(self.tree()));
            c.env("CARGO_TARGET_DIR", self.folder.join("target"));
            c.env("CARGO_PROFILE_DIST_LTO", "off").env("CARGO_PROFILE_DIST_CODEGEN_UNITS", "16");
        })
    }

    fn run(&self, label: &str, adjust: impl FnOnce(&mut Command)) -> anyhow::Result<bool> {
        let log = File::create(self.logs().join(label))?;
        let error = log.try_clone()?;
        let run = Run::cargo("the log tells")
            .limit(LIMIT)
            .with(|c| _ = c.stdout(log).stderr(error).env("TMPDIR", self.files.path()))
            .with(adjust);
        let is_fine = run.go().is_ok();
        exec::interrupted()?;
        exec::end_descendants();
        Ok(is_fine)
    }
}

fn loom(command: &mut Command) {
    command.args(["--package", "shm", "--release", "--lib"]);
    command.env("RUSTFLAGS", "--cfg loom").env("LOOM_MAX_PREEMPTIONS", crate::checks::LOOM_PREEMPTIONS);
}

/// Programs and the links to them: what lies beside the library is found from where the program lies.
fn copy_tools(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (path, to) =
            (entry.as_ref().map_err(|e| anyhow::anyhow!("{e}"))?.path(), to.join(entry?.file_name()));
        let _ = fs::remove_file(&to);
        if path.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&path)?, &to)?;
        } else {
            fs::copy(&path, &to)?;
        }
    }
    Ok(())
}
