//! `smc_bench`: how fast, how evenly and at what cost in CPU two processes of one host talk over TCP, AF_UNIX and SMC.
//!
//! What is measured are ordinary sockets in ordinary processes; nothing here knows how SMC works. [`uperf`] is the engine:
//! a master and a slave that run a profile. [`paths`] starts a pair of them for each way that bytes can take, [`compare`] plans, repeats and judges, [`report`] shows. [`commands`] is the command line.
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
use uperf::profile::Refusal;

use crate::commands::Cli;

/// The exit status of a command line that makes no sense; clap's own.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    Cli::parse().run().unwrap_or_else(|error| {
        eprintln!("smc_bench: {error:#}");
        match error.downcast_ref() {
            Some(Refusal::Usage(_)) => ExitCode::from(USAGE),
            _ => ExitCode::FAILURE,
        }
    })
}
