//! TCP over loopback whose bytes a BPF sockmap hands from socket to socket, past the network: tool's side.
//!
//! Needs root. The programs live as long as the process that loaded them ([`hold()`]), and that one as long as the pipe
//! to it; it removes the cgroup in which the redirection holds.

mod hold;

use std::path::PathBuf;

pub(crate) use hold::hold;

use super::holder::Holder;

/// A cgroup whose processes' connections over 127.0.0.1 are redirected.
pub(crate) struct Sockmap {
    _holder: Holder,
    /// Folder of the cgroup.
    pub(crate) cgroup: PathBuf,
}

impl Sockmap {
    /// The error is one sentence: why this host does not let us.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let (holder, cgroup) = Holder::start(["sockmap"])?;
        Ok(Self { _holder: holder, cgroup })
    }
}
