//! Where a suite's files come from and lie: Debian's packages and source packages, PyPI, crates.io, all under
//! `target/suites/NAME`. Invariant: nothing is fetched that a package manager does not check by itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

use super::table::{Source, Suite};
use crate::exec::Run;
use crate::workspace::Workspace;

/// Downloads and builds; the largest takes three minutes on two idle cores.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// Written when a room is ready, with the version that lies there.
const READY: &str = "ready";

/// A suite's folder, furnished.
pub(super) struct Room<'a> {
    pub(super) ws: &'a Workspace,
    pub(super) suite: &'static Suite,
    folder: PathBuf,
}

impl<'a> Room<'a> {
    /// Installs, downloads and builds what is missing.
    pub(super) fn furnish(ws: &'a Workspace, suite: &'static Suite) -> anyhow::Result<Self> {
        let room = Self { ws, suite, folder: ws.target().join("suites").join(suite.name) };
        fs::create_dir_all(room.folder.join("out"))?;
        if !room.folder.join(READY).is_file() {
            install(suite.packages)?;
            room.fetch()?;
            room.shell(suite.build, "see what the build says; the source is of a Debian package")?;
            fs::write(room.folder.join(READY), room.look_up_version())?;
        }
        room.forget_registry()?;
        Ok(room)
    }

    /// The folder that scripts run in: the unpacked source, where there is one.
    pub(super) fn source(&self) -> PathBuf {
        self.folder.join("source")
    }

    /// A file of this suite's that outlives the run.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join("out").join(name)
    }

    /// The registry that the first enabled runs share, so that their connections can be counted afterwards.
    pub(super) fn registry(&self) -> PathBuf {
        self.folder.join("registry")
    }

    /// The packages' versions, as they were when the room was furnished.
    pub(super) fn version(&self) -> String {
        fs::read_to_string(self.folder.join(READY)).unwrap_or_default().trim().to_owned()
    }

    fn forget_registry(&self) -> anyhow::Result<()> {
        if self.registry().exists() {
            fs::remove_dir_all(self.registry())?;
        }
        Ok(fs::create_dir_all(self.registry())?)
    }

    fn fetch(&self) -> anyhow::Result<()> {
        let source = self.source();
        match self.suite.source {
            Source::Installed => Ok(fs::create_dir_all(source)?),
            Source::Debian(package) => self.debian_source(package),
            Source::PyPi(packages) => {
                fs::create_dir_all(&source)?;
                let script = format!("/usr/bin/python3 -m venv venv && venv/bin/pip install -q {packages}");
                self.shell(&script, "is PyPI within reach?")
            }
            Source::Crate(name, version) => {
                // (`cargo init` would enter it into this workspace.)
                let script = format!(
                    "mkdir -p fetch/src && cd fetch && touch src/lib.rs && printf '[package]\\nname = \"fetch\"\\n\
                     edition = \"2021\"\\n[workspace]\\n[dependencies]\\n{name} = \"={version}\"\\n' > Cargo.toml && \
                     cargo vendor -q vendor >/dev/null && rm -rf ../source && cp -r vendor/{name} ../source && \
                     rm ../source/.cargo-checksum.json && printf '\\n[workspace]\\n' >> ../source/Cargo.toml"
                );
                Run::new("sh", "is crates.io within reach?")
                    .args(["-ec", &script])
                    .limit(LIMIT)
                    .with(|c| _ = c.current_dir(&self.folder).env_remove("RUSTFLAGS"))
                    .go()
            }
        }
    }

    /// `apt-get source` with lists of its own, since few machines name any deb-src.
    fn debian_source(&self, package: &str) -> anyhow::Result<()> {
        install(&["dpkg-dev"])?;
        let apt = self.folder.join("apt");
        fs::create_dir_all(apt.join("lists/partial"))?;
        let release = release()?;
        fs::write(
            apt.join("sources.list"),
            format!("deb-src http://deb.debian.org/debian {release} main\n"),
        )?;
        let script = "O=\"-qq -o Dir::Etc::sourcelist=$APT/sources.list -o Dir::Etc::sourceparts=/nonexistent \
             -o Dir::State::lists=$APT/lists -o Dir::Cache=$APT -o APT::Sandbox::User=root\"\n\
             apt-get $O update\nrm -rf fetch source\nmkdir fetch\ncd fetch\napt-get $O source $PACKAGE\n\
             mv \"$(find . -mindepth 1 -maxdepth 1 -type d)\" ../source\ncd ..\nrm -rf fetch $APT";
        Run::new("sh", "is deb.debian.org within reach?")
            .args(["-ec", script])
            .limit(LIMIT)
            .with(|c| _ = c.current_dir(&self.folder).env("APT", &apt).env("PACKAGE", package))
            .go()
    }

    fn shell(&self, script: &str, hint: &'static str) -> anyhow::Result<()> {
        if script.is_empty() {
            return Ok(());
        }
        Run::new("sh", hint)
            .args(["-ec", script])
            .limit(LIMIT)
            .with(|c| _ = c.current_dir(self.source()))
            .go()
    }

    fn look_up_version(&self) -> String {
        let said = std::process::Command::new("sh")
            .args(["-c", self.suite.version])
            .current_dir(self.source())
            .output();
        said.map_or_else(
            |_| String::new(),
            |said| String::from_utf8_lossy(&said.stdout).trim().replace('\n', ", "),
        )
    }
}

/// Debian's word for its release, such as bookworm.
fn release() -> anyhow::Result<String> {
    let text = fs::read_to_string("/etc/os-release").context("which distribution is this?")?;
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.map(str::to_owned).context("the sources of suites come from Debian, and this is none")
}

/// Packages that are missing, as root.
fn install(packages: &[&str]) -> anyhow::Result<()> {
    let missing: Vec<&str> = packages.iter().copied().filter(|package| !is_installed(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        bail!("not installed: {} (packages of Debian)", missing.join(" "));
    }
    Run::new("apt-get", "is the package list fresh? `apt-get update` makes it so")
        .args(["-o", "DPkg::Lock::Timeout=300", "install", "-y", "-qq", "--no-install-recommends"])
        .args(missing)
        .limit(LIMIT)
        .with(|c| _ = c.env("DEBIAN_FRONTEND", "noninteractive"))
        .go()
}

fn is_installed(package: &str) -> bool {
    Path::new("/var/lib/dpkg/info").join(format!("{package}.list")).exists()
        || Path::new("/var/lib/dpkg/info").join(format!("{package}:amd64.list")).exists()
}
