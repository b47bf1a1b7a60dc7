//! Stall: a server that accepts some connections and does nothing for a while, then answers them and, at
//! once, whoever comes later. Invariant: the client judges nothing.

use crate::connect;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Longer than an answer is waited for.
const STALL: Duration = Duration::from_millis(2_500);
/// Connections afterwards, and from one to the next: together longer than a doubt that one stall makes, and
/// far shorter than one that grew with each connection.
const LATER: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

fn answer(mut conn: TcpStream) {
    let mut question = [0];
    if conn.read_exact(&mut question).is_ok() {
        let _ = conn.write_all(&question);
    }
}

fn ask(port: u16) -> Result<(), String> {
    let mut conn = connect(port)?;
    let mut answer = [0];
    conn.write_all(b"?").map_err(|e| format!("ask: {e}"))?;
    conn.read_exact(&mut answer).map_err(|e| format!("answer: {e}"))
}

/// `count` connections are stalled.
pub(crate) fn server(port: u16, count: u64) -> Result<String, String> {
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(|e| format!("listen: {e}"))?;
    let accept = || listener.accept().map(|(conn, _)| conn).map_err(|e| format!("accept: {e}"));
    let stalled: Vec<_> = (0..count).map(|_| accept()).collect::<Result<_, _>>()?;
    thread::sleep(STALL);
    stalled.into_iter().for_each(answer);
    loop {
        answer(accept()?);
    }
}

/// So many at once, and then one by one.
pub(crate) fn client(port: u16, count: u64) -> Result<String, String> {
    let all: Vec<_> = (0..count).map(|_| thread::spawn(move || ask(port))).collect();
    all.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| Err("a thread".into())))?;
    for _ in 0..LATER {
        ask(port)?;
        thread::sleep(PAUSE);
    }
    Ok(format!("answered {}", count + u64::from(LATER)))
}
