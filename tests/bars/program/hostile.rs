//! Hostile: an echo server and its clients, to be run while somebody scribbles over their shared words. Invariant: a
//! client tells what it saw (sent, received, the first wrong byte, how it ended) and judges nothing; it always ends by
//! itself, because after its time it shuts the TCP connection down.

use crate::{connect, listen};
use isthmus_tests::sys;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use testkit::{Random, Stream};

/// Connections of one client: they lie in slots 0, 1 and 2 of its segment.
const CONNECTIONS: u64 = 3;

/// Echoes what it reads, a thread for each connection.
pub(crate) fn server(port: u16) -> Result<String, String> {
    for conn in listen(port)?.incoming() {
        let mut conn = conn.map_err(|e| format!("accept: {e}"))?;
        std::thread::spawn(move || {
            let mut buf = vec![0u8; 30_000];
            while let Ok(n @ 1..) = conn.read(&mut buf) {
                if conn.write_all(&buf[..n]).is_err() {
                    break;
                }
            }
        });
    }
    Ok(String::new())
}

/// Talks for `ms` milliseconds on all its connections; one line each.
pub(crate) fn client(port: u16, ms: u64, seed: u64) -> Result<String, String> {
    let end = Instant::now() + Duration::from_millis(ms);
    let conns: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect(port)).collect::<Result<_, _>>()?;
    let over = AtomicBool::new(false);
    let lines: Vec<String> = std::thread::scope(|s| {
        let (over, conns) = (&over, &conns);
        let talks: Vec<_> =
            conns.iter().zip(0u64..).map(|(c, n)| s.spawn(move || talk(c, seed + n, end, over))).collect();
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

fn talk(conn: &TcpStream, seed: u64, end: Instant, over: &AtomicBool) -> String {
    std::thread::scope(|s| {
        let writer = s.spawn(move || write_until(conn, seed, end, over));
        let mut stream = Stream::new(seed);
        let how = read_until_end(conn.as_raw_fd(), &mut stream, seed);
        let sent = writer.join().unwrap_or(u64::MAX);
        format!("sent {sent} got {} then {how}", stream.offset())
    })
}

fn write_until(mut conn: &TcpStream, seed: u64, end: Instant, over: &AtomicBool) -> u64 {
    let (mut stream, mut random) = (Stream::new(seed), Random::new(seed));
    let mut buf = vec![0u8; 3_000];
    while Instant::now() < end && !over.load(Relaxed) {
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
fn read_until_end(fd: i32, stream: &mut Stream, seed: u64) -> String {
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
            }
            Err(e) => return format!("{e}{wrong}"),
        }
    }
}
