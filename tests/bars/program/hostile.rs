//! Hostile: an echo server and its clients, to be run while somebody scribbles over their shared words.
//! Invariant: a client tells what it saw (sent, received, the first wrong byte, how it ended) and judges
//! nothing; it always ends by itself, because after its time it shuts the TCP connection down.

use crate::{connect, listen};
use isthmus_tests::sys;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use testkit::{Random, Stream};

/// Connections of one client: they lie in slots 0, 1 and 2 of its segment.
const CONNECTIONS: u64 = 3;

/// Pipes of the program's own, each with one byte in it that nobody else may read, nor add to.
struct Pipes(Vec<(sys::Fd, sys::Fd)>);

impl Pipes {
    fn new(count: usize) -> Self {
        let pipe = |_| {
            let ends = sys::pipe(0);
            sys::write(ends.1, b"k").expect("room in a pipe");
            ends
        };
        Pipes((0..count).map(pipe).collect())
    }

    fn touched(&self) -> usize {
        self.0.iter().filter(|(reader, _)| sys::queued(*reader) != 1).count()
    }
}

/// Echoes as [`server`], and says so if somebody touches its pipes.
pub(crate) fn keeper(port: u16) -> Result<String, String> {
    let pipes = Pipes::new(300);
    std::thread::spawn(move || {
        while pipes.touched() == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        println!("BAD {} pipes of the program were touched", pipes.touched());
    });
    server(port)
}

/// Echoes what it reads, a thread for each connection.
pub(crate) fn server(port: u16) -> Result<String, String> {
    for conn in listen(port)?.incoming() {
        let conn = conn.map_err(|e| format!("accept: {e}"))?;
        std::thread::spawn(move || echo(conn));
    }
    Ok(String::new())
}

/// Echoes one connection to its end.
pub(crate) fn echo(mut conn: TcpStream) {
    let mut buf = vec![0u8; 30_000];
    while let Ok(n @ 1..) = conn.read(&mut buf) {
        if conn.write_all(&buf[..n]).is_err() {
            break;
        }
    }
}

/// Talks for `ms` milliseconds on all its connections; one line each. At most `window` bytes wait for their
/// echo.
pub(crate) fn client(port: u16, ms: u64, seed: u64, window: u64) -> Result<String, String> {
    let end = Instant::now() + Duration::from_millis(ms);
    let conns: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect(port)).collect::<Result<_, _>>()?;
    let over = AtomicBool::new(false);
    let lines: Vec<String> = std::thread::scope(|s| {
        let (over, conns) = (&over, &conns);
        let talks: Vec<_> =
            conns.iter().zip(0u64..).map(|(c, n)| s.spawn(move || talk(c, seed + n, end, window))).collect();
        s.spawn(move || cut(conns, end + Duration::from_millis(1500), over));
        let lines = talks.into_iter().map(|t| t.join().unwrap_or_else(|_| "panicked".into())).collect();
        over.store(true, Relaxed);
        lines
    });
    Ok(lines.join("\n"))
}

/// Nobody waits for ever for a peer that stopped answering: this is the program's own time limit.
fn cut(conns: &[TcpStream], at: Instant, over: &AtomicBool) {
    while Instant::now() < at && !over.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(5));
    }
    for conn in conns {
        let _ = conn.shutdown(std::net::Shutdown::Both);
    }
}

fn talk(conn: &TcpStream, seed: u64, end: Instant, window: u64) -> String {
    let got = AtomicU64::new(0);
    std::thread::scope(|s| {
        let writer =
            s.spawn(|| write_until(conn, seed, end, |sent| sent - got.load(Relaxed).min(sent) < window));
        let mut stream = Stream::new(seed);
        let how = read_until_end(conn.as_raw_fd(), &mut stream, seed, &got);
        let sent = writer.join().unwrap_or(u64::MAX);
        format!("sent {sent} got {} then {how}", stream.offset())
    })
}

fn write_until(mut conn: &TcpStream, seed: u64, end: Instant, may_send: impl Fn(u64) -> bool) -> u64 {
    let (mut stream, mut random) = (Stream::new(seed), Random::new(seed));
    let mut buf = vec![0u8; 3_000];
    while Instant::now() < end {
        if !may_send(stream.offset()) {
            std::thread::yield_now();
            continue;
        }
        let n = random.size(buf.len());
        stream.fill(&mut buf[..n]);
        if conn.write_all(&buf[..n]).is_err() {
            break;
        }
        if random.once_in(8) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let _ = conn.shutdown(std::net::Shutdown::Write);
    stream.offset()
}

/// Every second client connection waits in poll.
fn read_until_end(fd: i32, stream: &mut Stream, seed: u64, got: &AtomicU64) -> String {
    let mut buf = vec![0u8; 20_000];
    let mut random = Random::new(seed);
    let mut wrong = String::new();
    loop {
        if seed % 2 == 1 {
            let _ = sys::poll1(fd, libc::POLLIN, 200);
        }
        let n = random.size(buf.len());
        match sys::read(fd, &mut buf[..n]) {
            Ok(0) => return format!("EOF{wrong}"),
            Ok(k) => {
                if let Err(at) = stream.check(&buf[..k])
                    && wrong.is_empty()
                {
                    wrong = format!(" wrong byte at {at}");
                }
                got.store(stream.offset(), Relaxed);
            }
            Err(e) => return format!("{e}{wrong}"),
        }
    }
}

/// Opens one connection after the other for `ms` milliseconds, twenty at a time, and exchanges a message on
/// each. Nothing waits longer than its time limit; the line says how many exchanges went well.
pub(crate) fn opener(port: u16, ms: u64, seed: u64) -> Result<String, String> {
    let end = Instant::now() + Duration::from_millis(ms);
    let mut random = Random::new(seed);
    let mut open = std::collections::VecDeque::new();
    let (mut well, mut tried) = (0, 0);
    while Instant::now() < end {
        let conn = connect(port)?;
        tried += 1;
        well += u64::from(exchange(&conn, seed + tried, 1 + random.below(3_000)).is_some());
        open.push_back(conn);
        if open.len() > 20 {
            open.pop_front();
        }
    }
    Ok(format!("{well} of {tried} exchanges"))
}

fn exchange(mut conn: &TcpStream, seed: u64, size: usize) -> Option<()> {
    conn.set_read_timeout(Some(Duration::from_millis(400))).ok()?;
    conn.set_write_timeout(Some(Duration::from_millis(400))).ok()?;
    let (mut message, mut back) = (vec![0; size], vec![0; size]);
    Stream::new(seed).fill(&mut message);
    conn.write_all(&message).ok()?;
    conn.read_exact(&mut back).ok()?;
    (message == back).then_some(())
}
