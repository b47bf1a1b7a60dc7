//! Time: loads that go on and on. What is used stays flat at whoever outlives the others, no answer is lost,
//! and no round takes more than a second unless it does so over TCP, too. Invariant: one load at a time, and
//! every bound but that one is on counts.
//!
//! `SOAK_SECONDS` is the time of each load (7); `cargo xtask soak` gives them minutes, and the torture as
//! well. With `SOAK_FAR` server and client are in two containers.

mod flat;

use flat::Used;
use isthmus_tests::postgres::Postgres;
use isthmus_tests::{Bed, Mode, Running, free_port, installed, sys, within};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_soak-load");
/// A round that takes longer is compared with TCP's longest.
const STALL_MS: u64 = 1000;
/// Looks at what is used, in all.
const LOOKS: u32 = 30;

static ALONE: Mutex<()> = Mutex::new(());

fn seconds() -> u64 {
    std::env::var("SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(7)
}

fn is_far() -> bool {
    std::env::var_os("SOAK_FAR").is_some()
}

/// What a load has told.
struct Told {
    rounds: u64,
    longest_ms: u64,
    grown: Vec<String>,
}

/// Runs a load with both ends enabled and, if it has stalled, once more both ways.
fn soak(name: &str, load: impl Fn(&Bed) -> Told) {
    if !Mode::wanted().contains(&Mode::Smc) {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let run = |mode| {
        let bed = if is_far() { Bed::between_containers(name, mode) } else { Some(Bed::new(name, mode)) };
        let Some(bed) = bed else { return 0 };
        let told = load(&bed);
        println!("{name}, {mode:?}: {} rounds, the longest {} ms", told.rounds, told.longest_ms);
        assert!(told.rounds > 0, "{name}, {mode:?}: nothing was done");
        assert!(mode == Mode::Plain || bed.handshakes() > 0, "{name}: no connection used shared memory");
        assert!(told.grown.is_empty(), "{name}, {mode:?}: {}", told.grown.join("; "));
        told.longest_ms
    };
    let longest = run(Mode::Smc);
    if longest > STALL_MS {
        let (plain, again) = (run(Mode::Plain), run(Mode::Smc));
        assert!(
            again.min(longest) <= STALL_MS || plain > STALL_MS,
            "{name}: rounds of {longest} and {again} ms, and of {plain} ms over TCP"
        );
    }
}

fn load(mut command: Command, words: &[&str], numbers: &[u64]) -> Command {
    // (Brief connections are to be shared, whether it pays or not.)
    command.args(words).args(numbers.iter().map(u64::to_string)).env("SMC_BRIEF", "0");
    command
}

/// A program that listens at `port`.
fn serve(bed: &Bed, command: &mut Command, port: u16) -> Running {
    let mut server = bed.start(command, "server");
    let port = format!(":{port:04X} ");
    let listens = || {
        let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap_or_default();
        table.lines().any(|line| line.contains(&port) && line.contains(" 0A "))
    };
    let is_up = within(Duration::from_secs(20), || listens() || !server.alive()) && listens();
    assert!(is_up, "no listener: {command:?} {}", server.output());
    server
}

/// Runs a client to its end, while it and the server are looked at, and `disturb` is called every two
/// seconds.
fn watch(client: Running, server: Option<&mut Running>, mut disturb: impl FnMut()) -> Told {
    let mut client = client;
    let pids = [Some(client.pid()), server.as_ref().map(|server| server.pid())];
    let mut looks = [vec![], vec![]];
    let (begun, mut next) = (Instant::now(), Duration::from_secs(2));
    let every = Duration::from_secs(seconds()) / LOOKS;
    while client.alive() && begun.elapsed() < Duration::from_secs(2 * seconds() + 60) {
        for (looks, pid) in looks.iter_mut().zip(pids) {
            looks.extend(pid.and_then(Used::by));
        }
        if begun.elapsed() > next {
            disturb();
            next += Duration::from_secs(2);
        }
        std::thread::sleep(every);
    }
    let outcome = client.finish(Duration::ZERO);
    assert!(outcome.ok() && !outcome.out.contains("BAD"), "the client: {outcome}");
    if let Some(server) = server {
        assert!(server.alive() && !server.output().out.contains("BAD"), "the server: {}", server.output());
    }
    let number = |name: &str| {
        let mut words = outcome.out.split_whitespace().skip_while(|word| *word != name).skip(1);
        words.next().and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    let grown = ["the client", "the server"].into_iter().zip(&looks);
    let grown = grown.filter_map(|(who, looks)| Some(format!("{who}: {}", flat::growth(looks)?))).collect();
    Told { rounds: number("rounds"), longest_ms: number("longest"), grown }
}

#[test]
fn edge_triggered_loops_with_pauses() {
    soak("soak-edge", |bed| {
        let port = free_port();
        let mut server =
            serve(bed, &mut load(bed.server(PROGRAM), &["edge", "server"], &[port.into()]), port);
        let mut client = load(bed.client(PROGRAM), &["edge", "client"], &[port.into(), seconds(), 7]);
        watch(bed.start(&mut client, "client"), Some(&mut server), || {})
    });
}

#[test]
fn workers_at_one_set() {
    soak("soak-workers", |bed| {
        let port = free_port();
        let mut server =
            serve(bed, &mut load(bed.server(PROGRAM), &["workers", "server"], &[port.into()]), port);
        let mut client = load(bed.client(PROGRAM), &["workers", "client"], &[port.into(), seconds()]);
        watch(bed.start(&mut client, "client"), Some(&mut server), || {})
    });
}

#[test]
fn short_connections() {
    soak("soak-short", |bed| {
        let port = free_port();
        let mut server =
            serve(bed, &mut load(bed.server(PROGRAM), &["short", "server"], &[port.into()]), port);
        let mut client = load(bed.client(PROGRAM), &["short", "client"], &[port.into(), seconds()]);
        watch(bed.start(&mut client, "client"), Some(&mut server), || {})
    });
}

#[test]
fn client_processes_one_after_the_other() {
    soak("soak-clients", |bed| {
        let port = free_port();
        let mut server =
            serve(bed, &mut load(bed.server(PROGRAM), &["short", "server"], &[port.into()]), port);
        let mut clients = load(bed.client(PROGRAM), &["clients"], &[port.into(), seconds()]);
        watch(bed.start(&mut clients, "clients"), Some(&mut server), || {})
    });
}

#[test]
fn server_processes_one_after_the_other() {
    if is_far() {
        println!("skipped: its client starts them where it is itself");
        return;
    }
    soak("soak-servers", |bed| {
        let mut client = load(bed.client(PROGRAM), &["servers"], &[free_port().into(), seconds()]);
        watch(bed.start(&mut client, "client"), None, || {})
    });
}

/// A program under test, or `None` after saying that it is missing.
fn program(name: &str) -> Option<std::path::PathBuf> {
    let found = installed(&[name]);
    if found.is_none() {
        println!("skipped: {name} not installed");
        assert!(std::env::var_os("CI_REQUIRE_PROGRAMS").is_none(), "{name} is required and not installed");
    }
    found
}

/// The short client in the protocol of a server that is a real program.
fn churn(bed: &Bed, port: u16, hello: &str, answer: &str) -> Running {
    let mut client = load(bed.client(PROGRAM), &["short", "client"], &[port.into(), seconds()]);
    bed.start(client.args([hello, answer]), "client")
}

#[test]
fn redis_under_short_connections() {
    let Some(redis) = program("redis-server") else { return };
    soak("soak-redis", |bed| {
        let port = free_port();
        let mut command = bed.server(&redis);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]);
        // (A client of another address.)
        command.arg(bed.scratch.path()).args(["--protected-mode", "no"]);
        let mut server = serve(bed, &mut command, port);
        watch(churn(bed, port, "PING\\r\\n", "+PONG"), Some(&mut server), || {})
    });
}

#[test]
fn memcached_under_short_connections() {
    let Some(memcached) = program("memcached") else { return };
    soak("soak-memcached", |bed| {
        let port = free_port();
        let mut command = bed.server(&memcached);
        command.args(["-p", &port.to_string(), "-l", "127.0.0.1", "-U", "0", "-t", "2", "-u", "root"]);
        let mut server = serve(bed, &mut command, port);
        watch(churn(bed, port, "version\\r\\n", "VERSION"), Some(&mut server), || {})
    });
}

/// A StartupMessage (PostgreSQL's documentation, "Message Formats"): 41 bytes, protocol 3.0, user, database.
const STARTUP: &str = "\\0\\0\\0)\\0\u{3}\\0\\0user\\0postgres\\0database\\0postgres\\0\\0";

#[test]
fn postgresql_under_short_connections() {
    let Some(found) = Postgres::find() else { return };
    if is_far() {
        println!("skipped: its users are not root, who alone enters these containers");
        return;
    }
    soak("soak-postgresql", |bed| {
        let pg = found.at(free_port());
        let mut server = serve(bed, &mut pg.server(bed), pg.port);
        assert!(pg.is_ready(bed), "it does not take queries: {}", server.output());
        let mut client = load(bed.client(PROGRAM), &["short", "client"], &[pg.port.into(), seconds()]);
        let client = bed.start(pg.as_user(client.args([STARTUP, "R"])), "client");
        let told = watch(client, Some(&mut server), || {});
        assert!(Postgres::end(server), "it does not end");
        told
    });
}

const GET: &str = "GET /small HTTP/1.0\\r\\n\\r\\n";

#[test]
fn nginx_reloaded_every_two_seconds() {
    let Some(nginx) = program("nginx") else { return };
    soak("soak-nginx", |bed| {
        let (port, dir) = (free_port(), bed.scratch.path().display().to_string());
        bed.scratch.file("small", "small\n");
        let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {dir}/{name};\n"))
            .concat();
        let user = if sys::euid() == 0 { "user root;" } else { "" };
        let conf = bed.scratch.file(
            "nginx.conf",
            format!(
                "{user} daemon off; worker_processes 2; pid {dir}/nginx.pid; error_log {dir}/error.log;
                 events {{ worker_connections 512; }}
                 http {{ access_log off; {temp} server {{ listen 127.0.0.1:{port}; root {dir}; }} }}"
            ),
        );
        let mut command = bed.server(&nginx);
        command.arg("-c").arg(conf).args(["-p", &dir, "-e", &format!("{dir}/error.log")]);
        let mut server = serve(bed, &mut command, port);
        let master = server.pid();
        let told = watch(churn(bed, port, GET, "HTTP/1.1 200"), Some(&mut server), || {
            let _ = sys::kill(master, libc::SIGHUP);
        });
        server.signal(libc::SIGQUIT);
        assert!(server.finish(Duration::from_secs(20)).ok(), "nginx does not end");
        told
    });
}

#[test]
fn haproxy_reloaded_every_two_seconds() {
    let Some(haproxy) = program("haproxy") else { return };
    if is_far() {
        println!("skipped: its master starts itself anew with its listener, which is not marked then");
        return;
    }
    soak("soak-haproxy", |bed| {
        let (front, back) = (free_port(), free_port());
        let _behind = serve(bed, &mut load(bed.server(PROGRAM), &["short", "server"], &[back.into()]), back);
        let conf = bed.scratch.file(
            "haproxy.cfg",
            format!(
                "global\n maxconn 200\n nbthread 2\ndefaults\n mode tcp\n timeout connect 5s\n timeout client 20s\n \
                 timeout server 20s\nlisten both\n bind 127.0.0.1:{front}\n server behind 127.0.0.1:{back}\n"
            ),
        );
        let mut command = bed.server(&haproxy);
        let mut server = serve(bed, command.args(["-W", "-db", "-f"]).arg(conf), front);
        let master = server.pid();
        watch(churn(bed, front, "hello\\r\\n", "answer"), Some(&mut server), || {
            let _ = sys::kill(master, libc::SIGUSR2);
        })
    });
}
