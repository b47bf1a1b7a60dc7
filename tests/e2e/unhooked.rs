//! Programs that `smc_run` starts and no library can be loaded into: statically linked, set-uid, or Go. They
//! have no row, and smcss, `smc_run -d` and `smcd stats` tell the same of them at the end that is enabled.

use crate::reasons::{LONG, NO_SMC, assert_counted, assert_rows, assert_says, bed, enabled, start};
use crate::support::{programs, script};
use isthmus_tests::{free_port, scratch::Scratch, sys, within};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// `hold` of `tests/e2e/programs`, made by `compiler`.
fn built(compiler: &mut Command, source: &str) -> (Scratch, PathBuf) {
    let folder = Scratch::new("unhooked");
    let program = folder.path().join("hold");
    let made = compiler.arg("-o").arg(&program).arg(script(source)).output().expect("a compiler");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (folder, program)
}

/// Connects `program` under `smc_run -d` to an enabled server: there is a row of the server's end alone, and
/// it tells of a peer without SMC. What `is_out_of_reach` reads is what the program printed; if it is in
/// reach after all, that is said.
fn has_no_row(name: &str, program: &Path, is_out_of_reach: fn(&str) -> bool) {
    let Some((bed, python)) = bed(name) else { return };
    let port = free_port();
    let mut client = bed.tool_command("smc_run").expect("this bed has tools");
    client.arg("-d").arg(program).arg(port.to_string()).current_dir(bed.scratch.path());
    let ends = start(&bed, port, enabled(&bed, &python, "server", port, ""), client);
    let printed = || ends.client.output().out;
    assert!(within(LONG, || printed().contains("connected")), "{}", ends.client.output());
    if !is_out_of_reach(&printed()) {
        println!("skipped: set-uid means nothing in {}", program.display());
        return;
    }
    assert_rows(&bed, &ends, &["listener", &format!("server TCP {NO_SMC}")]);
    assert_says(&ends.server, "accepted connection stays on TCP: Peer does not support SMC", NO_SMC);
    assert_counted(&bed, &[], &["PEER_NO_SMC 1"]);
    // Not even `-d` can make the library speak where it is not.
    assert!(!ends.client.output().err.contains("libsmc-preload: "), "{}", ends.client.output());
}

#[test]
fn a_statically_linked_program() {
    let Some([cc]) = programs(["cc"]) else { return };
    let (_folder, program) = built(Command::new(cc).arg("-static"), "hold.c");
    has_no_row("unhooked-static", &program, |_| true);
}

/// The loader ignores LD_PRELOAD where the effective user is another one than the real one.
#[test]
fn a_set_uid_program() {
    let Some([cc]) = programs(["cc"]) else { return };
    if sys::euid() != 0 {
        println!("skipped: a set-uid program of another user needs root");
        return;
    }
    let (_folder, program) = built(&mut Command::new(cc), "hold.c");
    chown(&program, Some(65_534), Some(65_534)).expect("root may");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).expect("root may");
    has_no_row("unhooked-setuid", &program, |printed| printed.contains("connected as 65534 for 0"));
}

#[test]
fn a_go_program() {
    let Some([go]) = programs(["go"]) else { return };
    let home = Scratch::new("unhooked-home");
    let mut build = Command::new(go);
    build.env("CGO_ENABLED", "0").env("GO111MODULE", "off").arg("build");
    if std::env::var_os("HOME").is_none() {
        build.env("HOME", home.path());
    }
    let (_folder, program) = built(&mut build, "hold.go");
    has_no_row("unhooked-go", &program, |_| true);
}
