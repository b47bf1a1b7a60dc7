//! What waits between the two programs: the queues that ioctl tells, closes that linger, and connections that
//! nobody has accepted yet.

use crate::context::{Case, Cx, fill, got, say, settle, until, until_queued};
use isthmus_tests::sys::{self, Fd, show};
use libc::SOL_SOCKET;
use std::time::{Duration, Instant};

const SIOCATMARK: u64 = 0x8905;
const SIOCOUTQNSD: u64 = 0x894B;

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

pub(crate) const CASES: &[Case] = &[
    case("queue.unread_message", unread_message),
    Case { name: "queue.full", shm: false, run: full },
    Case { name: "queue.urgent_mark", shm: false, run: urgent_mark },
    Case { name: "queue.linger_when_full", shm: false, run: linger_when_full },
    Case { name: "queue.linger_until_read", shm: false, run: linger_until_read },
    Case { name: "queue.linger_in_vain", shm: false, run: linger_in_vain },
    case("queue.accepted_late", accepted_late),
    case("queue.listener_reopened", listener_reopened),
];

fn told(fd: Fd, request: u64) -> i32 {
    let (r, value) = sys::ioctl_int(fd, request, -1);
    if r.is_ok() { value } else { -2 }
}

/// The peer's kernel has it, whether its program reads or not: who waits for an empty queue before a close
/// goes on.
fn unread_message(cx: &mut Cx) {
    let fd = cx.warm().fd;
    say!("write -> {}", show(sys::write(fd, &[5; 5000])));
    settle();
    say!("out {} unsent {}", told(fd, libc::TIOCOUTQ), told(fd, SIOCOUTQNSD));
    say!("in {} mark {}", told(fd, libc::FIONREAD), told(fd, SIOCATMARK));
    cx.peer("recvn 0 5000");
    cx.peer("send 0 abc");
    until_queued(fd, 3);
    say!("in {} mark {}", told(fd, libc::FIONREAD), told(fd, SIOCATMARK));
}

fn full(cx: &mut Cx) {
    let fd = cx.warm().fd;
    fill(fd);
    settle();
    say!("out {} unsent {}", told(fd, libc::TIOCOUTQ) > 0, told(fd, SIOCOUTQNSD) > 0);
    cx.tell("discard 0");
    until("an empty queue", || told(fd, libc::TIOCOUTQ) == 0);
    say!("unsent {}", told(fd, SIOCOUTQNSD));
    say!("shutdown -> {}", show(sys::shutdown(fd, libc::SHUT_WR)));
    say!("{}", cx.answer());
}

/// Urgent data marks a place behind what was sent before it.
fn urgent_mark(cx: &mut Cx) {
    let fd = cx.warm().fd;
    cx.peer("send 0 abc");
    cx.peer("oob 0 X");
    settle();
    say!("mark {} {}", told(fd, SIOCATMARK), show(sys::at_mark(fd)));
    let mut buf = [0u8; 3];
    let r = sys::recv(fd, &mut buf, libc::MSG_WAITALL);
    say!("read -> {}", got(r, &buf));
    until("the mark", || told(fd, SIOCATMARK) == 1);
    say!("at it {}, of nothing {}", show(sys::at_mark(fd)), show(sys::at_mark(-1)));
}

/// Closes with a full queue while the other end does as it was told; whether that took so long at least.
fn lingering(cx: &mut Cx, prepare: &str, at_least: Duration) {
    let fd = cx.warm().fd;
    fill(fd);
    say!("linger -> {}", show(sys::set_linger(fd, true, 1)));
    cx.ask(prepare);
    let begin = Instant::now();
    say!("close -> {}", show(sys::close(fd)));
    say!("waited {}", begin.elapsed() >= at_least);
}

fn linger_when_full(cx: &mut Cx) {
    lingering(cx, "queued 0", Duration::from_millis(900));
    cx.peer("discard 0");
}

/// Ends when the other end's kernel has all of it, not at the end of its time.
fn linger_until_read(cx: &mut Cx) {
    lingering(cx, "later 150 discard 0", Duration::from_millis(140));
    settle();
}

/// Nothing to wait for: what was written is the other kernel's already, though its program does not read.
fn linger_in_vain(cx: &mut Cx) {
    let fd = cx.warm().fd;
    say!("write -> {}", show(sys::write(fd, &[5; 5000])));
    settle();
    say!("linger -> {}", show(sys::set_linger(fd, true, 30)));
    say!("close -> {}", show(sys::close(fd)));
    cx.peer("drain 0");
}

/// A connection that waits in the backlog of a busy server for longer than an unanswered one is waited for.
fn accepted_late(cx: &mut Cx) {
    let (l, port) = sys::listener();
    cx.ask(&format!("connect 7 {port}"));
    cx.peer("send 7 early");
    cx.tell("recv 7 9");
    std::thread::sleep(Duration::from_millis(3500));
    let s = sys::accept(l).expect("accept") as Fd;
    cx.watch(s);
    cx.wrote_early(5);
    let mut buf = [0u8; 9];
    let r = sys::recv(s, &mut buf[..5], libc::MSG_WAITALL);
    say!("read -> {}", got(r, &buf));
    say!("write -> {}", show(sys::write(s, b"late")));
    say!("{}", cx.answer());
    cx.peer("send 7 again");
    let r = sys::read(s, &mut buf);
    say!("read -> {}", got(r, &buf));
}

/// A server that starts again at once is found at once.
fn listener_reopened(cx: &mut Cx) {
    let (mut l, port) = sys::listener();
    for id in 0..4 {
        cx.ask(&format!("connect {id} {port}"));
        let s = sys::accept(l).expect("accept") as Fd;
        cx.watch(s);
        cx.wrote_early(5);
        cx.peer(&format!("send {id} hello"));
        let mut buf = [0u8; 5];
        let r = sys::recv(s, &mut buf, libc::MSG_WAITALL);
        say!("read -> {}", got(r, &buf));
        say!("write -> {}", show(sys::write(s, b"answer")));
        cx.peer(&format!("recv {id} 9"));
        sys::close(l).expect("close");
        l = sys::tcp_listener(libc::SOCK_CLOEXEC);
        sys::setopt(l, SOL_SOCKET, libc::SO_REUSEADDR, 1).expect("reuse");
        say!("bind, listen -> {} {}", show(sys::bind(l, port)), show(sys::listen(l, 4)));
    }
}
