//! The paths of a comparison, set up and measured: a slave and a master of the benchmark engine over each of them.
//!
//! Owns every process, namespace and folder that it makes: dropping [`Pairs`] leaves nothing, and neither does the death
//! of this program, whatever killed it (see [`guard`]).

pub(crate) mod abort;
pub(crate) mod bare;
mod cgroup;
pub(crate) mod diag;
pub(crate) mod enter;
pub(crate) mod guard;
mod holder;
pub(crate) mod launch;
pub(crate) mod net;
mod netlink;
mod pair;
mod route;
pub(crate) mod sockets;
pub(crate) mod sockmap;
pub(crate) mod tier;
mod totals;
mod tree;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};

use crate::cell::Cell;
use crate::install::Install;
use crate::path::Path;
use uperf::result::Run;

use pair::{Engine, Witnesses};
use route::Route;

/// Beyond the planned time: starting, closing and reporting of a thousand processes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures cells with pairs of processes. What a path needs is set up when it is first used, and once.
pub(crate) struct Pairs {
    install: Install,
    engine: Engine,
    /// The error is one sentence: why this host has not got the path.
    routes: BTreeMap<Path, Result<Route, String>>,
    /// What smcss printed while a cell had all its connections open; None if nobody wants it.
    listing: Option<String>,
}

impl Pairs {
    /// With the engine of this very program.
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self::with_engine(std::env::current_exe().context("where is this program?")?, PATIENCE))
    }

    /// With another engine of the same command line. A run may take `patience` longer than planned.
    pub(crate) fn with_engine(program: PathBuf, patience: Duration) -> Self {
        let engine = Engine { program, patience };
        Self { install: Install::find(), engine, routes: BTreeMap::new(), listing: None }
    }

    /// A run may take so much longer than planned.
    pub(crate) fn patient(mut self, patience: Duration) -> Self {
        self.engine.patience = patience;
        self
    }

    /// Keeps what smcss prints for people, too.
    pub(crate) fn with_listing(mut self) -> Self {
        self.listing = Some(String::new());
        self
    }

    /// The longest of what smcss printed; None if it was not asked or had nothing to say.
    pub(crate) fn listing(&self) -> Option<&str> {
        self.listing.as_deref().filter(|text| text.lines().nth(1).is_some())
    }

    /// Whether this host has `path`; else one sentence why not.
    pub(crate) fn available(&mut self, path: Path) -> Result<(), String> {
        self.route(path).map(|_| ())
    }

    fn route(&mut self, path: Path) -> Result<Route, String> {
        let install = &self.install;
        let set_up = || set_up(path, install).map_err(|error| format!("{error:#}"));
        self.routes.entry(path).or_insert_with(set_up).clone()
    }

    /// Measures `cell` once.
    pub(crate) fn run(&mut self, cell: &Cell) -> anyhow::Result<Run> {
        if cell.path == Path::Bare {
            return bare::run(cell, pair::warm_up(cell), self.engine.patience);
        }
        let route = self.route(cell.path).map_err(|reason| anyhow!("no {} here: {reason}", cell.path))?;
        let smcss = self.install.smcss.as_deref().filter(|_| route.asks_smcss);
        let smcd = self.install.smcd.as_deref().filter(|_| route.control.is_some());
        pair::run(&self.engine, cell, &route, Witnesses { smcss, smcd }, self.listing.as_mut())
    }
}

fn set_up(path: Path, install: &Install) -> anyhow::Result<Route> {
    match path {
        Path::TcpLoopback => Ok(Route::loopback()),
        Path::TcpVeth => Route::veth(false),
        Path::TcpVethDnat => Route::veth(true),
        Path::VethSmc => Route::veth_smc(install, false),
        Path::VethSmcDnat => Route::veth_smc(install, true),
        Path::Unix => Ok(Route::unix()),
        Path::Smc => Route::smc(install),
        Path::SmcClient => Route::smc_client(install),
        Path::AfSmc => Route::af_smc(),
        Path::Sockmap => Route::sockmap(),
        // It needs no way to be set up.
        Path::Bare => Ok(Route::loopback()),
    }
}
