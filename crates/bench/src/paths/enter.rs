//! `smc_bench inner enter`: puts itself into the surroundings that a program is to run in, and becomes that program.
//!
//! A process of its own because namespaces, a user and a parent death signal are set from within, between fork and exec.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The surroundings.
#[derive(Args)]
pub(crate) struct Options {
    /// A user namespace to enter first: a file such as /proc/PID/ns/user
    #[arg(long)]
    user_namespace: Option<PathBuf>,
    /// A network namespace to enter
    #[arg(long)]
    network: Option<PathBuf>,
    /// A cgroup to move to: its folder
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// User and group to become: numbers, a colon between them
    #[arg(long, value_parser = user)]
    user: Option<(u32, u32)>,
    /// A library to preload
    #[arg(long)]
    preload: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    program: Vec<OsString>,
}

/// Returns only if something was refused.
pub(crate) fn enter(options: &Options) -> anyhow::Result<()> {
    if let Some(file) = &options.user_namespace {
        join(file, LinkNameSpaceType::User)?;
    }
    if let Some(file) = &options.network {
        join(file, LinkNameSpaceType::Network)?;
    }
    if let Some(folder) = &options.cgroup {
        std::fs::write(folder.join("cgroup.procs"), std::process::id().to_string())
            .with_context(|| format!("cannot move to the cgroup {}", folder.display()))?;
    }
    let [program, arguments @ ..] = options.program.as_slice() else { bail!("no program was named") };
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(library) = &options.preload {
        command.env("LD_PRELOAD", library);
    }
    if let Some((user, group)) = options.user {
        command.uid(user).gid(group);
    }
    // After a change of user the kernel forgets it; the guard is there all the same.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).context("no parent death signal")?;
    Err(anyhow!(command.exec()).context(format!("cannot run {}", program.to_string_lossy())))
}

fn join(file: &Path, kind: LinkNameSpaceType) -> anyhow::Result<()> {
    let refused = || format!("cannot enter the {kind:?} namespace {}", file.display());
    let opened = File::open(file).with_context(refused)?;
    use std::os::fd::AsFd;
    move_into_link_name_space(opened.as_fd(), Some(kind)).with_context(refused)
}

fn user(text: &str) -> Result<(u32, u32), String> {
    let parts =
        text.split_once(':').and_then(|(user, group)| Some((user.parse().ok()?, group.parse().ok()?)));
    parts.ok_or_else(|| "two numbers with a colon between them are wanted".into())
}
