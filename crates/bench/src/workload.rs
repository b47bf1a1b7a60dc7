//! What is done over a connection, and the loops that do it. The loops hold what is measured: nothing else may be in
//! them, so the clock is read for one operation in [`BATCH`] only.

use std::io;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::socket::{Address, Listener, Stream};

/// Operations per look at the clock; one of them is timed. A clock read costs some 25 ns, an operation over shared
/// memory some 500.
const BATCH: u64 = 8;
/// Significant digits of a latency: three, so an error of at most 0.1 %.
const DIGITS: u8 = 3;
/// Longer latencies count as this long: a minute, beyond any run that is worth its numbers.
const LONGEST_NS: u64 = 60_000_000_000;

/// The shape of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Shape {
    /// Write a request, read the response.
    Rr,
    /// Write; the other end reads and says nothing.
    Stream,
    /// Connect, write a request, read the response, close.
    Crr,
}

/// One operation in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Workload {
    /// Its shape.
    pub(crate) shape: Shape,
    /// Bytes that the client writes per operation.
    pub(crate) request: u32,
    /// Bytes that it reads back.
    pub(crate) response: u32,
}

/// uperf's rr1c-200x1000: what an interactive transaction looks like.
pub(crate) const REQUEST_RESPONSE: Workload = Workload { shape: Shape::Rr, request: 200, response: 1000 };
/// uperf's str-writex30k: bulk data in writes of 30 KiB.
pub(crate) const STREAM: Workload = Workload { shape: Shape::Stream, request: 30 * 1024, response: 0 };
/// The same transaction with a connection of its own.
pub(crate) const CONNECT_AND_CLOSE: Workload = Workload { shape: Shape::Crr, request: 200, response: 1000 };

impl Workload {
    /// Bytes moved by one operation, both directions.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.request) + u64::from(self.response)
    }

    fn buffers(&self) -> (Vec<u8>, Vec<u8>) {
        (vec![0x5a; self.request as usize], vec![0xa5; self.response as usize])
    }
}

/// When to count, in nanoseconds of CLOCK_MONOTONIC: the same for all processes of a run. What runs before is warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Window {
    /// Counting begins.
    pub(crate) start_ns: u64,
    /// Counting ends with the first batch that ends after this.
    pub(crate) end_ns: u64,
}

/// What a client counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Count {
    /// Operations completed.
    pub(crate) operations: u64,
    /// In this time, which is the window's length and the rest of its last batch.
    pub(crate) elapsed_ns: u64,
    /// (nanoseconds, operations that took so long), of the operations that were timed.
    pub(crate) latencies_ns: Vec<(u64, u64)>,
}

/// CLOCK_MONOTONIC, which all processes share.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// An empty histogram of nanoseconds. Of a fixed size, so recording never allocates.
pub(crate) fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)
        .expect("bounds and digits are within hdrhistogram's limits")
}

/// The client's end: operations until the window closes.
pub(crate) struct Client<'a, S> {
    server: &'a Address,
    /// None between two operations of [`Shape::Crr`].
    stream: Option<S>,
    request: Vec<u8>,
    response: Vec<u8>,
}

impl<'a, S: Stream> Client<'a, S> {
    /// Connects, and performs the first operation: whatever has to be negotiated is negotiated.
    pub(crate) fn new(workload: Workload, server: &'a Address) -> io::Result<Self> {
        let (request, response) = workload.buffers();
        let mut client = Self { server, stream: None, request, response };
        if workload.shape != Shape::Crr {
            client.stream = Some(S::connect(server)?);
        }
        client.once()?;
        Ok(client)
    }

    /// Runs through the warm-up and the window.
    pub(crate) fn run(&mut self, window: Window) -> io::Result<Count> {
        while now_ns() < window.start_ns {
            for _ in 0..BATCH {
                self.once()?;
            }
        }
        self.counted(window.end_ns)
    }

    fn counted(&mut self, end_ns: u64) -> io::Result<Count> {
        let mut histogram = latencies();
        let (begin, mut operations) = (now_ns(), 0);
        loop {
            let start = now_ns();
            self.once()?;
            let end = now_ns();
            histogram.saturating_record(end - start);
            operations += 1;
            if end >= end_ns {
                break Ok(Count { operations, elapsed_ns: end - begin, latencies_ns: pairs(&histogram) });
            }
            for _ in 1..BATCH {
                self.once()?;
            }
            operations += BATCH - 1;
        }
    }

    #[inline]
    fn once(&mut self) -> io::Result<()> {
        let Some(stream) = self.stream.as_mut() else { return self.once_connected() };
        stream.write_all(&self.request)?;
        if self.response.is_empty() { Ok(()) } else { stream.read_exact(&mut self.response) }
    }

    /// [`Shape::Crr`]: the connection lives as long as the operation.
    fn once_connected(&mut self) -> io::Result<()> {
        let mut stream = S::connect(self.server)?;
        stream.write_all(&self.request)?;
        stream.read_exact(&mut self.response)
    }
}

fn pairs(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    histogram.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect()
}

/// The server's end of one pair: serves until the client closes (for [`Shape::Crr`]: for ever).
pub(crate) fn serve<L: Listener>(workload: Workload, listener: &L) -> io::Result<()> {
    loop {
        serve_one(workload, &mut listener.next()?)?;
        if workload.shape != Shape::Crr {
            return Ok(());
        }
    }
}

fn serve_one(workload: Workload, stream: &mut impl Stream) -> io::Result<()> {
    let (mut request, response) = workload.buffers();
    loop {
        match stream.read_exact(&mut request) {
            // The client closes after a whole operation; a stream may end anywhere.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            outcome => outcome?,
        }
        stream.write_all(&response)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::thread;

    fn counted<L: Listener + Send + 'static>(workload: Workload) -> Count {
        let listener = L::listen().expect("a free address");
        let address = listener.address().expect("bound");
        let server = thread::spawn(move || serve(workload, &listener));
        let mut client = Client::<L::Stream>::new(workload, &address).expect("connected");
        let start_ns = now_ns();
        let count = client.run(Window { start_ns, end_ns: start_ns + 1_000_000 }).expect("ran");
        drop(client);
        if workload.shape != Shape::Crr {
            server.join().expect("no panic").expect("served to the end");
        }
        count
    }

    #[test]
    fn every_shape_counts_over_every_socket() {
        for workload in [REQUEST_RESPONSE, STREAM, CONNECT_AND_CLOSE] {
            for count in [counted::<TcpListener>(workload), counted::<UnixListener>(workload)] {
                let timed: u64 = count.latencies_ns.iter().map(|(_, n)| n).sum();
                assert_eq!(count.operations, 1 + (timed - 1) * BATCH, "one of {BATCH} is timed");
                assert!(count.elapsed_ns > 0, "a rate can be had from it");
            }
        }
    }

    #[test]
    fn a_server_that_goes_away_is_an_error() {
        let listener = TcpListener::listen().expect("a free address");
        let address = listener.address().expect("bound");
        let server = thread::spawn(move || {
            let mut stream = listener.next().expect("a client");
            stream.read_exact(&mut [0; 200]).expect("a request");
            stream.write_all(&[0; 1000]).expect("a response");
        });
        let mut client =
            Client::<TcpStream>::new(REQUEST_RESPONSE, &address).expect("one operation is served");
        server.join().expect("no panic");
        assert!(client.run(Window { start_ns: 0, end_ns: u64::MAX }).is_err());
        assert!(Client::<UnixStream>::new(REQUEST_RESPONSE, &address).is_err());
    }
}
