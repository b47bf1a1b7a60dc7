//! A cgroup of our own, in which sockets are redirected: a child of the one that we are in, without controllers.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{io, thread};

use anyhow::Context;

/// How long the processes in it may take to end. Their guards kill them at the same time.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Removed when dropped.
pub(super) struct Cgroup {
    parent: PathBuf,
    folder: PathBuf,
}

impl Cgroup {
    pub(super) fn new() -> anyhow::Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").context("cannot read /proc/self/mounts")?;
        let own = fs::read_to_string("/proc/self/cgroup").context("cannot read /proc/self/cgroup")?;
        let parent = place(&mounts, &own).context("this host has no cgroup v2")?;
        let folder = parent.join(format!("smc_bench-{}", std::process::id()));
        fs::create_dir(&folder).context("this host lets us make no cgroup: run as root")?;
        Ok(Self { parent, folder })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
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
                eprintln!("smc_bench: {} is still in use: remove it later", self.folder.display());
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

/// The folder of our own cgroup in the unified hierarchy.
fn place(mounts: &str, own: &str) -> Option<PathBuf> {
    let mut lines = mounts.lines().map(|line| line.split_whitespace());
    let top = lines.find_map(|mut words| {
        let at = words.nth(1)?;
        (words.next() == Some("cgroup2")).then_some(at)
    })?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(top).join(path))
}

#[cfg(test)]
mod tests {
    use super::place;
    use std::path::PathBuf;

    #[test]
    fn the_unified_hierarchy_is_found_beside_others() {
        let mounts = "proc /proc proc rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let at = |own| place(mounts, own);
        assert_eq!(at("4:cpu:/x\n0::/a.slice/b\n"), Some(PathBuf::from("/sys/fs/cgroup/unified/a.slice/b")));
        assert_eq!(at("0::/\n"), Some(PathBuf::from("/sys/fs/cgroup/unified/")));
        assert_eq!(at("4:cpu:/x\n"), None);
        assert_eq!(place("proc /proc proc rw 0 0\n", "0::/\n"), None);
    }
}
