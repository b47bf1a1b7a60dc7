//! The serving end: processes of all the usual kinds. Invariant: a server runs until it is killed, and
//! collects what it starts.

use crate::board::CUT;
use crate::connection::Connection;
use crate::drive;
use crate::event_loop;
use crate::hello::Hello;
use crate::keeper;
use crate::mid::program;
use crate::run::{fault, run};
use crate::script::{Server, Side};
use crate::turns;
use crate::watchdog;
use isthmus_tests::sys::{self, Fd};

/// Serves on a port for ever.
pub(crate) fn run_process(kind: Server, variant: usize, port: u16) {
    let listener = sys::tcp_listener(libc::SOCK_CLOEXEC);
    sys::setopt(listener, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1).expect("SO_REUSEADDR");
    sys::bind(listener, port).expect("bind");
    sys::listen(listener, 1024).expect("listen");
    match kind {
        Server::Single => one_after_the_other(listener),
        Server::PreFork => pre_fork(listener),
        Server::Threads => each(listener, |fd| {
            std::thread::spawn(move || serve(fd));
        }),
        Server::Fork => each(listener, |fd| process(listener, fd, false)),
        Server::Inetd => each(listener, |fd| process(listener, fd, true)),
        Server::Loop => event_loop::serve(listener, variant),
        Server::Turns => turns::serve(listener),
        Server::Keeper => keeper::serve(listener),
    }
}

fn each(listener: Fd, serve: impl Fn(Fd)) {
    loop {
        if let Ok(fd) = sys::accept4(listener, libc::SOCK_CLOEXEC) {
            serve(fd as Fd);
        }
    }
}

fn one_after_the_other(listener: Fd) {
    each(listener, serve);
}

/// One accepted connection from its first byte to its end.
fn serve(fd: Fd) {
    match Hello::read(fd) {
        Some(Hello::Script(number)) => drive::to_the_end(&Connection::new(number, Side::Server, fd)),
        _ => _ = sys::close(fd),
    }
}

/// The first process makes another one for each that ends.
fn pre_fork(listener: Fd) {
    let worker = || {
        sys::fork(|| {
            one_after_the_other(listener);
            0
        })
    };
    let _ = [worker(), worker(), worker()];
    while let Some((pid, status)) = sys::reap(-1, 0) {
        ended(status, None, pid);
        worker();
    }
}

/// A process for one connection, replaced by a fresh program if asked.
fn process(listener: Fd, fd: Fd, exec: bool) {
    sys::fork(|| {
        let _ = sys::close(listener);
        if exec {
            inetd(fd)
        } else {
            serve(fd)
        }
        0
    });
    let _ = sys::close(fd);
    while let Some((pid, status)) = sys::reap(-1, libc::WNOHANG) {
        ended(status, None, pid);
    }
}

fn inetd(fd: Fd) {
    for number in [0, 1] {
        sys::dup2(fd, number).expect("dup2 to standard input and output");
    }
    let words = ["torture-load", "inetd", &run().folder.to_string_lossy(), &run().seed.to_string()];
    let error = sys::execv(&program(), &words.map(String::from));
    panic!("exec of {} fails with {error}", program());
}

/// The socket is standard input and output.
pub(crate) fn inetd_started() {
    match Hello::read(0) {
        Some(Hello::Script(number)) => {
            let connection = Connection::new(number, Side::Server, 0);
            connection.copies.lock().expect("no panic").push(1);
            drive::to_the_end(&connection);
        }
        _ => sys::exit_now(0),
    }
}

/// Judges how a process of one connection ended: only one that said so first may end badly.
pub(crate) fn ended(status: i32, place: Option<(u64, Side)>, pid: i32) {
    if status == 0 {
        return;
    }
    let board = run().board;
    let places = (0..board.frontier()).rev().flat_map(|n| Side::BOTH.map(|side| (n, side)));
    let mut owned = places.filter(|(n, side)| board.end(*n, *side).pid() == pid);
    let place = place.or_else(|| owned.next());
    if watchdog::has_killed(pid, status) || place.is_some_and(|(n, side)| board.end(n, side).is(CUT)) {
        return;
    }
    fault("crash", place, &format!("a process ended with {}", sys::show_status(status)));
}
