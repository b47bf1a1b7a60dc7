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

/// As many connections as a process may have that is limited for good; twice, since what was closed comes
/// back. Each is used once.
pub(crate) fn most(port: u16, limit: u64) -> Result<String, String> {
    sys::limit_fds_for_good(limit);
    let mut said = String::new();
    for _ in 0..2 {
        let mut conns = Vec::new();
        while let Ok(conn) = connect(port) {
            conns.push(conn);
            let conn = conns.last_mut().ok_or("none")?;
            conn.write_all(b"one").map_err(|e| format!("connection: {e}"))?;
            conn.read_exact(&mut [0; 3]).map_err(|e| format!("connection: {e}"))?;
        }
        let shared = in_shared_memory(&conns);
        said.push_str(&format!("{} {shared} ", conns.len()));
    }
    Ok(format!("most {said}"))
}

fn message(n: usize, round: usize) -> Vec<u8> {
    format!("connection {n} round {round} {}", "x".repeat(n % 900)).into_bytes()
}

fn in_shared_memory(conns: &[TcpStream]) -> usize {
    conns.iter().filter(|c| sys::tcp_bytes(c.as_raw_fd()).is_some_and(|(r, a)| r + a <= 3)).count()
}
