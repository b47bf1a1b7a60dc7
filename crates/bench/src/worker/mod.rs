//! The processes that are measured. Each is this program started anew, with `smc_run` before it or not.
//!
//! They speak with [`crate::crew`] through their standard input and output, one JSON value a line, never through a
//! socket: under SMC that would be one more connection. A worker dies with the process that started it.

mod epoll;

use std::io::{self, BufRead, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::socket::{Address, Listener, Stream};
use crate::workload::{Client, Count, Shape, Window, Workload, serve};

/// How servers are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ServerKind {
    /// One blocking process per connection
    Pair,
    /// One process for all connections, waiting in epoll
    Epoll,
}

/// Which end a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Role {
    /// Blocking server of one connection.
    Server,
    /// Server of many connections.
    Epoll,
    /// Client of one connection.
    Client,
}

/// The command line of a worker.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WorkerArgs {
    /// Which end this is
    pub(crate) role: Role,
    /// The operation's shape
    pub(crate) shape: Shape,
    /// Bytes of a request
    pub(crate) request: u32,
    /// Bytes of a response
    pub(crate) response: u32,
    /// Process id of whoever started it
    #[arg(long)]
    pub(crate) parent: i32,
    /// A client's server; a server with `unix:` listens there
    #[arg(long)]
    pub(crate) address: Address,
}

/// What workers say.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Said {
    /// A server's address, in text.
    Listening(String),
    /// A client has done its first operation.
    Ready,
    /// What a client counted.
    Counted(Count),
}

/// Works until the run is over.
pub(crate) fn work(args: &WorkerArgs) -> anyhow::Result<()> {
    die_with(args.parent)?;
    let workload = Workload { shape: args.shape, request: args.request, response: args.response };
    match (args.role, &args.address) {
        (Role::Server, Address::Tcp(_)) => server::<TcpListener>(workload),
        (Role::Server, Address::Unix(_)) => server::<UnixListener>(workload),
        (Role::Client, Address::Tcp(_)) => client::<TcpStream>(workload, &args.address),
        (Role::Client, Address::Unix(_)) => client::<UnixStream>(workload, &args.address),
        (Role::Epoll, Address::Tcp(_)) => epoll::server::<TcpListener>(workload),
        (Role::Epoll, Address::Unix(_)) => epoll::server::<UnixListener>(workload),
    }
}

fn die_with(parent: i32) -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).context("no parent death signal")?;
    // It may have died before that.
    if rustix::process::getppid().map(Pid::as_raw_pid) != Some(parent) {
        bail!("a worker is started by `smc_bench rr`, `stream`, `crr` or `demo`");
    }
    Ok(())
}

fn server<L: Listener>(workload: Workload) -> anyhow::Result<()> {
    let listener = L::listen().context("cannot listen")?;
    say(&Said::Listening(listener.address()?.to_string()))?;
    serve(workload, &listener).context("a server lost its client")
}

fn client<S: Stream>(workload: Workload, server: &Address) -> anyhow::Result<()> {
    let mut client = Client::<S>::new(workload, server).context("cannot connect to the server")?;
    say(&Said::Ready)?;
    let Some(line) = heard()? else { return Ok(()) };
    let window: Window = serde_json::from_str(&line).context("an unreadable window")?;
    let count = client.run(window).context("a client lost its server")?;
    say(&Said::Counted(count))?;
    // The connection stays open to be looked at, until the pipe is closed.
    heard()?;
    Ok(())
}

/// The next line from the control pipe; None at its end.
fn heard() -> anyhow::Result<Option<String>> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line)?;
    Ok((read > 0).then_some(line))
}

/// One line on the control pipe.
fn say(said: &Said) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(said)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    Ok(out.flush()?)
}
