//! Socket options and ways of connecting that need care or TCP itself: deferred accept, fast open,
//! signal-driven input, zero copy, shared ports, a socket connected to itself, and sockets that are connected
//! twice.

use crate::context::{Case, Cx, got, read_all, say, settle, until, until_queued};
use isthmus_tests::sys::{self, Fd, poll1, show};
use libc::{IPPROTO_TCP, POLLIN, SOL_SOCKET};

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    Case { name: "options.complaints_about_what_needs_tcp", shm: true, run: complaints },
    any("options.defer_accept", defer_accept),
    any("options.inherited_from_a_listener", inherited_from_a_listener),
    any("options.fast_open", fast_open),
    any("options.fast_open_connect", fast_open_connect),
    any("options.signal_driven", signal_driven),
    any("options.zero_copy", zero_copy),
    Case { name: "options.zero_copy_not_asked_for", shm: true, run: zero_copy_not_asked_for },
    Case { name: "options.by_page", shm: true, run: by_page },
    any("options.by_page_at_length", by_page_at_length),
    any("options.multipath", multipath),
    any("options.times_of_arrival", times_of_arrival),
    any("options.error_queue_left_alone", error_queue_left_alone),
    any("options.shared_port", shared_port),
    any("options.connected_to_itself", connected_to_itself),
    any("options.connected_twice", connected_twice),
    any("options.connect_after_refusal", connect_after_refusal),
    any("options.bound_client", bound_client),
    any("options.any_address", any_address),
    any("options.other_loopback", other_loopback),
    any("options.listen_twice", listen_twice),
    any("options.listener_reopened", listener_reopened),
    any("options.small_buffers", small_buffers),
    any("options.set_before_connect", set_before_connect),
    any("options.unread_backlog", unread_backlog),
];

/// A listener of our own with one int option set, and its port.
fn listener_with(level: i32, option: i32, value: i32) -> (Fd, u16) {
    let l = sys::tcp_listener(0);
    say!("option -> {}", show(sys::setopt(l, level, option, value)));
    sys::bind(l, 0).expect("bind");
    say!("listen -> {}", show(sys::listen(l, 16)));
    (l, sys::port_of(l))
}

/// One exchange between a connection of our own and its accepted end.
fn exchange(c: Fd, s: Fd) {
    let mut buf = [0u8; 9];
    say!("client write -> {}", show(sys::write(c, b"ping")));
    let r = sys::read(s, &mut buf);
    say!("server read -> {}", got(r, &buf));
    say!("server write -> {}", show(sys::write(s, b"pong")));
    let r = sys::read(c, &mut buf);
    say!("client read -> {}", got(r, &buf));
}

fn accepted(l: Fd) -> Fd {
    sys::accept(l).expect("accept") as Fd
}

/// A connection is queued at the latest when its first data have arrived.
fn defer_accept(cx: &mut Cx) {
    let (l, port) = listener_with(IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, 5);
    cx.ask(&format!("connect 7 {port}"));
    cx.peer("send 7 hello");
    say!("listener {}", poll1(l, POLLIN, 900));
    let s = accepted(l);
    let mut buf = [0u8; 9];
    let r = sys::read(s, &mut buf);
    say!("read -> {}", got(r, &buf));
    say!("write -> {}", show(sys::write(s, b"answer")));
    cx.peer("recv 7 9");
}

fn fast_open(cx: &mut Cx) {
    let (l, port) = listener_with(IPPROTO_TCP, libc::TCP_FASTOPEN, 5);
    for _ in 0..2 {
        let c = sys::tcp(0);
        say!("sendto -> {}", show(sys::send_fastopen(c, b"early", port)));
        let s = accepted(l);
        let mut buf = [0u8; 9];
        let r = sys::read(s, &mut buf);
        say!("read -> {}", got(r, &buf));
        exchange(c, s);
        sys::close(c).expect("close");
        say!("end {}", read_all(s, usize::MAX));
        sys::close(s).expect("close");
    }
    let _ = cx;
}

