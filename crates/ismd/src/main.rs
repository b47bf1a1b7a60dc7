//! `ismd`, the daemon of the host tier: functions of ISM devices, policy, and memory passed between
//! programs that share nothing but its socket. It is on no connection's way: whoever has been answered does
//! not need it any more. Owns: start, reload and end; exit status 0 after SIGTERM or a policy without faults,
//! 1 if it cannot serve, 2 for a policy or command line that is faulty, or cannot be read or followed.
#![forbid(unsafe_code)]

mod arguments;
mod bounds;
mod broker;
mod cdi;
mod closer;
mod fabrics;
mod homing;
mod listen;
mod log;
mod manager;
mod mark;
mod metrics;
mod passed;
mod policy;
mod precedence;
mod quota;
mod rights;
mod scrape;
mod server;
mod show;
mod tables;
mod trace;
mod who;

use anyhow::Context;
use arguments::{Arguments, POLICY, Unusable};
use broker::Broker;
use clap::Parser;
use policy::Policy;
use policy::fault::Fault;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::{Server, Sockets, Wake};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::{error, info, warn};

/// A policy, or a command line, that cannot be used.
const FAULTY: u8 = 2;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let log = &mut None;
    let (code, last) = match run(&arguments, log) {
        Ok(()) => (ExitCode::SUCCESS, None),
        Err(error) => match error.downcast_ref::<Fault>() {
            Some(fault) => (ExitCode::from(FAULTY), Some(fault.to_string())),
            None => {
                let code = if error.is::<Unusable>() { ExitCode::from(FAULTY) } else { ExitCode::FAILURE };
                (code, Some(format!("ismd: {error:#}")))
            }
        },
    };
    match (log, last) {
        (Some(log), last) => log.finish(last.as_deref()),
        // (Who asked may have gone: the exit status is the answer.)
        (None, Some(last)) => _ = writeln!(std::io::stderr(), "{last}"),
        (None, None) => {}
    }
    code
}

/// `log` is made if the daemon is to serve.
fn run(arguments: &Arguments, log: &mut Option<log::Log>) -> anyhow::Result<()> {
    if let Some(path) = &arguments.check {
        return check(path);
    }
    if arguments.print_cdi {
        let text = cdi::text(&policy(arguments)?.daemon, arguments.library.as_deref());
        let text = text.map_err(Unusable::from)?;
        return std::io::stdout().write_all(text.as_bytes()).context("cannot write it");
    }
    if arguments.trace {
        return show::show(&daemon(arguments)?, arguments);
    }
    *log = Some(log::Log::start(arguments)?);
    serve(arguments)
}

/// Where the daemon is asked: as `smcd device` has it, and only then as the policy says.
fn daemon(arguments: &Arguments) -> anyhow::Result<PathBuf> {
    let told = arguments.socket.clone().or_else(|| std::env::var_os("ISMD_SOCKET").map(PathBuf::from));
    told.map_or_else(|| Ok(policy(arguments)?.daemon.socket), Ok)
}

