//! nginx and wrk: connections that stay open, a small file and one of 300 KB.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::application::{About, Application, Load, Program};
use super::comparison::{Counted, Latency};
use super::programs::{find, version};

/// Name and bytes of the files that are served: a short answer of an API, and a picture or a script.
const FILES: [(&str, usize); 2] = [("512B", 512), ("300KB", 300_000)];
/// Folders that nginx wants to write to, whatever it serves.
const TEMPORARY: [&str; 5] = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];

/// Where both programs are.
pub(super) struct Nginx {
    server: PathBuf,
    wrk: PathBuf,
}

impl Nginx {
    pub(super) fn find() -> anyhow::Result<Self> {
        Ok(Self { server: find("nginx", "nginx-light")?, wrk: find("wrk", "wrk")? })
    }
}

impl Application for Nginx {
    fn about(&self) -> About {
        let tests = &["512B", "300KB"];
        About { version: version(&self.server, "-v"), connections: 100, tests }
    }

    fn prepare(&self, folder: &Path) -> anyhow::Result<()> {
        for (name, bytes) in FILES {
            std::fs::write(folder.join(name), vec![b'x'; bytes])
                .context("cannot write the files to serve")?;
        }
        Ok(())
    }

    fn server(&self, folder: &Path, port: u16) -> anyhow::Result<Program> {
        let file = folder.join("nginx.conf");
        std::fs::write(&file, configuration(folder, port)).context("cannot write nginx's configuration")?;
        let program = Program::new(&self.server, "").arg("-p").arg(folder).arg("-c").arg(file);
        Ok(program.arg("-e").arg(folder.join("error.log")))
    }

    fn load(&self, test: &str, port: u16, load: &Load) -> Program {
        let Load { connections, seconds, .. } = load;
        let threads = (*connections).min(2);
        Program::new(
            &self.wrk,
            &format!("-t{threads} -c{connections} -d{seconds}s --latency http://127.0.0.1:{port}/{test}"),
        )
    }

    fn counted(&self, printed: &str, _: &Load) -> anyhow::Result<Counted> {
        parse(printed)
    }
}

/// In the foreground; connections live as long as the client wants, since that is what is measured.
fn configuration(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    // Workers of another user than the client's would stay on TCP.
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let temporary: String = TEMPORARY.map(|name| format!("    {name}_temp_path {folder}/{name};\n")).concat();
    format!(
        "{user}
daemon off;
worker_processes auto;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    sendfile on;
    keepalive_requests 1000000000;
{temporary}    server {{ listen 127.0.0.1:{port}; root {folder}; }}
}}
"
    )
}

/// The report of wrk --latency.
fn parse(text: &str) -> anyhow::Result<Counted> {
    if let Some(line) = text.lines().find(|line| line.contains("Non-2xx") || line.contains("Socket errors")) {
        bail!("wrk: {}", line.trim());
    }
    let after = |label: &str| {
        text.lines().find_map(|line| line.trim().strip_prefix(label)?.split_whitespace().next())
    };
    let requests = text
        .lines()
        .find(|line| line.contains(" requests in "))
        .and_then(|line| line.split_whitespace().next());
    let requests = requests.and_then(|number| number.parse().ok()).context("wrk counted no requests")?;
    let rate =
        after("Requests/sec:").and_then(|number| number.parse().ok()).context("wrk printed no rate")?;
    // The third number behind the first line of that name is the longest.
    let row = text.lines().find_map(|line| line.trim().strip_prefix("Latency "));
    let longest = row.and_then(|row| row.split_whitespace().nth(2));
    let (p50_ns, p99_ns) = (after("50%").and_then(ns), after("99%").and_then(ns));
    let latency = Latency { p50_ns, p99_ns, max_ns: longest.and_then(ns) };
    Ok(Counted { requests, rate, latency })
}

/// A time with its unit behind it.
fn ns(time: &str) -> Option<f64> {
    let at = time.find(|c: char| c.is_ascii_alphabetic())?;
    let factor = match &time[at..] {
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        _ => return None,
    };
    Some(time[..at].parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// wrk 4.1.0.
    const PRINTED: &str = "\
Running 2s test @ http://127.0.0.1:7778/small
  2 threads and 100 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     0.97ms    1.04ms  16.32ms   87.92%
    Req/Sec    56.41k     3.34k   62.70k    70.00%
  Latency Distribution
     50%  640.00us
     75%    1.32ms
     90%    2.16ms
     99%    4.77ms
  224918 requests in 2.00s, 78.51MB read
Requests/sec: 112194.84
Transfer/sec:     39.16MB
";

    #[test]
    fn rate_and_latencies_are_read() {
        let counted = parse(PRINTED).expect("a report");
        assert_eq!((counted.requests, counted.rate), (224_918, 112_194.84));
        let latency = counted.latency;
        assert_eq!(latency.p50_ns, Some(640_000.0));
        assert_eq!((latency.p99_ns, latency.max_ns), (Some(4_770_000.0), Some(16_320_000.0)));
    }

    #[test]
    fn answers_that_are_errors_do_not_count() {
        let text = PRINTED.replace("Requests/sec", "  Non-2xx or 3xx responses: 93464\nRequests/sec");
        assert!(parse(&text).expect_err("all were 404").to_string().contains("93464"));
        assert!(parse("unable to connect to 127.0.0.1:7778 Connection refused\n").is_err());
    }

    #[test]
    fn every_test_has_its_file() {
        let nginx = Nginx { server: "n".into(), wrk: "w".into() };
        assert_eq!(nginx.about().tests, FILES.map(|(name, _)| name));
    }
}
