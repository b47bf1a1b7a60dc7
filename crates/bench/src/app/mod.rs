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
mod table;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use tempfile::TempDir;

use crate::install::Install;
use crate::path::Path;
use crate::paths::launch::Place;

use application::{Application, Load};
use comparison::{Comparison, Line, Slice};
use slice::Bench;

pub(crate) use table::table;

/// What can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// redis-server with redis-benchmark
    Redis,
    /// nginx with wrk
    Nginx,
    /// PostgreSQL with pgbench
    Postgres,
    /// memcached with memtier_benchmark, or the loader of this program
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

    /// As the command line has it.
    pub(crate) fn text(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// What, and how much of it.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The server
    name: Name,
    /// Length of one measured slice; a second of warm-up comes before each
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,
    /// How often each way has its turn; medians are printed
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Connections of the load generator [default: 50 for redis and memcached, 100 for nginx, 10 for postgres]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    conns: Option<u32>,
}

/// Measures every test, plain and under smc_run, in turns.
pub(crate) fn compare(settings: &Settings) -> anyhow::Result<Comparison> {
    let application = settings.name.find()?;
    let session = Session::open(settings.name, application, settings.conns, settings.seconds)?;
    Ok(Comparison {
        application: settings.name.text(),
        version: session.application.version(),
        connections: session.load.connections,
        seconds: settings.seconds,
        lines: rounds(&session, settings.rounds)?,
        notes: session.notes,
    })
}

/// An application whose data is there. Each slice has a fresh server.
pub(crate) struct Session {
    name: Name,
    application: Box<dyn Application>,
    folder: TempDir,
    load: Load,
    tests: Vec<&'static str>,
    install: Install,
    ways: Vec<(Path, Place)>,
    notes: Vec<String>,
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
        application.prepare(folder.path()).with_context(|| format!("cannot prepare {}", name.text()))?;
        let connections = connections.unwrap_or(application.connections());
        let install = Install::find();
        let (ways, notes) = ways(&install);
        let (load, tests) = (Load { connections, seconds, rate: None }, application.tests().to_vec());
        Ok(Self { name, application, folder, load, tests, install, ways, notes })
    }

    /// With the first `count` of the tests alone.
    pub(crate) fn of_first(mut self, count: usize) -> Self {
        self.tests.truncate(count);
        self
    }

    /// What it is.
    pub(crate) fn name(&self) -> Name {
        self.name
    }

    /// A slice of each test over `path`.
    ///
    /// # Errors
    ///
    /// There is no such path here, the server does not start, or the load generator fails.
    pub(crate) fn slices(&self, path: Path) -> anyhow::Result<Vec<Slice>> {
        let way = self.ways.iter().find(|(one, _)| *one == path);
        let Some((_, place)) = way else { bail!("no {path} here: {}", self.notes.join("; ")) };
        let bench = Bench {
            application: self.application.as_ref(),
            folder: self.folder.path(),
            load: self.load,
            tests: &self.tests,
            smcss: self.install.smcss(),
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

fn rounds(session: &Session, rounds: u16) -> anyhow::Result<Vec<Line>> {
    let (tests, ways) = (&session.tests, &session.ways);
    let mut taken: Vec<Vec<Slice>> = vec![vec![]; tests.len() * ways.len()];
    for round in 1..=rounds {
        for (nth, (path, _)) in ways.iter().enumerate() {
            eprintln!("round {round} of {rounds}: {path}");
            for (test, slice) in session.slices(*path)?.into_iter().enumerate() {
                taken[test * ways.len() + nth].push(slice);
            }
        }
    }
    let names = tests.iter().flat_map(|test| ways.iter().map(move |(path, _)| (*test, *path)));
    let line = |((test, path), rounds): ((&str, Path), Vec<Slice>)| Line {
        test: test.to_owned(),
        path,
        median: Slice::median(&rounds),
        rounds,
    };
    Ok(names.zip(taken).map(line).collect())
}
