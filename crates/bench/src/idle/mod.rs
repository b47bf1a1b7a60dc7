//! What connections cost that do nothing: CPU time while they idle, and memory after some use.

pub(crate) mod end;
mod memory;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::install::Install;
use crate::path::Path;
use crate::paths::abort;
use crate::paths::launch::{Guarded, Place};
use crate::paths::sockets::{Counted, Watch};
use uperf::result::Connections;

use memory::Memory;

/// For opening and using all connections.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between the last use and the first look: whatever spins has given up by then.
const SETTLING: Duration = Duration::from_millis(500);

/// How many connections, for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Connections, all between the same two processes
    pub(crate) conns: u32,
    /// How long to watch them idle
    pub(crate) seconds: f64,
    /// Transactions (200 bytes there, 1000 back) over each before that
    pub(crate) transactions: u32,
}

impl Settings {
    /// Fewer of them, for a shorter time: beside the other measurements of `smc_bench sweep`.
    pub(crate) fn brief() -> Self {
        Self { conns: 500, seconds: 1.0, transactions: 100 }
    }

    /// A thousand, as `smc_bench idle` has them, watched for `duration`.
    pub(crate) fn thousand(duration: Duration) -> Self {
        Self { conns: 1000, seconds: duration.as_secs_f64(), transactions: 100 }
    }
}

/// What idle connections cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Idle {
    /// How many.
    pub(crate) connections: u32,
    /// Transactions over each before it idled.
    pub(crate) transactions: u32,
    /// One per path.
    pub(crate) lines: Vec<Line>,
    /// Sentences about what was not measured, and why.
    pub(crate) notes: Vec<String>,
}

/// What they cost on one path, both ends added up.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    /// How the bytes went.
    pub(crate) path: Path,
    /// CPU time of all processes while nothing was sent.
    pub(crate) cpu_ns: u64,
    /// How long that was.
    pub(crate) elapsed_ns: u64,
    /// Bytes per connection, anonymous and shared memory, the latter counted once. The kernel's own is not in it.
    pub(crate) memory_bytes: i64,
    /// Bytes per connection as ps counts them: what both ends map counts twice.
    pub(crate) resident_bytes: i64,
    /// What the connections ran over.
    pub(crate) seen: Connections,
}

/// Measures those of `paths` that are TCP over loopback or SMC: memory of the others is the kernel's alone.
pub(crate) fn measure(settings: &Settings, paths: &[Path]) -> anyhow::Result<Idle> {
    let install = Install::find();
    let (mut lines, mut notes) = (vec![], vec![]);
    if paths.contains(&Path::TcpLoopback) {
        lines.push(line(settings, Path::TcpLoopback, &Place::default(), &install)?);
    }
    if paths.contains(&Path::Smc) {
        match Place::with_smc(&install) {
            Ok(place) => lines.push(line(settings, Path::Smc, &place, &install)?),
            Err(error) => notes.push(format!("SMC was not measured: {error:#}")),
        }
    }
    Ok(Idle { connections: settings.conns, transactions: settings.transactions, lines, notes })
}

fn line(settings: &Settings, path: Path, place: &Place, install: &Install) -> anyhow::Result<Line> {
    let mut pair = Pair::start(settings, place)?;
    let before = pair.memory();
    pair.go()?;
    abort::sleep(SETTLING)?;
    let (cpu_before, start) = (pair.cpu_ns(), Instant::now());
    abort::sleep(Duration::from_secs_f64(settings.seconds))?;
    let (cpu_ns, elapsed) = (pair.cpu_ns().saturating_sub(cpu_before), start.elapsed());
    pair.still_runs()?;
    let memory = pair.memory().per_connection(before, settings.conns);
    let counted = Counted::TcpAt(pair.address.port());
    let watch = Watch { counted, smcss: install.smcss.as_deref(), namespaces: None };
    Ok(Line {
        path,
        cpu_ns,
        elapsed_ns: u64::try_from(elapsed.as_nanos())?,
        memory_bytes: memory.proportional,
        resident_bytes: memory.resident,
        seen: watch.look(&pair.server.processes()),
    })
}

/// Both ends.
struct Pair {
    server: Guarded,
    client: Guarded,
    address: SocketAddr,
    go: PathBuf,
    _folder: tempfile::TempDir,
}

impl Pair {
    /// Starts both; nothing is connected yet.
    fn start(settings: &Settings, place: &Place) -> anyhow::Result<Self> {
        let folder =
            tempfile::Builder::new().prefix("smc_bench-").tempdir().context("no place for a file")?;
        let place = Place { scratch: Some(folder.path().to_owned()), ..place.clone() };
        let program = std::env::current_exe().context("where is this program?")?;
        let (conns, transactions) = (settings.conns.to_string(), settings.transactions.to_string());
        let usage = ["--conns", &conns, "--transactions", &transactions];
        let mut server = place.start(&program, ["inner", "idle-server"].iter().chain(&usage))?;
        let address: SocketAddr = server.line(PATIENCE)?.parse().context("the server said no address")?;
        let (go, at) = (folder.path().join("go"), address.to_string());
        let words = ["inner", "idle-client", "--address", &at, "--go"].map(std::ffi::OsString::from);
        let words = words.into_iter().chain([go.clone().into()]).chain(usage.map(Into::into));
        let mut client = place.start(&program, words)?;
        client.line(PATIENCE)?;
        Ok(Self { server, client, address, go, _folder: folder })
    }

    /// Lets the client connect, and waits until all connections have been used.
    fn go(&mut self) -> anyhow::Result<()> {
        std::fs::write(&self.go, "").context("cannot write the file that says go")?;
        for end in [&mut self.client, &mut self.server] {
            let said = end.line(PATIENCE)?;
            if said != end::USED {
                bail!("an end said {said:?} when it should have used its connections");
            }
        }
        Ok(())
    }

    /// An end that has ended uses no CPU time, and that would look well.
    fn still_runs(&mut self) -> anyhow::Result<()> {
        for end in [&mut self.client, &mut self.server] {
            if !end.is_alive() {
                bail!("an end of the idle connections has ended{}", end.complaint());
            }
        }
        Ok(())
    }

    fn memory(&self) -> Memory {
        Memory::of(&[self.server.processes(), self.client.processes()].concat())
    }

    fn cpu_ns(&self) -> u64 {
        self.server.cpu_ns() + self.client.cpu_ns()
    }
}
