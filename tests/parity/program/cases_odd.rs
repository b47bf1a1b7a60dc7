//! Calls that come at odd moments of a connection's life: before it, over its end, after it. Invariant: what
//! the kernel keeps of them, and what it forgets, holds for the next connection of the socket.

use crate::cases_operator::is_on_tcp;
use crate::context::{Case, Cx, got, say, settle};
use isthmus_tests::sys::{self, ep_add, ep_del, ep_mod, ep_show, poll1, show};
use libc::{
    EPOLLEXCLUSIVE, EPOLLIN, EPOLLOUT, MSG_DONTWAIT, MSG_ERRQUEUE, MSG_NOSIGNAL, MSG_PEEK, MSG_TRUNC,
    MSG_WAITALL, POLLIN, POLLOUT, POLLRDHUP, SHUT_RD, SHUT_RDWR, SHUT_WR, SIGPIPE, SOCK_CLOEXEC,
    SOCK_NONBLOCK,
};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("odd.connect_after_a_reset", |cx| after_a_reset(cx, None)),
    case("odd.connect_after_a_reset_that_was_told", |cx| after_a_reset(cx, Some(MSG_DONTWAIT))),
    case("odd.shut_before_connect", |cx| shut_first(cx, SHUT_RD)),
    case("odd.shut_for_writing_before_connect", |cx| shut_first(cx, SHUT_WR)),
    case("odd.shut_both_ways_before_connect", |cx| shut_first(cx, SHUT_RDWR)),
    case("odd.shut_in_a_set_before_connect", shut_in_a_set),
    case("odd.shut_both_ways_under_a_writer", shut_under_a_writer),
    case("odd.first_look_into_several", look_into_several),
    case("odd.error_queue_before_a_reset", error_queue),
    case("odd.end_that_nobody_asked_for", end_nobody_asked_for),
    case("odd.file_cut_by_its_own_shutdown", cut_file),
    case("odd.exclusive_asked_anew", exclusive_anew),
    case("odd.given_to_the_kernel", given_to_the_kernel),
];

const ALL: i16 = POLLIN | POLLOUT | POLLRDHUP;

/// connect() did not block, and nobody has asked it how that ended: where the connection is over by now, the
/// kernel says so, and has a fresh socket.
fn after_a_reset(cx: &mut Cx, told: Option<i32>) {
    let (port, fd) = (cx.listening_peer(), sys::tcp(SOCK_NONBLOCK | SOCK_CLOEXEC));
    let _ = sys::connect(fd, port);
    say!("connected {}", poll1(fd, POLLOUT, 3000));
    cx.ask("accept 0");
    say!("send -> {}", show(sys::send(fd, b"hello", MSG_NOSIGNAL)));
    cx.peer("recv 0 9");
    cx.peer("send 0 answer");
    settle();
    let mut buf = [0; 9];
    let first = sys::recv(fd, &mut buf, MSG_DONTWAIT);
    say!("recv -> {}", got(first, &buf));
    cx.peer("linger 0 1 0");
    cx.peer("close 0");
    settle();
    if let Some(flags) = told {
        say!("told {}", show(sys::recv(fd, &mut buf, flags)));
    }
    sys::nonblocking(fd, false);
    say!("connect -> {}", show(sys::connect(fd, port)));
    say!("poll {}", poll1(fd, ALL, 0));
    say!("connect -> {}", show(sys::connect(fd, port)));
    say!("connect -> {}", show(sys::connect(fd, port)));
    cx.ask("accept 1");
    say!("poll {}", poll1(fd, ALL, 0));
    say!("send -> {}", show(sys::send(fd, b"again", MSG_NOSIGNAL)));
    cx.peer("recv 1 9");
    say!("nothing yet {}", show(sys::recv(fd, &mut buf, MSG_DONTWAIT)));
    cx.peer("send 1 back");
    let second = sys::recv(fd, &mut buf, 0);
    say!("recv -> {}", got(second, &buf));
}

/// The kernel says that there is no connection, and keeps the shutdown for the next one.
fn shut_first(cx: &mut Cx, how: i32) {
    let (port, fd) = (cx.listening_peer(), sys::tcp(SOCK_CLOEXEC));
    say!("shutdown -> {}", show(sys::shutdown(fd, how)));
    say!("connect -> {}", show(sys::connect(fd, port)));
    cx.ask("accept 0");
    cx.ask(&format!("poll 0 {POLLIN} 0"));
    say!("poll {}", poll1(fd, ALL, 0));
    say!("send -> {}", show(sys::send(fd, b"hello", MSG_NOSIGNAL)));
    if how == SHUT_RD {
        cx.peer("recv 0 9");
    }
    cx.peer("send 0 back");
    settle();
    let mut buf = [0; 9];
    let read = sys::recv(fd, &mut buf, MSG_DONTWAIT);
    say!("recv -> {}", got(read, &buf));
    say!("poll {}", poll1(fd, ALL, 0));
}

fn shut_in_a_set(cx: &mut Cx) {
    let (port, fd, ep) = (cx.listening_peer(), sys::tcp(SOCK_CLOEXEC), sys::epoll());
    say!("add -> {}", show(ep_add(ep, fd, EPOLLIN | EPOLLOUT, 7)));
    say!("shutdown -> {}", show(sys::shutdown(fd, SHUT_WR)));
    say!("connect -> {}", show(sys::connect(fd, port)));
    cx.ask("accept 0");
    cx.ask(&format!("poll 0 {POLLIN} 0"));
    say!("told {}", ep_show(ep, 3000));
    say!("send -> {}", show(sys::send(fd, b"hello", MSG_NOSIGNAL)));
    cx.peer("send 0 back");
    settle();
    say!("told {}", ep_show(ep, 3000));
}

