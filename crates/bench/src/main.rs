//! `smc_bench`: how fast, how evenly and at what cost two processes of a host talk over TCP, AF_UNIX, SMC.
//!
//! What is measured are ordinary sockets in ordinary processes; nothing here knows how SMC works. [`uperf`]
//! is the engine: a master and a slave that run a profile. [`paths`] starts a pair of them for each way that
//! bytes can take, [`compare`] plans, repeats and judges, [`report`] shows. [`commands`] is the command line.
#![forbid(unsafe_code)]

mod app;
mod cell;
mod commands;
mod compare;
mod descriptors;
mod idle;
mod install;
mod path;
mod paths;
mod report;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use uperf::profile::Refusal;

use crate::commands::Cli;

/// The exit status of a command line that makes no sense; clap's own.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| refuse(&error));
    cli.run().unwrap_or_else(|error| {
        uperf::say(format_args!("{error:#}"));
        match error.downcast_ref() {
            Some(Refusal::Usage(_)) => ExitCode::from(USAGE),
            _ if paths::abort::asked() => ExitCode::from(commands::run::INTERRUPTED),
            _ => ExitCode::FAILURE,
        }
    })
}

/// What was asked for is shown, what is wrong is said in one sentence.
fn refuse(error: &clap::Error) -> ! {
    if error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        uperf::say(format_args!("{}: see --help", sentence(&error.to_string())));
        std::process::exit(USAGE.into());
    }
    error.exit()
}

/// Of clap's paragraphs the first, without its heading, and what it thinks was meant.
fn sentence(text: &str) -> String {
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let tips = text.lines().filter(|line| line.trim_start().starts_with("tip: "));
    let lines: Vec<&str> =
        paragraph.trim_start_matches("error: ").lines().chain(tips).map(str::trim).collect();
    lines.join(" ").replace(" tip: ", "; ")
}
