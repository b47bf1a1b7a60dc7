//! Integrity: random sizes through every data call, both ways at once, two threads per direction at each end.
//! Invariant: the reader knows every byte from the stream's seed.

use crate::{connect, listen};
use isthmus_tests::sys;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use testkit::{Random, Stream};

const MAX: usize = 300_000;

pub(crate) fn server(port: u16, bytes: u64) -> Result<String, String> {
    let (conn, _) = listen(port)?.accept().map_err(|e| format!("accept: {e}"))?;
    exchange(conn, bytes, 1, 2)
}

pub(crate) fn client(port: u16, bytes: u64) -> Result<String, String> {
    exchange(connect(port)?, bytes, 2, 1)
}

/// Two writers take turns on the outgoing stream, two readers on the incoming one.
fn exchange(conn: TcpStream, bytes: u64, out: u64, back: u64) -> Result<String, String> {
    let fd = conn.as_raw_fd();
    let (outgoing, incoming) = (Mutex::new(Stream::new(out)), Mutex::new(Stream::new(back)));
    let ends: Vec<Result<(), String>> = std::thread::scope(|s| {
        let (outgoing, incoming) = (&outgoing, &incoming);
        let mut threads = Vec::new();
        for n in 0..2 {
            threads.push(s.spawn(move || write_side(fd, outgoing, bytes, Random::new(out * 10 + n))));
            threads.push(s.spawn(move || read_side(fd, incoming, bytes, Random::new(back * 10 + n))));
        }
        threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
    });
    ends.into_iter().collect::<Result<(), String>>()?;
    sys::shutdown(fd, libc::SHUT_WR).map_err(|e| format!("shutdown: {e}"))?;
    match sys::read(fd, &mut [0; 1]) {
        Ok(0) => {}
        other => return Err(format!("after the last byte: {other:?}")),
    }
    let (received, acked) = sys::tcp_bytes(fd).unwrap_or_default();
    Ok(format!("good {bytes} bytes each way, over TCP {}", received + acked))
}

fn write_side(fd: i32, stream: &Mutex<Stream>, bytes: u64, mut random: Random) -> Result<(), String> {
    let mut buf = vec![0u8; MAX];
    loop {
        let mut stream = stream.lock().map_err(|e| e.to_string())?;
        let left = bytes - stream.offset();
        if left == 0 {
            return Ok(());
        }
        let n = random.size(MAX).min(left as usize);
        stream.fill(&mut buf[..n]);
        let mut at = 0;
        while at < n {
            at += write_once(fd, &buf[at..n], &mut random).map_err(|e| format!("write: {e}"))?;
        }
    }
}

fn write_once(fd: i32, bytes: &[u8], random: &mut Random) -> sys::Ret {
    let (a, b) = bytes.split_at(random.below(bytes.len()));
    match random.below(4) {
        0 => sys::write(fd, bytes),
        1 => sys::send(fd, bytes, libc::MSG_NOSIGNAL),
        2 => sys::writev(fd, &[a, b]),
        _ => sys::sendmsg(fd, &[a, b], libc::MSG_NOSIGNAL),
    }
}

fn read_side(fd: i32, stream: &Mutex<Stream>, bytes: u64, mut random: Random) -> Result<(), String> {
    let mut buf = vec![0u8; MAX];
    loop {
        let mut stream = stream.lock().map_err(|e| e.to_string())?;
        let left = bytes - stream.offset();
        if left == 0 {
            return Ok(());
        }
        let want = random.size(MAX).min(left as usize);
        let n = read_once(fd, &mut buf[..want], &mut random).map_err(|e| format!("read: {e}"))?;
        if n == 0 {
            return Err(format!("end at offset {} of {bytes}", stream.offset()));
        }
        stream.check(&buf[..n]).map_err(|at| format!("wrong byte at offset {at}"))?;
    }
}

fn read_once(fd: i32, buf: &mut [u8], random: &mut Random) -> sys::Ret {
    let middle = random.below(buf.len());
    match random.below(6) {
        0 | 1 => sys::read(fd, buf),
        2 => sys::recv(fd, buf, 0),
        3 => sys::recv(fd, buf, libc::MSG_WAITALL),
        4 => peek_then_read(fd, buf),
        _ => {
            let (a, b) = buf.split_at_mut(middle);
            sys::readv(fd, &mut [a, b])
        }
    }
}

/// What a peek shows must be what the read gives.
fn peek_then_read(fd: i32, buf: &mut [u8]) -> sys::Ret {
    let mut seen = vec![0u8; buf.len()];
    let n = sys::recv(fd, &mut seen, libc::MSG_PEEK)?;
    let got = sys::recv(fd, &mut buf[..n], libc::MSG_WAITALL)?;
    assert_eq!(seen[..n], buf[..got], "peek and read differ");
    Ok(got)
}
