//! uperf, spoken by our own master and slave: profiles, protocol and output are uperf's, the measuring ours.
//!
//! [`profile`] reads what is to be done, `strand` does it over sockets, `master` and `slave` agree about it
//! by way of `wire` and `link`, and [`result`] is what it came to. Facts about uperf come from its documents
//! and from watching it; none of its code is here. Where both ends are this program (they say so in fields
//! that uperf leaves empty), they end a transaction at the same turn, and the slave tells what it used.
//!
//! Nothing here knows of SMC, or of anything that is compared.
#![forbid(unsafe_code)]

mod cli;
mod convert;
mod exit;
pub mod file;
mod link;
mod master;
pub mod profile;
pub mod result;
mod say;
mod slave;
mod strand;
mod wire;

/// What the command line calls a value; so do files and reports.
pub fn named(value: impl clap::ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

pub use cli::{STATUSES, UperfArgs};
pub use exit::Exit;
pub use say::{ending_signals, say};
pub use strand::workers::Server;
pub use strand::workers::child::{StrandArgs, work};