fn fast_open_connect(cx: &mut Cx) {
    let (l, port) = listener_with(IPPROTO_TCP, libc::TCP_FASTOPEN, 5);
    for _ in 0..2 {
        let c = sys::tcp(0);
        say!("option -> {}", show(sys::setopt(c, IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 1)));
        say!("connect -> {}", show(sys::connect(c, port)));
        say!("write -> {}", show(sys::write(c, b"early")));
        let s = accepted(l);
        let mut buf = [0u8; 9];
        let r = sys::read(s, &mut buf);
        say!("read -> {}", got(r, &buf));
        exchange(c, s);
        sys::close(c).and(sys::close(s)).expect("close");
    }
    let _ = cx;
}

fn signal_driven(cx: &mut Cx) {
    let p = cx.pair();
    sys::catch(libc::SIGIO, true);
    say!("own -> {}", show(sys::fcntl(p.fd, libc::F_SETOWN, std::process::id() as i32)));
    // (Its doorbell has rung before.)
    let mut buf = [0u8; 9];
    cx.ask("later 30 send 0 first");
    say!("poll {}", sys::poll1(p.fd, libc::POLLIN, 5000));
    let r = sys::read(p.fd, &mut buf);
    say!("read -> {}", got(r, &buf));
    say!("async -> {}", show(sys::fcntl(p.fd, libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK)));
    settle();
    say!("signalled for nothing {}", sys::hits());
    cx.peer("send 0 hello");
    until("signal", || sys::hits() > 0);
    until_queued(p.fd, 5);
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
    say!("signalled {}", sys::hits() > 0);
}

/// Set before anything is decided: by a client that connects, and on what was accepted.
fn times_of_arrival(cx: &mut Cx) {
    // (The kernel begins to stamp a moment after it was asked: net_enable_timestamp defers.)
    let tells_time = |cx: &mut Cx, id: u32, fd: Fd| {
        (0..50).any(|pause| {
            std::thread::sleep(std::time::Duration::from_millis(pause));
            cx.ask(&format!("send {id} abcd"));
            !sys::recvmsg_left(fd, 4, 64, 0).ends_with("control []")
        })
    };
    for name in [libc::SO_TIMESTAMP, libc::SO_TIMESTAMPNS] {
        let fd = sys::tcp(libc::SOCK_CLOEXEC);
        say!("option -> {}", show(sys::setopt(fd, SOL_SOCKET, name, 1)));
        sys::connect(fd, cx.listening_peer()).expect("connect");
        cx.ask("accept 7");
        say!("connected: {}", tells_time(cx, 7, fd));
        let (listener, port) = cx.listen();
        cx.ask(&format!("connect 8 {port}"));
        let accepted = sys::accept(listener).expect("accept") as Fd;
        say!("option -> {}", show(sys::setopt(accepted, SOL_SOCKET, name, 1)));
        say!("accepted: {}", tells_time(cx, 8, accepted));
        for id in [7, 8] {
            cx.ask(&format!("close {id}"));
        }
        sys::close(fd).and(sys::close(accepted)).expect("closed");
    }
}

/// Set on a socket that listens already: what it accepts from then on has it too. (What had come before has
/// not, and is served all the same.)
fn inherited_from_a_listener(cx: &mut Cx) {
    let (listener, port) = sys::listener();
    cx.ask(&format!("connect 0 {port}"));
    for name in [libc::SO_TIMESTAMP, libc::SO_RCVTIMEO] {
        let done = match name {
            libc::SO_RCVTIMEO => sys::set_timeout(listener, name, -1000),
            name => sys::setopt(listener, SOL_SOCKET, name, 1),
        };
        say!("option -> {}", show(done));
        if name == libc::SO_TIMESTAMP {
            let before = sys::accept(listener).expect("accept") as Fd;
            cx.ask("send 0 hello");
            say!("before: {}", show(sys::recv(before, &mut [0; 9], 0)));
        }
        cx.ask(&format!("connect 1 {port}"));
        let fd = sys::accept(listener).expect("accept") as Fd;
        if name == libc::SO_RCVTIMEO {
            say!("at once: {}", show(sys::recv(fd, &mut [0; 9], 0)));
            say!("option {:?}", sys::getopt(fd, SOL_SOCKET, libc::SO_TIMESTAMP));
        }
        let tells_time = (0..50).any(|pause| {
            std::thread::sleep(std::time::Duration::from_millis(pause));
            cx.ask("send 1 abcd");
            crate::context::until_queued(fd, 4);
            !sys::recvmsg_left(fd, 4, 64, 0).ends_with("control []")
        });
        say!("tells the time: {tells_time}");
        cx.ask("close 1");
    }
}

