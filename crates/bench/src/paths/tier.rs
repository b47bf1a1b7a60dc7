//! `smc_bench inner tier`: a host daemon of a comparison's own, which marks the connections of a cgroup of its own, held
//! until standard input ends. Needs root.
//!
//! Owns everything that it makes: daemon and cgroup end with it, and so does the BPF file system, which nobody else sees.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use clap::Args;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::cgroup::Cgroup;
use super::holder::{Holder, hold};

/// Which daemon.
#[derive(Args)]
pub(crate) struct Options {
    /// The daemon's program
    ismd: PathBuf,
}

/// What its ends need.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tier {
    /// Folder of the cgroup to be in.
    pub(crate) cgroup: PathBuf,
    /// The daemon's socket.
    pub(crate) socket: PathBuf,
}

impl Tier {
    /// Starts it; it runs as long as the holder. The error is one sentence: why this host does not let us.
    pub(super) fn start(ismd: &Path) -> anyhow::Result<(Holder, Self)> {
        Holder::start([Path::new("tier"), ismd])
    }
}

/// Starts, says, waits.
pub(crate) fn serve(options: &Options) -> anyhow::Result<()> {
    hold(Held::new(&options.ismd), |held| {
        let socket = held.folder.path().join("run/socket");
        Tier { cgroup: held.cgroup.folder.clone(), socket }
    })
}

struct Held {
    daemon: Child,
    cgroup: Cgroup,
    folder: TempDir,
}

impl Held {
    fn new(ismd: &Path) -> anyhow::Result<Self> {
        let folder =
            tempfile::Builder::new().prefix("smc_bench-").tempdir().context("no place for a socket")?;
        let cgroup = Cgroup::new()?;
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("pins"))?;
        std::fs::write(at("policy"), "")?;
        let none = None::<&Path>;
        unshare(CloneFlags::CLONE_NEWNS).context("this host lets us mount nothing: run as root")?;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        mount(Some("bpf"), &at("pins"), Some("bpf"), MsFlags::empty(), none)
            .context("this host has no BPF file system")?;
        // (It ends with this process, whatever ends that.)
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["inner", "enter", "--"])
            .arg(ismd)
            .args(["--metrics", ""])
            .arg("--config")
            .arg(at("policy"));
        command
            .arg("--socket")
            .arg(at("run/socket"))
            .arg("--pins")
            .arg(at("pins"))
            .arg("--cgroup")
            .arg(&cgroup.folder);
        command.env_remove("NOTIFY_SOCKET").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut held = Self { daemon: command.process_group(0).spawn()?, cgroup, folder };
        held.await_marks()?;
        Ok(held)
    }

    fn await_marks(&mut self) -> anyhow::Result<()> {
        let mut said = BufReader::new(self.daemon.stderr.take().context("its errors are ours")?).lines();
        let is_news = |line: &String| line.contains("are marked") || line.contains("not marked");
        match said.by_ref().map_while(Result::ok).find(is_news) {
            Some(line) if line.contains("connections are marked") => {}
            Some(line) => {
                bail!("ismd marks no connections: {}", line.rsplit("error=").next().unwrap_or_default())
            }
            None => bail!("ismd ended at once"),
        }
        std::thread::spawn(move || said.for_each(drop));
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        let _ = umount2(&self.folder.path().join("pins"), MntFlags::MNT_DETACH);
    }
}
