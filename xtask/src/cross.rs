//! `cargo xtask cross`: the other architecture. The preload library and all below it compile for it, and
//! where an emulator and a linker are here, the unit tests of the rooms that know the machine run.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use crate::exec::Run;
use crate::workspace::{PRELOAD, Workspace};

/// Where besides x86-64 the library is meant to run (crates/os/src/raw.rs has its system call).
const TARGET: &str = "aarch64-unknown-linux-gnu";
/// Debian's cross compiler, and the C library that belongs to it.
const LINKER: &str = "aarch64-linux-gnu-gcc";
const SYSROOT: &str = "/usr/aarch64-linux-gnu";
/// qemu's user mode.
const EMULATOR: &str = "qemu-aarch64";
/// Rooms whose unit tests ask nothing of the kernel that the emulator does not pass on.
const EMULATED: [&str; 3] = ["wire", "proto", "shm"];
/// The tests take seconds by themselves; an emulator is slower.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// Compiles, and tests what can be tested. Nothing is wrong with a machine that lacks the target: it says so.
pub(crate) fn cross(ws: &Workspace) -> anyhow::Result<()> {
    if !has_target()? && !is_added() {
        println!("no {TARGET} here, not compiled (`rustup target add {TARGET}` adds it)");
        return Ok(());
    }
    Run::cargo("mend it for both: what differs stands under `target_arch`, most of it in crates/os")
        .args(["check", "--package", PRELOAD, "--profile", "dist", "--target", TARGET])
        .with(|c| _ = c.current_dir(ws.root()))
        .go()?;
    if !Path::new(SYSROOT).is_dir() || ![LINKER, EMULATOR].into_iter().all(starts) {
        println!("no {EMULATOR} or no {LINKER} here: unit tests not run on {TARGET}");
        return Ok(());
    }
    let packages = EMULATED.into_iter().flat_map(|package| ["--package", package]);
    Run::cargo("run the named test alone with the same --target; an emulator's own faults are rare")
        .args(["test", "--target", TARGET, "--lib"])
        .args(packages)
        .limit(LIMIT)
        .with(|c| {
            let name = TARGET.to_uppercase().replace('-', "_");
            c.current_dir(ws.root()).env(format!("CARGO_TARGET_{name}_LINKER"), LINKER);
            c.env(format!("CARGO_TARGET_{name}_RUNNER"), format!("{EMULATOR} -L {SYSROOT}"));
        })
        .go()
}

/// Whether rustc has libraries of the target.
fn has_target() -> anyhow::Result<bool> {
    let output = Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    let folder = output.context("rustc cannot be asked")?.stdout;
    Ok(Path::new(String::from_utf8_lossy(&folder).trim()).is_dir())
}

fn is_added() -> bool {
    let run = Run::new("rustup", "see rustup's own message").args(["target", "add", TARGET]);
    starts("rustup") && run.go().is_ok()
}

fn starts(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|run| run.status.success())
}