fn zero_copy(cx: &mut Cx) {
    let p = cx.pair();
    say!("option -> {}", show(sys::setopt(p.fd, SOL_SOCKET, libc::SO_ZEROCOPY, 1)));
    say!("send -> {}", show(sys::send(p.fd, &[5; 20000], libc::MSG_ZEROCOPY)));
    cx.peer("recvn 0 20000");
    say!("completion {}", poll1(p.fd, 0, 3000));
    let (r, out) = sys::recvmsg(p.fd, &mut [&mut [0; 8]], libc::MSG_ERRQUEUE);
    say!("queue {} flags {:#x}", show(r), out.flags);
    cx.peer("send 0 hi");
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
}

/// Without the option the flag means nothing: nobody is woken for what was sent.
fn zero_copy_not_asked_for(cx: &mut Cx) {
    let p = cx.warm();
    let ep = sys::epoll();
    sys::ep_add(ep, p.fd, libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET, 7).expect("add");
    say!("told {}", sys::ep_show(ep, 0));
    let waiter = std::thread::spawn(move || sys::ep_show(ep, 400));
    settle();
    let texts: [&[u8]; 3] = [b"one", b"two", b"three"];
    say!("sendmmsg -> {}", show(sys::sendmmsg(p.fd, &texts, libc::MSG_ZEROCOPY).0));
    say!("send -> {}", show(sys::send(p.fd, b"four", libc::MSG_ZEROCOPY)));
    say!("told {}", waiter.join().expect("waiter"));
    cx.peer("recvn 0 15");
    say!("completion {}", poll1(p.fd, 0, 0));
}

/// A message in the error queue that nobody fetches is not the end of the connection.
fn error_queue_left_alone(cx: &mut Cx) {
    let p = cx.warm();
    say!("option -> {}", show(sys::setopt(p.fd, SOL_SOCKET, libc::SO_ZEROCOPY, 1)));
    say!("send -> {}", show(sys::send(p.fd, &[5; 20000], libc::MSG_ZEROCOPY)));
    cx.peer("recvn 0 20000");
    until("completion", || poll1(p.fd, 0, 0) == "ERR");
    let ep = sys::epoll();
    sys::ep_add(ep, p.fd, libc::EPOLLIN | libc::EPOLLRDHUP, 7).expect("add");
    say!("poll {}", poll1(p.fd, POLLIN | libc::POLLRDHUP, 0));
    say!("epoll {:x?}", sys::ep_wait(ep, 0));
    say!("at once -> {}", show(sys::recv(p.fd, &mut [0; 9], libc::MSG_DONTWAIT)));
    cx.tell("later 60 send 0 hi");
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
    cx.answer();
    cx.tell("later 60 discard 0");
    say!("write -> {}", show(sys::write(p.fd, &[6; 30000])));
    cx.answer();
    say!("shut -> {}", show(sys::shutdown(p.fd, libc::SHUT_RD)));
    say!("again -> {}", show(sys::write(p.fd, b"more")));
    cx.end_by("die");
    until("end", || poll1(p.fd, POLLIN | libc::POLLRDHUP, 0).contains("RDHUP"));
    say!("end -> {}", show(sys::read(p.fd, &mut [0; 9])));
}

fn shared_port(cx: &mut Cx) {
    let (a, port) = listener_with(SOL_SOCKET, libc::SO_REUSEPORT, 1);
    let b = sys::tcp_listener(0);
    say!("option -> {}", show(sys::setopt(b, SOL_SOCKET, libc::SO_REUSEPORT, 1)));
    say!("bind, listen -> {} {}", show(sys::bind(b, port)), show(sys::listen(b, 16)));
    for _ in 0..8 {
        let c = sys::tcp(0);
        sys::connect(c, port).expect("connect");
        until("connection", || [a, b].iter().any(|l| poll1(*l, POLLIN, 0) == "IN"));
        let l = if poll1(a, POLLIN, 0) == "IN" { a } else { b };
        let s = accepted(l);
        exchange(c, s);
        sys::close(c).and(sys::close(s)).expect("close");
    }
    let _ = cx;
}

