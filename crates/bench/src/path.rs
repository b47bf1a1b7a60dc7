//! The ways that a profile's bytes can take between two processes of one host. One name each, used on the
//! command line, in reports and in JSON alike.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What `smc_bench compare` compares.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Path {
    /// TCP over 127.0.0.1
    TcpLoopback,
    /// TCP between two network namespaces, veth pairs and a bridge between them
    TcpVeth,
    /// AF_UNIX stream sockets
    Unix,
    /// TCP programs under smc_run
    Smc,
    /// TCP programs, the client alone under smc_run: its peer stays plain
    SmcClient,
    /// The kernel's own SMC, where it has one
    AfSmc,
    /// TCP over loopback, redirected by a BPF sockmap
    Sockmap,
    /// Shared memory between two processes without sockets: the limit of this machine
    Bare,
    /// TCP between two network namespaces, the server's address translated (DNAT)
    TcpVethDnat,
    /// TCP programs under smc_run in two network namespaces, and an ismd between them
    VethSmc,
    /// The same, the server's address translated
    VethSmcDnat,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&uperf::named(*self))
    }
}