fn check(path: &Path) -> anyhow::Result<()> {
    let policy = load(path)?;
    let (fabrics, rules) = (policy.fabrics.len(), policy.rules.len());
    let mut text = format!("{}: no faults (fabrics: {fabrics}, rules: {rules})\n", path.display());
    for remark in cdi::fault(&policy.daemon).into_iter().chain(mark::doubts(&policy.daemon)) {
        text += &format!("{}: {remark}\n", path.display());
    }
    if !cfg!(have_mark) {
        text += "this daemon was built without clang: it marks no connections\n";
    }
    // (Who asked may have gone: the exit status is the answer.)
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

/// Reads a policy. Errors: [`Fault`], or [`Unusable`] if it cannot be read.
fn load(path: &Path) -> anyhow::Result<Policy> {
    let name = path.display().to_string();
    let mut bytes = vec![];
    // (One more than there may be: it may be a device without an end.)
    let file = std::fs::File::open(path).map(|file| file.take(policy::file::LONGEST as u64 + 1));
    let read = file.and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(|error| Unusable(format!("cannot read {name}: {error}")))?;
    let parsed = policy::file::text_of(&name, bytes).and_then(|text| policy::file::parse(&name, &text));
    parsed.map_err(|fault| anyhow::Error::new(*fault))
}

/// The policy that the command line asks for.
fn policy(arguments: &Arguments) -> anyhow::Result<Policy> {
    let usual = Path::new(POLICY);
    let is_there = || !matches!(usual.try_exists(), Ok(false));
    let mut policy = match &arguments.config {
        Some(path) => load(path)?,
        None if is_there() => load(usual)?,
        None => policy::file::parse(POLICY, "").map_err(|fault| anyhow::Error::new(*fault))?,
    };
    if let Some(socket) = &arguments.socket {
        policy.daemon.socket.clone_from(socket);
    }
    if let Some(metrics) = &arguments.metrics {
        policy.daemon.metrics = (!metrics.is_empty()).then(|| metrics.into());
    }
    if let Some(pins) = &arguments.pins {
        policy.daemon.pins = (!pins.is_empty()).then(|| pins.into());
    }
    if let Some(cgroup) = &arguments.cgroup {
        policy.daemon.cgroup = Some(cgroup.clone());
    }
    Ok(policy)
}

/// The root of the cgroups of version 2, also where version 1 is mounted beside it.
fn root_cgroup() -> PathBuf {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
    let is_root = |path: &&Path| path.join("cgroup.procs").exists();
    roots.into_iter().find(is_root).unwrap_or(roots[0]).into()
}

/// Lets connections be marked; what the service manager is told of it. Error: another daemon does so there.
fn start_mark(daemon: &policy::Daemon) -> anyhow::Result<(Option<mark::Mark>, String)> {
    let Some(pins) = &daemon.pins else {
        return Ok((None, "connections are not marked: so it was asked for".into()));
    };
    let cgroup = daemon.cgroup.clone().unwrap_or_else(root_cgroup);
    match mark::Mark::start(pins, &cgroup) {
        Ok(mark) => {
            info!(pins = %pins.display(), cgroup = %cgroup.display(), "connections are marked");
            Ok((Some(mark), format!("marks connections of {}", cgroup.display())))
        }
        Err(error) if error.is::<mark::InUse>() => Err(error),
        Err(error) => {
            warn!(
                error = format!("{error:#}"),
                "connections are not marked: between containers they stay on TCP"
            );
            Ok((None, format!("passes memory; connections are not marked: {error:#}")))
        }
    }
}

/// What signals have asked for.
struct Asked {
    wake: UnixStream,
    reload: Arc<AtomicBool>,
    end: Arc<AtomicBool>,
}

impl Asked {
    fn new() -> anyhow::Result<Self> {
        let (wake, rung) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let asked = Asked { wake, reload: Arc::default(), end: Arc::default() };
        for (signal, what) in [(SIGHUP, &asked.reload), (SIGTERM, &asked.end), (SIGINT, &asked.end)] {
            flag::register(signal, Arc::clone(what))?;
            pipe::register(signal, rung.try_clone()?)?;
        }
        Ok(asked)
    }

    fn drain(&self) {
        let mut bytes = [0; 64];
        loop {
            match (&self.wake).read(&mut bytes) {
                Ok(64) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    }
}

fn serve(arguments: &Arguments) -> anyhow::Result<()> {
    let policy = policy(arguments)?;
    precedence::claim();
    os::process::refresh_pid();
    let descriptors = take_all_descriptors();
    let asked = Asked::new()?;
    let handed_over = listen::handed_over()?;
    let (listening, made) = listen::complete(handed_over, &policy.daemon)?;
    let listen::Listening { programs, metrics } = listening;
    if made.programs {
        manager::keep(manager::KEPT[0], programs.as_fd());
    }
    if let Some(socket) = metrics.as_ref().filter(|_| made.metrics) {
        manager::keep(manager::KEPT[1], socket.as_fd());
    }
    let random = os::process::random_u64();
    if let Some(fault) = cdi::fault(&policy.daemon) {
        warn!("{fault}");
    }
    info!(socket = %policy.daemon.socket.display(), fabrics = policy.fabrics.len(), "serves");
    // (Half of them for what clients pass, half for the clients: a socket and a process each.)
    let (mark, status) = start_mark(&policy.daemon)?;
    let numbers =
        |mark: &mark::Mark| mark.known.iter().map(|(pid, earlier)| (*pid, earlier.client)).collect();
    let known = mark.as_ref().map(numbers).unwrap_or_default();
    let broker = Broker::new(policy, random as u32, (random >> 32) as u32, descriptors / 2).knowing(known);
    let sockets = Sockets { programs, metrics, most: (descriptors / 2 - descriptors / 16) / 2, mark };
    let mut server = Server::new(broker, sockets, asked.wake.as_fd())?;
    let mut watchdog = manager::Watchdog::new();
    manager::ready(&status);
    while !asked.end.load(Ordering::Relaxed) {
        if let Wake::Signal = server.round(watchdog.limit())? {
            asked.drain();
        }
        if asked.reload.swap(false, Ordering::Relaxed) {
            reload(arguments, &mut server);
        }
        watchdog.pat();
    }
    manager::stopping();
    made.abandon();
    info!("ends");
    Ok(())
}

/// A faulty policy changes nothing.
fn reload(arguments: &Arguments, server: &mut Server) {
    manager::reloading();
    match policy(arguments) {
        Ok(policy) => {
            if policy.daemon.socket != server.broker.policy.daemon.socket
                || policy.daemon.metrics != server.broker.policy.daemon.metrics
            {
                warn!("the sockets stay where they are until the daemon is started anew");
            }
            info!(fabrics = policy.fabrics.len(), rules = policy.rules.len(), "has a new policy");
            server.adopt(policy);
            manager::ready("has a new policy");
        }
        Err(error) => {
            // (A line of the log is a line: where the fault is, without the place as it looks.)
            let told = error.downcast_ref::<Fault>().map(Fault::title);
            error!(error = told.unwrap_or_else(|| format!("{error:#}")), "keeps the policy that it has");
            manager::ready("keeps its policy: the new one is faulty");
        }
    }
}

/// As many descriptors as the hard limit allows, since segments and doorbells are descriptors; how many those
/// are.
fn take_all_descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        warn!(%error, "cannot lift the limit of descriptors");
    }
    os::limits::descriptor_limit()
}
