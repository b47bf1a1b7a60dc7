//! memcached with memtier_benchmark where that is installed (Debian has no package of it), else with the loader of this
//! program ([`super::loader`]): ten reads for each write, values of 100 bytes, the text protocol.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::application::{About, Application, Load, Program};
use super::comparison::{Counted, Latency};
use super::loader::{KEYS, READS_PER_WRITE, VALUE_BYTES};
use super::programs::{find, installed, version};

const NS_PER_MS: f64 = 1e6;

/// Where the programs are.
pub(super) struct Memcached {
    server: PathBuf,
    memtier: Option<PathBuf>,
    own: PathBuf,
}

impl Memcached {
    pub(super) fn find() -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("where is this program?")?;
        Ok(Self { server: find("memcached", "memcached")?, memtier: installed("memtier_benchmark"), own })
    }
}

impl Application for Memcached {
    fn about(&self) -> About {
        let tests: &[&str] = match self.memtier {
            Some(_) => &["10 GET : 1 SET (memtier)"],
            None => &["10 GET : 1 SET"],
        };
        About { version: version(&self.server, "--version"), connections: 50, tests }
    }

    fn server(&self, _: &Path, port: u16) -> anyhow::Result<Program> {
        // It refuses to run as root without being told so.
        let user = if rustix::process::geteuid().is_root() { "-u root" } else { "" };
        Ok(Program::new(&self.server, &format!("-l 127.0.0.1 -p {port} -U 0 -t 2 -c 4096 {user}")))
    }

    fn load(&self, _: &str, port: u16, load: &Load) -> Program {
        let Load { connections, seconds, .. } = load;
        let Some(memtier) = &self.memtier else {
            let line =
                format!("inner memcached-load --port {port} --conns {connections} --seconds {seconds}");
            return Program::new(&self.own, &line);
        };
        let (threads, each) = shares(*connections);
        let line = format!(
            "-s 127.0.0.1 -p {port} -P memcache_text -t {threads} -c {each} --test-time {seconds} \
             --ratio 1:{READS_PER_WRITE} -d {VALUE_BYTES} --key-minimum 1 --key-maximum {KEYS} \
             --distinct-client-seed --hide-histogram --print-percentiles 50,99"
        );
        Program::new(memtier, &line)
    }

    fn counted(&self, printed: &str, load: &Load) -> anyhow::Result<Counted> {
        match self.memtier {
            Some(_) => parse(printed, load.seconds),
            None => serde_json::from_str(printed).context("the loader printed no result"),
        }
    }
}

/// Threads of memtier, and connections of each. It has equal threads only.
fn shares(connections: u32) -> (u32, u32) {
    if connections.is_multiple_of(2) { (2, connections / 2) } else { (1, connections) }
}

/// memtier's table; the numbers of a row stand below the names of the columns, times are milliseconds. It prints rates
/// and no counts.
fn parse(text: &str, seconds: u16) -> anyhow::Result<Counted> {
    let line = |label: &str| text.lines().find(|line| line.starts_with(label));
    let (names, values) = line("Type ").zip(line("Totals ")).context("memtier_benchmark printed no table")?;
    // Names have blanks in them, so the units and words that always go together are made one.
    let names = names.replace(" Latency", "").replace("Avg.", "avg");
    let at = |name: &str| names.split_whitespace().position(|other| other == name);
    let number = |name: &str| values.split_whitespace().nth(at(name)?)?.parse::<f64>().ok();
    let ns = |name: &str| number(name).map(|ms| ms * NS_PER_MS);
    let rate = number("Ops/sec").context("memtier_benchmark printed no rate")?;
    let latency = Latency { p50_ns: ns("p50"), p99_ns: ns("p99"), max_ns: None };
    Ok(Counted { requests: (rate * f64::from(seconds)) as u64, rate, latency })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// memtier_benchmark, March 2026.
    const PRINTED: &str = "\
2         Threads
25        Connections per thread
1         Seconds


ALL STATS
============================================================================================================
Type         Ops/sec     Hits/sec   Misses/sec    Avg. Latency     p50 Latency     p99 Latency       KB/sec 
------------------------------------------------------------------------------------------------------------
Sets        11914.60          ---          ---         0.38646         0.33500         1.21500      1569.52 
Gets       118952.39     13836.50    105115.89         0.38143         0.33500         1.21500      4256.35 
Waits           0.00          ---          ---             ---             ---             ---          --- 
Totals     130866.99     13836.50    105115.89         0.38188         0.33500         1.21500      5825.86 
";

    #[test]
    fn rate_and_latencies_of_memtier_are_read() {
        let counted = parse(PRINTED, 1).expect("a table");
        assert_eq!((counted.requests, counted.rate), (130_866, 130_866.99));
        let latency = counted.latency;
        assert_eq!((latency.p50_ns, latency.p99_ns), (Some(335_000.0), Some(1_215_000.0)));
        assert!(parse("connection error\n", 1).is_err());
    }

    #[test]
    fn every_connection_is_in_some_thread() {
        assert_eq!([1, 2, 50, 51].map(shares), [(1, 1), (2, 1), (2, 25), (1, 51)]);
    }

    #[test]
    fn the_own_loaders_result_is_read_back() {
        let own = Memcached { server: "m".into(), memtier: None, own: "b".into() };
        let counted = Counted { requests: 3, rate: 1.5, latency: Latency::default() };
        let printed = serde_json::to_string(&counted).expect("serialises");
        let load = Load { connections: 1, seconds: 2, rate: None };
        assert_eq!(own.counted(&printed, &load).expect("JSON"), counted);
    }
}
