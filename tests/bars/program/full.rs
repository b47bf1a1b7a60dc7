//! Full rings: many connections that stay open, each of which has moved more both ways than its rings hold.
//! What memory there is for that is the surroundings' to say; `$BAR_LOCKED` locks all of it.

use crate::{connect, listen};
use isthmus_tests::sys;
use std::io::{Read, Write};
use std::net::TcpStream;

const BYTES: usize = 600_000;

fn lock_if_asked() -> Result<(), String> {
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
