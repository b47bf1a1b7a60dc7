//! Programs that wait for sockets of libc's functions by the system call instruction, where nobody sees it
//! (Bun; Rust's `polling`, `rustix`); and what the first wait that is seen finds. Invariant: what a set is
//! told by is the program's own data, whoever waits.

use crate::context::{Case, Cx, say, settle};
use isthmus_tests::sys::{self, Fd, Wait, ep_add, ep_del, ep_mod, ep_show, poll1, show};
use isthmus_tests::sys::{ep_add_unseen, ep_show_unseen, epoll_unseen};
use libc::{
    EPOLLET, EPOLLIN, EPOLLONESHOT, EPOLLOUT, MSG_NOSIGNAL, POLLIN, POLLOUT, SOCK_CLOEXEC, SOCK_NONBLOCK,
};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    any("elsewhere.client", |cx| client(cx, (sys::epoll(), ep_add), EPOLLIN | EPOLLOUT | EPOLLET)),
    any("elsewhere.client_level", |cx| client(cx, (sys::epoll(), ep_add), EPOLLOUT)),
    any("elsewhere.client_of_its_own_set", |cx| {
        client(cx, (epoll_unseen(), ep_add_unseen), EPOLLIN | EPOLLOUT | EPOLLET)
    }),
    any("elsewhere.client_that_asks_for_an_error", |cx| {
        spoken_to(cx, EPOLLIN | EPOLLOUT | EPOLLET, |_, fd| say!("error {}", sys::so_error(fd)));
    }),
    any("elsewhere.client_that_wants_no_room", |cx| {
        spoken_to(cx, EPOLLOUT, |ep, fd| say!("mod {}", show(ep_mod(ep, fd, EPOLLIN, 7))));
    }),
    any("elsewhere.client_taken_out_and_put_back", |cx| {
        spoken_to(cx, EPOLLOUT, |ep, fd| {
            say!("out {} in {}", show(ep_del(ep, fd)), show(ep_add(ep, fd, EPOLLIN, 7)));
        });
    }),
    any("elsewhere.io_uring", io_uring),
    any("elsewhere.server", |cx| server(cx, (sys::epoll(), ep_add))),
    any("elsewhere.server_of_its_own_set", |cx| server(cx, (epoll_unseen(), ep_add_unseen))),
    any("elsewhere.after_a_blocking_connect", |cx| connected(cx, (epoll_unseen(), ep_add_unseen))),
    any("elsewhere.in_a_child", in_a_child),
    any("elsewhere.around_a_set", around_a_set),
    any("elsewhere.beside_a_wait_for_others", beside_others),
    case("elsewhere.first_wait", |cx| first_wait(cx, |ep, _| ep_show(ep, 3000))),
    case("elsewhere.first_wait_after_it_was_put_back", |cx| {
        first_wait(cx, |ep, fd| {
            say!("out {}", show(ep_del(ep, fd)));
            say!("in {}", show(ep_add(ep, fd, EPOLLIN | EPOLLOUT | EPOLLET, 7)));
            ep_show(ep, 3000)
        })
    }),
    case("elsewhere.first_wait_is_a_poll", |cx| {
        first_wait(cx, |ep, fd| {
            say!("poll {}", poll1(fd, POLLIN | POLLOUT, 3000));
            ep_show(ep, 3000)
        })
    }),
    case("elsewhere.first_wait_is_around", |cx| {
        first_wait(cx, |ep, _| {
            let outer = sys::epoll();
            say!("around {}", show(ep_add(outer, ep, EPOLLIN, 8)));
            say!("outer {}", ep_show(outer, 3000));
            ep_show(ep, 3000)
        })
    }),
    case("elsewhere.tried_before_the_first_wait", tried_first),
    case("elsewhere.asked_anew_before_the_first_wait", asked_anew),
    case("elsewhere.first_wait_of_two", first_wait_of_two),
    any("elsewhere.first_wait_after_a_fork", first_wait_after_a_fork),
    any("elsewhere.first_wait_after_a_duplicate", first_wait_after_a_duplicate),
];