/// A socket whose connection's other end is itself.
fn connected_to_itself(cx: &mut Cx) {
    let fd = sys::tcp(0);
    sys::bind_client(fd, 0).expect("bind");
    say!("connect -> {}", show(sys::connect(fd, sys::port_of(fd))));
    say!("write -> {}", show(sys::write(fd, b"to me")));
    let mut buf = [0u8; 9];
    let r = sys::read(fd, &mut buf);
    say!("read -> {}", got(r, &buf));
    say!("shutdown -> {}", show(sys::shutdown(fd, libc::SHUT_WR)));
    say!("end {}", read_all(fd, usize::MAX));
    let _ = cx;
}

fn connected_twice(cx: &mut Cx) {
    let (l, port) = sys::listener();
    let c = sys::tcp(0);
    for _ in 0..3 {
        say!("connect -> {}", show(sys::connect(c, port)));
        let s = accepted(l);
        exchange(c, s);
        say!("connect again -> {}", show(sys::connect(c, port)));
        say!("disconnect -> {}", show(sys::disconnect(c)));
        say!("write -> {}", show(sys::send(c, b"x", libc::MSG_NOSIGNAL)));
        settle();
        let mut buf = [0u8; 9];
        say!("server read -> {}", show(sys::read(s, &mut buf)));
        sys::close(s).expect("close");
    }
    let _ = cx;
}

fn connect_after_refusal(cx: &mut Cx) {
    let (l, port) = sys::listener();
    sys::close(l).expect("close");
    let c = sys::tcp(0);
    say!("refused -> {}", show(sys::connect(c, port)));
    let l = sys::tcp_listener(0);
    sys::setopt(l, SOL_SOCKET, libc::SO_REUSEADDR, 1).expect("reuse");
    say!("bind, listen -> {} {}", show(sys::bind(l, port)), show(sys::listen(l, 4)));
    say!("connect -> {}", show(sys::connect(c, port)));
    exchange(c, accepted(l));
    let _ = cx;
}

fn bound_client(cx: &mut Cx) {
    let (l, port) = sys::listener();
    let c = sys::tcp(0);
    say!("bind -> {}", show(sys::bind_client(c, 0)));
    let own = sys::port_of(c);
    say!("connect -> {}", show(sys::connect(c, port)));
    let s = accepted(l);
    say!("peer is the bound port {}", sys::peer_port(s) == Ok(own as usize));
    exchange(c, s);
    let _ = cx;
}

/// A listener on 0.0.0.0, reached by 0.0.0.0 and by an address of 127/8.
fn any_address(cx: &mut Cx) {
    let l = sys::tcp(0);
    sys::bind_v4(l, [0; 4], 0).expect("bind");
    sys::listen(l, 4).expect("listen");
    for ip in [[0; 4], [127, 0, 0, 1], [127, 9, 8, 7]] {
        let c = sys::tcp(0);
        say!("connect to {ip:?} -> {}", show(sys::connect_v4(c, ip, sys::port_of(l))));
        let s = accepted(l);
        exchange(c, s);
        sys::close(c).and(sys::close(s)).expect("close");
    }
    let _ = cx;
}

fn other_loopback(cx: &mut Cx) {
    let (a, b) = (sys::tcp(0), sys::tcp(0));
    sys::bind_v4(a, [127, 0, 0, 2], 0).expect("bind");
    let port = sys::port_of(a);
    say!("same port elsewhere -> {}", show(sys::bind_v4(b, [127, 0, 0, 3], port)));
    sys::listen(a, 4).and(sys::listen(b, 4)).expect("listen");
    for (ip, l) in [([127, 0, 0, 2], a), ([127, 0, 0, 3], b)] {
        let c = sys::tcp(0);
        say!("connect -> {}", show(sys::connect_v4(c, ip, port)));
        exchange(c, accepted(l));
    }
    let _ = cx;
}

