//! `cargo xtask dist`: builds what is shipped and lays it out as an installation would be.
//!
//! `target/isthmus/{bin,lib,share}`, a folder that cargo has nothing in. Programs may be running from that
//! very place with the library mapped, so a file is never written over: the new one is written beside it and
//! renamed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use cargo_metadata::Message;

use crate::exec::Run;
use crate::packages;
use crate::workspace::{PRELOAD, Workspace};

/// The preload library's file name below `lib`.
pub(crate) const LIBRARY: &str = "libsmc-preload.so";
/// The multi-call binary and the names it answers to.
const TOOLS: &str = "smc";
const APPLETS: [&str; 3] = ["smc_run", "smcss", "smcd"];
const BENCH: &str = "smc_bench";
const DAEMON: &str = "ismd";
/// The switch that its build script sets, if it has the programs of the mark (`crates/clang`).
const MARK: &str = "have_mark";
/// The device plugin of Kubernetes, and its package.
const PLUGIN: (&str, &str) = ("ismd-device-plugin", "device-plugin");
/// What the daemon is started and set up with, from `packaging`, and the folder below `target/isthmus`.
const PACKAGING: [(&str, &str); 5] = [
    ("systemd/ismd.service", "lib/systemd/system"),
    ("systemd/ismd.socket", "lib/systemd/system"),
    ("ismd.toml", "share/doc/isthmus"),
    ("kubernetes/isthmus.yaml", "share/doc/isthmus/kubernetes"),
    ("kubernetes/Containerfile", "share/doc/isthmus/kubernetes"),
];
/// Copied to share/doc/isthmus.
const DOCUMENTS: [&str; 8] = [
    "README.md",
    "LIMITATIONS.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "docs/performance.md",
    "docs/goals.md",
];

/// What is said at the end where the daemon was built without clang.
const UNMARKED: &str = "ismd was built without clang and marks no connection: between containers, network \
    namespaces and users all stay on TCP. (The rest is whole.) Install clang (package of Debian), and run this again";

/// What was laid out.
pub(crate) struct LaidOut {
    marks: bool,
}

impl LaidOut {
    /// One line, if something is missing: to be said last, where it is seen.
    pub(crate) fn tell(&self) {
        if !self.marks {
            println!("{UNMARKED}");
        }
    }
}

/// Builds and lays out everything, and says what is missing.
pub(crate) fn dist(ws: &Workspace) -> anyhow::Result<()> {
    lay_out(ws)?.tell();
    Ok(())
}

/// Builds and lays out everything.
pub(crate) fn lay_out(ws: &Workspace) -> anyhow::Result<LaidOut> {
    packages::get_compiler()?;
    // Apart from the rest: cargo would give it the features that the programs ask of shared crates.
    let Built { files: library, .. } = build(ws, &["--package", PRELOAD])?;
    let programs = ["--package", "tools", "--package", "bench", "--package", DAEMON, "--package", PLUGIN.1];
    let Built { files: programs, marks } = build(ws, &programs)?;
    let dist = ws.dist();
    install(
        &find(&library, |p| p.extension().is_some_and(|e| e == "so"), LIBRARY)?,
        &dist.join("lib"),
        LIBRARY,
    )?;
    for program in [TOOLS, BENCH, DAEMON, PLUGIN.0] {
        install(&find(&programs, |p| p.ends_with(program), program)?, &dist.join("bin"), program)?;
    }
    for applet in APPLETS {
        link(TOOLS, &dist.join("bin"), applet)?;
    }
    manuals(ws)?;
    completions(&dist.join("bin"), &dist.join("share"))?;
    documents(ws)?;
    packaging(ws)?;
    println!("laid out {}", dist.display());
    Ok(LaidOut { marks })
}

/// Says where [`dist`] lays out, whether it did or not. Nothing else goes to stdout: scripts read it.
pub(crate) fn print_dir(ws: &Workspace) -> anyhow::Result<()> {
    println!("{}", ws.dist().display());
    Ok(())
}

