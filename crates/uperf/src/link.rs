//! A control connection: messages of fixed size over TCP, each awaited for a bounded time.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};

use crate::wire::{FromSlave, MAGIC_SIZE, Message, Order};

/// How long an answer may take: uperf's own time for goodbyes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);
/// What starting one strand may take, on a busy machine.
pub(crate) const PER_STRAND: Duration = Duration::from_millis(20);

/// What both ends put where uperf looks at nothing: [`super::wire::Hello::host`] and its answer's message.
pub(crate) const MARK: &str = "smc_bench 1";

/// One end of a control connection.
pub(crate) struct Link {
    stream: TcpStream,
    /// How the other end orders the bytes of a number.
    pub(crate) order: Order,
}

impl Link {
    /// To the slave at `host`.
    pub(crate) fn connect(host: &str, port: u16) -> anyhow::Result<Self> {
        let addresses = (host, port).to_socket_addrs().with_context(|| format!("there is no host {host}"))?;
        let mut refused = anyhow!("{host} has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => return Self::new(stream).context("the control connection cannot be used"),
                Err(error) => refused = error.into(),
            }
        }
        Err(refused.context(format!(
            "no slave answers at {host} port {port}; is `smc_bench -s` or `smc_bench serve` running there?"
        )))
    }

    /// A connection that exists.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, order: Order::Native })
    }

    /// The same connection once more, for another thread.
    pub(crate) fn another(&self) -> io::Result<Self> {
        Ok(Self { stream: self.stream.try_clone()?, order: self.order })
    }

    /// The other end's address, an IPv4 one as such.
    pub(crate) fn peer(&self) -> io::Result<IpAddr> {
        Ok(self.stream.peer_addr()?.ip().to_canonical())
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &impl Message) -> io::Result<()> {
        self.send_bytes(&message.encode(self.order))
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The next message, which must come within `patience`, if there is a limit.
    pub(crate) fn receive<M: Message>(&mut self, patience: impl Into<Option<Duration>>) -> io::Result<M> {
        let bytes = self.receive_bytes(M::SIZE, patience.into())?;
        M::decode(&bytes, self.order).map_err(invalid)
    }

    /// Whatever a slave says next.
    pub(crate) fn wait_for_slave(&mut self) -> io::Result<FromSlave> {
        let mut bytes = self.receive_bytes(MAGIC_SIZE, None)?;
        let size = FromSlave::size(&bytes).map_err(invalid)?;
        bytes.extend(self.receive_bytes(size.saturating_sub(bytes.len()), Some(PATIENCE))?);
        FromSlave::decode(&bytes).map_err(invalid)
    }

    /// `size` bytes, all of which must come within `patience`.
    pub(crate) fn receive_bytes(&mut self, size: usize, patience: Option<Duration>) -> io::Result<Vec<u8>> {
        let end = patience.map(|patience| Instant::now() + patience);
        let mut bytes = vec![0; size];
        let mut done = 0;
        while done < size {
            self.stream.set_read_timeout(end.map(left).transpose()?)?;
            match self.stream.read(&mut bytes[done..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }

    /// Ends the connection for whoever waits on it.
    pub(crate) fn shut(&self) {
        // It may have ended already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Of what came and makes no sense.
pub(crate) fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Why a message did not come, for people.
pub(crate) fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "it closed the connection".into(),
        io::ErrorKind::TimedOut => format!("it said nothing for {} s", PATIENCE.as_secs()),
        _ => error.to_string(),
    }
}
