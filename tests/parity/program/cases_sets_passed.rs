//! Sets that go on by another number: passed by SCM_RIGHTS, or taken by pidfd_getfd. Whoever waits there is
//! told what the kernel's set tells.

use crate::context::{Case, Cx, say, settle, until, until_queued};
use isthmus_tests::sys::{self, Fd, ep_add, ep_del, ep_mod, ep_show, show};
use libc::{EPOLLET, EPOLLIN, EPOLLONESHOT, EPOLLOUT};

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    any("setspassed.to_oneself", |cx| to_oneself(cx, EPOLLIN, false, pass)),
    any("setspassed.to_oneself_edge", |cx| to_oneself(cx, EPOLLIN | EPOLLET, false, pass)),
    any("setspassed.to_oneself_once", |cx| to_oneself(cx, EPOLLIN | EPOLLONESHOT, false, pass)),
    any("setspassed.to_oneself_and_kept", |cx| to_oneself(cx, EPOLLIN, true, pass)),
    any("setspassed.by_pidfd_getfd", |cx| to_oneself(cx, EPOLLIN, false, take)),
    any("setspassed.by_pidfd_getfd_and_kept", |cx| to_oneself(cx, EPOLLIN, true, take)),
    any("setspassed.asked_by_the_copy", asked_by_the_copy),
    any("setspassed.with_bytes_unread", with_bytes_unread),
    any("setspassed.to_a_child", |cx| to_a_child(cx, false)),
    any("setspassed.to_a_child_and_closed", |cx| to_a_child(cx, true)),
    any("setspassed.with_what_is_not_connected", with_what_is_not_connected),
    any("setspassed.before_any_socket", before_any_socket),
    any("setspassed.taken_out_with_bytes_unread", |cx| {
        asked_with_bytes_unread(cx, |ep, fd| show(ep_del(ep, fd)));
    }),
    any("setspassed.modified_with_bytes_unread", |cx| {
        asked_with_bytes_unread(cx, |ep, fd| show(ep_mod(ep, fd, EPOLLOUT, 9)));
    }),
    any("setspassed.with_one_in_flight", with_one_in_flight),
    any("setspassed.around_another", around_another),
];

/// By a message to itself.
fn pass(ep: Fd) -> Fd {
    let (a, b) = sys::socketpair();
    sys::send_fd(a, ep).expect("pass");
    let copy = sys::recv_fd(b).expect("receive") as Fd;
    let _ = (sys::close(a), sys::close(b));
    copy
}

/// By pidfd_getfd of this process.
fn take(ep: Fd) -> Fd {
    let by_number = |call: i64, args: [usize; 3]| {
        sys::long_by_name("syscall", &[call as usize, args[0], args[1], args[2]])
    };
    let own = by_number(libc::SYS_pidfd_open, [std::process::id() as usize, 0, 0]).expect("a pidfd");
    let copy = by_number(libc::SYS_pidfd_getfd, [own, ep as usize, 0]).expect("a copy");
    let _ = sys::close(own as Fd);
    copy as Fd
}

fn read(fd: Fd) -> String {
    show(sys::recv(fd, &mut [0; 9], libc::MSG_DONTWAIT))
}

fn to_oneself(cx: &mut Cx, events: i32, is_kept: bool, copy: fn(Fd) -> Fd) {
    let (p, ep) = (cx.warm(), sys::epoll());
    say!("add {}", show(ep_add(ep, p.fd, events, 7)));
    let other = copy(ep);
    if !is_kept {
        say!("close {}", show(sys::close(ep)));
    }
    for text in ["one", "two"] {
        cx.peer(&format!("send 0 {text}"));
        until_queued(p.fd, 3);
        say!("copy told {}", ep_show(other, 1000));
        if is_kept {
            say!("told {}", ep_show(ep, 1000));
        }
        say!("read {} then {}", read(p.fd), ep_show(other, 20));
    }
    say!("mod {}", show(ep_mod(other, p.fd, EPOLLIN | EPOLLOUT, 9)));
    say!("told {}", ep_show(other, 1000));
    cx.peer("shut 0 1");
    settle();
    say!("told {}", ep_show(other, 1000));
}

/// The set was empty when it went, and each of its numbers is asked by the other's doing.
fn asked_by_the_copy(cx: &mut Cx) {
    let (p, ep) = (cx.warm(), sys::epoll());
    let q = cx.warm();
    let other = pass(ep);
    say!("add {}", show(ep_add(other, p.fd, EPOLLIN, 7)));
    say!("again {}", show(ep_add(ep, p.fd, EPOLLIN, 7)));
    cx.peer(&format!("send {} one", p.id));
    say!("told {}", ep_show(ep, 1000));
    say!("copy told {}", ep_show(other, 1000));
    say!("read {} then {}", read(p.fd), ep_show(ep, 20));
    say!("add {}", show(ep_add(ep, q.fd, EPOLLIN, 8)));
    cx.peer(&format!("send {} two", q.id));
    say!("copy told {}", ep_show(other, 1000));
    say!("told {}", ep_show(ep, 1000));
}

