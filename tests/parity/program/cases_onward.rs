//! One direction moves to TCP for good in the middle of a stream (MSG_ZEROCOPY, urgent data), while bytes lie
//! in its ring: a read has what lies there with what comes behind it, or who takes a short one for "drained"
//! waits for ever.

use crate::context::{Case, Cx, Pair, got, say, settle, until, until_queued, until_ready};
use isthmus_tests::sys::{self, Fd, Ret, ep_add, ep_mod, show};
use libc::{
    EPOLLET, EPOLLIN, EPOLLONESHOT, MSG_DONTWAIT, MSG_OOB, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, POLLIN, POLLPRI,
};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("onward.short_reads_by_edges", |cx| by_sets(cx, EPOLLIN | EPOLLET)),
    case("onward.short_reads_by_oneshots", |cx| by_sets(cx, EPOLLIN | EPOLLET | EPOLLONESHOT)),
    case("onward.by_every_read", by_every_read),
    case("onward.as_told_by_fionread", as_told_by_fionread),
    case("onward.blocking", blocking),
    case("onward.of_two_processes", of_two_processes),
    case("onward.behind_a_filter", behind_a_filter),
    case("onward.looks", looks),
    case("onward.up_to_a_mark", up_to_a_mark),
    case("onward.the_end", the_end),
];

/// More than there ever is.
const ROOM: usize = 64;

/// Four bytes, and four behind them by a call that moves the direction to TCP (`oob`: one of them is the
/// urgent one, and apart). How many a read has.
fn move_to_tcp(cx: &mut Cx, p: Pair, how: &str) -> usize {
    cx.ask(&format!("send {} aaaa", p.id));
    let sent = cx.ask(&format!("{how} {} bbbb", p.id));
    assert_eq!(sent, "4");
    let count = if how == "oob" { 7 } else { 8 };
    until_queued(p.fd, count as i32);
    count
}

/// A loop that waits whenever a read was short.
fn by_sets(cx: &mut Cx, events: i32) {
    for how in ["zerocopy", "oob"] {
        let p = cx.warm();
        sys::nonblocking(p.fd, true);
        let ep = sys::epoll();
        ep_add(ep, p.fd, events, 1).expect("add");
        move_to_tcp(cx, p, how);
        let mut has = String::new();
        while sys::ep_wait(ep, 60).is_ok_and(|told| !told.is_empty()) {
            let mut buf = [0; ROOM];
            match sys::read(p.fd, &mut buf) {
                Ok(count) => has.push_str(&String::from_utf8_lossy(&buf[..count])),
                Err(sys::Errno(libc::EAGAIN)) => {}
                Err(e) => has.push_str(&e.to_string()),
            }
            if events & EPOLLONESHOT != 0 {
                ep_mod(ep, p.fd, events, 1).expect("mod");
            }
        }
        say!("{how}: {has}");
        sys::close(ep).expect("close");
    }
}

/// Reads into two pieces.
fn in_pieces(fd: Fd, first: usize, by_message: bool, buf: &mut [u8]) -> Ret {
    let (head, tail) = buf.split_at_mut(first);
    let mut pieces = [head, tail];
    if by_message { sys::recvmsg(fd, &mut pieces, 0).0 } else { sys::readv(fd, &mut pieces) }
}

fn by_splice(fd: Fd, buf: &mut [u8]) -> Ret {
    let (r, w) = sys::pipe(0);
    let moved = sys::splice(fd, w, buf.len(), libc::SPLICE_F_NONBLOCK);
    if moved.is_ok() {
        sys::read(r, buf).expect("what was moved");
    }
    let _ = (sys::close(r), sys::close(w));
    moved
}

fn by_every_read(cx: &mut Cx) {
    type Call = fn(Fd, &mut [u8]) -> Ret;
    let calls: [(&str, Call); 9] = [
        ("read", |fd, buf| sys::read(fd, buf)),
        ("recv", |fd, buf| sys::recv(fd, buf, MSG_DONTWAIT)),
        ("recv for all", |fd, buf| sys::recv(fd, buf, MSG_DONTWAIT | MSG_WAITALL)),
        ("recv of none", |fd, buf| sys::recv(fd, buf, MSG_DONTWAIT | MSG_TRUNC)),
        ("readv", |fd, buf| in_pieces(fd, 4, false, buf)),
        ("readv across", |fd, buf| in_pieces(fd, 6, false, buf)),
        ("recvmsg", |fd, buf| in_pieces(fd, 2, true, buf)),
        ("splice", by_splice),
        ("recvfrom", |fd, buf| sys::recvfrom(fd, buf, 0).0),
    ];
    for how in ["zerocopy", "oob"] {
        for (name, call) in calls {
            let p = cx.warm();
            sys::nonblocking(p.fd, true);
            move_to_tcp(cx, p, how);
            let mut buf = [0; ROOM];
            let r = call(p.fd, &mut buf);
            say!("{how}, {name} -> {}, then {}", got(r, &buf), sys::queued(p.fd));
        }
    }
}

