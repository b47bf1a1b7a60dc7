//! Compiles the programs of the mark by clang, if it is there and can: else the daemon is built without them,
//! and says so.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=bpf/mark.bpf.c");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=ISMD_CLANG");
    println!("cargo:rustc-check-cfg=cfg(have_mark)");
    let clang = env::var("ISMD_CLANG").unwrap_or_else(|_| "clang".into());
    let out = env::var("OUT_DIR").unwrap_or_default();
    match compile(&clang, &Path::new(&out).join("mark.bpf.o")) {
        Ok(()) => println!("cargo:rustc-cfg=have_mark"),
        Err(why) => println!(
            "cargo:warning=ismd is built without the mark (connections between containers stay on TCP): {why}"
        ),
    }
}

fn compile(clang: &str, object: &Path) -> Result<(), String> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let mut command = Command::new(clang);
    // (v3: compare-and-swap of 32 bits.)
    command.args([
        "-target",
        "bpf",
        "-mcpu=v3",
        "-O2",
        "-g",
        "-Wall",
        "-Werror",
        "-c",
        "bpf/mark.bpf.c",
        "-o",
    ]);
    // Where Debian keeps <asm/types.h>.
    command.arg(object).arg(format!("-I/usr/include/{arch}-linux-gnu"));
    let output = command.output().map_err(|error| format!("{clang}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("clang failed").into()),
    }
}
