//! PostgreSQL and pgbench: one row by its key per transaction. pgbench tells no percentiles.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::unistd::User;

use crate::paths::launch::Place;

use super::application::{About, Application, Load, Program};
use super::comparison::{Counted, Latency};
use super::programs::{postgres, version};
use super::server::{self, Server};

/// For initdb and filling 100 000 rows; 1 s where nobody else works.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where its programs are, and as whom they run.
pub(super) struct Postgres {
    folder: PathBuf,
    /// The server refuses to run as root.
    user: Option<(u32, u32)>,
}

impl Postgres {
    pub(super) fn find() -> anyhow::Result<Self> {
        let folder = postgres()?;
        if !folder.join("pgbench").is_file() {
            bail!("pgbench is not here: install the package postgresql-contrib (Debian's name)");
        }
        let is_root = rustix::process::geteuid().is_root();
        Ok(Self { folder, user: if is_root { Some(unprivileged()?) } else { None } })
    }

    fn program(&self, name: &str, line: &str) -> Program {
        Program::new(&self.folder.join(name), line)
    }

    fn run(&self, folder: &Path, program: &Program) -> anyhow::Result<()> {
        let place = Place { scratch: Some(folder.to_owned()), ..self.place() };
        place.start(&program.file, &program.arguments)?.finish(PATIENCE).map(|_| ())
    }

    /// The table that pgbench reads.
    fn fill(&self, folder: &Path) -> anyhow::Result<()> {
        let port = server::free_port()?;
        let place = Place { scratch: Some(folder.to_owned()), ..self.place() };
        let _server = Server::start(self, folder, &place, port)?;
        self.run(folder, &self.program("pgbench", &format!("{} -i -q -s 1 postgres", at(port))))
    }
}

impl Application for Postgres {
    fn about(&self) -> About {
        let tests = &["SELECT"];
        About { version: version(&self.folder.join("postgres"), "--version"), connections: 10, tests }
    }

    fn place(&self) -> Place {
        // Killed, it would leave its System V segment behind.
        Place { user: self.user, gently: true, ..Place::default() }
    }

    fn prepare(&self, folder: &Path) -> anyhow::Result<()> {
        if let Some((user, group)) = self.user {
            std::os::unix::fs::chown(folder, Some(user), Some(group)).context("cannot give a folder away")?;
        }
        let line = "-A trust -U postgres --no-sync -E UTF8 --locale=C -D";
        self.run(folder, &self.program("initdb", line).arg(folder.join("data")))?;
        self.fill(folder)
    }

    fn server(&self, folder: &Path, port: u16) -> anyhow::Result<Program> {
        let settings = "-c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off \
            -c dynamic_shared_memory_type=mmap -c max_connections=1000";
        Ok(self.program("postgres", &format!("-p {port} {settings} -D")).arg(folder.join("data")))
    }

    fn readiness(&self, port: u16) -> Option<Program> {
        Some(self.program("pg_isready", &format!("-q -h 127.0.0.1 -p {port}")))
    }

    fn load(&self, _: &str, port: u16, load: &Load) -> Program {
        let Load { connections, seconds, .. } = load;
        // One, as pgbench has it by itself, unless that would be all it can do.
        let threads = connections.div_ceil(32);
        let line = format!("{} -n -S -c {connections} -j {threads} -T {seconds} postgres", at(port));
        self.program("pgbench", &line)
    }

    fn counted(&self, printed: &str, _: &Load) -> anyhow::Result<Counted> {
        parse(printed)
    }
}

fn at(port: u16) -> String {
    format!("-h 127.0.0.1 -p {port} -U postgres")
}

/// Debian's user for it, or else nobody.
fn unprivileged() -> anyhow::Result<(u32, u32)> {
    let of = |name| User::from_name(name).ok().flatten().map(|user| (user.uid.as_raw(), user.gid.as_raw()));
    of("postgres")
        .or_else(|| of("nobody"))
        .context("PostgreSQL refuses root, and there is no user postgres or nobody")
}

/// pgbench's report.
fn parse(text: &str) -> anyhow::Result<Counted> {
    let after =
        |label: &str| text.lines().find_map(|line| line.strip_prefix(label)?.split_whitespace().next());
    let processed = after("number of transactions actually processed:");
    let requests = processed.and_then(|number| number.split('/').next()?.parse().ok());
    let rate = after("tps =").and_then(|number| number.parse().ok()).context("pgbench printed no rate")?;
    let requests = requests.context("pgbench counted no transactions")?;
    Ok(Counted { requests, rate, latency: Latency::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// pgbench 15.18.
    const PRINTED: &str = "\
pgbench (15.18 (Debian 15.18-0+deb12u1))
transaction type: <builtin: select only>
scaling factor: 1
query mode: simple
number of clients: 10
number of threads: 2
maximum number of tries: 1
duration: 2 s
number of transactions actually processed: 61635
number of failed transactions: 0 (0.000%)
latency average = 0.322 ms
initial connection time = 21.887 ms
tps = 31021.138262 (without initial connection time)
";

    #[test]
    fn counts_and_rate_are_read() {
        let counted = parse(PRINTED).expect("a report");
        assert_eq!((counted.requests, counted.rate), (61_635, 31_021.138_262));
        assert_eq!(counted.latency, Latency::default(), "pgbench has no percentiles");
    }

    #[test]
    fn anything_else_is_refused() {
        assert!(parse("pgbench: error: connection to server failed\n").is_err());
    }
}
