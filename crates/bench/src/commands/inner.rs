//! The parts of this program that it starts as processes of their own; no part of what users are promised.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};

use crate::cell::Cell;
use crate::path::Path;
use uperf::Server;

use crate::paths::{Pairs, bare, diag, enter, guard, net, sockmap, tier};

/// Which part.
#[derive(Subcommand)]
pub(crate) enum Inner {
    /// Keep a program, and end it when standard input ends
    Guard(guard::Options),
    /// Become a program in given surroundings
    Enter(enter::Options),
    /// Make and hold two connected network namespaces
    Net(net::Options),
    /// Print the open TCP connections of this network namespace as JSON
    Connections,
    /// Redirect connections of a cgroup and hold that
    Sockmap,
    /// Run a host daemon and hold what it needs
    Tier(tier::Options),
    /// Be an end of `bare`
    Bare(bare::Options),
    /// Accept connections and let them idle
    IdleServer(crate::idle::end::ServerOptions),
    /// Open connections and let them idle
    IdleClient(crate::idle::end::ClientOptions),
    /// Read and write on a pipe and on a file
    Descriptors(crate::descriptors::Options),
    /// Load memcached
    MemcachedLoad(crate::app::loader::Options),
    /// Measure one cell and print its run as JSON
    Cell(CellOptions),
}

/// A cell, and the engine to measure it with.
#[derive(Args)]
pub(crate) struct CellOptions {
    #[arg(long)]
    path: Path,
    #[arg(long)]
    profile: String,
    #[arg(long, default_value_t = 1)]
    conns: u32,
    #[arg(long, default_value_t = 1.0, value_parser = crate::cell::seconds)]
    seconds: f64,
    #[arg(long, default_value = "threads")]
    server: Server,
    /// Another program with the engine's command line
    #[arg(long)]
    engine: Option<PathBuf>,
    /// How much longer than planned it may take, in seconds
    #[arg(long, default_value_t = 30.0, value_parser = crate::cell::seconds)]
    patience: f64,
}

impl Inner {
    /// Does the part's work.
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        match self {
            Inner::Guard(options) => return guard::guard(options),
            Inner::Enter(options) => enter::enter(options)?,
            Inner::Net(options) => net::hold(options)?,
            Inner::Connections => diag::print()?,
            Inner::Sockmap => sockmap::hold()?,
            Inner::Tier(options) => tier::serve(options)?,
            Inner::Bare(options) => bare::end(options)?,
            Inner::IdleServer(options) => crate::idle::end::serve(options)?,
            Inner::IdleClient(options) => crate::idle::end::connect(options)?,
            Inner::Descriptors(options) => crate::descriptors::print(options)?,
            Inner::MemcachedLoad(options) => crate::app::loader::load(options)?,
            Inner::Cell(options) => cell(options)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn cell(options: &CellOptions) -> anyhow::Result<()> {
    let own = || std::env::current_exe().context("where is this program?");
    let engine = options.engine.clone().map_or_else(own, Ok)?;
    let mut pairs = Pairs::with_engine(engine, Duration::from_secs_f64(options.patience));
    let run = pairs.run(&Cell {
        profile: options.profile.clone(),
        connections: options.conns,
        path: options.path,
        server: options.server,
        duration: Duration::from_secs_f64(options.seconds),
        variables: [].into(),
        environment: [].into(),
    })?;
    println!("{}", serde_json::to_string_pretty(&run)?);
    Ok(())
}
