//! The options of a flowop as plain values. Names are those of the profile, so that a reader of either finds the other.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::named;

/// Everything that `options=` can say. What was not given has the default that is told here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Options {
    /// Bytes of one read or write; always given for read, write, send and recv. For sendfile and sendfilev the bytes
    /// of a chunk; without it whole files.
    pub(crate) size: Option<Size>,
    /// Bytes of one read or write at the slave, where that is larger than `size`.
    pub(crate) rsize: Option<u32>,
    /// How often the flowop is done each time; default 1, never 0.
    pub(crate) count: u64,
    /// System calls per flowop (uperf: datagrams only); default 1, never 0.
    pub(crate) repeat: u64,
    /// Datagrams per system call; default 1, never 0.
    pub(crate) batch_size: u32,
    /// Where the slave listens for data connections; without it a port of its own for each strand.
    pub(crate) port: Option<u16>,
    /// What a connect or accept opens; default TCP (uperf has none).
    pub(crate) protocol: Protocol,
    /// Which of the strand's connections; without it the one without a number.
    pub(crate) conn: Option<NonZeroU32>,
    /// The slave's host; always given for connect and accept.
    pub(crate) remotehost: Option<String>,
    /// The local address to bind to.
    pub(crate) localhost: Option<String>,
    /// SO_SNDBUF and SO_RCVBUF in bytes; without it the kernel decides.
    pub(crate) wndsz: Option<u32>,
    /// How long a read may wait; never zero.
    pub(crate) timeout: Option<Duration>,
    /// How long a think takes; never zero, always given for think.
    pub(crate) duration: Option<Duration>,
    /// How many files one sendfilev sends; default 1.
    pub(crate) nfiles: u32,
    /// Where the files of sendfile and sendfilev are; always given for them.
    pub(crate) dir: Option<String>,
    /// TCP_CONGESTION.
    pub(crate) cc: Option<String>,
    /// `busy`: a think spins and does not sleep (`idle`, the default).
    pub(crate) busy: bool,
    /// TCP_NODELAY.
    pub(crate) tcp_nodelay: bool,
    /// A failure of this flowop is none of the run.
    pub(crate) canfail: bool,
    /// connect(2) does not wait.
    pub(crate) non_blocking: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            size: None,
            rsize: None,
            count: 1,
            repeat: 1,
            batch_size: 1,
            port: None,
            protocol: Protocol::Tcp,
            conn: None,
            remotehost: None,
            localhost: None,
            wndsz: None,
            timeout: None,
            duration: None,
            nfiles: 1,
            dir: None,
            cc: None,
            busy: false,
            tcp_nodelay: false,
            canfail: false,
            non_blocking: false,
        }
    }
}

/// Bytes of one read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Size {
    /// `size=N`; never 0. A read goes on until all have come.
    Fixed(u32),
    /// `size=rand(min,max)`; 0 < min <= max. A write draws one anew each time; a read takes up to `max` once.
    Random {
        /// Inclusive.
        min: u32,
        /// Inclusive.
        max: u32,
    },
}

impl Size {
    /// The buffer that it needs.
    pub(crate) fn largest(self) -> u32 {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Random { max, .. } => max,
        }
    }
}

/// What a connection is. The others that uperf knows (rds, sctp, ssl, vsock) are refused by the parser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Protocol {
    /// A TCP connection.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
    /// Our extension: an AF_UNIX stream; the slave listens at an abstract name and both are on one host.
    Unix,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&named(*self))
    }
}
