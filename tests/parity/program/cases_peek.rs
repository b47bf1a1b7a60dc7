//! SO_PEEK_OFF: a peek goes on behind the last one. And time limits that hardly anybody sets.

use crate::context::{Case, Cx, got, say, until_queued};
use isthmus_tests::sys::{self, Fd, show};
use libc::{MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, SO_PEEK_OFF, SOL_SOCKET};

const fn case(name: &'static str, shm: bool, run: fn(&mut Cx)) -> Case {
    Case { name, shm, run }
}

pub(crate) const CASES: &[Case] = &[
    case("peek.offset", true, offset),
    case("peek.offset_from_the_start", true, offset_from_the_start),
    case("peek.waits_behind_the_offset", true, waits_behind_the_offset),
    case("peek.odd_time_limits", false, odd_time_limits),
    case("peek.negative_limit_before_connecting", false, negative_limit_before_connecting),
];

fn peek(fd: Fd, len: usize) {
    let mut buf = [0; 12];
    let r = sys::recv(fd, &mut buf[..len], MSG_PEEK | MSG_DONTWAIT);
    say!("peek {len} -> {} offset {:?}", got(r, &buf), sys::getopt(fd, SOL_SOCKET, SO_PEEK_OFF));
}

fn set(fd: Fd, offset: i32) {
    say!("set {offset} -> {}", show(sys::setopt(fd, SOL_SOCKET, SO_PEEK_OFF, offset)));
}

fn take(fd: Fd, len: usize, flags: i32) {
    let mut buf = [0; 12];
    say!("take {len} -> {}", show(sys::recv(fd, &mut buf[..len], flags)));
}

fn offset(cx: &mut Cx) {
    let fd = cx.warm().fd;
    set(fd, 0);
    cx.peer("send 0 0123456789");
    until_queued(fd, 10);
    peek(fd, 3);
    peek(fd, 3);
    take(fd, 2, 0);
    peek(fd, 2);
    peek(fd, 9);
    peek(fd, 9);
    set(fd, 1);
    peek(fd, 2);
    take(fd, 5, 0);
    set(fd, -1);
    peek(fd, 2);
    peek(fd, 2);
    set(fd, 5);
    peek(fd, 2);
    take(fd, 9, MSG_TRUNC | MSG_DONTWAIT);
    peek(fd, 2);
}

fn offset_from_the_start(cx: &mut Cx) {
    let port = cx.listening_peer();
    let fd = sys::tcp(libc::SOCK_CLOEXEC);
    set(fd, 0);
    sys::connect(fd, port).expect("connect");
    cx.watch(fd);
    cx.ask("accept 0");
    cx.peer("send 0 0123456789");
    until_queued(fd, 10);
    peek(fd, 3);
    peek(fd, 3);
    say!("write -> {}", show(sys::write(fd, b"abc")));
    cx.peer("recvn 0 3");
}

fn waits_behind_the_offset(cx: &mut Cx) {
    let fd = cx.warm().fd;
    set(fd, 2);
    cx.ask("send 0 01");
    until_queued(fd, 2);
    cx.ask("later 60 send 0 23456");
    let mut buf = [0; 4];
    let r = sys::recv(fd, &mut buf, MSG_PEEK | MSG_WAITALL);
    say!("peek -> {}", got(r, &buf));
    let r = sys::recv(fd, &mut buf, 0);
    say!("recv -> {}", got(r, &buf));
    set(fd, 9);
    cx.peer("close 0");
    let r = sys::recv(fd, &mut buf, MSG_PEEK);
    say!("peek behind the end -> {}", got(r, &buf));
    let r = sys::recv(fd, &mut buf, 0);
    say!("recv -> {}", got(r, &buf));
}

fn odd_time_limits(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let mut buf = [0; 9];
    for ms in [-1000, -1, 0, 1, 1 << 50, 18_446_744_074_000, 36_893_488_148_000] {
        say!("limit {ms} -> {}", show(sys::set_timeout(fd, libc::SO_RCVTIMEO, ms)));
        cx.ask("later 100 send 0 x");
        let r = sys::recv(fd, &mut buf, 0);
        say!("recv -> {}", got(r, &buf));
        if r.is_err() {
            until_queued(fd, 1);
            say!("recv -> {}", show(sys::recv(fd, &mut buf, 0)));
        }
    }
    say!("limit -> {}", show(sys::set_timeout(fd, libc::SO_SNDTIMEO, -1000)));
    let long = vec![0; 64 << 20];
    let first = sys::send(fd, &long, libc::MSG_NOSIGNAL);
    say!("send in part: {}", first.is_ok_and(|n| n > 0 && n < long.len()));
}

fn negative_limit_before_connecting(cx: &mut Cx) {
    let port = cx.listening_peer();
    let fd = sys::tcp(libc::SOCK_CLOEXEC);
    say!("limit -> {}", show(sys::set_timeout(fd, libc::SO_RCVTIMEO, -1000)));
    say!("connect -> {}", show(sys::connect(fd, port)));
    cx.ask("accept 0");
    say!("recv -> {}", show(sys::recv(fd, &mut [0; 9], 0)));
    cx.peer("send 0 x");
    until_queued(fd, 1);
    say!("recv -> {}", show(sys::recv(fd, &mut [0; 9], 0)));
}
