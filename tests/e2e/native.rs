//! Small native programs built on the spot: glibc, musl and static C, and Go, which makes its system calls
//! itself.

use crate::support::{LIMIT, output, programs, python, same_in_all_modes, script, serve};
use isthmus_tests::{Bed, Mode, free_port, scratch::Scratch};
use std::path::{Path, PathBuf};
use std::process::Command;

fn build(command: &mut Command) {
    let out = command.output().expect("compiler");
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Runs the C client against the Python server; `hooks` says whether the library can see the client's calls.
fn c_client(name: &str, client: &Path, hooks: bool) {
    let Some(python) = python() else { return };
    same_in_all_modes(name, |bed| {
        let port = free_port();
        let mut s = bed.server(&python);
        let _server = serve(bed, s.arg(script("echo_asyncio.py")).args(["server", &port.to_string()]), port);
        bed.mark();
        let sizes = ["1", "5000", "1000000"];
        let text = sizes.map(|n| output(bed, bed.client(client).args([&port.to_string(), n]), "client"));
        carried(bed, 2_000_000, hooks);
        text
    });
}

/// Without hooks the bytes cross TCP whatever the mode.
fn carried(bed: &Bed, payload: u64, hooks: bool) {
    if hooks || bed.mode != Mode::Smc {
        bed.assert_carrier(payload, "");
    } else if let Some(n) = bed.crossed() {
        assert!(n >= payload, "only {n} bytes of {payload} crossed TCP");
    }
}

fn compile_c(compiler: &Path, args: &[&str]) -> (Scratch, PathBuf) {
    let dir = Scratch::new("c");
    let client = dir.path().join("client");
    build(
        Command::new(compiler).args(["-O2", "-Wall", "-o"]).arg(&client).args(args).arg(script("client.c")),
    );
    (dir, client)
}

#[test]
fn glibc_client() {
    let Some([cc]) = programs(["cc"]) else { return };
    let (_dir, client) = compile_c(&cc, &[]);
    c_client("glibc", &client, true);
}

#[test]
fn musl_client_of_a_glibc_server() {
    let Some([cc]) = programs(["musl-gcc"]) else { return };
    let (_dir, client) = compile_c(&cc, &[]);
    c_client("musl", &client, true);
}

#[test]
fn static_c_client() {
    let Some([cc]) = programs(["cc"]) else { return };
    let (_dir, client) = compile_c(&cc, &["-static"]);
    c_client("static", &client, false);
}

#[test]
fn static_go_program() {
    let Some([go]) = programs(["go"]) else { return };
    let dir = Scratch::new("go");
    let echo = dir.path().join("echo");
    let mut c = Command::new(go);
    c.env("CGO_ENABLED", "0")
        .env("GO111MODULE", "off")
        .arg("build")
        .arg("-o")
        .arg(&echo)
        .arg(script("echo.go"));
    if std::env::var_os("HOME").is_none() {
        c.env("HOME", dir.path());
    }
    build(&mut c);
    same_in_all_modes("go", |bed| {
        let port = free_port().to_string();
        let number = port.parse().expect("port");
        let _server = serve(bed, bed.server(&echo).args(["server", &port]), number);
        bed.mark();
        let text =
            bed.run(bed.client(&echo).args(["client", &port, "1000000"]), "client", LIMIT).must("go").out;
        carried(bed, 2_000_000, false);
        text
    });
}

/// A Go client of an enabled server, and an enabled client of a Go server: plain TCP, same results.
#[test]
fn go_against_enabled_programs() {
    let (Some([go]), Some(python)) = (programs(["go"]), python()) else { return };
    let dir = Scratch::new("go-mixed");
    let echo = dir.path().join("echo");
    let mut c = Command::new(go);
    build(
        c.env("CGO_ENABLED", "0")
            .env("GO111MODULE", "off")
            .arg("build")
            .arg("-o")
            .arg(&echo)
            .arg(script("echo.go")),
    );
    same_in_all_modes("go-mixed", |bed| {
        let (a, b) = (free_port(), free_port());
        let (pa, pb) = (a.to_string(), b.to_string());
        let asyncio = script("echo_asyncio.py");
        let _one = serve(bed, bed.server(&python).arg(&asyncio).args(["server", &pa]), a);
        let _two = serve(bed, bed.server(&echo).args(["server", &pb]), b);
        let one = output(bed, bed.client(&echo).args(["client", &pa, "300000"]), "go-client");
        let two =
            output(bed, bed.client(&python).arg(&asyncio).args(["client", &pb, "3", "300000"]), "client");
        (one, two)
    });
}
