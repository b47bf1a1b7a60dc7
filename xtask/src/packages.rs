//! `cargo xtask packages`: the real programs that the tests run.
//!
//! As root on Debian the missing ones are installed, without starting their services; otherwise one line
//! names them. Nothing here can fail a build: a test that lacks its program says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::exec::{self, Run};
use crate::workspace::Workspace;

/// A program that tests look for, and the Debian package that has it.
const PROGRAMS: [(&str, &str); 31] = [
    ("redis-server", "redis-server"),
    ("redis-benchmark", "redis-tools"),
    ("nginx", "nginx-light"),
    ("haproxy", "haproxy"),
    ("postgres", "postgresql"),
    ("pgbench", "postgresql-contrib"),
    ("psql", "postgresql-client"),
    ("memcached", "memcached"),
    ("iperf3", "iperf3"),
    ("socat", "socat"),
    ("wrk", "wrk"),
    ("curl", "curl"),
    ("musl-gcc", "musl-tools"),
    ("tshark", "tshark"),
    ("valgrind", "valgrind"),
    ("python3", "python3"),
    ("perl", "perl"),
    ("ruby", "ruby"),
    ("node", "nodejs"),
    ("javac", "default-jdk-headless"),
    ("ssh", "openssh-client"),
    ("/usr/sbin/sshd", "openssh-server"),
    // (Without these two, networks of a test's own are the loopback at most, and no container is tested.)
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("runc", "runc"),
    ("jq", "jq"),
    ("podman", "podman"),
    ("crun", "crun"),
    // (The default profile of system calls.)
    ("/usr/share/containers/seccomp.json", "golang-github-containers-common"),
    // (The schema of Kubernetes, and gRPC.)
    ("/usr/lib/python3/dist-packages/kubernetes/__init__.py", "python3-kubernetes"),
    ("/usr/lib/python3/dist-packages/grpc/__init__.py", "python3-grpcio"),
];

/// What the kernel's programs are compiled by. It is wanted before anything of the daemon is.
const COMPILER: &str = "clang";
/// Names another one (`crates/clang`).
const OTHER_COMPILER: &str = "ISTHMUS_CLANG";

/// Set to keep a root's CI from installing anything.
const NO_INSTALL: &str = "ISTHMUS_NO_INSTALL";
const INSTALL: [&str; 3] = ["install", "--yes", "--no-install-recommends"];
/// For a network that is slow; most of it is the JDK.
const LIMIT: Duration = Duration::from_secs(480);
/// Debian's switch for "do not start services now"; see its policy-rc.d specification.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs or names the compiler without which the host tier is neither built nor tested.
pub(crate) fn compiler(_: &Workspace) -> anyhow::Result<()> {
    get_compiler()?;
    if !is_here(COMPILER) {
        println!(
            "no {COMPILER} (package of Debian): the host tier is built without its mark, and not tested"
        );
    }
    Ok(())
}

/// Installs it where that can be, and it is missing; says nothing where it cannot.
pub(crate) fn get_compiler() -> anyhow::Result<()> {
    // (Who names another one has it, or wants none.)
    let is_named = std::env::var_os(OTHER_COMPILER).is_some();
    if !is_named && !is_here(COMPILER) && can_install() {
        install(&[COMPILER])?;
    }
    Ok(())
}

/// Installs or names what is missing.
pub(crate) fn packages(_: &Workspace) -> anyhow::Result<()> {
    let missing = missing();
    if missing.is_empty() {
        println!("all {} programs that the tests use are here", PROGRAMS.len());
        return Ok(());
    }
    if can_install() {
        install(&missing)?;
    }
    let still = self::missing();
    if !still.is_empty() {
        println!("not here, so their tests say so and pass: {} (packages of Debian)", still.join(" "));
    }
    Ok(())
}

fn missing() -> Vec<&'static str> {
    PROGRAMS.into_iter().filter(|(program, _)| !is_here(program)).map(|(_, package)| package).collect()
}

fn is_here(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beside = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let folders = std::env::split_paths(&path).chain(beside).chain(postgres_folders());
    folders.into_iter().any(|folder| folder.join(program).is_file())
}

/// Debian keeps PostgreSQL's server beside, not in, the PATH: one folder per version.
fn postgres_folders() -> Vec<PathBuf> {
    let Ok(versions) = fs::read_dir("/usr/lib/postgresql") else { return vec![] };
    versions.flatten().map(|version| version.path().join("bin")).collect()
}

fn can_install() -> bool {
    rustix::process::geteuid().is_root() && is_here("apt-get") && std::env::var_os(NO_INSTALL).is_none()
}

fn install(missing: &[&'static str]) -> anyhow::Result<()> {
    println!("installing {} (set {NO_INSTALL}=1 to prevent it)", missing.join(" "));
    let _quiet = NoServices::new();
    if apt(&["update"]).is_err() {
        exec::interrupted()?;
        println!("apt-get update failed: trying with the lists at hand");
    }
    if apt(&[&INSTALL[..], missing].concat()).is_ok() {
        return Ok(());
    }
    // One by one: a package that a release lacks must not keep the others out.
    for package in missing {
        exec::interrupted()?;
        if apt(&[&INSTALL[..], &[package]].concat()).is_err() {
            println!("apt-get could not install {package}: going on without it");
        }
    }
    exec::interrupted()
}

fn apt(args: &[&str]) -> anyhow::Result<()> {
    Run::new("apt-get", "see apt's own message")
        .args(["-qq", "-o", "DPkg::Lock::Timeout=60"])
        .args(args)
        .limit(LIMIT)
        .with(|c| _ = c.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).stdout(Stdio::null()))
        .go()
}

/// While it lives, installed packages do not start their services. Somebody else's policy is left alone.
struct NoServices {
    is_ours: bool,
}

impl NoServices {
    fn new() -> Self {
        use std::os::unix::fs::OpenOptionsExt;
        let fresh = fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(POLICY);
        let written =
            fresh.and_then(|mut file| std::io::Write::write_all(&mut file, b"#!/bin/sh\nexit 101\n"));
        Self { is_ours: written.is_ok() }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.is_ours {
            // It was there a moment ago; if somebody removed it, that is what we want too.
            let _ = fs::remove_file(Path::new(POLICY));
        }
    }
}