/// What cargo made.
#[derive(Debug, Default, PartialEq, Eq)]
struct Built {
    files: Vec<PathBuf>,
    /// With the programs by which the daemon marks connections.
    marks: bool,
}

/// Builds packages with the dist profile.
fn build(ws: &Workspace, packages: &[&str]) -> anyhow::Result<Built> {
    let output = Run::cargo("the compiler's message above names the place")
        .args(["build", "--profile", "dist", "--message-format", "json-render-diagnostics"])
        .args(packages)
        .with(|c| _ = c.current_dir(ws.root()))
        .output()?;
    read(&output)
}

/// What cargo says of it, whether it was made now or before.
fn read(output: &[u8]) -> anyhow::Result<Built> {
    let mut built = Built::default();
    for message in Message::parse_stream(output) {
        match message.context("unreadable message from cargo")? {
            Message::CompilerArtifact(artifact) => {
                built.files.extend(artifact.filenames.into_iter().map(PathBuf::from));
            }
            Message::BuildScriptExecuted(script) => built.marks |= script.cfgs.iter().any(|cfg| cfg == MARK),
            _ => {}
        }
    }
    Ok(built)
}

fn find(files: &[PathBuf], wanted: impl Fn(&Path) -> bool, name: &str) -> anyhow::Result<PathBuf> {
    match files.iter().find(|file| wanted(file)) {
        Some(file) => Ok(file.clone()),
        None => bail!(
            "the build made no {name}.\n   How to fix it: its crate must declare that target in Cargo.toml"
        ),
    }
}

/// Puts a copy of `from` at `folder/name` in one step.
fn install(from: &Path, folder: &Path, name: &str) -> anyhow::Result<()> {
    place(folder, name, |fresh| {
        fs::copy(from, fresh).map(|_| ())?;
        fs::set_permissions(fresh, fs::Permissions::from_mode(0o755))
    })
}

/// Makes `folder/name` a link to `target` beside it.
fn link(target: &str, folder: &Path, name: &str) -> anyhow::Result<()> {
    place(folder, name, |fresh| std::os::unix::fs::symlink(target, fresh))
}

/// Lets `make` create a file of another name, then renames it: readers see the old file or the new one.
fn place(folder: &Path, name: &str, make: impl FnOnce(&Path) -> std::io::Result<()>) -> anyhow::Result<()> {
    let (fresh, path) = (folder.join(format!(".{name}.new")), folder.join(name));
    let act = || {
        fs::create_dir_all(folder)?;
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => make(&fresh)?,
        }
        fs::rename(&fresh, &path)
    };
    act().with_context(|| {
        format!("cannot place {}; is the folder writable, is the disk full?", path.display())
    })
}

/// docs/man/NAME.SECTION goes to share/man/manSECTION.
fn manuals(ws: &Workspace) -> anyhow::Result<()> {
    let Ok(pages) = fs::read_dir(ws.root().join("docs/man")) else { return Ok(()) };
    for page in pages.flatten().map(|entry| entry.path()) {
        let (Some(name), Some(section)) = (page.file_name(), page.extension()) else { continue };
        let folder = ws.dist().join("share/man").join(format!("man{}", section.to_string_lossy()));
        install_text(&page, &folder, &name.to_string_lossy())?;
    }
    Ok(())
}

/// What shells complete command lines with, where each of them looks. The programs print it: `smc` for the
/// names that it answers to, the benchmark for itself.
fn completions(bin: &Path, share: &Path) -> anyhow::Result<()> {
    for name in APPLETS.into_iter().chain([BENCH]) {
        for (shell, folder, file) in [
            ("bash", "bash-completion/completions", name.to_string()),
            ("zsh", "zsh/site-functions", format!("_{name}")),
            ("fish", "fish/vendor_completions.d", format!("{name}.fish")),
        ] {
            let (program, applet) = if name == BENCH { (BENCH, None) } else { (TOOLS, Some(name)) };
            let program = bin.join(program);
            let output = Command::new(&program).args(["completion", shell]).args(applet).output()?;
            if !output.status.success() {
                bail!("{} has no completion of {name} for {shell}", program.display());
            }
            place(&share.join(folder), &file, |fresh| fs::write(fresh, &output.stdout))?;
        }
    }
    Ok(())
}

