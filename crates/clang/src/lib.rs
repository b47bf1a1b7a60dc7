//! For build scripts: compiles a program for the kernel's BPF machine by clang, if it is there and can. Owns
//! that a crate is built in any case, and says what it is built without.

use std::env;
use std::path::Path;
use std::process::Command;

/// Which clang, where it is not the one in the PATH.
const CLANG: &str = "ISTHMUS_CLANG";

/// Compiles `bpf/NAME.bpf.c` of the crate that is built to `OUT_DIR/NAME.bpf.o`, and sets the switch
/// `have_NAME` for its code. Otherwise a warning says why that crate is built `without` it.
pub fn compile(name: &str, without: &str) {
    let source = format!("bpf/{name}.bpf.c");
    println!("cargo:rerun-if-changed={source}");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed={CLANG}");
    println!("cargo:rustc-check-cfg=cfg(have_{name})");
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    match run(&source, &Path::new(&out).join(format!("{name}.bpf.o"))) {
        Ok(()) => println!("cargo:rustc-cfg=have_{name}"),
        Err(why) => {
            println!("cargo:warning=built without {without}: {why}");
            look_again_when_programs_come();
        }
    }
}

/// Who installs clang and builds anew gets what was missing: cargo would keep what was built without it.
fn look_again_when_programs_come() {
    let path = env::var_os("PATH").unwrap_or_default();
    for folder in env::split_paths(&path).filter(|folder| folder.is_absolute() && folder.is_dir()) {
        println!("cargo:rerun-if-changed={}", folder.display());
    }
}

fn run(source: &str, object: &Path) -> Result<(), String> {
    let clang = env::var(CLANG).unwrap_or_else(|_| "clang".into());
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let order = match env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() {
        Ok("big") => "bpfeb",
        _ => "bpfel",
    };
    let mut command = Command::new(&clang);
    // (v3: compare-and-swap of 32 bits. The folder: where Debian keeps <asm/types.h>.)
    command.args(["-target", order, "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-c", source, "-o"]);
    command.arg(object).arg(format!("-I/usr/include/{arch}-linux-gnu"));
    let output = command.output().map_err(|error| format!("{clang}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("clang failed").into()),
    }
}
