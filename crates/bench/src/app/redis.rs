//! redis-server and redis-benchmark: SET and GET, no pipelining.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::application::{About, Application, Load, Program};
use super::comparison::{Counted, Latency};
use super::programs::{find, version};

const NS_PER_MS: f64 = 1e6;

/// Where both programs are.
pub(super) struct Redis {
    server: PathBuf,
    benchmark: PathBuf,
}

impl Redis {
    pub(super) fn find() -> anyhow::Result<Self> {
        let server = find("redis-server", "redis-server")?;
        Ok(Self { server, benchmark: find("redis-benchmark", "redis-tools")? })
    }
}

impl Application for Redis {
    fn about(&self) -> About {
        // SET first: GET shall find something.
        let tests = &["SET", "GET"];
        About { version: version(&self.server, "--version"), connections: 50, tests }
    }

    fn server(&self, folder: &Path, port: u16) -> anyhow::Result<Program> {
        let line = format!("--port {port} --bind 127.0.0.1 --appendonly no --daemonize no --dir");
        Ok(Program::new(&self.server, &line).arg(folder).arg("--save").arg(""))
    }

    fn load(&self, test: &str, port: u16, load: &Load) -> Program {
        let (connections, requests) = (load.connections, load.requests());
        let test = test.to_lowercase();
        let line = format!("-h 127.0.0.1 -p {port} -c {connections} -n {requests} -P 1 --csv -t {test}");
        Program::new(&self.benchmark, &line)
    }

    fn counted(&self, printed: &str, load: &Load) -> anyhow::Result<Counted> {
        parse(printed, load.requests())
    }
}

/// Two lines of comma-separated values: names of columns, and one test.
fn parse(text: &str, requests: u64) -> anyhow::Result<Counted> {
    let fields =
        |line: &str| line.split(',').map(|field| field.trim_matches('"').to_owned()).collect::<Vec<_>>();
    let mut lines = text.lines().filter(|line| line.starts_with('"')).map(fields);
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
        bail!("redis-benchmark printed no table: {text:?} (version 7 or newer is wanted)")
    };
    let number = |name: &str| {
        let at = names.iter().position(|other| other == name)?;
        values.get(at)?.parse::<f64>().ok()
    };
    let ns = |name: &str| number(name).map(|ms| ms * NS_PER_MS);
    let latency =
        Latency { p50_ns: ns("p50_latency_ms"), p99_ns: ns("p99_latency_ms"), max_ns: ns("max_latency_ms") };
    Ok(Counted { requests, rate: number("rps").context("redis-benchmark printed no rate")?, latency })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// redis-benchmark 7.0.15.
    const PRINTED: &str = r#""test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
"GET","147058.81","0.214","0.064","0.199","0.335","0.463","0.783"
"#;

    #[test]
    fn rate_and_latencies_are_read() {
        let counted = parse(PRINTED, 20_000).expect("a table");
        assert_eq!((counted.requests, counted.rate), (20_000, 147_058.81));
        assert_eq!(counted.latency.p50_ns.map(f64::round), Some(199_000.0));
        assert_eq!(counted.latency.max_ns.map(f64::round), Some(783_000.0));
    }

    #[test]
    fn anything_else_is_refused() {
        assert!(parse("Could not connect to Redis at 127.0.0.1:1: Connection refused\n", 1).is_err());
    }

    #[test]
    fn a_count_follows_from_the_rate_of_the_warm_up() {
        let load = |rate| Load { connections: 50, seconds: 3, rate };
        assert_eq!((load(None).requests(), load(Some(1e5)).requests()), (20_000, 300_000));
        let redis = Redis { server: "s".into(), benchmark: "b".into() };
        let program = redis.load("GET", 7, &load(Some(1e5)));
        let line = program.arguments.join(" ".as_ref());
        assert_eq!(line, "-h 127.0.0.1 -p 7 -c 50 -n 300000 -P 1 --csv -t get");
    }
}
