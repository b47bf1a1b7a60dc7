//! Options judged by their values: one that asks for nothing that only TCP can do, or for an optimisation
//! that needs no kernel, leaves the connection in shared memory.

use crate::context::{Case, Cx, got, say, until};
use isthmus_tests::sys::{self, Fd, poll1, show};
use libc::{IPPROTO_TCP, SOL_SOCKET, TCP_DEFER_ACCEPT};

const fn shm(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

pub(crate) const CASES: &[Case] = &[
    shm("values.defer_accept_off", defer_accept_off),
    shm("values.defer_accept_before_listen", defer_accept_before_listen),
    shm("values.defer_accept_after_listen", defer_accept_after_listen),
    shm("values.defer_accept_rounded", defer_accept_rounded),
    shm("values.zero_copy_unused", zero_copy_unused),
    shm("values.no_device", no_device),
    shm("values.loopback_device", loopback_device),
    shm("values.async_off", async_off),
    shm("values.async_before_use", async_before_use),
    shm("values.async_beside_a_child", async_beside_a_child),
    shm("values.async_while_the_peer_reads", async_while_the_peer_reads),
    shm("values.async_ends_with_its_connection", async_ends_with_its_connection),
    shm("values.fast_open_off", fast_open_off),
    shm("values.few_descriptors", few_descriptors),
];

/// A connection of ours whose socket, or whose listener, was made as `prepare` says; data moves both ways.
fn prepared(cx: &mut Cx, prepare: fn(Fd)) -> Fd {
    let fd = if cx.role == crate::context::Role::Server {
        let l = sys::tcp_listener(0);
        prepare(l);
        sys::bind(l, 0).and_then(|_| sys::listen(l, 16)).expect("listen");
        accepted(cx, l)
    } else {
        let port = cx.listening_peer();
        let c = sys::tcp(0);
        prepare(c);
        sys::connect(c, port).expect("connect");
        assert_eq!(cx.ask("accept 7"), "0");
        c
    };
    exchange(cx, fd);
    fd
}

/// The other end connects, and speaks first.
fn accepted(cx: &mut Cx, l: Fd) -> Fd {
    cx.ask(&format!("connect 7 {}", sys::port_of(l)));
    cx.peer("send 7 early");
    let s = sys::accept(l).expect("accept") as Fd;
    let mut buf = [0u8; 9];
    let r = sys::recv(s, &mut buf[..5], libc::MSG_WAITALL);
    say!("early -> {}", got(r, &buf));
    s
}

fn exchange(cx: &mut Cx, fd: Fd) {
    cx.watch(fd);
    cx.wrote_early(5);
    say!("write -> {}", show(sys::write(fd, b"hello")));
    cx.peer("recv 7 9");
    cx.peer("send 7 answer");
    let mut buf = [0u8; 9];
    let r = sys::read(fd, &mut buf);
    say!("read -> {}", got(r, &buf));
}

fn deferral(fd: Fd) -> String {
    sys::getopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT).map_or_else(|e| e.to_string(), |v| v.to_string())
}

fn defer(fd: Fd, seconds: i32) {
    say!("defer {seconds} -> {}", show(sys::setopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, seconds)));
}

/// As every listener of HAProxy's, and what a program sets that wants none of it.
fn defer_accept_off(cx: &mut Cx) {
    let fd = prepared(cx, |fd| defer(fd, 0));
    defer(fd, 0);
    say!("is {}", deferral(fd));
    exchange(cx, fd);
}

fn defer_accept_before_listen(cx: &mut Cx) {
    let l = sys::tcp_listener(0);
    defer(l, 5);
    say!("is {}", deferral(l));
    sys::bind(l, 0).and_then(|_| sys::listen(l, 16)).expect("listen");
    say!("listening it is {}", deferral(l));
    let s = accepted(cx, l);
    exchange(cx, s);
}

fn defer_accept_after_listen(cx: &mut Cx) {
    let (l, _) = sys::listener();
    defer(l, 30);
    say!("is {}", deferral(l));
    let s = accepted(cx, l);
    exchange(cx, s);
    defer(l, 0);
    say!("is {}", deferral(l));
}

/// The kernel keeps a number of retransmissions, and tells their time.
fn defer_accept_rounded(cx: &mut Cx) {
    let (l, _) = sys::listener();
    for seconds in [1, 2, 3, 4, 7, 8, 60, 127, 128, 247, 248, 10_000, i32::MAX, -3] {
        defer(l, seconds);
        say!("is {}", deferral(l));
    }
    let s = accepted(cx, l);
    exchange(cx, s);
}

/// The option alone asks for nothing.
fn zero_copy_unused(cx: &mut Cx) {
    let fd = prepared(cx, |fd| {
        for on in [0, 1] {
            say!("zero copy {on} -> {}", show(sys::setopt(fd, SOL_SOCKET, libc::SO_ZEROCOPY, on)));
        }
    });
    say!("on again -> {}", show(sys::setopt(fd, SOL_SOCKET, libc::SO_ZEROCOPY, 1)));
    exchange(cx, fd);
}

fn no_device(cx: &mut Cx) {
    prepared(cx, |fd| {
        say!("no name -> {}", show(sys::setopt_bytes(fd, SOL_SOCKET, libc::SO_BINDTODEVICE, b"")));
        say!("no index -> {}", show(sys::setopt(fd, SOL_SOCKET, libc::SO_BINDTOIFINDEX, 0)));
    });
}

/// Connections on one host arrive by that device, whatever their addresses.
fn loopback_device(cx: &mut Cx) {
    prepared(cx, |fd| {
        say!("lo -> {}", show(sys::setopt_bytes(fd, SOL_SOCKET, libc::SO_BINDTODEVICE, b"lo\0")));
        say!("index {:?}", sys::getopt(fd, SOL_SOCKET, libc::SO_BINDTOIFINDEX));
    });
}