fn listen_twice(cx: &mut Cx) {
    let (l, port) = sys::listener();
    say!("listen again -> {}", show(sys::listen(l, 2)));
    let c = sys::tcp(0);
    sys::connect(c, port).expect("connect");
    exchange(c, accepted(l));
    say!("listen on a connection -> {}", show(sys::listen(c, 2)));
    say!("accept on a connection -> {}", show(sys::accept(c)));
    let _ = cx;
}

fn listener_reopened(cx: &mut Cx) {
    let (mut l, port) = sys::listener();
    for _ in 0..5 {
        let c = sys::tcp(0);
        sys::connect(c, port).expect("connect");
        exchange(c, accepted(l));
        sys::close(l).expect("close");
        l = sys::tcp_listener(0);
        sys::setopt(l, SOL_SOCKET, libc::SO_REUSEADDR, 1).expect("reuse");
        say!("bind, listen -> {} {}", show(sys::bind(l, port)), show(sys::listen(l, 4)));
    }
    let _ = cx;
}

/// Buffers far smaller than a message: everything still arrives. (Not the least the kernel allows: with a
/// window smaller than a segment plain TCP itself stops for good now and then.)
fn small_buffers(cx: &mut Cx) {
    let (l, port) = listener_with(SOL_SOCKET, libc::SO_RCVBUF, 16_384);
    cx.ask(&format!("connect 7 {port}"));
    let s = accepted(l);
    say!("send buffer -> {}", show(sys::setopt(s, SOL_SOCKET, libc::SO_SNDBUF, 16_384)));
    cx.tell("echo 7 300000");
    let data = crate::context::pattern(300_000);
    let writer = std::thread::spawn(move || crate::context::write_all(s, &data));
    say!("back {}", read_all(s, 300_000));
    say!("{} {}", writer.join().expect("writer"), cx.answer());
}

/// Options set on an unconnected socket hold once it is connected.
fn set_before_connect(cx: &mut Cx) {
    let port = cx.listening_peer();
    let c = sys::tcp(0);
    say!("timeout -> {}", show(sys::set_timeout(c, libc::SO_RCVTIMEO, 40)));
    say!("low water -> {}", show(sys::setopt(c, SOL_SOCKET, libc::SO_RCVLOWAT, 3)));
    say!("connect -> {}", show(sys::connect(c, port)));
    cx.ask("accept 7");
    say!("read -> {}", show(sys::read(c, &mut [0; 9])));
    cx.peer("send 7 ab");
    settle();
    say!("poll {}", poll1(c, POLLIN, 20));
    cx.peer("send 7 c");
    say!("poll {}", poll1(c, POLLIN, 3000));
    say!("read -> {}", show(sys::read(c, &mut [0; 9])));
}

/// Clients write and leave before the server accepts.
fn unread_backlog(cx: &mut Cx) {
    let (l, port) = sys::listener();
    for id in 0..5 {
        cx.ask(&format!("connect {id} {port}"));
        cx.peer(&format!("sendn {id} 3000"));
        cx.peer(&format!("close {id}"));
    }
    settle();
    for _ in 0..5 {
        let s = accepted(l);
        say!("{}", read_all(s, usize::MAX));
        sys::close(s).expect("close");
    }
}

/// What only TCP can do is refused as TCP would refuse it, where it would.
fn complaints(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let asked: [(_, &[u8]); 9] = [
        (libc::TCP_ULP, b"none-of-that-name"),
        (libc::TCP_ULP, b"x"),
        (libc::TCP_ULP, b""),
        (libc::TCP_REPAIR, &[1, 0]),
        (libc::TCP_MD5SIG, &[0; 3]),
        (libc::TCP_MD5SIG, &[0; 216]),
        (libc::TCP_FASTOPEN_CONNECT, &[1, 0, 0, 0]),
        (libc::TCP_FASTOPEN_CONNECT, &[7, 0, 0, 0]),
        (libc::TCP_FASTOPEN_CONNECT, &[1]),
    ];
    for (name, value) in asked {
        say!("{name} {} -> {}", value.len(), show(sys::setopt_bytes(fd, IPPROTO_TCP, name, value)));
    }
    for name in [libc::TCP_ULP, libc::TCP_REPAIR, libc::TCP_MD5SIG] {
        let args = [fd as usize, IPPROTO_TCP as usize, name as usize, 24, 216, 0];
        say!("{name} nowhere -> {}", show(sys::call(libc::SYS_setsockopt, args)));
    }
    say!("write -> {}", show(sys::write(fd, b"on")));
    cx.peer("recvn 0 2");
}

