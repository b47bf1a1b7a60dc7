//! The connecting end: processes that make a thread or a process per connection, and one that resets volleys
//! of them. Invariant: which process makes a connection follows from its number.

use crate::connection::Connection;
use crate::drive;
use crate::hello::Hello;
use crate::run::{fault, run};
use crate::script::{SERVERS, Script, Side, VOLLEYS, forks, is_brief};
use crate::server;
use crate::steps::rest;
use crate::stream::Stream;
use crate::watchdog;
use isthmus_tests::sys::{self, Errno, Fd};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Connections of one process at a time.
const WIDTH: usize = 4;
/// The same of brief ones.
const BRIEF_WIDTH: usize = 150;

/// Makes connections until the run is over.
pub(crate) fn run_process(process: u64, ports: &[u16]) {
    if process == VOLLEYS {
        volleys(ports);
    } else if forks(process) {
        with_processes(process, ports);
    } else {
        std::thread::scope(|s| {
            for _ in 0..if is_brief() { BRIEF_WIDTH } else { WIDTH } {
                s.spawn(|| {
                    while let Some(number) = run().board.next(process) {
                        one(number, ports);
                    }
                });
            }
        });
    }
}

fn with_processes(process: u64, ports: &[u16]) {
    let mut children = HashMap::new();
    while let Some(number) = run().board.next(process) {
        let child = sys::fork(|| {
            one(number, ports);
            0
        });
        children.insert(child, number);
        while children.len() >= WIDTH {
            collect(&mut children);
        }
    }
    while !children.is_empty() {
        collect(&mut children);
    }
}

fn collect(children: &mut HashMap<i32, u64>) {
    let Some((pid, status)) = sys::reap(-1, 0) else { return children.clear() };
    let number = children.remove(&pid);
    server::ended(status, number.map(|n| (n, Side::Client)), pid);
}

/// One connection from its beginning to its end.
fn one(number: u64, ports: &[u16]) {
    let script = Script::of(run().seed, number);
    if number.is_multiple_of(53) {
        refused();
    }
    let Some(fd) = connect(ports[script.port()], script.slow_connect, number) else { return };
    let connection = Connection::new(number, Side::Client, fd);
    rest(script.silence);
    let hello = sys::send(fd, &Hello::Script(number).emit(), libc::MSG_NOSIGNAL);
    if let Err(e) = hello {
        connection.broken("the first send", e);
    }
    drive::to_the_end(&connection);
}

/// Nobody listens on port 1.
fn refused() {
    let fd = sys::tcp(libc::SOCK_CLOEXEC);
    let answer = sys::connect(fd, 1);
    if answer != Err(Errno(libc::ECONNREFUSED)) {
        fault("connect", None, &format!("a port without a listener answers {answer:?}"));
    }
    let _ = sys::close(fd);
}

/// A connected socket. A server that was just ended and starts again is waited for.
fn connect(port: u16, slow: bool, number: u64) -> Option<Fd> {
    let start = Instant::now();
    loop {
        let fd = sys::tcp(libc::SOCK_CLOEXEC | if slow { libc::SOCK_NONBLOCK } else { 0 });
        if fd < 0 {
            fault("connect", None, &format!("socket answers {}", sys::errno()));
            return None;
        }
        match connected(fd, port) {
            Ok(()) => return Some(fd),
            Err(_) if start.elapsed() < Duration::from_secs(5) && !run().board.stopped() => {
                let _ = sys::close(fd);
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(answer) => {
                if !run().board.stopped() {
                    fault("connect", None, &format!("connection {number} to port {port}: {answer}"));
                }
                let _ = sys::close(fd);
                return None;
            }
        }
    }
}

fn connected(fd: Fd, port: u16) -> Result<(), String> {
    match sys::connect(fd, port) {
        Ok(_) => Ok(()),
        Err(Errno(libc::EINPROGRESS)) => {
            let (ready, events) = sys::poll(&[(fd, libc::POLLOUT)], 20_000);
            let error = sys::so_error(fd);
            if ready == Ok(1) && error == "0" { Ok(()) } else { Err(format!("{ready:?} {events:?} {error}")) }
        }
        Err(e) => Err(e.to_string()),
    }
}

static VOLLEY: AtomicU64 = AtomicU64::new(0);

/// Many connections are made and reset, then honest ones follow while the server writes to the old
/// descriptors.
fn volleys(ports: &[u16]) {
    let mut random = testkit::Random::new(run().seed ^ 0x766f_6c6c);
    while !run().board.stopped() {
        let count = 50 + random.below(100);
        let fds: Vec<Fd> = (0..count).filter_map(|_| volley(ports)).collect();
        let unread = random.once_in(2);
        for fd in fds {
            if !unread {
                let _ = sys::set_linger(fd, true, 0);
            }
            let _ = sys::close(fd);
        }
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    if let Some(number) = run().board.next(VOLLEYS) {
                        one(number, ports);
                    }
                });
            }
        });
    }
}

/// Bytes read of a connection that is to be reset: enough to tell whose they are. The server writes more.
const READ: usize = crate::keeper::GREETING / 2;

/// One connection that is to be reset.
fn volley(ports: &[u16]) -> Option<Fd> {
    let number = crate::keeper::FIRST + VOLLEY.fetch_add(1, SeqCst) % crate::keeper::COUNT;
    let fd = connect(*ports.last()?, false, number)?;
    let hello = Hello::Volley(number).emit();
    let mut bytes = [0; READ];
    let sent = sys::send(fd, &hello, libc::MSG_NOSIGNAL);
    // No watchdog sees these: they are not on the board.
    sys::set_timeout(fd, libc::SO_RCVTIMEO, watchdog::patience_ms() as i64).expect("SO_RCVTIMEO");
    let got = sys::recv(fd, &mut bytes, libc::MSG_WAITALL);
    let wrong = Stream::new(run().seed, number, Side::Server).check(0, &bytes).err();
    match wrong {
        Some(wrong) if got == Ok(READ) => {
            fault(wrong.class, None, &format!("volley {number} reads {}", wrong.found))
        }
        _ if got == Err(Errno(libc::EAGAIN)) => {
            fault("hang", None, &format!("volley {number} is not answered"))
        }
        _ if run().board.server_broke(SERVERS.len() - 1) => {}
        _ if got != Ok(READ) || sent.is_err() => {
            fault("reset", None, &format!("volley {number}: send answers {sent:?}, recv {got:?}"));
        }
        _ => {}
    }
    Some(fd)
}
