//! Short connections: connect, ask, read the answer, end in one of several ways. The server is a few threads
//! that accept, or whatever speaks such a protocol.

use crate::{LOST, Tally};
use isthmus_tests::sys;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const HELLO: &str = "hello\r\n";
const ANSWER: &str = "answer\r\n";
const THREADS: usize = 3;

pub(crate) fn server(port: u16) -> Result<String, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|e| format!("listen: {e}"))?;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for conn in listener.incoming().flatten() {
                    answer(conn);
                }
            });
        }
    });
    Ok(String::new())
}

fn answer(mut conn: TcpStream) {
    let mut hello = [0; HELLO.len()];
    while conn.read_exact(&mut hello).is_ok() && conn.write_all(ANSWER.as_bytes()).is_ok() {}
}

/// `hello` and the beginning of its answer in another protocol, with `\r\n` and `\0` spelt out.
pub(crate) fn client(port: u16, seconds: u64, hello: &str, answer: &str) -> Result<String, String> {
    let (hello, answer) = if hello.is_empty() { (HELLO, ANSWER) } else { (hello, answer) };
    let hello = hello.replace("\\r\\n", "\r\n").replace("\\0", "\0");
    let (end, mut tally) = (Instant::now() + Duration::from_secs(seconds), Tally::default());
    while Instant::now() < end {
        let begun = Instant::now();
        once(port, tally.rounds, hello.as_bytes(), answer.as_bytes())
            .map_err(|e| format!("connection {}: {e}", tally.rounds))?;
        tally.note(begun);
    }
    Ok(tally.to_string())
}

/// One connection; the number says how it ends.
pub(crate) fn once(port: u16, number: u64, hello: &[u8], answer: &[u8]) -> Result<(), String> {
    let mut conn = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(|e| format!("connect: {e}"))?;
    conn.set_read_timeout(Some(LOST)).map_err(|e| e.to_string())?;
    conn.write_all(hello).map_err(|e| format!("hello: {e}"))?;
    let mut got = vec![0; answer.len()];
    conn.read_exact(&mut got).map_err(|e| format!("answer: {e}"))?;
    if got != answer {
        return Err(format!("{} is no answer", String::from_utf8_lossy(&got)));
    }
    match number % 4 {
        // A reset leaves no port in TIME_WAIT, and there are not enough of them for all.
        0..=1 => drop(sys::set_linger(conn.as_raw_fd(), true, 0)),
        2 => {
            let _ = conn.shutdown(std::net::Shutdown::Write);
            while matches!(conn.read(&mut [0; 4096]), Ok(1..)) {}
        }
        _ => {}
    }
    Ok(())
}

/// The same with our own server.
pub(crate) fn simple(port: u16, number: u64) -> Result<(), String> {
    once(port, number, HELLO.as_bytes(), ANSWER.as_bytes())
}
