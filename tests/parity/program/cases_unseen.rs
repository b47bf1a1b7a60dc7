//! A server's end that goes without ever having been looked at, with bytes in it: to TCP these are unread
//! bytes, and the client learns of a reset, whatever it does next or waits in.

use crate::context::{Case, Cx, Role, say, settle};
use isthmus_tests::sys::{self, Fd, poll1, show, so_error};
use libc::{EPOLLIN, EPOLLOUT, EPOLLRDHUP, MSG_DONTWAIT, MSG_NOSIGNAL, POLLIN, POLLOUT, POLLRDHUP};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("unseen.closed", |cx| table(cx, "close 0")),
    case("unseen.exited", |cx| table(cx, "exit")),
    case("unseen.killed", |cx| table(cx, "die")),
    case("unseen.closed_by_us", closed_by_us),
    case("unseen.closed_with_nothing_in_it", nothing_in_it),
    case("unseen.left_to_a_child", left_to_a_child),
];

const ALL: i16 = POLLIN | POLLOUT | POLLRDHUP;

fn table(_: &mut Cx, end: &'static str) {
    let calls = ["rrww", "wwrr", "poll", "epoll", "error", "in_recv", "in_poll", "in_epoll"];
    let rows: Vec<_> = calls.into_iter().map(|call| std::thread::spawn(move || row(end, call))).collect();
    rows.into_iter().for_each(|row| say!("{}", row.join().expect("a row")));
}

fn row(end: &str, call: &str) -> String {
    let mut cx = Cx::start(Role::Client, false);
    let fd = cx.pair().fd;
    let ep = sys::epoll();
    let _ = sys::ep_add(ep, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP, 1);
    let first = show(sys::send(fd, b"request", MSG_NOSIGNAL));
    settle();
    let waits = call.to_string();
    let waiting = std::thread::spawn(move || match waits.as_str() {
        "in_recv" => format!("recv {}", show(sys::recv(fd, &mut [0; 9], 0))),
        "in_poll" => format!("poll {}", poll1(fd, POLLIN | POLLRDHUP, 5000)),
        "in_epoll" => {
            let _ = sys::ep_mod(ep, fd, EPOLLIN | EPOLLRDHUP, 2);
            format!("epoll {}", sys::ep_show(ep, 5000))
        }
        _ => String::new(),
    });
    settle();
    match end {
        "close 0" => drop(cx.ask(end)),
        end => cx.end_by(end),
    }
    settle();
    let waited = waiting.join().expect("a waiting call");
    let told = match call {
        "rrww" => [read(fd), read(fd), write(fd), write(fd)].join(", "),
        "wwrr" => [write(fd), write(fd), read(fd), read(fd)].join(", "),
        "epoll" => [sys::ep_show(ep, 0), sys::ep_show(ep, 0), read(fd), sys::ep_show(ep, 0)].join(", "),
        "error" => [so_error(fd), so_error(fd), read(fd)].join(", "),
        _ => [poll1(fd, ALL, 0), read(fd), poll1(fd, ALL, 0), read(fd)].join(", "),
    };
    let _ = (sys::close(ep), sys::close(fd));
    cx.end_quietly();
    format!("{call}: {first} {waited} {told}")
}

fn read(fd: Fd) -> String {
    format!("read {}", show(sys::recv(fd, &mut [0; 9], MSG_DONTWAIT)))
}

fn write(fd: Fd) -> String {
    format!("write {}", show(sys::send(fd, b"late", MSG_NOSIGNAL)))
}

/// The same, this end being the one that goes: many times, for who is first is a matter of luck.
fn closed_by_us(cx: &mut Cx) {
    let (l, port) = sys::listener();
    for id in 0..5 {
        cx.ask(&format!("connect {id} {port}"));
        let fd = sys::accept(l).expect("accept") as Fd;
        cx.peer(&format!("send {id} request"));
        settle();
        say!("close -> {}", show(sys::close(fd)));
        settle();
        cx.peer(&format!("recv {id} 9"));
        cx.peer(&format!("recv {id} 9"));
        cx.peer(&format!("send {id} x"));
        cx.peer(&format!("close {id}"));
    }
}

/// Nothing was written: an end in order.
fn nothing_in_it(cx: &mut Cx) {
    let (l, port) = sys::listener();
    cx.ask(&format!("connect 0 {port}"));
    let fd = sys::accept(l).expect("accept") as Fd;
    say!("close -> {}", show(sys::close(fd)));
    settle();
    cx.peer("recv 0 9");
    cx.peer("send 0 x");
    settle();
    cx.peer("send 0 y");
    cx.peer("recv 0 9");
}

/// The parent closes without a look, and a child has the socket still: nothing has ended.
fn left_to_a_child(cx: &mut Cx) {
    let (l, port) = sys::listener();
    cx.ask(&format!("connect 0 {port}"));
    let fd = sys::accept(l).expect("accept") as Fd;
    cx.peer("send 0 request");
    let pid = sys::fork(|| {
        sys::poll_nothing(200).expect("a pause");
        let mut buf = [0; 9];
        u8::from(sys::read(fd, &mut buf) != Ok(7) || sys::write(fd, b"answer") != Ok(6))
    });
    say!("close -> {}", show(sys::close(fd)));
    cx.peer("recv 0 9");
    say!("child {}", sys::wait(pid));
    cx.peer("recv 0 9");
}
