//! The coordinator's side of one slice: starts the workers, opens the window, reads their CPU time and their counts.
//!
//! Owns every process it starts: whatever happens, dropping the [`Crew`] ends them, and a run that hangs is ended by a
//! watchdog, not by the reader's patience.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal};

use crate::install::Install;
use crate::plan::{Cell, Pace};
use crate::smcss::Snapshot;
use crate::socket::{Address, Transport};
use crate::stats::{Cpu, Slice};
use crate::worker::{Said, ServerKind};
use crate::workload::{Count, Shape, Window, now_ns};

/// Beyond the window, for starting, finishing and reporting of a thousand processes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// A server has seen its client close; it needs a moment to end by itself.
const FAREWELL: Duration = Duration::from_secs(2);

/// One slice and what smcss said while it ran.
pub(crate) struct Measured {
    /// The numbers.
    pub(crate) slice: Slice,
    /// Taken during the warm-up. Only for SMC, and only if smcss is there.
    pub(crate) running: Option<Snapshot>,
    /// Why some connections did not use SMC-D, as smcss prints it.
    pub(crate) reasons: BTreeSet<String>,
}

/// Measures one slice of `cell`.
pub(crate) fn measure(cell: &Cell, pace: &Pace, install: &Install) -> anyhow::Result<Measured> {
    let mut crew = Crew { servers: vec![], clients: vec![] };
    let _watchdog = Watchdog::new(pace.warm_up + pace.slice + PATIENCE);
    let launcher = Launcher::new(cell, install)?;
    crew.start(cell, &launcher)?;
    let start_ns = now_ns() + nanos(pace.warm_up);
    let window = Window { start_ns, end_ns: start_ns + nanos(pace.slice) };
    crew.open(window)?;
    thread::sleep(pace.warm_up / 2);
    let running = crew.snapshot(cell, install);
    let cpu = crew.cpu_during(window);
    let counts = crew.counts()?;
    // Counted now, when every server has had its turn to decide; the connections are still open.
    let done = crew.snapshot(cell, install);
    crew.farewell(cell.workload.shape);
    let slice = Slice::new(cell.workload, &counts, cpu, done.as_ref().map(|s| s.smcd));
    Ok(Measured { slice, running, reasons: done.map(|s| s.reasons).unwrap_or_default() })
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn sleep_until(at_ns: u64) {
    thread::sleep(Duration::from_nanos(at_ns.saturating_sub(now_ns())));
}

/// How workers of a cell are started.
struct Launcher<'a> {
    cell: &'a Cell,
    install: &'a Install,
    program: PathBuf,
}

impl<'a> Launcher<'a> {
    fn new(cell: &'a Cell, install: &'a Install) -> anyhow::Result<Self> {
        Ok(Self { cell, install, program: std::env::current_exe().context("where am I?")? })
    }

    fn start(&self, role: &str, address: &str) -> anyhow::Result<Worker> {
        let mut command = match self.cell.transport {
            Transport::Smc => self.install.with_smc(&self.program)?,
            Transport::Tcp | Transport::Unix => plain(&self.program),
        };
        let workload = self.cell.workload;
        let shape = format!("{:?}", workload.shape).to_lowercase();
        command.args(["worker", role, &shape, &workload.request.to_string(), &workload.response.to_string()]);
        command.args(["--address", address, "--parent", &std::process::id().to_string()]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start a worker")?;
        let (input, output) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        Ok(Worker { child, input, output })
    }

    /// Tells a server which kind of socket to listen on.
    fn any_address(&self) -> &'static str {
        if self.cell.transport == Transport::Unix { "unix:" } else { "tcp:127.0.0.1:0" }
    }
}

/// Without whatever preloads this very process.
fn plain(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_remove("LD_PRELOAD");
    command
}

struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
}

impl Worker {
    fn hear(&mut self) -> anyhow::Result<Said> {
        let mut line = String::new();
        let read = self.output.as_mut().map_or(Ok(0), |output| output.read_line(&mut line))?;
        if read == 0 {
            bail!("a worker ended before its time; if it said why, it stands above");
        }
        serde_json::from_str(&line).with_context(|| format!("a worker said something unreadable: {line}"))
    }

    /// Nanoseconds on a CPU so far: proc(5), first field of schedstat. Workers have one thread.
    fn cpu_ns(&self) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.child.id())).ok()?;
        text.split_whitespace().next()?.parse().ok()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // An error says that it has ended already; then wait() only collects it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All workers of a slice. Clients are dropped first.
struct Crew {
    clients: Vec<Worker>,
    servers: Vec<(Worker, Address)>,
}