fn with_bytes_unread(cx: &mut Cx) {
    let (p, ep) = (cx.warm(), sys::epoll());
    say!("add {}", show(ep_add(ep, p.fd, EPOLLIN, 7)));
    cx.peer("send 0 unread");
    until_queued(p.fd, 6);
    let other = pass(ep);
    say!("copy told {}", ep_show(other, 1000));
    say!("told {}", ep_show(ep, 1000));
    say!("read {}", read(p.fd));
    say!("quiet {} {}", ep_show(other, 20), ep_show(ep, 20));
    cx.peer("send 0 more");
    say!("copy told {}", ep_show(other, 1000));
    say!("told {}", ep_show(ep, 1000));
    say!("read {}", read(p.fd));
}

/// The child has the connection since a fork, and gets the set later.
fn to_a_child(cx: &mut Cx, is_closed: bool) {
    let (p, (a, b)) = (cx.warm(), sys::socketpair());
    let pid = sys::fork(|| {
        let ep = sys::recv_fd(b).expect("receive") as Fd;
        // (Said when both have come: who of the two processes is first does not count.)
        let told = [(); 2].map(|()| (ep_show(ep, 5000), read(p.fd)));
        say!("child {told:?}");
        0
    });
    let ep = sys::epoll();
    say!("add {}", show(ep_add(ep, p.fd, EPOLLIN, 7)));
    sys::send_fd(a, ep).expect("pass");
    if is_closed {
        say!("close {}", show(sys::close(ep)));
    }
    settle();
    for text in ["one", "two"] {
        cx.ask(&format!("send 0 {text}"));
        until("read", || sys::queued(p.fd) == 0);
    }
    say!("child ended {}", sys::wait(pid));
}

fn with_what_is_not_connected(cx: &mut Cx) {
    let (port, ep, fd) = (cx.listening_peer(), sys::epoll(), sys::tcp(0));
    say!("add {}", show(ep_add(ep, fd, EPOLLIN | EPOLLOUT, 7)));
    let other = pass(ep);
    say!("connect {}", show(sys::connect(fd, port)));
    cx.peer("accept 0");
    say!("told {}", ep_show(other, 1000));
    cx.peer("send 0 one");
    until_queued(fd, 3);
    say!("told {}", ep_show(other, 1000));
    say!("read {}", read(fd));
}

/// Nothing of the process was a socket when the set went.
fn before_any_socket(cx: &mut Cx) {
    let ep = sys::epoll();
    let other = pass(ep);
    let p = cx.warm();
    say!("add {}", show(ep_add(ep, p.fd, EPOLLIN, 7)));
    for text in ["one", "two"] {
        cx.peer(&format!("send 0 {text}"));
        until_queued(p.fd, 3);
        say!("copy told {}", ep_show(other, 1000));
        say!("told {}", ep_show(ep, 1000));
        say!("read {}", read(p.fd));
    }
}

/// By the number that it had before, while bytes are unread in memory.
fn asked_with_bytes_unread(cx: &mut Cx, ask: fn(Fd, Fd) -> String) {
    let (p, ep) = (cx.warm(), sys::epoll());
    say!("add {}", show(ep_add(ep, p.fd, EPOLLIN, 7)));
    cx.peer("send 0 unread");
    until_queued(p.fd, 6);
    say!("told {}", ep_show(ep, 1000));
    let other = pass(ep);
    say!("asked {}", ask(ep, p.fd));
    say!("copy told {}", ep_show(other, 50));
    say!("told {}", ep_show(ep, 50));
    say!("read {}", read(p.fd));
    cx.peer("send 0 more");
    until_queued(p.fd, 4);
    say!("copy told {}", ep_show(other, 50));
    say!("told {}", ep_show(ep, 50));
}

/// The server has taken the memory, and the client has not looked.
fn with_one_in_flight(cx: &mut Cx) {
    let (port, ep, fd) = (cx.listening_peer(), sys::epoll(), sys::tcp(libc::SOCK_NONBLOCK));
    say!("connect {}", show(sys::connect(fd, port)));
    say!("add {}", show(ep_add(ep, fd, EPOLLIN, 7)));
    cx.peer("accept 0");
    cx.peer("send 0 one");
    settle();
    let other = pass(ep);
    say!("copy told {}", ep_show(other, 1000));
    say!("told {}", ep_show(ep, 1000));
    say!("read {}", read(fd));
    cx.peer("send 0 two");
    until_queued(fd, 3);
    say!("copy told {}", ep_show(other, 1000));
    say!("told {}", ep_show(ep, 1000));
}

/// What is passed holds another set, on which nobody has waited.
fn around_another(cx: &mut Cx) {
    let (p, outer, inner) = (cx.warm(), sys::epoll(), sys::epoll());
    say!("add {}", show(ep_add(outer, inner, EPOLLIN, 1)));
    say!("add {}", show(ep_add(inner, p.fd, EPOLLIN, 7)));
    let other = pass(outer);
    for text in ["one", "two"] {
        cx.peer(&format!("send 0 {text}"));
        until_queued(p.fd, 3);
        say!("copy told {}", ep_show(other, 1000));
        say!("inner told {}", ep_show(inner, 1000));
        say!("read {}", read(p.fd));
    }
}
