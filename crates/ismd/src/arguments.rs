//! The command line, and the error of one that cannot be followed.

use clap::{Parser, ValueEnum};
use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

/// Where the policy lies unless it is said.
pub(crate) const POLICY: &str = "/etc/isthmus/ismd.toml";

/// The daemon of the host tier: passes memory and doorbells between programs that share nothing else.
#[derive(Parser, Debug)]
#[command(name = "ismd", version, about)]
pub(crate) struct Arguments {
    /// The policy file; without this option /etc/isthmus/ismd.toml, if there is one
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Read a policy file, say what is wrong with it, and end
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub(crate) check: Option<PathBuf>,
    /// Print what a container needs, for engines that know the Container Device Interface, and end
    #[arg(long)]
    pub(crate) print_cdi: bool,
    /// The library that containers get; without this option ../lib/libsmc-preload.so, as this program sees it
    #[arg(long, value_name = "FILE", requires = "print_cdi")]
    pub(crate) library: Option<PathBuf>,
    /// Show how connections come to share memory, or why they do not, as it happens: of the daemon that runs
    #[arg(long, conflicts_with_all = ["check", "print_cdi"])]
    pub(crate) trace: bool,
    /// Only connections of this process, at either end
    #[arg(long, value_name = "PID", requires = "trace", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Option<u32>,
    /// Only connections with this port at either end, as either end has it
    #[arg(long, value_name = "PORT", requires = "trace", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// Only connections with this address at either end, as either end has it
    #[arg(long, value_name = "ADDRESS", requires = "trace")]
    pub(crate) address: Option<IpAddr>,
    /// Where to listen (or, with --trace, to ask), whatever the policy says (or, with --trace, ISMD_SOCKET)
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Where to answer scrapes, whatever the policy says; empty for nowhere
    #[arg(long, value_name = "PATH")]
    pub(crate) metrics: Option<OsString>,
    /// Folder of a BPF file system for the programs that mark connections, whatever the policy says; empty:
    /// none are marked
    #[arg(long, value_name = "PATH")]
    pub(crate) pins: Option<OsString>,
    /// Whose connections are marked: a cgroup (version 2), whatever the policy says
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<PathBuf>,
    /// How much to log, on standard error
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log_level: tracing::Level,
    /// How to log
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

/// What the command line or the policy asks for cannot be: said in a sentence.
#[derive(Debug)]
pub(crate) struct Unusable(pub(crate) String);

impl fmt::Display for Unusable {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for Unusable {}

impl From<anyhow::Error> for Unusable {
    fn from(error: anyhow::Error) -> Self {
        Unusable(format!("{error:#}"))
    }
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// An object a line
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
        assert!(Arguments::try_parse_from(["ismd", "--check", "a", "-c", "b"]).is_err());
        assert!(Arguments::try_parse_from(["ismd", "--log-level", "loud"]).is_err());
        assert!(Arguments::try_parse_from(["ismd", "--port", "7"]).is_err(), "of what?");
        assert!(Arguments::try_parse_from(["ismd", "--trace", "--port", "0"]).is_err());
        let nowhere =
            Arguments::try_parse_from(["ismd", "--metrics", "", "--pins", ""]).expect("empty is nowhere");
        assert!(nowhere.metrics.is_some_and(|path| path.is_empty()));
    }
}