type Set = (Fd, fn(Fd, Fd, i32, u64) -> sys::Ret);

/// A socket whose connect() is under way, and the peer's number of it.
fn begun(cx: &mut Cx) -> Fd {
    let port = cx.listening_peer();
    let fd = sys::tcp(SOCK_NONBLOCK | SOCK_CLOEXEC);
    let connect = show(sys::connect(fd, port));
    say!("connect in progress or done: {}", connect == "0" || connect == "EINPROGRESS");
    cx.watch(fd);
    fd
}

fn read(fd: Fd) -> String {
    let mut buf = [0; 9];
    let got = sys::recv(fd, &mut buf, 0);
    got.map_or_else(|errno| errno.to_string(), |n| format!("{:?}", String::from_utf8_lossy(&buf[..n])))
}

fn client(cx: &mut Cx, (ep, add): Set, events: i32) {
    let fd = begun(cx);
    say!("add {}", show(add(ep, fd, events, 7)));
    say!("told {}", ep_show_unseen(ep, 3000));
    cx.peer("accept 0");
    exchange(cx, (ep, fd), 0);
}

/// The server speaks first.
fn spoken_to(cx: &mut Cx, events: i32, ask: fn(Fd, Fd)) {
    let (fd, ep) = (begun(cx), sys::epoll());
    say!("add {}", show(ep_add(ep, fd, events, 7)));
    say!("told {}", ep_show_unseen(ep, 3000));
    cx.peer("accept 0");
    cx.peer("send 0 first");
    settle();
    ask(ep, fd);
    say!("told {}", ep_show_unseen(ep, 3000).contains("7:IN"));
    say!("read {}", read(fd));
    exchange(cx, (ep, fd), 0);
}

fn exchange(cx: &mut Cx, (ep, fd): (Fd, Fd), id: u32) {
    say!("send {}", show(sys::send(fd, b"mine", MSG_NOSIGNAL)));
    cx.peer(&format!("recv {id} 9"));
    for word in ["one", "two", "three"] {
        cx.peer(&format!("send {id} {word}"));
        settle();
        let told = ep_show_unseen(ep, 3000);
        say!("told of input {}", told.contains("7:IN") || told.contains("7:OUT"));
        say!("read {} {}", read(fd), read(fd));
    }
    cx.peer(&format!("close {id}"));
    settle();
    say!("told of the end {}", ep_show_unseen(ep, 3000).contains("7:"));
    say!("read {}", read(fd));
}

fn server(cx: &mut Cx, (ep, add): Set) {
    let (l, port) = cx.listen();
    sys::nonblocking(l, true);
    say!("add {}", show(add(ep, l, EPOLLIN, 3)));
    for id in 0..2 {
        cx.ask(&format!("connect {id} {port}"));
        say!("told {}", ep_show_unseen(ep, 3000));
        let fd = sys::accept4(l, SOCK_NONBLOCK | SOCK_CLOEXEC).expect("accept") as Fd;
        say!("add {}", show(add(ep, fd, EPOLLIN | EPOLLET, 7)));
        say!("nothing yet {}", read(fd));
        exchange(cx, (ep, fd), id);
        say!("close {}", show(sys::close(fd)));
    }
}

/// What waits is the kernel itself, for all that libc sees.
fn io_uring(cx: &mut Cx) {
    let Ok(_ring) = sys::io_uring_unseen() else { return say!("there is none") };
    let (l, port) = cx.listen();
    cx.ask(&format!("connect 0 {port}"));
    let fd = sys::accept4(l, SOCK_NONBLOCK | SOCK_CLOEXEC).expect("accept") as Fd;
    for word in ["one", "two", "three"] {
        cx.peer(&format!("send 0 {word}"));
        say!("told {}", show(sys::poll1_unseen(fd, 3000)));
        say!("read {} {}", read(fd), read(fd));
        say!("send {}", show(sys::send(fd, word.as_bytes(), MSG_NOSIGNAL)));
        cx.peer("recv 0 9");
    }
    cx.peer("close 0");
    say!("told {}", show(sys::poll1_unseen(fd, 3000)));
    say!("read {}", read(fd));
}

