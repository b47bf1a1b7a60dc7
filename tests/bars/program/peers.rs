//! One process that meets many others, one after the other: each is a program of its own that serves or uses
//! a few connections and ends, in an orderly way or by a kill. Descriptors, memory and address space of the
//! one that stays must stay flat; it prints "at PERCENT fds N resident KIB mapped KIB" after each tenth.

use crate::{connect, listen, mapped, open_fds, resident};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// More than the first segment of a link group has slots, now and then.
fn connections_with(peer: u64) -> usize {
    if peer % 8 == 7 { 5 } else { 1 }
}

/// This program again, under the library if this process is.
fn peer(words: &[&str]) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|e| format!("my name: {e}"))?;
    let mut peer = Command::new(program);
    peer.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    peer.spawn().map_err(|e| format!("spawn: {e}"))
}

/// (The first may be there before the other end has looked, and is over TCP then.)
const ROUND_TRIPS: u64 = 4;

fn round_trips(conn: &mut TcpStream) -> Result<(), String> {
    for _ in 0..ROUND_TRIPS {
        let mut back = [0; 4000];
        conn.write_all(&[b'q'; 4000]).map_err(|e| format!("request: {e}"))?;
        conn.read_exact(&mut back).map_err(|e| format!("reply: {e}"))?;
        if back != [b'q'; 4000] {
            return Err("wrong bytes".into());
        }
    }
    Ok(())
}

/// Serves until the other end closes.
pub(crate) fn echo(mut conn: TcpStream) -> Result<(), String> {
    let mut bytes = [0; 4000];
    loop {
        match conn.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(count) => conn.write_all(&bytes[..count]).map_err(|e| format!("echo: {e}"))?,
            // Its process was killed.
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return Ok(()),
            Err(e) => return Err(format!("read: {e}")),
        }
    }
}

/// A client of one server process after the other; every third is killed while connections are open.
pub(crate) fn meet_servers(count: u64) -> Result<String, String> {
    for n in 0..count {
        let mut server = peer(&["peers", "one-server"])?;
        let mut port = String::new();
        let out = server.stdout.take().ok_or("no output")?;
        BufReader::new(out).read_line(&mut port).map_err(|e| format!("its port: {e}"))?;
        let port = port.trim().parse().map_err(|e| format!("its port is {port}: {e}"))?;
        let mut conns = Vec::new();
        for _ in 0..connections_with(n) {
            conns.push(connect(port)?);
        }
        for conn in &mut conns {
            round_trips(conn).map_err(|e| format!("server {n}: {e}"))?;
        }
        if n % 3 == 2 {
            server.kill().map_err(|e| format!("kill: {e}"))?;
        }
        drop(conns);
        drop(server.stdin.take());
        server.wait().map_err(|e| format!("wait: {e}"))?;
        report(n, count);
    }
    Ok("good".into())
}

/// Serves one connection after the other, in a thread each, until its standard input ends.
pub(crate) fn one_server() -> Result<String, String> {
    let listener = listen(0)?;
    println!("{}", listener.local_addr().map_err(|e| format!("my port: {e}"))?.port());
    std::thread::spawn(move || {
        for conn in listener.incoming().flatten() {
            std::thread::spawn(|| echo(conn));
        }
    });
    let _ = std::io::stdin().read(&mut [0]);
    Ok("good".into())
}

/// A server of one client process after the other; every third is killed while connections are open.
pub(crate) fn meet_clients(count: u64) -> Result<String, String> {
    let listener = listen(0)?;
    let port = listener.local_addr().map_err(|e| format!("my port: {e}"))?.port().to_string();
    for n in 0..count {
        let many = connections_with(n).to_string();
        let mut client = peer(&["peers", "one-client", &port, &many])?;
        let conns: Vec<TcpStream> = listener
            .incoming()
            .take(connections_with(n))
            .collect::<Result<_, _>>()
            .map_err(|e| format!("{e}"))?;
        let threads: Vec<_> = conns.into_iter().map(|conn| std::thread::spawn(|| echo(conn))).collect();
        let mut said = String::new();
        let out = client.stdout.take().ok_or("no output")?;
        BufReader::new(out).read_line(&mut said).map_err(|e| format!("its word: {e}"))?;
        if n % 3 == 2 {
            client.kill().map_err(|e| format!("kill: {e}"))?;
        }
        drop(client.stdin.take());
        for thread in threads {
            thread
                .join()
                .map_err(|_| "a thread panicked".to_string())?
                .map_err(|e| format!("client {n}: {e}"))?;
        }
        client.wait().map_err(|e| format!("wait: {e}"))?;
        if said.trim() != "used" {
            return Err(format!("client {n} says {said}"));
        }
        report(n, count);
    }
    Ok("good".into())
}

/// Uses some connections, and keeps them until its standard input ends.
pub(crate) fn one_client(port: u16, count: u64) -> Result<String, String> {
    let mut conns = (0..count).map(|_| connect(port)).collect::<Result<Vec<_>, _>>()?;
    for conn in &mut conns {
        round_trips(conn)?;
    }
    println!("used");
    let _ = std::io::stdin().read(&mut [0]);
    Ok("good".into())
}

fn report(n: u64, count: u64) {
    let tenth = (count / 10).max(1);
    if (n + 1).is_multiple_of(tenth) {
        let percent = (n + 1) * 100 / count;
        println!("at {percent} fds {} resident {} mapped {}", open_fds(), resident(), mapped());
    }
}