fn documents(ws: &Workspace) -> anyhow::Result<()> {
    for document in DOCUMENTS.map(|name| ws.root().join(name)) {
        let name = document.file_name().context("a document has a name")?.to_string_lossy().into_owned();
        install_text(&document, &ws.dist().join("share/doc/isthmus"), &name)?;
    }
    Ok(())
}

fn packaging(ws: &Workspace) -> anyhow::Result<()> {
    for (path, folder) in PACKAGING {
        let from = ws.root().join("packaging").join(path);
        let name = from.file_name().context("it has a name")?.to_string_lossy().into_owned();
        install_text(&from, &ws.dist().join(folder), &name)?;
    }
    Ok(())
}

fn install_text(from: &Path, folder: &Path, name: &str) -> anyhow::Result<()> {
    place(folder, name, |fresh| {
        fs::copy(from, fresh).map(|_| ())?;
        fs::set_permissions(fresh, fs::Permissions::from_mode(0o644))
    })
}

#[cfg(test)]
mod tests {
    use super::{APPLETS, BENCH, TOOLS, completions, install, link, read};
    use std::fs;

    #[test]
    fn an_open_file_survives_its_replacement() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (lib, src) = (dir.path().join("lib"), dir.path().join("built"));
        fs::write(&src, "one").expect("writable");
        install(&src, &lib, "x.so").expect("first time");
        let mut old = fs::File::open(lib.join("x.so")).expect("it is there");
        fs::write(&src, "two").expect("writable");
        install(&src, &lib, "x.so").expect("second time");
        let mut text = String::new();
        std::io::Read::read_to_string(&mut old, &mut text).expect("readable");
        assert_eq!(
            (text.as_str(), fs::read_to_string(lib.join("x.so")).expect("there").as_str()),
            ("one", "two")
        );
        assert_eq!(fs::read_dir(&lib).expect("listed").count(), 1, "no half-made file stays");
    }

    #[test]
    fn a_daemon_that_was_built_without_clang_is_known_by_its_build_script() {
        let script = |cfgs: &str| {
            format!(
                r#"{{"reason":"build-script-executed","package_id":"path+file:///x/crates/ismd#0.1.0",
                "linked_libs":[],"linked_paths":[],"cfgs":[{cfgs}],"env":[],"out_dir":"/x"}}"#
            )
            .replace('\n', "")
        };
        let others = script("\"have_sockmap\"");
        for (cfgs, marks) in [("", false), ("\"have_mark\"", true)] {
            let said = format!("{others}\n{}\n", script(cfgs));
            assert_eq!(read(said.as_bytes()).expect("read").marks, marks, "{cfgs}");
        }
    }

    #[test]
    fn links_can_be_made_twice() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for _ in 0..2 {
            link("smc", dir.path(), "smcss").expect("made");
        }
        assert_eq!(fs::read_link(dir.path().join("smcss")).expect("a link").as_os_str(), "smc");
    }

    #[test]
    fn every_shell_finds_a_completion_of_every_program() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (bin, share) = (dir.path(), dir.path().join("share"));
        [TOOLS, BENCH].iter().for_each(|name| link("/bin/echo", bin, name).expect("made"));
        completions(bin, &share).expect("laid out");
        for program in APPLETS.into_iter().chain([BENCH]) {
            let applet = if program == BENCH { String::new() } else { format!(" {program}") };
            for (shell, path) in [
                ("bash", format!("bash-completion/completions/{program}")),
                ("zsh", format!("zsh/site-functions/_{program}")),
                ("fish", format!("fish/vendor_completions.d/{program}.fish")),
            ] {
                let text = fs::read_to_string(share.join(&path)).expect(&path);
                assert_eq!(text, format!("completion {shell}{applet}\n"), "{path}");
            }
        }
        link("/bin/false", bin, TOOLS).expect("made");
        let complaint = completions(bin, &share).expect_err("a tool without completions").to_string();
        assert!(complaint.contains("no completion of smc_run for bash"), "{complaint}");
    }
}
