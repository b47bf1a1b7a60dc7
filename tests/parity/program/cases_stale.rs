//! Sets that hold a socket by a number which is closed: a duplicate, or another process, keeps it open. What
//! such an entry tells is the old socket's, and nothing of it touches who has the number by then.

use crate::context::{Case, Cx, Pair, say, settle, until_ready};
use isthmus_tests::sys::{self, Fd, ep_add, ep_show, show};
use libc::{EPOLLET, EPOLLIN, EPOLLRDHUP, MSG_DONTWAIT, POLLIN};

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    any("stale.number_is_anothers", |cx| number_is_anothers(cx, EPOLLIN)),
    any("stale.number_is_anothers_edge", |cx| number_is_anothers(cx, EPOLLIN | EPOLLET)),
    any("stale.number_is_anothers_of_no_side", |cx| number_is_anothers(cx, EPOLLRDHUP)),
    any("stale.number_is_anothers_in_the_set", number_is_anothers_in_the_set),
    any("stale.number_is_closed", number_is_closed),
    any("stale.goes_home", goes_home),
    any("stale.unconnected", |_| kept_by_an_older_duplicate(false, sys::close)),
    any("stale.refused", |_| kept_by_an_older_duplicate(true, sys::close)),
    any("stale.refused_and_replaced", |_| {
        kept_by_an_older_duplicate(true, |fd| sys::dup2(sys::pipe(0).0, fd))
    }),
    any("stale.kept_by_a_child", |cx| kept_by_a_child(cx, EPOLLIN | EPOLLRDHUP)),
    any("stale.kept_by_a_child_edge", |cx| kept_by_a_child(cx, EPOLLIN | EPOLLRDHUP | EPOLLET)),
    any("stale.child_waits_on", |cx| child_waits_on(cx, EPOLLIN)),
    any("stale.child_waits_on_edge", |cx| child_waits_on(cx, EPOLLIN | EPOLLET)),
];

/// A connection that is in a set by a number that is closed; a duplicate keeps it open.
fn stale(cx: &mut Cx, events: i32) -> (Pair, Fd, Fd) {
    let (p, ep) = (cx.warm(), sys::epoll());
    say!("add {}", show(ep_add(ep, p.fd, events, 1)));
    let kept = sys::dup(p.fd).expect("dup") as Fd;
    (p, ep, kept)
}

/// Both directions of a connection that has nothing to do with the set's.
fn is_whole(cx: &mut Cx, q: Pair) {
    say!("nothing has come {}", show(sys::recv(q.fd, &mut [0; 9], MSG_DONTWAIT)));
    cx.peer(&format!("poll {} {POLLIN} 0", q.id));
    say!("send {}", show(sys::send(q.fd, b"hello", libc::MSG_NOSIGNAL)));
    cx.peer(&format!("recv {} 9", q.id));
    cx.peer(&format!("send {} answer", q.id));
    say!("recv {}", show(sys::recv(q.fd, &mut [0; 9], 0)));
}

fn number_is_anothers(cx: &mut Cx, events: i32) {
    let (p, ep, kept) = stale(cx, events);
    say!("never read {}", show(sys::write(p.fd, b"never read")));
    say!("close {}", show(sys::close(p.fd)));
    let q = cx.warm();
    say!("it has the number {}", q.fd == p.fd);
    cx.peer("close 0");
    until_ready(kept, libc::POLLHUP);
    say!("told of the old one {}", ep_show(ep, 1000));
    is_whole(cx, q);
    say!("and again {}", ep_show(ep, 20));
    is_whole(cx, q);
}

/// The new socket is in the same set: what is asked of the old one is not asked of it.
fn number_is_anothers_in_the_set(cx: &mut Cx) {
    let (p, ep, kept) = stale(cx, EPOLLIN);
    say!("close {}", show(sys::close(p.fd)));
    let q = cx.warm();
    say!("it has the number {}", q.fd == p.fd);
    say!("add {}", show(ep_add(ep, q.fd, EPOLLIN | EPOLLET, 2)));
    cx.peer("shut 0 1");
    until_ready(kept, libc::POLLRDHUP);
    say!("told of the old one {}", ep_show(ep, 1000));
    cx.peer("send 1 x");
    until_ready(q.fd, POLLIN);
    settle();
    say!("told of both {}", ep_show(ep, 1000));
    say!("and of the old one {}", ep_show(ep, 1000));
    say!("close {}", show(sys::close(kept)));
    cx.peer("send 1 x");
    say!("told of the new one {}", ep_show(ep, 1000));
}

