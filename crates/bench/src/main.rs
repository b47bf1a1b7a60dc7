//! `smc_bench`: how fast, how evenly and at what cost in CPU two processes of one host talk over TCP, AF_UNIX and SMC.
//!
//! What is measured are ordinary blocking sockets in ordinary processes; nothing here knows how SMC works. This file
//! owns the command line. A pair of processes per connection does the work ([`worker`]), [`crew`] starts and stops
//! them, [`stats`] turns what they counted into a [`stats::Slice`], [`plan`] interleaves, [`report`] prints.
#![forbid(unsafe_code)]
#![allow(dead_code, reason = "the parts of the comparison land one by one")]

mod app;
mod cell;
mod compare;
mod crew;
mod demo;
mod idle;
mod install;
mod path;
mod paths;
mod plan;
mod profile;
mod report;
mod result;
mod smcss;
mod socket;
mod stats;
mod strand;
mod uperf;
mod worker;
mod workload;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::plan::{Cell, Pace};
use crate::socket::Transport;
use crate::strand::crew::child::StrandArgs;
use crate::uperf::cli::UperfArgs;
use crate::worker::{ServerKind, WorkerArgs};
use crate::workload::{CONNECT_AND_CLOSE, REQUEST_RESPONSE, STREAM, Workload};

/// Of the commands that compare.
const STATUSES: &str = "Exit status: 0 all was measured; 1 something could not be measured or written, or a goal is \
                        below its floor or without a verdict; 2 the command line is wrong; 130 Ctrl-C (what was measured is shown all the same)";

/// Compare TCP, AF_UNIX and SMC on this host.
#[derive(Parser)]
#[command(name = "smc_bench", version, arg_required_else_help = true, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    uperf: UperfArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Several ways side by side: speed, latency and CPU, with charts
    #[command(after_help = STATUSES)]
    Compare(compare::options::Compare),
    /// Sizes of messages from a byte to a mebibyte, several ways side by side
    #[command(after_help = STATUSES)]
    Sweep(compare::options::Sized),
    /// SMC with buffers of 16 KiB to 1 MiB
    #[command(after_help = STATUSES)]
    Buffers(compare::options::Sized),
    /// Show again what a comparison saved with --json
    Report(report::Again),
    /// Half a minute: request-response and streaming, 1 and 50 connections, three ways
    Demo(demo::Options),
    /// Request and response over connections that stay open
    Rr {
        #[command(flatten)]
        options: Options,
        /// Bytes of a request
        #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
        request: u32,
        /// Bytes of a response
        #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
        response: u32,
    },
    /// One-way stream of equal writes
    Stream {
        #[command(flatten)]
        options: Options,
        /// Bytes of a write
        #[arg(long, default_value_t = 30_720, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
        size: u32,
    },
    /// Connect, one request, one response, close
    Crr {
        #[command(flatten)]
        options: Options,
    },
    /// A real server with its own load generator, plain and under smc_run
    App(app::Options),
    /// What connections cost that do nothing: CPU time and memory
    Idle(idle::Options),
    /// One end of a measured pair; started by the commands above
    #[command(hide = true)]
    Worker(WorkerArgs),
    /// What the loop around the socket calls costs by itself: nanoseconds per pass with sockets that do nothing
    #[command(hide = true)]
    Overhead,
    /// The process of one strand; started by a master or slave
    #[command(hide = true)]
    Strand(StrandArgs),
    /// Parts of this program that it starts itself
    #[command(hide = true, subcommand)]
    Inner(paths::inner::Inner),
}

#[derive(Args)]
struct Options {
    /// Connections at once, each between two processes of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    conns: u16,
    /// Length of one measured slice in seconds
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// How often each transport has its turn; medians are printed
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// What to compare, in this order
    #[arg(long, value_delimiter = ',', default_values = ["tcp", "unix", "smc"])]
    transport: Vec<Transport>,
    /// One server process per connection, or one for all that waits in epoll
    #[arg(long, default_value = "pair")]
    server: ServerKind,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let Cli { uperf, command } = Cli::parse();
    let outcome = match command {
        Some(command) => run(command),
        None => uperf.run().map(ExitCode::from),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("smc_bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Inner(inner) => return inner.run(),
        Command::Strand(args) => strand::crew::child::work(&args)?,
        Command::Overhead => overhead(),
        Command::Compare(options) => return compare::compare(&options, &mut paths::Pairs::new()?),
        Command::Sweep(options) => return compare::sweep(&options, &mut paths::Pairs::new()?),
        Command::Buffers(options) => return compare::buffers(&options, &mut paths::Pairs::new()?),
        Command::Report(options) => return report::again(&options),
        Command::App(options) => app::app(&options)?,
        Command::Idle(options) => idle::idle(&options)?,
        Command::Demo(options) => demo::demo(&options)?,
        Command::Rr { options, request, response } => {
            measure(&options, Workload { request, response, ..REQUEST_RESPONSE })?;
        }
        Command::Stream { options, size } => measure(&options, Workload { request: size, ..STREAM })?,
        Command::Crr { options } => measure(&options, CONNECT_AND_CLOSE)?,
        Command::Worker(args) => worker::work(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(options: &Options, workload: Workload) -> anyhow::Result<()> {
    let cells: Vec<Cell> = options
        .transport
        .iter()
        .map(|&transport| Cell { workload, connections: options.conns, transport, server: options.server })
        .collect();
    let pace = Pace::new(Duration::from_secs_f64(options.seconds), options.rounds);
    let install = install::Install::find();
    let mut crews = |cell: &Cell| crew::measure(cell, &pace, &install).map(|measured| measured.slice);
    let lines = plan::interleave(&cells, pace.rounds, &mut crews)?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&lines)?);
    } else {
        println!("{}", report::table(&lines));
        if options.transport.contains(&Transport::Smc) {
            println!("{}", report::smc_line(&lines));
        }
    }
    Ok(())
}

fn overhead() {
    let strand::overhead::Overhead { master_ns, slave_ns, clock_ns } = strand::overhead::measure();
    println!(
        "{master_ns:.1} ns per pass of the master, {slave_ns:.1} of the slave; {clock_ns:.1} of each is the clock"
    );
}

/// A length that a run can have: a hundredth of a second to an hour.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.01..=3600.0).contains(&value) => Ok(value),
        _ => Err("a number of seconds from 0.01 to 3600 is wanted".into()),
    }
}