impl Crew {
    fn start(&mut self, cell: &Cell, launcher: &Launcher<'_>) -> anyhow::Result<()> {
        let connections = usize::from(cell.connections);
        let (role, count) = match cell.server {
            ServerKind::Pair => ("server", connections),
            ServerKind::Epoll => ("epoll", 1),
        };
        let servers: anyhow::Result<Vec<Worker>> =
            (0..count).map(|_| launcher.start(role, launcher.any_address())).collect();
        for mut server in servers? {
            let Said::Listening(address) = server.hear()? else {
                bail!("a server did not say where it listens")
            };
            let address = address.parse().map_err(anyhow::Error::msg)?;
            self.servers.push((server, address));
        }
        for i in 0..connections {
            let address = self.servers[i % count].1.to_string();
            self.clients.push(launcher.start("client", &address)?);
        }
        for client in &mut self.clients {
            let Said::Ready = client.hear()? else { bail!("a client did not say that it is ready") };
        }
        Ok(())
    }

    fn open(&mut self, window: Window) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(&window)?;
        line.push(b'\n');
        for input in self.clients.iter_mut().filter_map(|client| client.input.as_mut()) {
            input.write_all(&line).context("a client does not listen any more")?;
        }
        Ok(())
    }

    fn snapshot(&self, cell: &Cell, install: &Install) -> Option<Snapshot> {
        let ports: Vec<u16> = self.servers.iter().filter_map(|(_, address)| port(address)).collect();
        // A connection of one transaction is gone before smcss could see it.
        let can_tell = cell.transport == Transport::Smc && cell.workload.shape != Shape::Crr;
        install.smcss().filter(|_| can_tell).and_then(|smcss| Snapshot::take(smcss, &ports))
    }

    fn cpu_during(&self, window: Window) -> Cpu {
        sleep_until(window.start_ns);
        let before = self.cpu();
        sleep_until(window.end_ns);
        let after = self.cpu();
        let used = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
        Cpu {
            clients_ns: used(after.clients_ns, before.clients_ns),
            servers_ns: used(after.servers_ns, before.servers_ns),
        }
    }

    fn cpu(&self) -> Cpu {
        Cpu {
            clients_ns: self.clients.iter().map(Worker::cpu_ns).sum(),
            servers_ns: self.servers.iter().map(|(server, _)| server.cpu_ns()).sum(),
        }
    }

    fn counts(&mut self) -> anyhow::Result<Vec<Count>> {
        self.clients.iter_mut().map(Self::count).collect()
    }

    fn count(client: &mut Worker) -> anyhow::Result<Count> {
        match client.hear()? {
            Said::Counted(count) => Ok(count),
            other => bail!("a client said {other:?} instead of what it counted"),
        }
    }

    /// Lets the clients close, and servers of lasting connections see that and end, as programs do.
    fn farewell(mut self, shape: Shape) {
        for client in &mut self.clients {
            drop(client.input.take());
        }
        let deadline = now_ns() + nanos(FAREWELL);
        while !self.has_ended(shape) && now_ns() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Servers of [`Shape::Crr`] never end by themselves.
    fn has_ended(&mut self, shape: Shape) -> bool {
        let servers = self.servers.iter_mut().map(|(server, _)| server).filter(|_| shape != Shape::Crr);
        self.clients.iter_mut().chain(servers).all(|worker| matches!(worker.child.try_wait(), Ok(Some(_))))
    }
}

fn port(address: &Address) -> Option<u16> {
    match address {
        Address::Tcp(address) => Some(address.port()),
        Address::Unix(_) => None,
    }
}

/// Ends a run that hangs: the workers die, so whoever waits for a line of theirs reads the end of the pipe.
struct Watchdog {
    call_off: Option<mpsc::Sender<()>>,
    dog: Option<thread::JoinHandle<()>>,
}

impl Watchdog {
    fn new(patience: Duration) -> Self {
        let (call_off, called) = mpsc::channel::<()>();
        let dog = thread::spawn(move || {
            if called.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("smc_bench: a run took {} s longer than planned: ending it", PATIENCE.as_secs());
                kill_children();
            }
        });
        Self { call_off: Some(call_off), dog: Some(dog) }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.call_off.take());
        if let Some(dog) = self.dog.take() {
            // It only printed a line, at most.
            let _ = dog.join();
        }
    }
}

/// All processes whose parent is this one, by /proc; each is a worker.
fn kill_children() {
    let own = std::process::id().to_string();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let is_child =
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)) == Some(&own);
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| is_child) {
            // Gone already is as good.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}