/// It does not block from here on.
fn connected(cx: &mut Cx, (ep, add): Set) {
    let p = cx.warm();
    sys::nonblocking(p.fd, true);
    say!("add {}", show(add(ep, p.fd, EPOLLIN | EPOLLET, 7)));
    say!("nothing yet {}", read(p.fd));
    exchange(cx, (ep, p.fd), p.id);
}

/// A child has the connection, and a set of its own.
fn in_a_child(cx: &mut Cx) {
    let (l, port) = cx.listen();
    cx.ask(&format!("connect 0 {port}"));
    let fd = sys::accept(l).expect("accept") as Fd;
    let (go, step) = sys::pipe(0);
    let pid = sys::fork(|| {
        sys::nonblocking(fd, true);
        let (ep, mut buf) = (epoll_unseen(), [0; 9]);
        let is_added = ep_add_unseen(ep, fd, EPOLLIN, 7).is_ok();
        let is_empty = sys::recv(fd, &mut buf, 0) == Err(sys::Errno(libc::EAGAIN));
        let _ = sys::write(step, b"x");
        let is_told = ep_show_unseen(ep, 5000) == "[7:IN]";
        u8::from(!(is_added && is_empty && is_told && sys::recv(fd, &mut buf, 0) == Ok(3)))
    });
    say!("step {}", show(sys::read(go, &mut [0; 1])));
    cx.peer("send 0 one");
    say!("child {}", sys::wait(pid));
}

/// What was asked before any wait is found by the first one, and goes through memory.
fn first_wait(cx: &mut Cx, wait: fn(Fd, Fd) -> String) {
    let (fd, ep) = (begun(cx), sys::epoll());
    say!("add {}", show(ep_add(ep, fd, EPOLLIN | EPOLLOUT | EPOLLET, 7)));
    say!("told {}", wait(ep, fd));
    cx.peer("accept 0");
    goes_on(cx, ep, fd);
}

fn goes_on(cx: &mut Cx, ep: Fd, fd: Fd) {
    cx.ask(&format!("poll 0 {POLLIN} 0"));
    say!("send {}", show(sys::send(fd, b"sixteen-bytes-ok", MSG_NOSIGNAL)));
    cx.peer("recvn 0 16");
    cx.peer("send 0 sixteen-bytes-ok");
    settle();
    say!("told {}", ep_show(ep, 3000));
    say!("read {} {} {}", read(fd), read(fd), read(fd));
    say!("quiet {}", ep_show(ep, 20));
}

fn asked_anew(cx: &mut Cx) {
    let (fd, ep, other) = (begun(cx), sys::epoll(), sys::epoll());
    say!("add {}", show(ep_add(ep, fd, EPOLLIN | EPOLLET, 7)));
    say!("twice {}", show(ep_add(ep, fd, EPOLLIN, 8)));
    say!("mod {}", show(ep_mod(ep, fd, EPOLLIN | EPOLLOUT | EPOLLET, 9)));
    say!("elsewhere {}", show(ep_add(other, fd, EPOLLIN, 5)));
    say!("del {}", show(ep_del(other, fd)));
    say!("again {}", show(ep_add(other, fd, EPOLLOUT | EPOLLONESHOT, 6)));
    say!("told {} {}", ep_show(ep, 3000), ep_show(other, 3000));
    say!("once {}", ep_show(other, 20));
    say!("del {} {}", show(ep_del(other, fd)), show(ep_del(other, fd)));
    cx.peer("accept 0");
    goes_on(cx, ep, fd);
}

