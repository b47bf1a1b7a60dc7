//! The command line: uperf's own letters, or a command. Each command has a file of its own here, which turns what was
//! said into a call of the part that does the work.

mod app;
mod compare;
mod demo;
mod idle;
mod inner;
mod profile;
mod report;
pub(crate) mod run;
mod shared;
mod sweep;
mod to;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use uperf::{StrandArgs, UperfArgs, work};

use self::inner::Inner;
use crate::paths::{Pairs, abort};

/// Of the commands that compare.
const STATUSES: &str = "Exit status: 0 all was measured; 1 something could not be read, measured or written, or a goal is \
                        below its floor or without a verdict; 2 the command line is wrong; 130 Ctrl-C (what was measured is shown all the same)";

/// Compare TCP, AF_UNIX and SMC on this host.
#[derive(Parser)]
#[command(name = "smc_bench", version, arg_required_else_help = true, args_conflicts_with_subcommands = true)]
#[command(after_help = uperf::STATUSES)]
pub(crate) struct Cli {
    #[command(flatten)]
    uperf: UperfArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Half a minute: request-response and streaming, 1 and 50 connections, every way that works here
    #[command(after_help = STATUSES)]
    Demo(demo::Options),
    /// Several paths side by side: speed, latency and CPU, with charts
    #[command(after_help = STATUSES)]
    Compare(compare::Options),
    /// Sizes of messages from a byte to a mebibyte, several paths side by side
    #[command(after_help = STATUSES)]
    Sweep(sweep::Options),
    /// SMC with buffers of 16 KiB to 1 MiB
    #[command(after_help = STATUSES)]
    Buffers(sweep::Buffers),
    /// A real server with its own load generator, plain and under smc_run
    #[command(after_help = STATUSES)]
    App(app::Options),
    /// What connections cost that do nothing: CPU time and memory
    #[command(after_help = STATUSES)]
    Idle(idle::Options),
    /// A stream to HOST, where `smc_bench serve` runs
    #[command(after_help = uperf::STATUSES)]
    To(to::To),
    /// Wait for `smc_bench to`
    #[command(after_help = uperf::STATUSES)]
    Serve(to::Serve),
    /// Show again what a comparison saved with --json
    #[command(after_help = STATUSES)]
    Report(report::Options),
    /// The built-in profiles, also as files for uperf
    #[command(subcommand)]
    Profile(profile::Command),
    /// What a shell completes this command line with
    Completion { shell: Shell },
    /// The process of one strand; started by a master or slave
    #[command(hide = true)]
    Strand(StrandArgs),
    /// Parts of this program that it starts itself
    #[command(hide = true, subcommand)]
    Inner(Inner),
}

impl Cli {
    /// Does what was asked for.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Some(command) => command.run(),
            None => self.uperf.run().map(ExitCode::from),
        }
    }
}

impl Command {
    fn run(self) -> anyhow::Result<ExitCode> {
        if self.measures() {
            abort::listen()?;
        }
        match self {
            Command::Demo(options) => options.run(),
            Command::Compare(options) => options.run(&mut Pairs::new()?),
            Command::Sweep(options) => options.run(&mut Pairs::new()?),
            Command::Buffers(options) => options.run(&mut Pairs::new()?),
            Command::App(options) => options.run(),
            Command::Idle(options) => options.run(&mut Pairs::new()?),
            Command::To(to) => Cli::parse_from(to.words()).run(),
            Command::Serve(serve) => Cli::parse_from(serve.words()).run(),
            Command::Report(options) => options.run(),
            Command::Profile(command) => command.run(),
            Command::Completion { shell } => completion(shell),
            Command::Strand(args) => work(&args).map(|()| ExitCode::SUCCESS),
            Command::Inner(inner) => inner.run(),
        }
    }

    /// Whether it has something to lose if a signal ends it.
    fn measures(&self) -> bool {
        use Command::{App, Buffers, Compare, Demo, Idle, Sweep};
        matches!(self, Demo(_) | Compare(_) | Sweep(_) | Buffers(_) | App(_) | Idle(_))
    }
}

/// Without what is hidden, which clap would complete.
fn completion(shell: Shell) -> anyhow::Result<ExitCode> {
    let (all, mut text) = (Cli::command(), vec![]);
    let shown = all.get_subcommands().filter(|one| !one.is_hide_set()).cloned();
    let mut line =
        clap::Command::new("smc_bench").version("").args(all.get_arguments().cloned()).subcommands(shown);
    clap_complete::generate(shell, &mut line, "smc_bench", &mut text);
    crate::report::print(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}
