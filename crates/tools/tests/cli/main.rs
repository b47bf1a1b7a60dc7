//! The tools as their users run them: a program, its arguments, what it prints and its exit code.
//! Registries are made up by the tests in folders of their own; the machine's own is never looked at.

mod made_up;
mod smc_run;
mod smcd;
mod smcss;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of this test alone, gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("isthmus-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `smc APPLET ARGS` with the registry in `folder`.
fn smc(folder: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_smc"))
        .args(line.split_whitespace())
        .env("SMC_REGISTRY_DIR", folder)
        .output()
        .expect("the program starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_first_argument_chooses_the_applet() {
    let folder = Folder::new("applets");
    for (line, text) in [
        ("smcss -v", "smcss utility, isthmus-"),
        ("ss --version", "smcss utility, isthmus-"),
        ("run -v", "smc_run utility, isthmus-"),
        ("--version", "smc utility, isthmus-"),
        ("help", "Usage: smc APPLET"),
    ] {
        let output = smc(&folder.0, line);
        assert!(output.status.success() && stdout(&output).starts_with(text), "{line}: {output:?}");
    }
    let unknown = smc(&folder.0, "smcx");
    assert!(unknown.status.code() == Some(1) && stderr(&unknown).contains("unknown applet 'smcx'"));
}
