//! Two network namespaces that reach each other through a bridge, as two containers of one host do: tool's side.
//!
//! Owns nothing with a name. The namespaces live as long as the process that made them ([`hold()`]), and that one lives
//! as long as the pipe to it: Drop, Ctrl-C and SIGKILL of this program all end it, and the kernel removes the rest.

mod hold;
mod links;

use serde::{Deserialize, Serialize};

pub(crate) use hold::{Options, hold};

use super::holder::Holder;
use super::launch::Namespaces;

/// The client's address. 198.18.0.0/15 is for benchmarks (RFC 2544), and nobody else is in these namespaces.
pub(crate) const CLIENT: &str = "198.18.0.1";
/// The server's address.
pub(crate) const SERVER: &str = "198.18.0.2";
/// What is translated to it.
pub(crate) const ALIAS: &str = "198.18.0.3";

/// Where the holder has the namespaces: its descriptors, and whether they are in a user namespace of its own.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Ends {
    user: bool,
    client: i32,
    server: i32,
}

/// Two namespaces, held open.
pub(crate) struct Net {
    holder: Holder,
    ends: Ends,
}

impl Net {
    /// Makes both; `is_translated`: the server is at [`ALIAS`], too, for who asks from the client's. The error is one
    /// sentence: why this host does not let us.
    pub(crate) fn new(is_translated: bool) -> anyhow::Result<Self> {
        let (holder, ends) = Holder::start(["net"].into_iter().chain(is_translated.then_some("--dnat")))?;
        Ok(Self { holder, ends })
    }

    /// Where clients run.
    pub(crate) fn client(&self) -> Namespaces {
        self.namespaces(self.ends.client)
    }

    /// Where servers run.
    pub(crate) fn server(&self) -> Namespaces {
        self.namespaces(self.ends.server)
    }

    fn namespaces(&self, descriptor: i32) -> Namespaces {
        let proc = format!("/proc/{}", self.holder.id());
        Namespaces {
            user: self.ends.user.then(|| format!("{proc}/ns/user").into()),
            network: format!("{proc}/fd/{descriptor}").into(),
        }
    }
}
