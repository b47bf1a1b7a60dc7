//! A cgroup of our own, for whose sockets something holds: a child of the one that we are in, without controllers.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{io, thread};

use anyhow::Context;
use procfs::process::Process;

/// How long the processes in it may take to end. Their guards kill them at the same time.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Removed when dropped.
pub(super) struct Cgroup {
    parent: PathBuf,
    pub(super) folder: PathBuf,
}

impl Cgroup {
    pub(super) fn new() -> anyhow::Result<Self> {
        let parent = place().context("this host has no cgroup v2")?;
        let folder = parent.join(format!("smc_bench-{}", std::process::id()));
        fs::create_dir(&folder).context("this host lets us make no cgroup: run as root")?;
        Ok(Self { parent, folder })
    }

    /// Does `work` in the cgroup.
    pub(super) fn inside<T>(&self, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        enter(&self.folder)?;
        let done = work();
        enter(&self.parent)?;
        done
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while fs::remove_dir(&self.folder).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy) {
            if Instant::now() > deadline {
                uperf::say(format_args!("{} is still in use: remove it later", self.folder.display()));
                return;
            }
            thread::sleep(PAUSE);
        }
    }
}

fn enter(folder: &Path) -> anyhow::Result<()> {
    fs::write(folder.join("cgroup.procs"), std::process::id().to_string())
        .with_context(|| format!("cannot move to the cgroup {}", folder.display()))
}

/// The folder of our own cgroup in the unified hierarchy, which may stand beside others.
fn place() -> Option<PathBuf> {
    let top = procfs::mounts().ok()?.into_iter().find(|mount| mount.fs_vfstype == "cgroup2")?.fs_file;
    let own = Process::myself().and_then(|process| process.cgroups()).ok()?;
    let own = own.into_iter().find(|one| one.hierarchy == 0)?.pathname;
    Some(Path::new(&top).join(own.trim_start_matches('/')))
}
