//! Who is told of a reset, by what, and how often: a peer that was killed with bytes unread, and a last
//! close with bytes unread by one of several who had the socket.

use crate::context::{Case, Cx, got, say, settle, until_queued};
use isthmus_tests::sys::{self, Fd, poll1, show};
use libc::{MSG_DONTWAIT, MSG_NOSIGNAL, SIGKILL};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("reset.told_by_so_error", told_by_so_error),
    case("reset.told_by_so_error_after_poll", told_by_so_error_after_poll),
    case("reset.told_by_recv", told_by_recv),
    case("reset.told_by_send", told_by_send),
    case("reset.behind_bytes", behind_bytes),
    case("reset.known_to_shutdown", |cx| known_to_shutdown(cx, &["die"], libc::SHUT_WR)),
    case("reset.known_to_shutdown_for_reading", |cx| known_to_shutdown(cx, &["die"], libc::SHUT_RD)),
    case("reset.known_to_shutdown_of_a_close", |cx| known_to_shutdown(cx, &["close 0"], libc::SHUT_WR)),
    case("reset.known_to_shutdown_of_an_exit", |cx| known_to_shutdown(cx, &["exit"], libc::SHUT_RDWR)),
    case("reset.known_to_shutdown_half_closed", |cx| {
        known_to_shutdown(cx, &["shut 0 1", "die"], libc::SHUT_WR)
    }),
    case("reset.unknown_to_shutdown_half_closed", |cx| known_to_shutdown(cx, &["shut 0 1"], libc::SHUT_WR)),
    case("reset.none_by_a_peer_killed_while_idle", |cx| killed_while_idle(cx, false)),
    case("reset.once_by_a_peer_killed_while_idle_that_lingers_not", |cx| killed_while_idle(cx, true)),
    case("reset.none_by_shutting_both_ways", none_by_shutting_both_ways),
    Case {
        name: "reset.told_by_a_set_after_shutting_both_ways",
        shm: false,
        run: told_by_a_set_after_shutting_both_ways,
    },
    any("reset.told_by_send_after_shutting_both_ways", |_| told_after_shutting_both_ways(send)),
    any("reset.told_by_recv_after_shutting_both_ways", |_| told_after_shutting_both_ways(take)),
    any("reset.told_by_so_error_after_shutting_both_ways", |_| {
        told_after_shutting_both_ways(|fd| say!("error {}", sys::so_error(fd)));
    }),
    case("reset.last_close_after_a_child_was_killed", last_close_after_a_child_was_killed),
];

const ALL: i16 = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP;

/// A connection whose peer is killed with bytes of ours unread.
fn killed(cx: &mut Cx, last_words: bool) -> Fd {
    let fd = cx.warm().fd;
    if last_words {
        cx.ask("send 0 bye");
        until_queued(fd, 3);
    }
    say!("write -> {}", show(sys::write(fd, b"unread")));
    cx.end_by("die");
    settle();
    fd
}

fn state(fd: Fd) {
    say!("poll {} error {}", poll1(fd, ALL, 0), sys::so_error(fd));
}

fn take(fd: Fd) {
    let mut buf = [0; 9];
    let r = sys::recv(fd, &mut buf, MSG_DONTWAIT);
    say!("recv -> {}", got(r, &buf));
}

fn send(fd: Fd) {
    say!("send -> {}", show(sys::send(fd, b"x", MSG_NOSIGNAL)));
}

/// Both ends of a connection in this process that has moved some bytes: the client's and the server's.
fn both_ends() -> (Fd, Fd) {
    let (listener, port) = sys::listener();
    let peer = sys::tcp(libc::SOCK_CLOEXEC);
    say!("connect -> {}", show(sys::connect(peer, port)));
    let fd = sys::accept(listener).expect("a connection") as Fd;
    for _ in 0..6 {
        for (from, to) in [(peer, fd), (fd, peer)] {
            let wrote = sys::write(from, b"ping");
            say!("{} then {}", show(wrote), show(sys::recv(to, &mut [0; 4], libc::MSG_WAITALL)));
        }
    }
    (peer, fd)
}

/// The same at once, with bytes of ours unread: whoever is told first is the only one.
fn told_after_shutting_both_ways(first: fn(Fd)) {
    for is_server in [false, true] {
        let (client, server) = both_ends();
        let (fd, peer) = if is_server { (server, client) } else { (client, server) };
        say!("write -> {}", show(sys::write(fd, b"unread")));
        say!("shut -> {}", show(sys::shutdown(fd, libc::SHUT_RDWR)));
        say!("write -> {}", show(sys::write(peer, b"late")));
        first(fd);
        say!("poll {}", poll1(fd, ALL, 0));
        take(fd);
        send(fd);
        state(fd);
    }
}

