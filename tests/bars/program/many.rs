//! Many: one process holds many connections at once, served by one epoll loop. The client raises its own soft
//! limit.

use crate::{connect, listen, open_fds};
use isthmus_tests::sys;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, IntoRawFd};

pub(crate) fn server(port: u16) -> Result<String, String> {
    sys::limit_fds(u64::MAX);
    let listener = listen(port)?;
    listener.set_nonblocking(true).map_err(|e| e.to_string())?;
    let (l, ep) = (listener.as_raw_fd(), sys::epoll());
    sys::ep_add(ep, l, libc::EPOLLIN, 0).map_err(|e| format!("add: {e}"))?;
    let mut conns: HashMap<u64, i32> = HashMap::new();
    loop {
        let events = match sys::ep_wait(ep, -1) {
            Ok(events) => events,
            Err(e) if e.0 == libc::EINTR => continue,
            Err(e) => return Err(format!("wait: {e}")),
        };
        for (data, _) in events {
            if data == 0 {
                accept_all(&listener, ep, &mut conns)?;
            } else {
                echo(data, &mut conns);
            }
        }
    }
}

fn accept_all(l: &std::net::TcpListener, ep: i32, conns: &mut HashMap<u64, i32>) -> Result<(), String> {
    while let Ok((conn, _)) = l.accept() {
        conn.set_nonblocking(true).map_err(|e| e.to_string())?;
        let fd = conn.into_raw_fd();
        sys::ep_add(ep, fd, libc::EPOLLIN, fd as u64).map_err(|e| format!("add: {e}"))?;
        conns.insert(fd as u64, fd);
    }
    Ok(())
}

fn echo(data: u64, conns: &mut HashMap<u64, i32>) {
    let Some(&fd) = conns.get(&data) else { return };
    let mut buf = [0u8; 4096];
    match sys::read(fd, &mut buf) {
        Ok(n) if n > 0 => drop(sys::send(fd, &buf[..n], libc::MSG_NOSIGNAL)),
        Err(e) if e.0 == libc::EAGAIN => {}
        _ => {
            conns.remove(&data);
            let _ = sys::close(fd);
        }
    }
}

pub(crate) fn client(port: u16, count: usize) -> Result<String, String> {
    sys::limit_fds(u64::MAX);
    let mut conns = Vec::new();
    for n in 0..count {
        conns.push(connect(port).map_err(|e| format!("connection {n}: {e}"))?);
    }
    for round in 0..3usize {
        for (n, conn) in conns.iter_mut().enumerate() {
            conn.write_all(&message(n, round)).map_err(|e| format!("connection {n}: {e}"))?;
        }
        for (n, conn) in conns.iter_mut().enumerate() {
            let mut back = vec![0; message(n, round).len()];
            conn.read_exact(&mut back).map_err(|e| format!("connection {n} round {round}: {e}"))?;
            if back != message(n, round) {
                return Err(format!("connection {n} round {round}: wrong bytes"));
            }
        }
    }
    Ok(format!("good {count} connections, {} in shared memory, fds {}", in_shared_memory(&conns), open_fds()))
}

/// Limits this process for good; or to as many as it may have, for 0.
fn limit_fds(limit: u64) {
    match limit {
        0 => sys::limit_fds(u64::MAX),
        limit => sys::limit_fds_for_good(limit),
    }
}

/// Echoes until there is no number for another connection, then no longer listens, and echoes until all are
/// closed.
pub(crate) fn most_server(port: u16, limit: u64) -> Result<String, String> {
    limit_fds(limit);
    let listener = listen(port)?;
    listener.set_nonblocking(true).map_err(|e| e.to_string())?;
    let (ep, mut listener) = (sys::epoll(), Some(listener));
    sys::ep_add(ep, listener.as_ref().map_or(-1, |l| l.as_raw_fd()), libc::EPOLLIN, 0)
        .map_err(|e| format!("add: {e}"))?;
    let (mut conns, mut most) = (HashMap::new(), 0);
    while listener.is_some() || !conns.is_empty() {
        for (data, _) in sys::ep_wait(ep, -1).map_err(|e| format!("wait: {e}"))? {
            if data != 0 {
                echo(data, &mut conns);
                listener = listener.filter(|_| !conns.is_empty());
                continue;
            }
            let Some(l) = &listener else { continue };
            match l.accept() {
                Ok((conn, _)) => {
                    let fd = conn.into_raw_fd();
                    sys::ep_add(ep, fd, libc::EPOLLIN, fd as u64).map_err(|e| format!("add: {e}"))?;
                    conns.insert(fd as u64, fd);
                    most = most.max(conns.len());
                }
                Err(e) if e.raw_os_error() == Some(libc::EMFILE) => listener = None,
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(format!("accept: {e}")),
            }
        }
    }
    Ok(format!("{most} at once"))
}

/// As many connections as this process may have, or its server takes. Each is used when it is made, and when
/// all are there. Says how many, and how many were shared at first.
pub(crate) fn most(port: u16, limit: u64) -> Result<String, String> {
    limit_fds(limit);
    let (mut conns, mut shared) = (Vec::new(), 0);
    while let Ok(mut conn) = connect(port) {
        if !is_echoed(&mut conn, b"one") {
            break;
        }
        shared += in_shared_memory(core::slice::from_ref(&conn));
        conns.push(conn);
    }
    for (n, conn) in conns.iter_mut().enumerate() {
        if !is_echoed(conn, &message(n, 0)) {
            return Err(format!("connection {n} of {} has no echo", conns.len()));
        }
    }
    Ok(format!("most {} {shared}", conns.len()))
}

fn is_echoed(conn: &mut TcpStream, text: &[u8]) -> bool {
    let mut echo = vec![0; text.len()];
    conn.write_all(text).and_then(|()| conn.read_exact(&mut echo)).is_ok() && echo == text
}

fn message(n: usize, round: usize) -> Vec<u8> {
    format!("connection {n} round {round} {}", "x".repeat(n % 900)).into_bytes()
}

/// Of how many the server's bytes came through memory. (The client's may have been there before the server
/// looked, and are over TCP then.)
fn in_shared_memory(conns: &[TcpStream]) -> usize {
    conns.iter().filter(|c| sys::tcp_bytes(c.as_raw_fd()).is_some_and(|(r, _)| r <= 1)).count()
}
