//! `smc_bench inner idle-server` and `idle-client`: one process each with all connections, which are used a little and
//! then waited for in epoll, as the connections of a server at night.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use mio::{Events, Interest, Poll, Token};
use rustix::process::{Resource, getrlimit, setrlimit};

/// uperf's rr1c-200x1000.
const REQUEST_BYTES: usize = 200;
const RESPONSE_BYTES: usize = 1000;
/// Descriptors that a connection may take, the library's included.
const DESCRIPTORS_EACH: u64 = 5;
/// Between two looks for the file that says go.
const PAUSE: Duration = Duration::from_millis(5);
/// What an end says when its connections have been used.
pub(super) const USED: &str = "used";

/// How many connections, and how much they are used.
#[derive(Args)]
pub(crate) struct Use {
    #[arg(long)]
    conns: u32,
    /// Transactions over each connection
    #[arg(long)]
    transactions: u32,
}

/// Where to listen.
#[derive(Args)]
pub(crate) struct ServerOptions {
    #[command(flatten)]
    usage: Use,
    #[arg(long, default_value = "127.0.0.1:0")]
    address: SocketAddr,
}

/// Where to connect, and when.
#[derive(Args)]
pub(crate) struct ClientOptions {
    #[command(flatten)]
    usage: Use,
    #[arg(long)]
    address: SocketAddr,
    /// Connect when this file is there
    #[arg(long)]
    go: PathBuf,
}

/// Says its address, then [`USED`], then waits until it is killed or the other end is.
pub(crate) fn serve(options: &ServerOptions) -> anyhow::Result<()> {
    raise_limit(options.usage.conns)?;
    let listener = TcpListener::bind(options.address).context("cannot listen")?;
    say(&listener.local_addr()?.to_string())?;
    let accepted = (0..options.usage.conns).map(|_| listener.accept().map(|(stream, _)| stream));
    let streams: Vec<_> = accepted.collect::<io::Result<_>>().context("cannot accept")?;
    exchange(&streams, options.usage.transactions, RESPONSE_BYTES, |mut stream, response| {
        stream.read_exact(&mut [0; REQUEST_BYTES])?;
        stream.write_all(response)
    })?;
    idle(streams)
}

/// Says that it is ready, then [`USED`], then waits until it is killed or the other end is.
pub(crate) fn connect(options: &ClientOptions) -> anyhow::Result<()> {
    raise_limit(options.usage.conns)?;
    say("ready")?;
    while !options.go.exists() {
        thread::sleep(PAUSE);
    }
    let connected = (0..options.usage.conns).map(|_| TcpStream::connect(options.address));
    let streams: Vec<_> = connected.collect::<io::Result<_>>().context("cannot connect")?;
    exchange(&streams, options.usage.transactions, REQUEST_BYTES, |mut stream, request| {
        stream.write_all(request)?;
        stream.read_exact(&mut [0; RESPONSE_BYTES])
    })?;
    idle(streams)
}

/// One connection after the other; both ends have them in the same order, since one process made them one by one.
fn exchange(
    streams: &[TcpStream],
    transactions: u32,
    bytes: usize,
    once: impl Fn(&TcpStream, &[u8]) -> io::Result<()>,
) -> anyhow::Result<()> {
    let message = vec![b'x'; bytes];
    for stream in streams {
        stream.set_nodelay(true)?;
        (0..transactions).try_for_each(|_| once(stream, &message)).context("the other end went away")?;
    }
    say(USED)
}

/// Until the other end closes.
fn idle(streams: Vec<TcpStream>) -> anyhow::Result<()> {
    let mut poll = Poll::new()?;
    let mut streams: Vec<mio::net::TcpStream> = streams
        .into_iter()
        .map(|stream| stream.set_nonblocking(true).map(|()| mio::net::TcpStream::from_std(stream)))
        .collect::<io::Result<_>>()?;
    for (i, stream) in streams.iter_mut().enumerate() {
        poll.registry().register(stream, Token(i), Interest::READABLE)?;
    }
    let mut events = Events::with_capacity(16);
    while events.is_empty() {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

/// As many descriptors as the host lets us have.
fn raise_limit(connections: u32) -> anyhow::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = u64::from(connections) * DESCRIPTORS_EACH;
    if limit.maximum.is_some_and(|most| most < wanted) {
        bail!(
            "{connections} connections may need {wanted} file descriptors: raise `ulimit -Hn`, or use --conns"
        );
    }
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).context("cannot raise the limit of file descriptors")
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