/// TCP_ZEROCOPY_RECEIVE of bytes that fill no page.
fn by_page(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let asked = |what: &str, (r, told): (sys::Ret, [u32; 3])| say!("{what} -> {} {told:?}", show(r));
    asked("nothing", sys::receive_by_page(fd, 0, 4096, 20));
    cx.ask("send 0 0123456789");
    until_queued(fd, 10);
    for size in [0, 8, 11, 12, 16, 20, 24, 36] {
        asked(&format!("with {size}"), sys::receive_by_page(fd, 0, 4096, size));
    }
    asked("at 8", sys::receive_by_page(fd, 8, 4096, 20));
    let mut buf = [0; 16];
    let r = sys::read(fd, &mut buf);
    say!("read -> {}", got(r, &buf));
    asked("read", sys::receive_by_page(fd, 0, 4096, 20));
    cx.peer("send 0 ab");
    cx.peer("shut 0 1");
    crate::context::until_ready(fd, libc::POLLRDHUP);
    asked("behind a FIN", sys::receive_by_page(fd, 0, 4096, 20));
    let r = sys::read(fd, &mut buf);
    say!("read -> {}", got(r, &buf));
    asked("at the end", sys::receive_by_page(fd, 0, 4096, 20));
}

/// As tcp_mmap of the kernel's own tests: what is not mapped is read, and nothing is missing.
fn by_page_at_length(cx: &mut Cx) {
    const CHUNK: usize = 64 << 10;
    const TOTAL: usize = 3 << 20;
    let fd = cx.warm().fd;
    sys::nonblocking(fd, true);
    let place = sys::map_socket(fd, CHUNK);
    cx.ask(&format!("later 1 zeros 0 {TOTAL}"));
    let (mut moved, mut buf) = (0, vec![0; CHUNK]);
    while moved < TOTAL {
        assert_eq!(poll1(fd, POLLIN, 5000), "IN");
        let (r, [mapped, hint, _]) = sys::receive_by_page(fd, place, CHUNK as u32, 20);
        assert!(r.is_ok(), "{}", show(r));
        // (TCP names all of a segment, which may be more than was asked for.)
        let wanted = CHUNK.min(hint as usize);
        let read = if wanted > 0 { sys::read(fd, &mut buf[..wanted]).expect("read") } else { 0 };
        assert!(mapped > 0 || read > 0, "told of bytes, and given none");
        moved += mapped as usize + read as usize;
    }
    say!("{moved} bytes");
}

/// MPTCP at both ends, and at either: accept() then gives a socket of TCP's.
fn multipath(_: &mut Cx) {
    for (listens, connects) in [(true, true), (true, false), (false, true)] {
        let made = |is_multipath: bool| match is_multipath {
            true => sys::multipath(),
            false => Ok(sys::tcp_listener(0) as usize),
        };
        let (Ok(l), Ok(c)) = (made(listens), made(connects)) else {
            say!("no MPTCP here");
            return;
        };
        let (l, c) = (l as Fd, c as Fd);
        sys::bind(l, 0).expect("bind");
        sys::listen(l, 4).expect("listen");
        say!("connect -> {}", show(sys::connect(c, sys::port_of(l))));
        let s = accepted(l);
        (0..3).for_each(|_| exchange(c, s));
        say!("shutdown -> {}", show(sys::shutdown(c, libc::SHUT_WR)));
        let mut buf = [0u8; 9];
        let r = sys::read(s, &mut buf);
        say!("at the end -> {}", got(r, &buf));
        say!("close -> {} {}", show(sys::close(s)), show(sys::close(c)));
        sys::close(l).expect("close");
    }
}
