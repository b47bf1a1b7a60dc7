//! Verdict stress: short connections of many shapes with random delays. Each end derives from the client's
//! port what the other will send, so a foreign, lost or doubled byte is seen at once, by whichever end it
//! reaches. Invariant: both ends of one connection name the same carrier: all bytes of the server's over TCP,
//! or none. (The client's may have been there before the server looked, and are over TCP then.)

use crate::{connect, listen};
use isthmus_tests::sys;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use testkit::{Random, Stream};

/// What the two ends of a connection do, known to both from the client's port.
struct Plan {
    server_first: bool,
    client_pause: u64,
    server_pause: u64,
    client_polls: bool,
    server_polls: bool,
    one_way: bool,
    to_server: usize,
    to_client: usize,
}

impl Plan {
    fn of(port: u16) -> Plan {
        let mut r = Random::new(u64::from(port) * 7919);
        // Most pauses are none or tiny; a few outlast any wait the library may make.
        let mut pause = || {
            if r.once_in(40) {
                30_000
            } else if r.once_in(2) {
                r.below(2000) as u64
            } else {
                0
            }
        };
        let (client_pause, server_pause) = (pause(), pause());
        Plan {
            server_first: r.once_in(3),
            client_pause,
            server_pause,
            client_polls: r.once_in(2),
            server_polls: r.once_in(2),
            one_way: r.once_in(5),
            to_server: 16 + r.size(40_000),
            to_client: 16 + r.size(40_000),
        }
    }
}

/// Serves until killed; "BAD" lines are mistakes, and every connection leaves "PORT CARRIER".
pub(crate) fn server(port: u16) -> Result<String, String> {
    let listener = listen(port)?;
    let out = Mutex::new(());
    std::thread::scope(|s| {
        for conn in listener.incoming() {
            let conn = conn.map_err(|e| format!("accept: {e}"))?;
            let out = &out;
            s.spawn(move || {
                let name = conn.peer_addr().map_or(0, |a| a.port());
                let line = serve(conn, &Plan::of(name)).unwrap_or_else(|e| format!("BAD {e}"));
                let _guard = out.lock();
                println!("{name} {line}");
            });
        }
        Ok(String::new())
    })
}

fn serve(mut conn: TcpStream, plan: &Plan) -> Result<String, String> {
    let name = conn.peer_addr().map_err(|e| e.to_string())?.port();
    std::thread::sleep(Duration::from_micros(plan.server_pause));
    if plan.server_polls {
        sys::poll1(conn.as_raw_fd(), libc::POLLIN, if plan.server_first { 0 } else { 5000 });
    }
    if plan.server_first {
        send(&mut conn, 2, name, plan.to_client)?;
    }
    expect(&mut conn, 1, name, plan.to_server)?;
    expect_end(&mut conn)?;
    if !plan.one_way && !plan.server_first {
        send(&mut conn, 2, name, plan.to_client)?;
    }
    isthmus_tests::within(Duration::from_secs(20), || sys::is_tcp_acked(conn.as_raw_fd()));
    Ok(carrier(plan, sys::tcp_bytes(conn.as_raw_fd()).map(|(received, acked)| [acked, received])))
}

pub(crate) fn client(port: u16, count: u64, seed: u64) -> Result<String, String> {
    let (shared, next) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|s| {
        let work = || {
            while next.fetch_add(1, Ordering::Relaxed) < count {
                let conn = connect(port)?;
                let name = conn.local_addr().map_err(|e| e.to_string())?.port();
                let carrier =
                    talk(conn, &Plan::of(name)).map_err(|e| format!("{name} (seed {seed}): {e}"))?;
                println!("{name} {carrier}");
                shared.fetch_add(u64::from(carrier == "shm"), Ordering::Relaxed);
            }
            Ok::<(), String>(())
        };
        let (a, b) = (s.spawn(work), s.spawn(work));
        a.join().map_err(|_| "panicked".to_string())??;
        b.join().map_err(|_| "panicked".to_string())?
    })?;
    Ok(format!("good {count} shared {}", shared.into_inner()))
}

fn talk(mut conn: TcpStream, plan: &Plan) -> Result<String, String> {
    let name = conn.local_addr().map_err(|e| e.to_string())?.port();
    conn.set_read_timeout(Some(Duration::from_secs(20))).map_err(|e| e.to_string())?;
    std::thread::sleep(Duration::from_micros(plan.client_pause));
    if plan.client_polls {
        sys::poll1(conn.as_raw_fd(), libc::POLLOUT, 5000);
    }
    if plan.server_first {
        expect(&mut conn, 2, name, plan.to_client)?;
    }
    send(&mut conn, 1, name, plan.to_server)?;
    conn.shutdown(Shutdown::Write).map_err(|e| format!("shutdown: {e}"))?;
    if !plan.one_way && !plan.server_first {
        expect(&mut conn, 2, name, plan.to_client)?;
    }
    expect_end(&mut conn)?;
    Ok(carrier(plan, sys::tcp_bytes(conn.as_raw_fd()).map(|(received, acked)| [received, acked])))
}

fn send(conn: &mut TcpStream, way: u64, name: u16, size: usize) -> Result<(), String> {
    let mut bytes = vec![0; size];
    Stream::new(u64::from(name) * 4 + way).fill(&mut bytes);
    let middle = size / 3;
    conn.write_all(&bytes[..middle])
        .and_then(|()| conn.write_all(&bytes[middle..]))
        .map_err(|e| format!("send: {e}"))
}

fn expect(conn: &mut TcpStream, way: u64, name: u16, size: usize) -> Result<(), String> {
    let (mut stream, mut buf, mut left) = (Stream::new(u64::from(name) * 4 + way), [0u8; 8192], size);
    while left > 0 {
        let want = left.min(buf.len());
        let n = conn.read(&mut buf[..want]).map_err(|e| format!("receive, {left} of {size} missing: {e}"))?;
        if n == 0 {
            return Err(format!("end with {left} of {size} missing"));
        }
        stream
            .check(&buf[..n])
            .map_err(|at| format!("foreign byte at offset {at} of {size}: {:?}", &buf[..n.min(48)]))?;
        left -= n;
    }
    Ok(())
}

fn expect_end(conn: &mut TcpStream) -> Result<(), String> {
    let mut rest = [0u8; 64];
    match conn.read(&mut rest) {
        Ok(0) => Ok(()),
        Ok(n) => Err(format!("{n} foreign bytes at the end: {:?}", &rest[..n])),
        Err(e) => Err(format!("no end: {e}")),
    }
}

/// "tcp" when the server's bytes crossed the kernel's TCP, "shm" when none did (FIN may count as one), else
/// "mixed". If there were none: "shm" when the client's did not cross it, else "unknown".
fn carrier(plan: &Plan, crossed: Option<[u64; 2]>) -> String {
    let [to_client, to_server] = crossed.unwrap_or_default();
    let is_silent = plan.one_way && !plan.server_first;
    let name = match to_client.max(if is_silent { to_server } else { 0 }) {
        0..=2 => "shm",
        _ if is_silent => "unknown",
        most if most >= plan.to_client as u64 => "tcp",
        _ => "mixed",
    };
    name.into()
}
