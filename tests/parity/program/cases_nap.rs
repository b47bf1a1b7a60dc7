//! What ends a blocked call on a connection where short sleeps follow each other: there a waiter may look at
//! less than a sleeper would, and everything but data has to reach it all the same.

use crate::cases_signal::Nagger;
use crate::context::{Case, Cx, got, say};
use isthmus_tests::sys::{self, Blocking, Fd, show};
use libc::SIGUSR1;
use std::time::Duration;

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

pub(crate) const CASES: &[Case] = &[
    case("nap.data", data),
    case("nap.peer_shuts_down", peer_shuts_down),
    case("nap.peer_closes", peer_closes),
    case("nap.last_words", last_words),
    case("nap.peer_exits", peer_exits),
    case("nap.peer_dies", peer_dies),
    case("nap.own_shutdown", own_shutdown),
    case("nap.interrupted", interrupted),
    case("nap.restarted", restarted),
    case("nap.timeout", timeout),
    case("nap.cancel", cancel),
    case("nap.two_readers", two_readers),
    case("nap.reader_and_poller", reader_and_poller),
];

/// Short sleeps in a row: each byte comes when the reader sleeps.
fn doze(cx: &mut Cx, fd: Fd) {
    let mut all = vec![];
    for _ in 0..8 {
        cx.ask("later 2 send 0 z");
        let mut byte = [0];
        assert_eq!(sys::read(fd, &mut byte), Ok(1));
        all.push(byte[0]);
    }
    assert_eq!(all, b"zzzzzzzz");
}

fn dozing(cx: &mut Cx) -> Fd {
    let fd = cx.warm().fd;
    doze(cx, fd);
    fd
}

fn read_say(what: &str, fd: Fd) {
    let mut buf = [0u8; 9];
    let r = sys::read(fd, &mut buf);
    say!("{what} -> {}", got(r, &buf));
}

fn data(cx: &mut Cx) {
    let fd = dozing(cx);
    cx.ask("later 100 send 0 late");
    read_say("after a long sleep", fd);
    doze(cx, fd);
    cx.ask("later 2 send 0 soon");
    read_say("after a short one", fd);
}

fn peer_shuts_down(cx: &mut Cx) {
    let fd = dozing(cx);
    cx.ask("later 2 shut 0 1");
    read_say("read", fd);
    say!("write -> {}", show(sys::write(fd, b"still open")));
    say!("peer {}", cx.ask("recv 0 20"));
}

fn peer_closes(cx: &mut Cx) {
    let fd = dozing(cx);
    cx.ask("later 2 close 0");
    read_say("read", fd);
    read_say("again", fd);
}

/// The close comes before the next nap could be asked to end.
fn last_words(cx: &mut Cx) {
    let fd = dozing(cx);
    cx.tell("later 2 last 0 bye");
    let mut seen = vec![];
    let mut byte = [0];
    while sys::read(fd, &mut byte) == Ok(1) {
        seen.push(byte[0]);
    }
    say!("end of the stream after {}", seen.len() % 3);
    cx.answer();
}

fn peer_exits(cx: &mut Cx) {
    let fd = dozing(cx);
    cx.ask("later 2 exit");
    read_say("read", fd);
}

fn peer_dies(cx: &mut Cx) {
    let fd = dozing(cx);
    let pid = cx.peer_pid();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(2));
        sys::kill(pid, libc::SIGKILL)
    });
    read_say("read", fd);
    killer.join().expect("killer").expect("kill");
    read_say("again", fd);
}

fn own_shutdown(cx: &mut Cx) {
    let fd = dozing(cx);
    let other = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(2));
        sys::shutdown(fd, libc::SHUT_RD)
    });
    read_say("read", fd);
    say!("shutdown -> {}", show(other.join().expect("other")));
}

fn interrupted(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::catch(SIGUSR1, false);
    for _ in 0..5 {
        doze(cx, fd);
        let nagger = Nagger::every(Duration::from_millis(2), sys::this_thread());
        read_say("read", fd);
        nagger.stop();
    }
    say!("handler ran: {}", sys::hits() >= 5);
    cx.peer("send 0 abc");
    read_say("read", fd);
}

fn restarted(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::catch(SIGUSR1, true);
    for _ in 0..5 {
        doze(cx, fd);
        cx.ask("later 20 send 0 abc");
        let nagger = Nagger::every(Duration::from_millis(2), sys::this_thread());
        read_say("read", fd);
        nagger.stop();
    }
}

fn timeout(cx: &mut Cx) {
    let fd = dozing(cx);
    for ms in [1, 3, 30] {
        say!("set {ms} -> {}", show(sys::set_timeout(fd, libc::SO_RCVTIMEO, ms)));
        read_say("read", fd);
        say!("reset -> {}", show(sys::set_timeout(fd, libc::SO_RCVTIMEO, 0)));
        doze(cx, fd);
    }
}

fn cancel(cx: &mut Cx) {
    let fd = cx.warm().fd;
    for what in [Blocking::Read, Blocking::Recv] {
        doze(cx, fd);
        say!("{what:?} {}", sys::cancel_in(what, fd, 2));
    }
    doze(cx, fd);
    cx.peer("send 0 abc");
    read_say("read", fd);
}

fn two_readers(cx: &mut Cx) {
    let fd = dozing(cx);
    let readers = [(); 2].map(|()| {
        std::thread::spawn(move || {
            let mut buf = [0u8; 4];
            let mut seen = 0;
            while let Ok(n @ 1..) = sys::read(fd, &mut buf) {
                seen += n;
            }
            seen
        })
    });
    for _ in 0..20 {
        cx.peer("send 0 abcd");
        std::thread::sleep(Duration::from_millis(1));
    }
    cx.peer("shut 0 1");
    let seen: usize = readers.into_iter().map(|reader| reader.join().expect("reader")).sum();
    say!("both saw {seen} bytes and the end");
}

fn reader_and_poller(cx: &mut Cx) {
    let fd = dozing(cx);
    let d = sys::dup(fd).expect("dup") as Fd;
    let poller = std::thread::spawn(move || sys::poll1(d, libc::POLLIN | libc::POLLRDHUP, 5000));
    std::thread::sleep(Duration::from_millis(1));
    cx.ask("later 2 shut 0 1");
    read_say("reader", fd);
    say!("poller {}", poller.join().expect("poller"));
}