/// Two threads begin to wait at once: one of them is told.
fn first_wait_of_two(cx: &mut Cx) {
    let (fd, ep) = (begun(cx), sys::epoll());
    say!("add {}", show(ep_add(ep, fd, EPOLLOUT | EPOLLONESHOT, 7)));
    let wait = move || sys::ep_wait_by(Wait::Plain, ep, 8, 200).expect("a wait").len();
    let waits: Vec<_> = (0..4).map(|_| std::thread::spawn(wait)).collect();
    say!("told {}", waits.into_iter().map(|wait| wait.join().expect("a thread")).sum::<usize>());
    say!("mod {}", show(ep_mod(ep, fd, EPOLLIN | EPOLLET, 7)));
    cx.peer("accept 0");
    goes_on(cx, ep, fd);
}

fn first_wait_after_a_fork(cx: &mut Cx) {
    let (fd, ep) = (begun(cx), sys::epoll());
    say!("add {}", show(ep_add(ep, fd, EPOLLIN | EPOLLOUT | EPOLLET, 7)));
    say!("child {}", sys::wait(sys::fork(|| u8::from(sys::close(fd) != Ok(0)))));
    say!("told {}", ep_show(ep, 3000));
    cx.peer("accept 0");
    goes_on(cx, ep, fd);
}

/// The set knows it by a number that is closed by then.
fn first_wait_after_a_duplicate(cx: &mut Cx) {
    let (fd, ep) = (begun(cx), sys::epoll());
    say!("add {}", show(ep_add(ep, fd, EPOLLIN | EPOLLOUT | EPOLLET, 7)));
    let other = sys::dup(fd).expect("dup") as Fd;
    say!("close {}", show(sys::close(fd)));
    cx.watch(other);
    say!("told {}", ep_show(ep, 3000));
    cx.peer("accept 0");
    goes_on(cx, ep, other);
}

/// By a set around the set.
fn around_a_set(cx: &mut Cx) {
    let (inner, outer) = (sys::epoll(), sys::epoll());
    say!("nest {}", show(ep_add(outer, inner, EPOLLIN, 8)));
    let fd = begun(cx);
    say!("add {}", show(ep_add(inner, fd, EPOLLIN | EPOLLOUT | EPOLLET, 7)));
    say!("told {} {}", ep_show_unseen(outer, 3000), ep_show_unseen(inner, 0));
    cx.peer("accept 0");
    exchange(cx, (inner, fd), 0);
}

/// Another part of the program waits by functions of libc, for something else.
fn beside_others(cx: &mut Cx) {
    let other = cx.warm();
    say!("poll {}", poll1(other.fd, POLLOUT, 3000));
    let (empty, loud) = (sys::epoll(), sys::epoll());
    say!("add {}", show(ep_add(loud, other.fd, EPOLLOUT, 5)));
    say!("waits {} {}", ep_show(empty, 0), ep_show(loud, 3000));
    let (fd, ep) = (begun(cx), sys::epoll());
    say!("add {}", show(ep_add(ep, fd, EPOLLIN | EPOLLOUT | EPOLLET, 7)));
    say!("told {}", ep_show_unseen(ep, 3000));
    cx.peer("accept 9");
    exchange(cx, (ep, fd), 9);
    say!("still {}", ep_show(loud, 3000));
}

/// As PostgreSQL does it: into a set, a try, and a wait only then.
fn tried_first(cx: &mut Cx) {
    let (p, ep) = (cx.warm(), sys::epoll());
    sys::nonblocking(p.fd, true);
    say!("add {}", show(ep_add(ep, p.fd, EPOLLIN, 7)));
    say!("nothing yet {}", read(p.fd));
    for word in ["one", "two"] {
        cx.peer(&format!("send 0 {word}"));
        settle();
        say!("told {}", ep_show(ep, 3000));
        say!("read {} {}", read(p.fd), read(p.fd));
    }
}
