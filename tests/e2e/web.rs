//! nginx, curl, wrk, and the HTTP servers of Python and Node.

use crate::support::{
    LIMIT, assert_shown, content, listening, output, programs, python, same_in_all_modes, script, serve, sum,
    watch,
};
use isthmus_tests::{Bed, Running, free_port, sys, within};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const BODY: usize = 300_000;

/// nginx with sendfile on at `port` and off at `port2`.
fn nginx(bed: &Bed, program: &Path, (on, off): (u16, u16)) -> Running {
    let dir = bed.scratch.path();
    std::fs::create_dir_all(dir.join("www")).expect("www");
    std::fs::write(dir.join("www/body"), content(BODY)).expect("body");
    std::fs::write(dir.join("www/small"), "small\n").expect("small");
    let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|t| format!("{t}_temp_path {}/{t};\n", dir.display()))
        .collect();
    let user = if sys::euid() == 0 { "user root;" } else { "" };
    let conf = format!(
        "{user} daemon off; worker_processes 2; pid {d}/nginx.pid; error_log {d}/error.log;
         events {{ worker_connections 512; }}
         http {{ access_log off; {temp}
           server {{ listen 127.0.0.1:{on}; root {d}/www; sendfile on; tcp_nopush on; }}
           server {{ listen 127.0.0.1:{off}; root {d}/www; sendfile off; }} }}",
        d = dir.display()
    );
    let conf = bed.scratch.file("nginx.conf", conf);
    let mut command = bed.server(program);
    command.arg("-c").arg(conf).arg("-p").arg(dir).arg("-e").arg(dir.join("error.log"));
    let server = serve(bed, &mut command, on);
    assert!(within(LIMIT, || listening(off)), "nginx does not listen on {off}: {}", server.output());
    server
}

fn curl(bed: &Bed, program: &Path, port: u16, n: usize) -> u64 {
    let to = bed.scratch.path().join("fetched");
    let mut c = bed.client(program);
    c.args(["-sS", "--fail", "--max-time", "20", "-o"]).arg(&to).arg(format!("http://127.0.0.1:{port}/body"));
    output(bed, &mut c, &format!("curl{n}"));
    sum(&std::fs::read(to).expect("fetched file"))
}

#[test]
fn nginx_with_curl() {
    let Some([nginx_, curl_]) = programs(["nginx", "curl"]) else { return };
    same_in_all_modes("nginx-curl", |bed| {
        let ports = (free_port(), free_port());
        let _server = nginx(bed, &nginx_, ports);
        bed.mark();
        let sums: Vec<u64> =
            (0..3).flat_map(|n| [(ports.0, n), (ports.1, n)]).map(|(p, n)| curl(bed, &curl_, p, n)).collect();
        bed.assert_carrier(6 * BODY as u64, "");
        assert!(sums.iter().all(|s| *s == sum(&content(BODY))), "bodies differ from the file");
        sums
    });
}

#[test]
fn nginx_with_wrk() {
    let Some([nginx_, wrk]) = programs(["nginx", "wrk"]) else { return };
    same_in_all_modes("nginx-wrk", |bed| {
        let ports = (free_port(), free_port());
        let _server = nginx(bed, &nginx_, ports);
        for port in [ports.0, ports.1] {
            bed.mark();
            let mut c = bed.client(&wrk);
            c.args(["-t2", "-c16", "-d1s"]).arg(format!("http://127.0.0.1:{port}/body"));
            let (outcome, seen) = watch(bed, &mut c, "wrk");
            let text = outcome.must("wrk").out;
            let bad =
                text.contains("Socket errors") || text.contains("Non-2xx") || !text.contains("requests in");
            assert!(!bad, "{:?}: {text}", bed.mode);
            let requests = requests(&text);
            assert!(requests > 16, "{:?}: only {requests} requests: {text}", bed.mode);
            bed.assert_carrier(requests * BODY as u64, &seen);
            assert_shown(bed, &seen);
        }
    });
}

/// The number before "requests in".
fn requests(text: &str) -> u64 {
    let line = text.lines().find(|l| l.contains("requests in")).unwrap_or_default();
    line.split_whitespace().next().and_then(|w| w.parse().ok()).unwrap_or(0)
}

/// The configuration is reloaded while requests run: every new connection is answered in full.
#[test]
fn nginx_reload_under_load() {
    let Some([nginx_, curl_, wrk]) = programs(["nginx", "curl", "wrk"]) else { return };
    same_in_all_modes("nginx-reload", |bed| {
        let ports = (free_port(), free_port());
        let mut server = nginx(bed, &nginx_, ports);
        let mut load = bed.client(&wrk);
        load.args(["-t1", "-c4", "-d2s"]).arg(format!("http://127.0.0.1:{}/small", ports.1));
        let load = bed.start(&mut load, "load");
        let good = (0..12).filter(|n| {
            if n % 4 == 1 {
                server.signal(libc::SIGHUP);
            }
            curl(bed, &curl_, ports.0, *n) == sum(&content(BODY))
        });
        let good = good.count();
        let text = load.finish(LIMIT).must("wrk during reload").out;
        assert!(requests(&text) > 16 && server.alive(), "{text}");
        server.signal(libc::SIGQUIT);
        (good, server.finish(Duration::from_secs(20)).ok())
    });
}

#[test]
fn python_http_server() {
    let (Some(python), Some([curl_])) = (python(), programs(["curl"])) else { return };
    same_in_all_modes("python-http", |bed| {
        let port = free_port();
        let www = bed.scratch.dir("www");
        std::fs::write(www.join("body"), content(BODY)).expect("body");
        let mut s = bed.server(&python);
        s.args(["-m", "http.server", &port.to_string(), "--bind", "127.0.0.1", "--directory"]).arg(&www);
        let _server = serve(bed, &mut s, port);
        bed.mark();
        let fetched = curl(bed, &curl_, port, 0);
        let mut fetch = bed.client(&python);
        let text =
            output(bed, fetch.arg(script("fetch.py")).arg(format!("http://127.0.0.1:{port}/body")), "fetch");
        bed.assert_carrier(3 * BODY as u64, "");
        (fetched, text)
    });
}

#[test]
fn node_http() {
    let Some([node]) = programs(["node"]) else { return };
    same_in_all_modes("node-http", |bed| {
        let port = free_port();
        let command = |mut c: Command, role: &str| {
            c.arg(script("http.js")).args([role, &port.to_string()]);
            c
        };
        let _server = serve(bed, &mut command(bed.server(&node), "server"), port);
        bed.mark();
        let (outcome, seen) = watch(bed, &mut command(bed.client(&node), "client"), "client");
        let text = outcome.must("node client").out;
        bed.assert_carrier(18 * 150_000, &seen);
        text
    });
}