fn number_is_closed(cx: &mut Cx) {
    let (p, ep, kept) = stale(cx, EPOLLIN | EPOLLRDHUP);
    say!("never read {}", show(sys::write(p.fd, b"never read")));
    say!("close {}", show(sys::close(p.fd)));
    cx.peer("close 0");
    until_ready(kept, libc::POLLHUP);
    say!("told {}", ep_show(ep, 1000));
    say!("told {}", ep_show(ep, 1000));
}

/// Nobody can change the entry any more when the connection goes back to TCP.
fn goes_home(cx: &mut Cx) {
    let (p, ep, kept) = stale(cx, EPOLLIN | EPOLLET);
    say!("close {}", show(sys::close(p.fd)));
    say!("idle {}", ep_show(ep, 20));
    say!("urgent {}", show(sys::send(kept, b"!", libc::MSG_OOB)));
    cx.peer("oob 0 !");
    for text in ["one", "two"] {
        settle();
        let _ = ep_show(ep, 20);
        while sys::recv(kept, &mut [0; 9], MSG_DONTWAIT).is_ok() {}
        cx.peer(&format!("send 0 {text}"));
        say!("told {}", ep_show(ep, 1000));
    }
}

/// A socket without a connection, or with one that has failed, whose duplicate is older than its set.
fn kept_by_an_older_duplicate(is_refused: bool, close: fn(Fd) -> sys::Ret) {
    let (fd, ep) = (sys::tcp(0), sys::epoll());
    let kept = sys::dup(fd).expect("dup") as Fd;
    if is_refused {
        let nobody = sys::tcp(0);
        sys::bind(nobody, 0).expect("bind");
        say!("connect {}", show(sys::connect(fd, sys::port_of(nobody))));
    }
    say!("of nothing {}", ep_show(ep, 0));
    say!("add {}", show(ep_add(ep, fd, EPOLLIN | EPOLLRDHUP, 1)));
    say!("told {}", ep_show(ep, 1000));
    say!("close {}", close(fd).is_ok());
    say!("told {}", ep_show(ep, 1000));
    say!("told {}", ep_show(ep, 1000));
    say!("close {}", show(sys::close(kept)));
    say!("then nothing {}", ep_show(ep, 20));
}

/// A child that has whatever this process has, until it is killed.
fn keeper() -> i32 {
    sys::fork(|| {
        std::thread::sleep(std::time::Duration::from_secs(5));
        0
    })
}

fn kept_by_a_child(cx: &mut Cx, events: i32) {
    let (p, ep) = (cx.warm(), sys::epoll());
    say!("add {}", show(ep_add(ep, p.fd, events, 1)));
    say!("idle {}", ep_show(ep, 0));
    let child = keeper();
    say!("close {}", show(sys::close(p.fd)));
    say!("nothing yet {}", ep_show(ep, 20));
    let q = cx.warm();
    say!("it has the number {}", q.fd == p.fd);
    cx.peer("shut 0 1");
    say!("told of the end {}", ep_show(ep, 1000));
    is_whole(cx, q);
    say!("kill {}", show(sys::kill(child, libc::SIGKILL)));
    let _ = sys::wait(child);
    say!("then nothing {}", ep_show(ep, 20));
}

/// The parent closes its copy of the socket; a child waits on a set that both have.
fn child_waits_on(cx: &mut Cx, events: i32) {
    let (p, ep) = (cx.warm(), sys::epoll());
    say!("add {}", show(ep_add(ep, p.fd, events, 1)));
    let child = sys::fork(|| {
        let told = ep_show(ep, 3000);
        let read = show(sys::recv(p.fd, &mut [0; 9], MSG_DONTWAIT));
        say!("child: {told}, read {read}, then {}", ep_show(ep, 20));
        0
    });
    settle();
    say!("close {}", show(sys::close(p.fd)));
    cx.peer("send 0 bytes");
    say!("child ended {}", sys::wait(child));
}
