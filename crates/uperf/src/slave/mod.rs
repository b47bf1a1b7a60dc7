//! `smc_bench -s`: waits for masters on the control port and does what they order, each in a thread of its own.
//!
//! No master can end it, whatever bytes it sends: a session that makes no sense is refused, one that is lost is cleared
//! away, and the next one is served.

mod job;
mod session;

use std::io::{self, Write};
use std::net::TcpStream;
use std::ops::Add;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::anyhow;

use crate::exit::Exit;
use crate::result::Run;
use crate::say::say;
use crate::strand::listen_tcp;
use crate::strand::workers::Server;
use job::Outcome;
use session::Session;

/// What the command line asks of a slave.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Control port; 0 for one that is free.
    pub(crate) port: u16,
    /// Serve one master, then end.
    pub(crate) once: bool,
    /// How strands are made.
    pub(crate) server: Server,
    /// Where a [`Run`] goes after each master, `-` is standard output. Of the numbers in it, those of `server` count.
    pub(crate) json: Option<PathBuf>,
    /// Say on standard error what is going on.
    pub(crate) verbose: bool,
}

/// Serves masters. Returns only with an error, or after the first master if it is to serve `once`.
pub(crate) fn run(options: &Options) -> anyhow::Result<Exit> {
    let port = options.port;
    let (listener, port) =
        listen_tcp(port).map_err(|error| anyhow!("cannot listen on port {port}: {}", why(port, &error)))?;
    if options.once || options.port == 0 {
        // Who cannot read it knows the port, or waits in vain.
        let _ = writeln!(io::stdout(), "slave listens on port {port}");
    }
    let slave = Arc::new(Slave { options: options.clone(), state: Mutex::default() });
    loop {
        match listener.accept() {
            Ok((master, _)) => slave.clone().receive(master.into()),
            // Not enough descriptors or memory right now: whoever knocked has to try again.
            Err(error) => {
                say(format_args!("a master could not be accepted: {error}"));
                thread::sleep(std::time::Duration::from_millis(100));
            }
        }
    }
}

/// What to do about it.
fn why(port: u16, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "somebody does already (`ss -ltnp sport = :{port}` says who); end it, or choose another with --port"
            )
        }
        io::ErrorKind::PermissionDenied => {
            "only root may have ports below 1024; choose another with --port".into()
        }
        _ => error.to_string(),
    }
}

/// What all sessions share.
struct Slave {
    options: Options,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Sessions that have been greeted and have not ended.
    open: usize,
    /// What those came to that have ended.
    run: Run,
    served: usize,
    failed: bool,
}

impl Slave {
    fn receive(self: Arc<Self>, master: TcpStream) {
        let work = move || self.serve(master);
        if let Err(error) = thread::Builder::new().name("session".into()).spawn(work) {
            say(format_args!("a master could not be served: {error}"));
        }
    }

    fn serve(&self, master: TcpStream) {
        let options = &self.options;
        let session = match Session::greet(master, options.server) {
            Ok(session) => session,
            Err(reason) => {
                return say(format_args!(
                    "somebody at the control port is no master that can be served: {reason}"
                ));
            }
        };
        self.state().open += 1;
        if options.verbose {
            say(format_args!("a master at {} is served", session.master));
        }
        let outcome = session.serve();
        if let Some(failure) = &outcome.failure {
            say(failure);
        }
        self.note(outcome);
    }

    /// Keeps what a session came to, and ends this program if it was the last.
    fn note(&self, outcome: Outcome) {
        let mut state = self.state();
        state.open -= 1;
        state.served += 1;
        state.failed |= outcome.failure.is_some();
        let before = if self.options.once { std::mem::take(&mut state.run) } else { Run::default() };
        state.run = both(before, outcome.run);
        let written = self.options.json.as_deref().map_or(Ok(()), |path| write(path, &state.run));
        if let Err(error) = &written {
            say(format_args!("cannot write the result: {error}"));
        }
        if self.options.once && state.open == 0 {
            let failed = state.failed || written.is_err();
            exit(if failed { Exit::Failed } else { Exit::Done });
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The main thread waits for masters and cannot be told to end; the process can.
fn exit(exit: Exit) -> ! {
    std::process::exit(exit as i32)
}

fn write(path: &Path, run: &Run) -> std::io::Result<()> {
    crate::file::write(path, &(serde_json::to_string(run)? + "\n"))
}

/// Two groups of one master, each of which has a session.
fn both(one: Run, other: Run) -> Run {
    Run {
        strands: one.strands + other.strands,
        elapsed_ns: one.elapsed_ns.max(other.elapsed_ns),
        operations: one.operations + other.operations,
        transactions: one.transactions + other.transactions,
        bytes_sent: one.bytes_sent + other.bytes_sent,
        bytes_received: one.bytes_received + other.bytes_received,
        client: None,
        server: one.server.into_iter().chain(other.server).reduce(Add::add),
        errors: one.errors + other.errors,
        ..other
    }
}
