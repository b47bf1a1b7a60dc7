//! Pump: both ends stream as fast as they can until one is killed; the survivor must have read a correct
//! prefix, then EOF or a reset. Invariant: the survivor always comes to an end by itself.

use crate::{connect, listen, open_fds, resident};
use isthmus_tests::sys;
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use testkit::{Random, Stream};

/// Serves one connection after another, a thread each, and prints a line per connection.
pub(crate) fn server(port: u16) -> Result<String, String> {
    let listener = listen(port)?;
    let out = Mutex::new(());
    std::thread::scope(|s| {
        for conn in listener.incoming() {
            let conn = conn.map_err(|e| format!("accept: {e}"))?;
            let out = &out;
            s.spawn(move || {
                let line = pump(conn, 2, 1, 7).unwrap_or_else(|e| format!("BAD {e}"));
                let _guard = out.lock();
                println!("{line} fds {} resident {}", open_fds(), resident());
                let _ = std::io::stdout().flush();
            });
        }
        Ok(String::new())
    })
}

pub(crate) fn client(port: u16, seed: u64) -> Result<String, String> {
    pump(connect(port)?, 1, 2, seed)
}

fn pump(conn: TcpStream, out: u64, back: u64, seed: u64) -> Result<String, String> {
    let fd = conn.as_raw_fd();
    let (sent, end) = std::thread::scope(|s| {
        let writer = s.spawn(move || write_until_broken(fd, Stream::new(out), Random::new(seed)));
        let end = read_until_broken(fd, Stream::new(back), Random::new(seed + 1));
        let _ = sys::shutdown(fd, libc::SHUT_RDWR);
        (writer.join(), end)
    });
    let sent = sent.map_err(|_| "the writer panicked".to_string())??;
    end.map(|(got, how)| format!("good prefix {got} then {how}, writer {sent}"))
}

fn write_until_broken(fd: i32, mut stream: Stream, mut random: Random) -> Result<String, String> {
    let mut buf = vec![0u8; 100_000];
    loop {
        let n = random.size(buf.len());
        stream.fill(&mut buf[..n]);
        let mut at = 0;
        while at < n {
            match sys::send(fd, &buf[at..n], libc::MSG_NOSIGNAL) {
                Ok(k) => at += k,
                Err(e) if ["EPIPE", "ECONNRESET"].contains(&e.to_string().as_str()) => {
                    return Ok(e.to_string());
                }
                Err(e) => return Err(format!("write ended with {e}")),
            }
        }
    }
}

fn read_until_broken(fd: i32, mut stream: Stream, mut random: Random) -> Result<(u64, String), String> {
    let mut buf = vec![0u8; 100_000];
    loop {
        let n = random.size(buf.len());
        match sys::read(fd, &mut buf[..n]) {
            Ok(0) => return Ok((stream.offset(), "EOF".into())),
            Ok(k) => stream.check(&buf[..k]).map_err(|at| format!("wrong byte at offset {at}"))?,
            Err(e) if e.to_string() == "ECONNRESET" => return Ok((stream.offset(), e.to_string())),
            Err(e) => return Err(format!("read ended with {e}")),
        }
    }
}