/// A peer that says that it is done, and stays: a writer that waits for room goes on waiting.
fn shut_under_a_writer(cx: &mut Cx) {
    const MORE_THAN_BUFFERS: usize = 32 << 20;
    let p = cx.warm();
    let bytes = vec![7; MORE_THAN_BUFFERS];
    let writer = std::thread::spawn(move || sys::send(p.fd, &bytes, MSG_NOSIGNAL));
    sys::poll_nothing(300).expect("a pause");
    cx.peer("shut 0 2");
    sys::poll_nothing(300).expect("a pause");
    say!("it has returned {}", writer.is_finished());
    cx.peer("close 0");
    let sent = writer.join().expect("a writer");
    say!("a part {}", sent.is_ok_and(|count| count > 0 && count < MORE_THAN_BUFFERS));
}

/// The client wrote before the server's first look.
fn look_into_several(cx: &mut Cx) {
    let (l, port) = cx.listen();
    for (id, flags) in [0, MSG_WAITALL, MSG_DONTWAIT, MSG_TRUNC].into_iter().enumerate() {
        cx.ask(&format!("connect {id} {port}"));
        let fd = sys::accept(l).expect("accept") as sys::Fd;
        cx.peer(&format!("send {id} one-two-three"));
        settle();
        for round in 0..2 {
            let (mut first, mut second, mut third) = ([0; 3], [0; 1], [0; 5]);
            let (seen, _) = sys::recvmsg(fd, &mut [&mut first, &mut second, &mut third], MSG_PEEK | flags);
            let text = [&first[..], &second, &third].concat();
            say!("look {round} -> {} {:?}", show(seen), String::from_utf8_lossy(&text));
        }
        let mut all = [0; 20];
        let read = sys::recv(fd, &mut all, 0);
        say!("read -> {}", got(read, &all));
    }
}

/// A question for the error queue leaves the error where it is.
fn error_queue(cx: &mut Cx) {
    let fd = cx.warm().fd;
    cx.peer("send 0 unread");
    cx.peer("linger 0 1 0");
    cx.peer("close 0");
    settle();
    let mut buf = [0; 9];
    say!("messages {:?}", sys::recvmmsg(fd, &mut [&mut buf], MSG_ERRQUEUE | MSG_DONTWAIT, None).0);
    say!("message {}", show(sys::recvmsg(fd, &mut [&mut buf], MSG_ERRQUEUE | MSG_DONTWAIT).0));
    say!("error {}", sys::so_error(fd));
}

/// A set that has nothing to tell is not readable, whatever its records say.
fn end_nobody_asked_for(cx: &mut Cx) {
    let (p, ep) = (cx.warm(), sys::epoll());
    say!("add -> {}", show(ep_add(ep, p.fd, 0, 7)));
    cx.peer("shut 0 1");
    settle();
    say!("set {} {}", poll1(ep, POLLIN, 50), poll1(ep, POLLIN, 50));
    say!("mod -> {}", show(ep_mod(ep, p.fd, EPOLLIN, 8)));
    say!("set {}", poll1(ep, POLLIN, 3000));
    say!("told {}", ep_show(ep, 3000));
}

/// sendfile() writes once more after a part, and is told of the end there.
fn cut_file(cx: &mut Cx) {
    const MORE_THAN_BUFFERS: usize = 32 << 20;
    let p = cx.warm();
    sys::catch(SIGPIPE, true);
    let file = sys::memfile(b"");
    let sparse = std::fs::File::from(sys::owned(sys::dup(file).expect("dup") as i32));
    sparse.set_len(MORE_THAN_BUFFERS as u64).expect("length");
    let shutting = std::thread::spawn(move || {
        sys::poll_nothing(300).expect("a pause");
        sys::shutdown(p.fd, SHUT_WR)
    });
    let sent = sys::sendfile(p.fd, file, Some(0), MORE_THAN_BUFFERS).0;
    say!("a part {}", sent.is_ok_and(|count| count > 0 && count < MORE_THAN_BUFFERS));
    say!("shutdown {} signals {}", show(shutting.join().expect("a thread")), sys::hits());
    say!("then {}", show(sys::sendfile(p.fd, file, Some(0), 1000).0));
    say!("signals {}", sys::hits());
}

/// Of a socket that was in the set, is, and was.
fn exclusive_anew(cx: &mut Cx) {
    let (p, ep) = (cx.warm(), sys::epoll());
    let anew = || show(ep_mod(ep, p.fd, EPOLLIN | EPOLLEXCLUSIVE, 8));
    say!("never {}", anew());
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN, 7)));
    say!("there {}", anew());
    say!("del -> {}", show(ep_del(ep, p.fd)));
    say!("gone {}", anew());
}

/// A block device of the network's takes a socket that its client has shaken hands with: nobody but the
/// kernel reads it from then on. (Here no device does.)
fn given_to_the_kernel(cx: &mut Cx) {
    const NBD_SET_SOCK: u64 = 0xab00;
    let (p, none) = (cx.warm(), sys::memfile(b""));
    say!("given {}", show(sys::ioctl_number(none, NBD_SET_SOCK, p.fd as usize)));
    is_on_tcp(cx, p);
}
