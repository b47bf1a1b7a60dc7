//! `smc_bench inner memcached-load`: reads and writes over memcached's text protocol, a thread and a blocking socket per
//! connection, one request at a time. Checks every answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use hdrhistogram::Histogram;
use uperf::result::histogram;

use super::comparison::{Counted, Latency};

/// Different keys.
const KEYS: u32 = 1000;
/// Bytes of a value.
const VALUE_BYTES: usize = 100;
/// Of memcached's work most is reading; the ratio is that of memtier_benchmark.
const READS_PER_WRITE: u32 = 10;

/// Where to, how much, how long.
#[derive(Args)]
pub(crate) struct Options {
    #[arg(long)]
    port: u16,
    #[arg(long, default_value_t = 1)]
    conns: u32,
    #[arg(long, default_value_t = 1)]
    seconds: u16,
}

/// Prints a [`Counted`] as JSON.
pub(crate) fn load(options: &Options) -> anyhow::Result<()> {
    let start = Instant::now();
    let end = start + Duration::from_secs(options.seconds.into());
    let clients: Vec<_> = (0..options.conns.into())
        .map(|seed| {
            let client = Client::connect(options.port, seed)?;
            Ok(thread::spawn(move || client.run(end)))
        })
        .collect::<anyhow::Result<_>>()?;
    let mut all = histogram();
    for client in clients {
        let Ok(histogram) = client.join() else { bail!("a client panicked") };
        all.add(histogram?).context("histograms of one kind")?;
    }
    println!("{}", serde_json::to_string(&counted(&all, start.elapsed()))?);
    Ok(())
}

fn counted(all: &Histogram<u64>, elapsed: Duration) -> Counted {
    let at = |quantile| Some(all.value_at_quantile(quantile) as f64);
    let latency = Latency { p50_ns: at(0.5), p99_ns: at(0.99), max_ns: Some(all.max() as f64) };
    Counted { requests: all.len(), rate: all.len() as f64 / elapsed.as_secs_f64(), latency }
}

struct Client {
    stream: BufReader<TcpStream>,
    /// Which key comes next.
    random: fastrand::Rng,
    line: String,
    value: Vec<u8>,
}

impl Client {
    fn connect(port: u16, seed: u64) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).context("cannot connect to memcached")?;
        stream.set_nodelay(true)?;
        let random = fastrand::Rng::with_seed(seed);
        Ok(Self { stream: BufReader::new(stream), random, line: String::new(), value: vec![] })
    }

    fn run(mut self, end: Instant) -> anyhow::Result<Histogram<u64>> {
        let mut histogram = histogram();
        for turn in 0.. {
            let start = Instant::now();
            if start >= end {
                break;
            }
            if turn % (READS_PER_WRITE + 1) == 0 { self.write() } else { self.read() }?;
            histogram.saturating_record(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        Ok(histogram)
    }

    fn write(&mut self) -> anyhow::Result<()> {
        let key = self.random.u32(..KEYS);
        let mut request = format!("set key{key} 0 0 {VALUE_BYTES}\r\n").into_bytes();
        request.extend([b'v'; VALUE_BYTES]);
        request.extend(b"\r\n");
        self.stream.get_mut().write_all(&request)?;
        match self.answer()? {
            "STORED" => Ok(()),
            other => bail!("memcached answered {other:?} to set"),
        }
    }

    fn read(&mut self) -> anyhow::Result<()> {
        let key = self.random.u32(..KEYS);
        self.stream.get_mut().write_all(format!("get key{key}\r\n").as_bytes())?;
        let header = self.answer()?;
        if header == "END" {
            return Ok(());
        }
        let bytes: Option<usize> =
            header.strip_prefix("VALUE ").and_then(|rest| rest.rsplit(' ').next()?.parse().ok());
        let Some(VALUE_BYTES) = bytes else { bail!("memcached answered {header:?} to get") };
        self.value.resize(VALUE_BYTES + 2, 0);
        self.stream.read_exact(&mut self.value)?;
        match self.answer()? {
            "END" => Ok(()),
            other => bail!("memcached answered {other:?} behind a value"),
        }
    }

    fn answer(&mut self) -> anyhow::Result<&str> {
        self.line.clear();
        self.stream.read_line(&mut self.line).context("memcached went away")?;
        Ok(self.line.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Answers `says` to each request and checks nothing.
    fn served(says: &'static str) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        thread::spawn(move || {
            let mut stream = listener.accept().expect("a client").0;
            while stream.read(&mut [0; 4096]).is_ok_and(|n| n > 0)
                && stream.write_all(says.as_bytes()).is_ok()
            {}
        });
        port
    }

    #[test]
    fn answers_are_checked() {
        let mut client = Client::connect(served("STORED\r\n"), 1).expect("connected");
        client.write().expect("stored");
        assert!(client.read().is_err(), "STORED is no answer to get");
        let value = "VALUE key1 0 100\r\n0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\r\nEND\r\n";
        let mut client = Client::connect(served(value), 1).expect("connected");
        client.read().expect("a value");
        client.read().expect("another value");
        assert!(client.write().is_err(), "a value is no answer to set");
    }
}