/// What the peer sends behind our end is answered by a reset, and the error is told with the first look.
fn told_by_a_set_after_shutting_both_ways(_: &mut Cx) {
    let (peer, fd) = both_ends();
    let ep = sys::epoll();
    sys::ep_add(ep, fd, libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP, 1).expect("add");
    say!("shut -> {}", show(sys::shutdown(fd, libc::SHUT_RDWR)));
    say!("send -> {}", show(sys::send(peer, b"0123456789", MSG_NOSIGNAL)));
    std::thread::sleep(std::time::Duration::from_millis(20));
    say!("set {} then {}", sys::ep_show(ep, 50), sys::ep_show(ep, 50));
    state(fd);
}

fn told_by_so_error(cx: &mut Cx) {
    let fd = killed(cx, false);
    say!("error {} then {}", sys::so_error(fd), sys::so_error(fd));
    state(fd);
    take(fd);
    say!("send -> {}", show(sys::send(fd, b"x", MSG_NOSIGNAL)));
}

fn told_by_so_error_after_poll(cx: &mut Cx) {
    let fd = killed(cx, false);
    let ep = sys::epoll();
    sys::ep_add(ep, fd, libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP, 1).expect("add");
    say!("set {}", sys::ep_show(ep, 1000));
    state(fd);
    state(fd);
    say!("set {}", sys::ep_show(ep, 1000));
    say!("send -> {}", show(sys::send(fd, b"x", MSG_NOSIGNAL)));
    take(fd);
}

fn told_by_recv(cx: &mut Cx) {
    let fd = killed(cx, false);
    take(fd);
    take(fd);
    state(fd);
    state(fd);
}

fn told_by_send(cx: &mut Cx) {
    let fd = killed(cx, false);
    say!("send -> {}", show(sys::send(fd, b"x", MSG_NOSIGNAL)));
    state(fd);
    say!("send -> {}", show(sys::send(fd, b"x", MSG_NOSIGNAL)));
    take(fd);
}

fn behind_bytes(cx: &mut Cx) {
    let fd = killed(cx, true);
    say!("error {}", sys::so_error(fd));
    take(fd);
    take(fd);
    state(fd);
}

/// The kernel refuses to shut down what was reset, however that came about, and tells of the reset later.
fn known_to_shutdown(cx: &mut Cx, peer: &[&str], how: i32) {
    let fd = cx.warm().fd;
    say!("write -> {}", show(sys::write(fd, b"unread")));
    for command in peer {
        match *command {
            "die" | "exit" => cx.end_by(command),
            command => _ = cx.peer(command),
        }
    }
    settle();
    say!("shutdown {how} -> {}", show(sys::shutdown(fd, how)));
    state(fd);
    take(fd);
    say!("send -> {}", show(sys::send(fd, b"x", MSG_NOSIGNAL)));
}

/// A peer that had read all, and was killed long before it is written to again: by who has heard from it
/// since he last wrote.
fn killed_while_idle(cx: &mut Cx, resets: bool) {
    let fd = cx.warm().fd;
    cx.ask("send 0 bye");
    take(fd);
    if resets {
        cx.ask("linger 0 1 0");
    }
    cx.end_by("die");
    settle();
    for _ in 0..3 {
        say!("send -> {}", show(sys::send(fd, b"x", MSG_NOSIGNAL)));
        settle();
    }
    take(fd);
    state(fd);
}

/// Who shuts both ways down reads what has come, and resets only what comes later.
fn none_by_shutting_both_ways(cx: &mut Cx) {
    for (id, ways) in [(0, &[0, 1][..]), (1, &[2]), (2, &[1, 0])] {
        let p = cx.pair();
        cx.watch(p.fd);
        cx.peer(&format!("send {id} hello"));
        say!("recv -> {}", show(sys::recv(p.fd, &mut [0; 5], libc::MSG_WAITALL)));
        say!("send -> {}", show(sys::send(p.fd, b"unread", 0)));
        settle();
        ways.iter().for_each(|how| _ = cx.peer(&format!("shut {id} {how}")));
        settle();
        state(p.fd);
        cx.peer(&format!("poll {id} {ALL} 0"));
        cx.peer(&format!("recvn {id} 6"));
        cx.peer(&format!("recv {id} 9"));
        take(p.fd);
        say!("send -> {}", show(sys::send(p.fd, b"late", MSG_NOSIGNAL)));
        settle();
        state(p.fd);
        cx.peer(&format!("recv {id} 9"));
    }
}

fn last_close_after_a_child_was_killed(cx: &mut Cx) {
    let p = cx.warm();
    let child = sys::fork(|| {
        sys::poll_nothing(10_000).expect("to be killed");
        0
    });
    settle();
    sys::kill(child, SIGKILL).expect("kill");
    say!("child {}", sys::wait(child));
    cx.ask("send 0 unread");
    until_queued(p.fd, 6);
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer("recv 0 9");
    cx.peer("recv 0 9");
    cx.peer("send 0 x");
}