fn as_told_by_fionread(cx: &mut Cx) {
    for how in ["zerocopy", "oob"] {
        let p = cx.warm();
        move_to_tcp(cx, p, how);
        let mut buf = vec![0; sys::queued(p.fd) as usize];
        let r = sys::read(p.fd, &mut buf);
        say!("{how}: {} of {}, then {}", got(r, &buf), buf.len(), sys::queued(p.fd));
    }
}

/// What is there, and no more is waited for.
fn blocking(cx: &mut Cx) {
    let p = cx.warm();
    let count = move_to_tcp(cx, p, "zerocopy");
    let mut buf = [0; ROOM];
    let r = sys::read(p.fd, &mut buf);
    say!("read -> {}", got(r, &buf));
    let p = cx.warm();
    move_to_tcp(cx, p, "zerocopy");
    cx.ask(&format!("later 60 send {} cc", p.id));
    let r = sys::recv(p.fd, &mut buf[..count + 2], MSG_WAITALL);
    say!("recv for all -> {}", got(r, &buf));
}

/// The child reads for both.
fn of_two_processes(cx: &mut Cx) {
    let p = cx.warm();
    sys::nonblocking(p.fd, true);
    let ep = sys::epoll();
    ep_add(ep, p.fd, EPOLLIN | EPOLLET, 1).expect("add");
    let (r, w) = sys::pipe(0);
    let child = sys::fork(|| {
        let _ = sys::read(r, &mut [0; 1]);
        let mut buf = [0; ROOM];
        sys::read(p.fd, &mut buf).map_or(255, |count| count as u8)
    });
    move_to_tcp(cx, p, "zerocopy");
    let told = sys::ep_wait(ep, 1000);
    sys::write(w, b"x").expect("tell the child");
    say!("told {}, child {}", sys::show_events(told), sys::wait(child));
    say!("left {}", show(sys::read(p.fd, &mut [0; ROOM])));
}

/// Where little may be asked.
fn behind_a_filter(cx: &mut Cx) {
    let p = cx.warm();
    sys::nonblocking(p.fd, true);
    move_to_tcp(cx, p, "zerocopy");
    say!("filter {}", show(sys::deny(&[sys::Denied::Call(libc::SYS_acct)])));
    let mut buf = [0; ROOM];
    let r = sys::read(p.fd, &mut buf);
    say!("read -> {}", got(r, &buf));
}

fn looks(cx: &mut Cx) {
    for flags in [MSG_PEEK | MSG_DONTWAIT, MSG_PEEK | MSG_WAITALL] {
        for how in ["zerocopy", "oob"] {
            let p = cx.warm();
            let count = move_to_tcp(cx, p, how);
            let mut buf = [0; ROOM];
            let r = sys::recv(p.fd, &mut buf[..count], flags);
            say!("{how}, look -> {}", got(r, &buf));
            let mut buf = [0; ROOM];
            let r = sys::recv(p.fd, &mut buf, MSG_DONTWAIT);
            say!("{how}, read -> {}", got(r, &buf));
        }
    }
}

/// The mark comes right behind the ring: a read ends there, and so does a look.
fn up_to_a_mark(cx: &mut Cx) {
    for is_inline in [0, 1] {
        let p = cx.warm();
        sys::setopt(p.fd, libc::SOL_SOCKET, libc::SO_OOBINLINE, is_inline).expect("option");
        sys::nonblocking(p.fd, true);
        cx.ask(&format!("send {} aaaa", p.id));
        cx.ask(&format!("oob {} !", p.id));
        cx.ask(&format!("send {} bbbb", p.id));
        until_ready(p.fd, POLLIN | POLLPRI);
        settle();
        let mut buf = [0; ROOM];
        let r = sys::recv(p.fd, &mut buf, MSG_PEEK);
        say!("look -> {}", got(r, &buf));
        for _ in 0..3 {
            let mut buf = [0; ROOM];
            let r = sys::read(p.fd, &mut buf);
            say!("read -> {}, at mark {:?}", got(r, &buf), sys::at_mark(p.fd));
        }
        say!("urgent -> {}", show(sys::recv(p.fd, &mut [0; 1], MSG_OOB)));
    }
}

/// The stream ends, or is reset, behind what has moved: that is the next read's.
fn the_end(cx: &mut Cx) {
    for end in ["shut 1", "linger 1 0"] {
        let p = cx.warm();
        sys::nonblocking(p.fd, true);
        move_to_tcp(cx, p, "zerocopy");
        let (verb, rest) = end.split_once(' ').expect("words");
        cx.ask(&format!("{verb} {} {rest}", p.id));
        if verb == "linger" {
            cx.ask(&format!("close {}", p.id));
        }
        until("the end", || sys::tcp_state(p.fd) != 1);
        let mut buf = [0; ROOM];
        let r = sys::read(p.fd, &mut buf);
        say!("{verb}: read -> {}", got(r, &buf));
        say!("then {}", show(sys::read(p.fd, &mut buf)));
    }
}
