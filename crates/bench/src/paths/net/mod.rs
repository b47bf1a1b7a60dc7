//! Two network namespaces that reach each other through a bridge, as two containers of one host do: tool's side.
//!
//! Owns nothing with a name. The namespaces live as long as the process that made them ([`holder`]), and that one lives
//! as long as the pipe to it: Drop, Ctrl-C and SIGKILL of this program all end it, and the kernel removes the rest.

mod holder;
mod links;

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};

pub(crate) use holder::{Options, hold};

use super::launch::Namespaces;

/// The client's address. 198.18.0.0/15 is for benchmarks (RFC 2544), and nobody else is in these namespaces.
pub(crate) const CLIENT: &str = "198.18.0.1";
/// The server's address.
pub(crate) const SERVER: &str = "198.18.0.2";

/// What the holder says in its only line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Said {
    /// The namespaces are there, as descriptors of the holder.
    Holding { user: bool, client: i32, server: i32 },
    /// One sentence why not.
    Refused(String),
}

/// Two namespaces, held open.
pub(crate) struct Net {
    holder: Child,
    user: bool,
    client: i32,
    server: i32,
}

impl Net {
    /// Makes both. The error is one sentence: why this host does not let us.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe().context("where is this program?")?);
        command.args(["inner", "net"]).env_remove("LD_PRELOAD");
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let holder = command.spawn().context("cannot start the holder of namespaces")?;
        let mut net = Self { holder, user: false, client: -1, server: -1 };
        match net.hear()? {
            Said::Refused(reason) => Err(anyhow!(reason)),
            Said::Holding { user, client, server } => {
                (net.user, net.client, net.server) = (user, client, server);
                Ok(net)
            }
        }
    }

    /// The holder speaks or ends: it does nothing that could take long.
    fn hear(&mut self) -> anyhow::Result<Said> {
        let out = self.holder.stdout.take().context("a pipe was asked for")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        serde_json::from_str(&line).context("the holder of namespaces ended without a word")
    }

    /// Where clients run.
    pub(crate) fn client(&self) -> Namespaces {
        self.namespaces(self.client)
    }

    /// Where servers run.
    pub(crate) fn server(&self) -> Namespaces {
        self.namespaces(self.server)
    }

    fn namespaces(&self, descriptor: i32) -> Namespaces {
        let proc = format!("/proc/{}", self.holder.id());
        Namespaces {
            user: self.user.then(|| format!("{proc}/ns/user").into()),
            network: format!("{proc}/fd/{descriptor}").into(),
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        // It only waits for the end of that pipe.
        let _ = self.holder.wait();
    }
}