fn async_off(cx: &mut Cx) {
    let fd = cx.pair().fd;
    say!("FIOASYNC 0 -> {}", show(sys::ioctl_int(fd, libc::FIOASYNC, 0).0));
    say!("F_SETFL -> {}", show(sys::fcntl(fd, libc::F_SETFL, 0)));
    cx.peer("send 0 hello");
    let mut buf = [0u8; 9];
    let r = sys::read(fd, &mut buf);
    say!("read -> {}", got(r, &buf));
}

/// The owner is named last, as gdbserver does it.
fn async_before_use(cx: &mut Cx) {
    let fd = cx.pair().fd;
    sys::catch(libc::SIGIO, true);
    say!("async -> {}", show(sys::ioctl_int(fd, libc::FIOASYNC, 1).0));
    say!("own -> {}", show(sys::fcntl(fd, libc::F_SETOWN, std::process::id() as i32)));
    for n in 1..4 {
        let before = sys::hits();
        cx.peer("send 0 hello");
        until("signal", || sys::hits() > before);
        let mut buf = [0u8; 5];
        let r = sys::recv(fd, &mut buf, libc::MSG_WAITALL);
        say!("{n}: read -> {}", got(r, &buf));
    }
}

/// A signal is raised by what arrives, not by looking, whoever else has the connection (a debugger's server
/// has started its program). The handler's own look would bring the next signal, and the main line would
/// stand.
fn async_beside_a_child(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::catch(libc::SIGIO, true);
    say!("own -> {}", show(sys::fcntl(fd, libc::F_SETOWN, std::process::id() as i32)));
    say!("async -> {}", show(sys::fcntl(fd, libc::F_SETFL, libc::O_ASYNC)));
    let (wait, go) = sys::pipe(0);
    let child = sys::fork(|| {
        sys::close(go).expect("close");
        let _ = sys::read(wait, &mut [0]);
        0
    });
    let before = sys::hits();
    cx.peer("send 0 hello");
    until("signal", || sys::hits() > before);
    let mut buf = [0u8; 5];
    let r = sys::recv(fd, &mut buf, libc::MSG_WAITALL);
    say!("read -> {}", got(r, &buf));
    let before = sys::hits();
    (0..50).for_each(|_| drop(sys::poll1(fd, libc::POLLIN, 0)));
    say!("a signal for each look: {}", sys::hits() - before >= 25);
    sys::close(go).expect("close");
    say!("child {}", sys::wait(child));
}

/// Room that nobody lacked raises none, whoever has asked for it.
fn async_while_the_peer_reads(cx: &mut Cx) {
    let (fd, events) = (cx.warm().fd, libc::POLLIN | libc::POLLOUT);
    sys::catch(libc::SIGIO, false);
    say!("poll {}", poll1(fd, events, 100));
    say!("own -> {}", show(sys::fcntl(fd, libc::F_SETOWN, std::process::id() as i32)));
    say!("async -> {}", show(sys::fcntl(fd, libc::F_SETFL, libc::O_ASYNC)));
    sys::set_timeout(fd, libc::SO_RCVTIMEO, 120).expect("a time limit");
    for _ in 0..2 {
        say!("write -> {}", show(sys::write(fd, b"0123456789")));
        let before = sys::hits();
        cx.ask("later 40 recv 0 9");
        say!("read -> {}", show(sys::read(fd, &mut [0; 9])));
        say!("signals {}", sys::hits() - before);
        cx.ask("recv 0 9");
        say!("poll {}", poll1(fd, events, 100));
    }
}

/// A later connection raises no signal that was asked for on an earlier one.
fn async_ends_with_its_connection(cx: &mut Cx) {
    sys::catch(libc::SIGIO, true);
    let mut buf = [0u8; 5];
    for id in 0..3 {
        let fd = cx.pair().fd;
        cx.peer(&format!("send {id} first"));
        let r = sys::recv(fd, &mut buf, libc::MSG_WAITALL);
        say!("{id}: read -> {}", got(r, &buf));
        if id == 0 {
            say!("own -> {}", show(sys::fcntl(fd, libc::F_SETOWN, std::process::id() as i32)));
            say!("async -> {}", show(sys::fcntl(fd, libc::F_SETFL, libc::O_ASYNC)));
        }
        let before = sys::hits();
        if id == 0 {
            cx.peer("send 0 hello");
            until("signal", || sys::hits() > before);
        } else {
            // Who sleeps is rung for.
            cx.ask(&format!("later 60 send {id} hello"));
        }
        let r = sys::recv(fd, &mut buf, libc::MSG_WAITALL);
        say!("{id}: read -> {}", got(r, &buf));
        say!("{id}: signalled {}", sys::hits() > before);
        cx.peer(&format!("close {id}"));
        say!("end {}", crate::context::read_all(fd, 1));
        let before = sys::hits();
        if id < 2 {
            say!("close -> {}", show(sys::close(fd)));
        }
        say!("signalled by the close {}", sys::hits() > before);
    }
}

fn fast_open_off(cx: &mut Cx) {
    prepared(cx, |fd| {
        say!("off -> {}", show(sys::setopt(fd, IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 0)));
    });
}

/// A daemon that limits itself for good (PulseAudio to 256) still has numbers for its connections and for
/// ours.
fn few_descriptors(cx: &mut Cx) {
    sys::limit_fds_for_good(256);
    for _ in 0..8 {
        prepared(cx, |_| {});
    }
    let pipes = (0..).take_while(|_| sys::dup(0).is_ok()).count();
    say!("half of them are the program's: {}", pipes > 100);
}
