//! Real servers with their own load generators, as they are and under smc_run, taking turns.
//!
//! Servers listen at 127.0.0.1 on a free port; their data is in a private folder that is gone afterwards, as is every
//! process, however the run ends ([`crate::paths`] sees to that).

mod application;
pub(crate) mod comparison;
pub(crate) mod loader;
mod memcached;
mod nginx;
mod postgres;
mod programs;
mod redis;
mod server;
mod slice;

use anyhow::{Context, bail};
use clap::ValueEnum;
use tempfile::TempDir;
use uperf::named;

use crate::install::Install;
use crate::path::Path;
use crate::paths::launch::Place;

use application::{Application, Load};
use comparison::Slice;
use slice::Bench;

/// What can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// redis-server with redis-benchmark
    Redis,
    /// nginx with wrk
    Nginx,
    /// PostgreSQL with pgbench
    Postgres,
    /// memcached with a loader of this program
    Memcached,
}

impl Name {
    /// Finds its programs.
    ///
    /// # Errors
    ///
    /// One of them is not installed: which, and the package that has it.
    pub(crate) fn find(self) -> anyhow::Result<Box<dyn Application>> {
        Ok(match self {
            Name::Redis => Box::new(redis::Redis::find()?),
            Name::Nginx => Box::new(nginx::Nginx::find()?),
            Name::Postgres => Box::new(postgres::Postgres::find()?),
            Name::Memcached => Box::new(memcached::Memcached::find()?),
        })
    }
}

/// An application whose data is there. Each slice has a fresh server.
pub(crate) struct Session {
    /// What it is.
    pub(crate) name: Name,
    application: Box<dyn Application>,
    folder: TempDir,
    load: Load,
    /// Seconds that are not counted before each slice.
    pub(crate) warm_up: u16,
    install: Install,
    ways: Vec<(Path, Place)>,
    /// Why the bytes cannot go another way, a sentence each.
    pub(crate) notes: Vec<String>,
}

impl Session {
    /// Prepares the data. `connections` of the load generator, or as many as the application has usually; `seconds` of
    /// each slice, behind a warm-up.
    ///
    /// # Errors
    ///
    /// The data cannot be made.
    pub(crate) fn open(
        name: Name,
        application: Box<dyn Application>,
        connections: Option<u32>,
        seconds: u16,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("smc_bench-").tempdir();
        let folder = folder.context("no place for the server's data")?;
        application.prepare(folder.path()).with_context(|| format!("cannot prepare {}", named(name)))?;
        let connections = connections.unwrap_or(application.about().connections);
        let install = Install::find();
        let (ways, notes) = ways(&install);
        let load = Load { connections, seconds, rate: None };
        Ok(Self { name, application, folder, load, warm_up: 1, install, ways, notes })
    }

    /// What it says of itself.
    pub(crate) fn version(&self) -> String {
        self.application.about().version
    }

    /// What can be measured of it.
    pub(crate) fn tests(&self) -> &'static [&'static str] {
        self.application.about().tests
    }

    /// Connections of the load generator.
    pub(crate) fn connections(&self) -> u32 {
        self.load.connections
    }

    /// How the bytes can go here.
    pub(crate) fn paths(&self) -> Vec<Path> {
        self.ways.iter().map(|(path, _)| *path).collect()
    }

    /// A slice of each of `tests` over `path`.
    ///
    /// # Errors
    ///
    /// There is no such path here, the server does not start, or the load generator fails.
    pub(crate) fn slices(&self, path: Path, tests: &[&'static str]) -> anyhow::Result<Vec<Slice>> {
        let way = self.ways.iter().find(|(one, _)| *one == path);
        let Some((_, place)) = way else { bail!("no {path} here: {}", self.notes.join("; ")) };
        let bench = Bench {
            application: self.application.as_ref(),
            folder: self.folder.path(),
            load: self.load,
            tests,
            warm_up: self.warm_up,
            smcss: self.install.smcss.as_deref(),
        };
        bench.slices(place)
    }
}

/// Plain, and under smc_run if that is here.
fn ways(install: &Install) -> (Vec<(Path, Place)>, Vec<String>) {
    let plain = (Path::TcpLoopback, Place::default());
    match Place::with_smc(install) {
        Ok(smc) => (vec![plain, (Path::Smc, smc)], vec![]),
        Err(error) => (vec![plain], vec![format!("SMC was not measured: {error:#}")]),
    }
}
