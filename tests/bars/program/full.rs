//! Full rings: many connections that stay open, each of which has moved more both ways than its rings hold.
//! What memory there is for that is the surroundings' to say; `$BAR_LOCKED` locks all of it.

use crate::{connect, listen};
use isthmus_tests::sys;
use std::io::{Read, Write};
use std::net::TcpStream;

const BYTES: usize = 600_000;

pub(crate) fn lock_if_asked() -> Result<(), String> {
    match std::env::var_os("BAR_LOCKED") {
        Some(_) => sys::lock_memory().map(drop).map_err(|e| format!("mlockall: {e:?}")),
        None => Ok(()),
    }
}

fn send(conn: &mut TcpStream) -> Result<(), String> {
    conn.write_all(&vec![b'f'; BYTES]).map_err(|e| format!("send: {e}"))
}

fn receive(conn: &mut TcpStream) -> Result<(), String> {
    let mut bytes = vec![0; BYTES];
    conn.read_exact(&mut bytes).map_err(|e| format!("receive: {e}"))?;
    if bytes.iter().all(|byte| *byte == b'f') { Ok(()) } else { Err("wrong bytes".into()) }
}

pub(crate) fn server(port: u16, count: u64) -> Result<String, String> {
    lock_if_asked()?;
    let (listener, mut conns) = (listen(port)?, Vec::new());
    for n in 0..count {
        let (mut conn, _) = listener.accept().map_err(|e| format!("accept {n}: {e}"))?;
        receive(&mut conn).and_then(|()| send(&mut conn)).map_err(|e| format!("connection {n}: {e}"))?;
        conns.push(conn);
    }
    for (n, mut conn) in conns.into_iter().enumerate() {
        let end = conn.read(&mut [0]).map_err(|e| format!("end of {n}: {e}"))?;
        if end != 0 {
            return Err(format!("{n} has {end} bytes more"));
        }
    }
    Ok("good".into())
}

/// Serves every connection in a thread of its own, back what comes.
pub(crate) fn ebb_server(port: u16) -> Result<String, String> {
    for conn in listen(port)?.incoming().flatten() {
        std::thread::spawn(|| crate::peers::echo(conn));
    }
    Err("no more connections".into())
}

/// Many connections at once, each of which fills most of its rings; then few, one after the other. Says how
/// much memory this process has made for connections, in KiB: while all were open, and at the end.
pub(crate) fn ebb(port: u16, count: u64) -> Result<String, String> {
    const EACH: usize = 200_000;
    let mut conns = Vec::new();
    for n in 0..count {
        let mut conn = connect(port)?;
        greet(&mut conn).map_err(|e| format!("greet {n}: {e}"))?;
        conn.write_all(&[b'f'; EACH]).map_err(|e| format!("send {n}: {e}"))?;
        conn.read_exact(&mut [0; EACH]).map_err(|e| format!("receive {n}: {e}"))?;
        conns.push(conn);
    }
    let flood = own_memory();
    drop(conns);
    for n in 0..count {
        let mut conn = connect(port)?;
        greet(&mut conn).map_err(|e| format!("greet {n}: {e}"))?;
    }
    Ok(format!("flood {flood} ebb {}", own_memory()))
}

/// So the server has looked, and what follows goes into rings.
fn greet(conn: &mut TcpStream) -> std::io::Result<()> {
    conn.write_all(b"one")?;
    conn.read_exact(&mut [0; 3])
}

/// What lies in the memory files that this process has open to write.
fn own_memory() -> u64 {
    use std::os::unix::fs::MetadataExt;
    let links = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten().map(|entry| entry.path());
    let is_memory = |path: &std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:"))
    };
    links
        .filter(is_memory)
        .filter_map(|path| std::fs::metadata(path).ok())
        .map(|file| file.blocks() / 2)
        .sum()
}

pub(crate) fn client(port: u16, count: u64) -> Result<String, String> {
    lock_if_asked()?;
    let mut conns = Vec::new();
    for n in 0..count {
        let mut conn = connect(port)?;
        send(&mut conn).and_then(|()| receive(&mut conn)).map_err(|e| format!("connection {n}: {e}"))?;
        conns.push(conn);
    }
    Ok("good".into())
}
