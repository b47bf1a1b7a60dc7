//! Project tasks, run as `cargo xtask TASK`. This file owns the command line only; each task has a file of
//! its own.
//!
//! A task either succeeds, or fails with a message that says how to mend it (exit status 1). No task leaves a
//! process behind: see [`exec`].
#![forbid(unsafe_code)]

mod checks;
mod ci;
mod cross;
mod demo;
mod dist;
mod exec;
mod leftovers;
mod mutations;
mod ordinary_user;
mod packages;
mod parity;
mod suites;
mod symbols;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// Project tasks of Isthmus.
#[derive(Parser)]
#[command(name = "cargo xtask", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build everything and lay it out under target/isthmus/{bin,lib,share}
    Dist {
        /// Build nothing: print the folder, for scripts
        #[arg(long)]
        print_dir: bool,
    },
    /// Compare TCP, AF_UNIX and SMC side by side; about half a minute
    Demo {
        /// Passed on to `smc_bench demo`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Everything a change must pass; the sub-steps below, then all tests
    Ci,
    /// Formatting
    Fmt,
    /// Clippy, warnings denied
    Lint,
    /// Documentation builds, warnings denied
    Doc,
    /// House rules: arrows between rooms, file heads and sizes, where unsafe may stand
    Tidy,
    /// What libsmc-preload.so needs from, and gives to, the program it is loaded into
    Symbols,
    /// Install (as root on Debian) or name the programs that the tests use
    Packages,
    /// Model-check the shared memory room with loom
    Loom,
    /// Unit tests of the rooms without system calls under miri, where it is installed; no part of ci
    Miri,
    /// The library compiles for aarch64; with qemu-user and a cross compiler, unit tests run there
    Cross,
    /// Licences, sources and duplicates of dependencies, where cargo-deny is installed
    Deny,
    /// All tests, as the calling user
    Test,
    /// The bars of the data path at their full sizes; minutes, so no part of ci
    Bars,
    /// TCP programs of random styles, each byte checked: three seeds, with spinning and without; no part of
    /// ci
    Torture {
        /// Seconds of each round
        #[arg(long, default_value_t = 600)]
        seconds: u64,
        /// Seeds, each a round of its own
        #[arg(long = "seed", default_values_t = [1, 2, 3])]
        seeds: Vec<u64>,
        /// Over plain TCP alone, where every run must be clean
        #[arg(long)]
        plain: bool,
    },
    /// The parity cases one way after the other: either end alone, without spinning, over IPv6, with few
    /// descriptors and, as root, with little memory; ci has both ends over IPv4
    Parity {
        /// Cases whose names contain one of these; all if none is named
        names: Vec<String>,
        /// Only ways whose names contain this
        #[arg(long)]
        way: Option<String>,
        /// Each end with each family of addresses and each limit, 36 ways in all; hours
        #[arg(long)]
        all: bool,
    },
    /// Random socket calls by two processes, over TCP and over the library: every result is equal; no part of
    /// ci at length
    Calls {
        /// How many scripts
        #[arg(long, default_value_t = 10_000)]
        seeds: u64,
        /// Seed of the first one; by the clock if none is given
        #[arg(long)]
        first: Option<u64>,
    },
    /// Random schedules of processes over a simulated kernel, at length; no part of ci, where a short run is
    /// among the tests
    Sim {
        /// How many schedules
        #[arg(long, default_value_t = 100_000)]
        seeds: u64,
    },
    /// Test suites that nobody here wrote, plain and over the library; long, so no part of ci
    Suites {
        /// Suites, by name; all if none is named
        names: Vec<String>,
        /// Only the short set
        #[arg(long)]
        short: bool,
        /// Only parts whose names contain this, or are one of these (a,b,c)
        #[arg(long)]
        part: Option<String>,
    },
    /// Loads that go on and on, and the torture: what is used stays flat, no answer is lost; no part of ci at
    /// length
    Soak {
        /// Minutes in all
        #[arg(long, default_value_t = 60)]
        minutes: u64,
    },
    /// Peers that lie with words, mailbox, rows and descriptors, beside honest ones; no part of ci at length
    Hostile {
        /// Seconds of the fuzzer
        #[arg(long, default_value_t = 600)]
        seconds: u64,
        /// Seed of its first round; by the clock if none is given
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Takes mends out one by one: the test that each is held by must fail; half an hour, so no part of ci
    Mutations {
        /// Mends whose names contain one of these; all if none is named
        names: Vec<String>,
    },
    /// The black-box tests as an ordinary user; only root can ask for it
    TestUser,
}

fn main() -> ExitCode {
    let task = Cli::parse().task;
    exec::supervise();
    let outcome = Workspace::load().and_then(|ws| run(&ws, task));
    let strays = exec::end_descendants();
    if let Err(error) = &outcome {
        eprintln!("\ncargo xtask: {error:#}");
    }
    for stray in &strays {
        eprintln!("cargo xtask: ended a process that its parent left behind: {stray}");
    }
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(ws: &Workspace, task: Task) -> anyhow::Result<()> {
    match task {
        Task::Dist { print_dir: true } => dist::print_dir(ws),
        Task::Dist { print_dir: false } => dist::dist(ws),
        Task::Demo { args } => demo::demo(ws, &args),
        Task::Ci => ci::ci(ws),
        Task::Fmt => checks::fmt(ws),
        Task::Lint => checks::lint(ws),
        Task::Doc => checks::doc(ws),
        Task::Tidy => tidy::tidy(ws),
        Task::Symbols => symbols::symbols(ws),
        Task::Packages => packages::packages(ws),
        Task::Loom => checks::loom(ws),
        Task::Miri => checks::miri(ws),
        Task::Cross => cross::cross(ws),
        Task::Deny => checks::deny(ws),
        Task::Test => checks::test(ws),
        Task::Bars => checks::bars(ws),
        Task::Torture { seconds, seeds, plain } => checks::torture(ws, seconds, &seeds, plain),
        Task::Parity { names, way, all } => parity::parity(ws, &parity::Wanted { names, way, all }),
        Task::Calls { seeds, first } => checks::calls(ws, seeds, first),
        Task::Sim { seeds } => checks::sim(ws, seeds),
        Task::Suites { names, short, part } => suites::suites(ws, &suites::Wanted { names, short, part }),
        Task::Soak { minutes } => checks::soak(ws, minutes),
        Task::Hostile { seconds, seed } => checks::hostile(ws, seconds, seed),
        Task::Mutations { names } => mutations::mutations(ws, &names),
        Task::TestUser => ordinary_user::test(ws),
    }
}
