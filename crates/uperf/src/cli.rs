//! The command line of uperf, and a few options more: `smc_bench -m PROFILE ...` and `smc_bench -s ...`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::exit::Exit;
use crate::master::{self, Tables};
use crate::profile::{self, Refusal};
use crate::slave;
use crate::strand::Detail;
use crate::strand::workers::Server;

/// The same as in `exit`, for users.
pub const STATUSES: &str = "Exit status of -m and -s: 0 all was done; 1 bad profile, no slave, or one that failed, \
                                   as did a strand; 2 the command line is wrong; 130 Ctrl-C (what was measured is shown \
                                   all the same)";

/// Options of uperf, with its letters, and longer names for them.
#[derive(Args, Clone, Debug)]
#[group(id = "uperf")]
pub struct UperfArgs {
    /// Be the master: run PROFILE (a file, or the name of a built-in profile) with a slave
    #[arg(short = 'm', long = "master", value_name = "PROFILE", conflicts_with = "slave")]
    profile: Option<String>,
    /// Be the slave: wait for masters
    #[arg(short = 's', long)]
    slave: bool,
    /// Control port of the slave; 0 lets a slave choose
    #[arg(short = 'P', long, value_name = "PORT", default_value_t = 20_000)]
    port: u16,
    /// Protocol of the control connection
    #[arg(short = 'S', long, value_name = "PROTOCOL", default_value = "tcp", value_parser = ["tcp"], ignore_case = true)]
    control_protocol: String,
    /// How often progress is printed: seconds, or with ms, us or ns
    #[arg(short = 'i', long, value_name = "TIME", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Print no statistics
    #[arg(short = 'n', long)]
    no_stats: bool,
    /// Print all statistics
    #[arg(short = 'a', long)]
    all: bool,
    /// Print statistics of transactions
    #[arg(short = 't', long)]
    transactions: bool,
    /// Print statistics of flowops, which costs two clock readings each
    #[arg(short = 'f', long)]
    flowops: bool,
    /// Print statistics of groups
    #[arg(short = 'g', long)]
    groups: bool,
    /// Print statistics of strands
    #[arg(short = 'T', long)]
    strands: bool,
    /// Print packets of the network interfaces (always on, as in uperf)
    #[arg(short = 'k', long)]
    packets: bool,
    /// Measure the CPU time of flowops, which costs two system calls each
    #[arg(short = 'p', long)]
    cpu: bool,
    /// Print progress as raw lines with time stamps
    #[arg(short = 'R', long)]
    raw: bool,
    /// Append a line for each flowop to FILE
    #[arg(short = 'X', long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Say on standard error what is going on
    #[arg(short = 'v', long, action = ArgAction::SetTrue)]
    verbose: bool,
    /// Write the result as JSON; `-` is standard output, which then has nothing else
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Set a variable of the profile; the environment sets the others
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
    /// As slave: end after one master
    #[arg(long)]
    once: bool,
    /// As slave: how to serve
    #[arg(long, default_value = "threads")]
    server: Server,
}

impl UperfArgs {
    /// Does what was asked for.
    pub fn run(self) -> anyhow::Result<Exit> {
        raise_descriptors();
        match &self.profile {
            Some(name) => {
                let variables: BTreeMap<String, String> = self.variables.iter().cloned().collect();
                master::run(&profile::load(name, &variables)?, &self.for_master())
            }
            None if self.slave => slave::run(&self.for_slave()),
            None => {
                Err(Refusal::usage("either -m PROFILE, -s or a command is wanted: see smc_bench --help")
                    .into())
            }
        }
    }

    fn for_slave(&self) -> slave::Options {
        slave::Options {
            port: self.port,
            once: self.once,
            server: self.server,
            json: self.json.clone(),
            verbose: self.verbose,
        }
    }

    fn for_master(&self) -> master::Options {
        let all = |one: bool| one || self.all;
        let tables = Tables {
            none: self.no_stats,
            groups: all(self.groups),
            strands: all(self.strands),
            transactions: all(self.transactions),
            flowops: all(self.flowops || self.cpu),
        };
        let history = self.history.clone();
        let is_shown = !self.no_stats && self.json.as_deref().is_none_or(|path| path.as_os_str() != "-");
        let progress = is_shown.then_some(self.interval);
        master::Options {
            port: self.port,
            interval: self.interval,
            detail: Detail { flowops: tables.flowops, cpu: self.cpu, history, progress },
            tables,
            raw: self.raw,
            json: self.json.clone(),
            verbose: self.verbose,
        }
    }
}

/// As many descriptors as this user may have: each strand needs some.
fn raise_descriptors() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // With fewer it may work all the same.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// uperf's times, which its profiles have, too.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = Some(profile::time(text)?).filter(|interval| *interval >= Duration::from_millis(1));
    interval.ok_or_else(|| "a time of a millisecond or more is wanted".into())
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is wanted")?;
    Ok((name.to_owned(), value.to_owned()))
}
