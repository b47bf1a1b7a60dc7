//! Points 41-43, 51, 54-55: poll and select in every state of a connection.

use crate::context::{Case, Cx, fill, say, settle, until, until_ready};
use isthmus_tests::sys::{self, Fd, Select, bits, ep_add, ep_show, poll1, show, so_error};
use libc::{POLLIN, POLLOUT, POLLPRI, POLLRDHUP, POLLRDNORM, POLLWRNORM};

const ALL: i16 = POLLIN | POLLOUT | POLLPRI | POLLRDHUP | POLLRDNORM | POLLWRNORM;

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("poll.idle_and_data", idle_and_data),
    any("poll.limit_over_a_stop", limit_over_a_stop),
    case("poll.peer_half_closed", peer_half_closed),
    case("poll.own_half_closed", own_half_closed),
    any("poll.both_closed", both_closed),
    any("poll.reset", reset),
    case("poll.no_events", no_events),
    any("poll.full", full),
    case("poll.edges_of_the_call", edges_of_the_call),
    any("poll.listener", listener),
    any("poll.unconnected", unconnected),
    any("poll.nonblocking_connect", nonblocking_connect),
    case("poll.before_first_use", before_first_use),
    case("poll.waits_for_data", waits_for_data),
    case("poll.mixed_set", mixed_set),
    case("poll.many_and_holes", many_and_holes),
    any("poll.dead_among_ready", dead_among_ready),
    case("poll.low_water", low_water),
    any("poll.select_states", select_states),
    case("poll.select_waits", select_waits),
    any("poll.select_of_urgent_bytes_alone", select_of_urgent_bytes_alone),
    case("poll.same_fd_twice", same_fd_twice),
    case("poll.thread_per_direction", thread_per_direction),
    case("poll.wakes_on_close", wakes_on_close),
    any("poll.connecting", connecting),
    case("poll.set_that_asks_for_the_end", |cx| set_without_news(cx, libc::EPOLLRDHUP)),
    case("poll.set_that_asks_for_the_end_once", |cx| set_without_news(cx, libc::EPOLLRDHUP | libc::EPOLLET)),
    case("poll.set_that_asks_for_nothing", |cx| set_without_news(cx, 0)),
    case("poll.set_that_is_asked_after_its_owner_looked", set_of_what_was_read),
    any("poll.set_before_the_first_look", set_before_the_first_look),
    any("poll.set_that_asked_once_before_the_first_look", set_asked_once_before_the_first_look),
    case("poll.set_that_asked_once_and_was_told", set_asked_once_and_told),
    case("poll.what_a_call_leaves_that_fails", what_a_failed_call_leaves),
];

fn states(what: &str, fd: Fd) {
    let ppoll = sys::ppoll(&[(fd, ALL)], Some(0));
    say!("{what}: poll {} ppoll {}", poll1(fd, ALL, 0), bits(ppoll.1[0] as u16 as u32));
    say!("{what}: IN {} OUT {} none {}", poll1(fd, POLLIN, 0), poll1(fd, POLLOUT, 0), poll1(fd, 0, 0));
}

fn idle_and_data(cx: &mut Cx) {
    let p = cx.warm();
    states("idle", p.fd);
    cx.peer("send 0 abc");
    until_ready(p.fd, POLLIN);
    states("data", p.fd);
    states("data, again", p.fd);
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 2])));
    states("some left", p.fd);
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 2])));
    states("drained", p.fd);
}

fn peer_half_closed(cx: &mut Cx) {
    let p = cx.warm();
    cx.peer("send 0 abc");
    cx.peer("shut 0 1");
    until_ready(p.fd, POLLRDHUP);
    states("data and EOF", p.fd);
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
    states("EOF", p.fd);
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
    states("EOF was read", p.fd);
}

fn own_half_closed(cx: &mut Cx) {
    let p = cx.warm();
    say!("shutdown -> {}", show(sys::shutdown(p.fd, libc::SHUT_WR)));
    states("SHUT_WR", p.fd);
    cx.peer("send 0 abc");
    until_ready(p.fd, POLLIN);
    states("SHUT_WR, data", p.fd);
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
    say!("shutdown -> {}", show(sys::shutdown(p.fd, libc::SHUT_RD)));
    states("SHUT_RD too", p.fd);
}

fn both_closed(cx: &mut Cx) {
    let p = cx.warm();
    cx.peer("shut 0 1");
    say!("shutdown -> {}", show(sys::shutdown(p.fd, libc::SHUT_WR)));
    until_ready(p.fd, libc::POLLHUP);
    states("both shut", p.fd);
    cx.peer("close 0");
    settle();
    states("and closed", p.fd);
}

fn reset(cx: &mut Cx) {
    let p = cx.warm();
    cx.peer("linger 0 1 0");
    cx.peer("close 0");
    until_ready(p.fd, libc::POLLERR);
    states("reset", p.fd);
    say!("error {}", so_error(p.fd));
    states("error was read", p.fd);
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
    states("after read", p.fd);
}

fn no_events(cx: &mut Cx) {
    let p = cx.warm();
    say!("nothing asked, idle: {}", poll1(p.fd, 0, 30));
    cx.peer("send 0 x");
    settle();
    say!("nothing asked, data: {}", poll1(p.fd, 0, 30));
    cx.peer("linger 0 1 0");
    cx.peer("close 0");
    say!("nothing asked, reset: {}", poll1(p.fd, 0, 3000));
}

fn full(cx: &mut Cx) {
    let p = cx.warm();
    fill(p.fd);
    say!("full: OUT {} IN|OUT {}", poll1(p.fd, POLLOUT, 0), poll1(p.fd, POLLIN | POLLOUT, 0));
    cx.ask("later 50 discard 0");
    say!("room again {}", poll1(p.fd, POLLOUT, 3000));
    until("room", || sys::send(p.fd, &[1], libc::MSG_DONTWAIT).is_ok());
    until_ready(p.fd, POLLOUT);
    states("drained by the peer", p.fd);
}

fn edges_of_the_call(cx: &mut Cx) {
    let p = cx.warm();
    say!("negative fd {:?}", sys::poll(&[(-1, POLLIN), (p.fd, POLLOUT)], 1000));
    let (n, v) = sys::poll(&[(4000, POLLIN), (p.fd, POLLIN)], 1000);
    say!("bad fd {} {} {}", show(n), bits(v[0] as u16 as u32), bits(v[1] as u16 as u32));
    say!("no fds {:?}", sys::poll(&[], 5).0);
    say!("null {}", show(sys::poll_nothing(5)));
    say!("only negative {:?}", sys::poll(&[(-5, POLLIN)], 5));
    cx.peer("send 0 x");
    until_ready(p.fd, POLLIN);
    let (n, v) = sys::poll(&[(p.fd, POLLIN), (4000, POLLIN), (p.fd, POLLOUT)], 0);
    say!("mix {} {:?}", show(n), v.iter().map(|b| bits(*b as u16 as u32)).collect::<Vec<_>>());
}

fn listener(cx: &mut Cx) {
    let (l, port) = sys::listener();
    states("idle listener", l);
    cx.ask(&format!("connect 9 {port}"));
    until_ready(l, POLLIN);
    states("listener with a connection", l);
    let s = sys::accept(l).expect("accept") as Fd;
    states("accepted", l);
    states("new connection", s);
    say!("read on listener -> {}", show(sys::read(l, &mut [0; 1])));
}

fn unconnected(cx: &mut Cx) {
    let fd = sys::tcp(0);
    states("unconnected", fd);
    sys::bind_client(fd, 0).expect("bind");
    states("bound", fd);
    let _ = cx;
}

fn nonblocking_connect(cx: &mut Cx) {
    let port = cx.listening_peer();
    let fd = sys::tcp(libc::SOCK_NONBLOCK);
    let r = show(sys::connect(fd, port));
    say!("connect in progress or done: {}", r == "0" || r == "EINPROGRESS");
    say!("poll {}", poll1(fd, POLLOUT, 3000));
    say!("error {}", so_error(fd));
    say!("connect again -> {}", show(sys::connect(fd, port)).replace("EISCONN", "0"));
    cx.peer("accept 9");
    states("connected", fd);
    say!("read -> {}", show(sys::read(fd, &mut [0; 9])));
    say!("write -> {}", show(sys::write(fd, b"hello")));
    cx.peer("recv 9 9");
    cx.peer("send 9 abc");
    say!("poll {}", poll1(fd, POLLIN, 3000));
    say!("read -> {}", show(sys::read(fd, &mut [0; 9])));
}

fn before_first_use(cx: &mut Cx) {
    let p = cx.pair();
    say!("idle {}", poll1(p.fd, POLLIN, 20));
    say!("writable {}", poll1(p.fd, POLLOUT, 20));
    cx.peer("send 0 abc");
    say!("data {}", poll1(p.fd, POLLIN, 3000));
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
    say!("write -> {}", show(sys::write(p.fd, b"hello")));
    cx.peer("recv 0 9");
}

fn waits_for_data(cx: &mut Cx) {
    let p = cx.warm();
    for how in 0..4 {
        cx.ask("later 60 send 0 abc");
        let r = match how {
            0 => poll1(p.fd, POLLIN, 5000),
            1 => poll1(p.fd, POLLIN, -1),
            2 => bits(sys::ppoll(&[(p.fd, POLLIN)], None).1[0] as u16 as u32),
            _ => bits(sys::ppoll(&[(p.fd, POLLIN)], Some(5000)).1[0] as u16 as u32),
        };
        say!("{how}: {r}");
        say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
    }
}

fn mixed_set(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    let (r, w) = sys::pipe(0);
    let (e, t) = (sys::eventfd(0), sys::timer(30));
    let (l, port) = sys::listener();
    let plain = sys::tcp(0);
    sys::connect(plain, port).expect("connect");
    let set = [p.fd, q.fd, r, e, t, l, 4000, -1].map(|fd| (fd, POLLIN));
    // (At once again: the library need not ask after each peer then.)
    let show_all = |what: &str, ms| {
        for set in [&set[..6], &set[..6], &set[..], &set[..]] {
            let (n, v) = sys::poll(set, ms);
            say!("{what}: {} {:?}", show(n), v.iter().map(|b| bits(*b as u16 as u32)).collect::<Vec<_>>());
        }
        if ms != 0 {
            say!(
                "{what}: {}",
                sys::select(Select::Plain, &[p.fd, q.fd, r, e, t, l], &[w], &[p.fd], ms as u64)
            );
        }
    };
    let s = sys::accept(l).expect("accept") as Fd;
    show_all("idle or timer", 0);
    say!("timer {}", poll1(t, POLLIN, 3000));
    show_all("timer", 1000);
    cx.peer("send 1 x");
    until_ready(q.fd, POLLIN);
    show_all("second connection", 1000);
    say!("pipe write {}", show(sys::write(w, b"x")));
    show_all("and pipe", 1000);
    say!("eventfd write {}", show(sys::write(e, &1u64.to_ne_bytes())));
    cx.peer("send 0 y");
    until_ready(p.fd, POLLIN);
    show_all("everything", 1000);
    sys::close(s).and(sys::close(plain)).expect("close");
    let another = sys::tcp(libc::SOCK_NONBLOCK);
    let _ = sys::connect(another, port);
    until_ready(l, POLLIN);
    show_all("and a client", 1000);
}

/// As event loops have it that keep their array: connections between entries that are switched off.
fn many_and_holes(cx: &mut Cx) {
    let pairs: Vec<_> = (0..12).map(|_| cx.warm()).collect();
    for entries in [40, 100] {
        let mut set = vec![(-1, POLLIN); entries];
        for (at, pair) in pairs.iter().enumerate() {
            set[3 * at + 1] = (pair.fd, POLLIN);
        }
        let show_ready = |what: &str, set: &[(Fd, i16)], ms| {
            let (n, v) = sys::poll(set, ms);
            let ready = v.iter().enumerate().filter(|(_, events)| **events != 0);
            let ready: Vec<_> = ready.map(|(at, events)| (at, bits(*events as u16 as u32))).collect();
            say!("{entries}, {what}: {} {ready:?}", show(n));
        };
        show_ready("nothing", &set, 20);
        cx.ask("later 40 send 7 abc");
        show_ready("one", &set, 5000);
        cx.peer("send 11 x");
        until_ready(pairs[11].fd, POLLIN);
        show_ready("two", &set, 5000);
        set[3 * 7 + 1].0 = -1;
        show_ready("one is switched off", &set, 5000);
        for at in [7, 11] {
            say!("read -> {}", show(sys::read(pairs[at].fd, &mut [0; 9])));
        }
    }
    let set: Vec<_> = pairs.iter().map(|pair| (pair.fd, POLLIN)).collect();
    cx.ask("later 40 close 3");
    let (n, v) = sys::poll(&set, 5000);
    say!("closed: {} {}", show(n), bits(v[3] as u16 as u32));
}

/// One connection always has space; the other one's peer is killed.
fn dead_among_ready(cx: &mut Cx) {
    let (l, port) = sys::listener();
    let near = sys::tcp(0);
    sys::connect(near, port).expect("connect");
    let far = sys::accept(l).expect("accept") as Fd;
    say!("write -> {}", show(sys::write(near, b"abc")));
    say!("read -> {}", show(sys::read(far, &mut [0; 9])));
    say!("write -> {}", show(sys::write(far, b"abc")));
    say!("read -> {}", show(sys::read(near, &mut [0; 9])));
    let p = cx.warm();
    let set = [(near, POLLOUT), (p.fd, POLLIN | POLLRDHUP)];
    say!("both alive {:?}", sys::poll(&set, 1000));
    sys::kill(cx.peer_pid(), libc::SIGKILL).expect("kill");
    until("news of the dead", || sys::poll(&set, 1000).1[1] & POLLRDHUP != 0);
    let (n, v) = sys::poll(&set, 1000);
    say!("{} {:?}", show(n), v.iter().map(|b| bits(*b as u16 as u32)).collect::<Vec<_>>());
}

fn low_water(cx: &mut Cx) {
    let p = cx.warm();
    sys::setopt(p.fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 4).expect("lowat");
    cx.peer("send 0 ab");
    settle();
    say!("two of four {}", poll1(p.fd, POLLIN, 30));
    cx.peer("send 0 cd");
    say!("four of four {}", poll1(p.fd, POLLIN, 3000));
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
}

fn select_states(cx: &mut Cx) {
    let p = cx.warm();
    let f = [p.fd];
    for kind in [Select::Plain, Select::Precise] {
        say!("{kind:?} idle {}", sys::select(kind, &f, &f, &f, 0));
        cx.peer("send 0 abc");
        until_ready(p.fd, POLLIN);
        say!("{kind:?} data {}", sys::select(kind, &f, &f, &f, 0));
        say!("{kind:?} read only {}", sys::select(kind, &f, &[], &[], 1000));
        say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
        say!("{kind:?} nothing {}", sys::select(kind, &[], &[], &[], 5));
    }
    fill(p.fd);
    say!("full {}", sys::select(Select::Plain, &f, &f, &f, 0));
    cx.ask("later 1 discard 0");
    say!("room {}", sys::select(Select::Plain, &[], &f, &[], 3000));
    say!("bad fd {}", sys::select(Select::Plain, &[p.fd, 60], &[], &[], 0));
}

/// The ends of what is named are none of what is asked for: it waits its time.
fn select_of_urgent_bytes_alone(cx: &mut Cx) {
    let (p, q, idle) = (cx.warm(), cx.warm(), cx.warm());
    let (r, w) = sys::pipe(0);
    sys::close(w).expect("close");
    cx.peer(&format!("linger {} 1 0", q.id));
    cx.peer(&format!("close {}", q.id));
    until_ready(q.fd, libc::POLLERR);
    cx.peer("shut 0 1");
    say!("shutdown -> {}", show(sys::shutdown(p.fd, libc::SHUT_WR)));
    until_ready(p.fd, libc::POLLHUP);
    for kind in [Select::Plain, Select::Precise] {
        for named in [&[p.fd][..], &[q.fd], &[r, idle.fd], &[p.fd, q.fd, r, idle.fd]] {
            let begun = std::time::Instant::now();
            let told = sys::select(kind, &[], &[], named, 60);
            say!("{kind:?} {told}, before its time {}", begun.elapsed().as_millis() < 60);
        }
    }
    cx.ask(&format!("later 50 oob {} !", idle.id));
    say!("then {}", sys::select(Select::Plain, &[], &[], &[p.fd, q.fd, r, idle.fd], 5000));
}

fn select_waits(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    let (r, _w) = sys::pipe(0);
    for kind in [Select::Plain, Select::Precise] {
        cx.ask("later 60 send 1 abc");
        say!("{kind:?} {}", sys::select(kind, &[p.fd, q.fd, r], &[], &[p.fd], 5000));
        say!("read -> {}", show(sys::read(q.fd, &mut [0; 9])));
    }
    cx.ask("later 60 shut 0 1");
    say!("EOF {}", sys::select(Select::Plain, &[p.fd, q.fd, r], &[], &[], 5000));
}

fn same_fd_twice(cx: &mut Cx) {
    let p = cx.warm();
    let d = sys::dup(p.fd).expect("dup") as Fd;
    cx.peer("send 0 x");
    until_ready(p.fd, POLLIN);
    let (n, v) = sys::poll(&[(p.fd, POLLIN), (p.fd, POLLOUT), (d, POLLIN | POLLOUT)], 0);
    say!("{} {:?}", show(n), v.iter().map(|b| bits(*b as u16 as u32)).collect::<Vec<_>>());
}

fn thread_per_direction(cx: &mut Cx) {
    let p = cx.warm();
    let reader = std::thread::spawn(move || {
        let mut total = 0;
        while total < 100_000 {
            poll1(p.fd, POLLIN, 5000);
            match sys::recv(p.fd, &mut [0; 1000], libc::MSG_DONTWAIT) {
                Ok(0) => break,
                Ok(n) => total += n,
                Err(_) => {}
            }
        }
        total
    });
    cx.tell("echo 0 100000");
    let mut sent = 0;
    while sent < 100_000 {
        poll1(p.fd, POLLOUT, 5000);
        sent += sys::send(p.fd, &vec![1; 5000.min(100_000 - sent)], libc::MSG_DONTWAIT).unwrap_or(0);
    }
    say!("sent {sent} read {}", reader.join().expect("reader"));
    cx.answer();
}

fn wakes_on_close(cx: &mut Cx) {
    let p = cx.warm();
    cx.ask("later 60 close 0");
    say!("poll {}", poll1(p.fd, POLLIN | POLLRDHUP, 5000));
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
}

/// The server's queue is full, so that the kernel drops the SYN: it comes again a second later.
fn connecting(cx: &mut Cx) {
    let listener = sys::tcp_listener(0);
    sys::bind(listener, 0).expect("bind");
    sys::listen(listener, 0).expect("listen");
    let (port, first, fd) = (sys::port_of(listener), sys::tcp(0), sys::tcp(libc::SOCK_NONBLOCK));
    say!("first -> {}", show(sys::connect(first, port)));
    say!("second -> {}", show(sys::connect(fd, port)));
    let ep = sys::epoll();
    sys::ep_add(ep, fd, libc::EPOLLIN | libc::EPOLLOUT, 1).expect("add");
    states("connecting", fd);
    let f = [fd];
    say!("set {} select {}", sys::ep_show(ep, 20), sys::select(Select::Plain, &f, &f, &f, 20));
    say!("again -> {} error {}", show(sys::connect(fd, port)), so_error(fd));
    say!("name {}", show(sys::peer_port(fd)));
    say!("read -> {}", show(sys::read(fd, &mut [0; 9])));
    say!("write -> {}", show(sys::send(fd, b"x", libc::MSG_NOSIGNAL)));
    say!("accept -> {}", sys::accept(listener).is_ok());
    say!("room {} set {}", poll1(fd, POLLOUT, 5000), sys::ep_show(ep, 3000));
    let server = sys::accept(listener).expect("accept") as Fd;
    say!("write -> {}", show(sys::write(fd, b"abc")));
    say!("data {}", poll1(server, POLLIN, 3000));
    say!("read -> {}", show(sys::read(server, &mut [0; 9])));
    say!("write -> {}", show(sys::write(server, b"hello")));
    say!("set {}", sys::ep_show(ep, 3000));
    let _ = cx;
}

/// Neither the array nor the sets are the program's to be changed by a call that did nothing.
/// What poll says of a set, asked by another thread for so long, while `act` is done.
fn polled(set: Fd, ms: i32, act: impl FnOnce()) -> String {
    let poller = std::thread::spawn(move || poll1(set, POLLIN, ms));
    settle();
    act();
    poller.join().expect("poller")
}

/// What happens is not what the set asks for.
fn set_without_news(cx: &mut Cx, events: i32) {
    let (p, set) = (cx.warm(), sys::epoll());
    say!("add {}", show(ep_add(set, p.fd, events, 1)));
    say!("idle {}", poll1(set, POLLIN, 0));
    say!("bytes {}", polled(set, 150, || drop(cx.peer("send 0 bytes"))));
    say!("still {} {}", poll1(set, POLLIN, 20), ep_show(set, 20));
    say!("select {}", sys::select(Select::Plain, &[set], &[], &[], 20));
    say!("shut {}", polled(set, 150, || _ = sys::shutdown(p.fd, libc::SHUT_WR)));
    say!("still {} {}", poll1(set, POLLIN, 20), ep_show(set, 20));
    say!("the end {}", polled(set, 3000, || drop(cx.peer("shut 0 1"))));
    settle();
    say!("then {} {}", poll1(set, POLLIN, 20), ep_show(set, 20));
}

fn set_of_what_was_read(cx: &mut Cx) {
    let (p, set) = (cx.warm(), sys::epoll());
    say!("add {}", show(ep_add(set, p.fd, libc::EPOLLIN, 1)));
    for _ in 0..3 {
        say!("bytes {}", polled(set, 3000, || drop(cx.peer("send 0 bytes"))));
        say!("again {}", poll1(set, POLLIN, 20));
        say!("read {}", show(sys::recv(p.fd, &mut [0; 9], 0)));
        say!("nothing {}", poll1(set, POLLIN, 20));
        say!("told {}", ep_show(set, 0));
    }
    say!("shut {}", polled(set, 150, || _ = sys::shutdown(p.fd, libc::SHUT_WR)));
    say!("bytes {}", polled(set, 3000, || drop(cx.peer("send 0 bytes"))));
}

fn set_before_the_first_look(cx: &mut Cx) {
    let (p, set) = (cx.pair(), sys::epoll());
    say!("add {}", show(ep_add(set, p.fd, libc::EPOLLIN, 1)));
    say!("the peer looks {}", polled(set, 150, || drop(cx.peer("poll 0 1 0"))));
    say!("bytes {}", polled(set, 3000, || drop(cx.peer("send 0 bytes"))));
}

/// What was asked once, and told, is not told again because the server has looked.
fn set_asked_once_before_the_first_look(cx: &mut Cx) {
    let once =
        [libc::EPOLLOUT, libc::EPOLLOUT | libc::EPOLLIN | libc::EPOLLET].map(|e| e | libc::EPOLLONESHOT);
    for (id, events) in once.into_iter().enumerate() {
        let (p, set) = (cx.pair(), sys::epoll());
        say!("connected {} {}", poll1(p.fd, POLLOUT, 1000), poll1(p.fd, POLLIN, 1));
        say!("add {} {}", show(ep_add(set, p.fd, events, 1)), ep_show(set, 0));
        cx.peer(&format!("poll {id} 1 0"));
        say!("polled {} {}", poll1(set, POLLIN, 0), poll1(set, POLLIN, 20));
        say!("waited {}", ep_show(set, 0));
        say!("asked anew {} {}", show(sys::ep_mod(set, p.fd, events, 2)), ep_show(set, 1000));
    }
}

/// The rings have told of bytes, and the kernel could tell of the end that comes behind them.
fn set_asked_once_and_told(cx: &mut Cx) {
    let (p, set) = (cx.warm(), sys::epoll());
    let once = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLONESHOT;
    say!("add {}", show(ep_add(set, p.fd, once, 1)));
    cx.peer("send 0 abc");
    say!("told {}", ep_show(set, 1000));
    cx.peer("shut 0 1");
    until_ready(p.fd, POLLRDHUP);
    say!("polled {} {}", poll1(set, POLLIN, 0), poll1(set, POLLIN, 20));
    say!("asked anew {} {}", show(sys::ep_mod(set, p.fd, once, 2)), ep_show(set, 1000));
}

fn what_a_failed_call_leaves(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let interrupt = || {
        let target = sys::this_thread();
        std::thread::spawn(move || {
            sys::block(libc::SIGUSR1, true);
            settle();
            sys::signal_thread(target, libc::SIGUSR1);
        })
    };
    sys::catch(libc::SIGUSR1, true);
    for round in ["idle", "with data"] {
        if round == "idle" {
            let signal = interrupt();
            say!("interrupted poll {:?}", sys::poll_over(fd, 2, 0x5555, 3000));
            signal.join().expect("signal");
            for kind in [Select::Plain, Select::Precise] {
                let signal = interrupt();
                let (selected, is_in, left) = sys::select_over(kind, fd, 3000);
                signal.join().expect("signal");
                let is_told = (1000..3000).contains(&left);
                say!("interrupted {kind:?} {selected:?} in the set {is_in} less time {is_told}");
            }
        }
        say!("{round}: in time {:?}", sys::poll_over(fd, 2, 0x5555, 20));
        let (selected, is_in, left) = sys::select_over(Select::Plain, fd, 30);
        say!("{round}: {selected:?} in the set {is_in} no time is left {}", left == 0);
        cx.peer("send 0 x");
        until_ready(fd, POLLIN);
    }
    sys::limit_fds(16);
    say!("too many {:?}", sys::poll_over(fd, 17, 0x5555, 20));
    say!("as many {:?}", sys::poll_over(fd, 16, 0x5555, 20));
}

/// A process is stopped in a poll for longer than that is to last: it is over when the process goes on.
fn limit_over_a_stop(cx: &mut Cx) {
    const LIMIT: std::time::Duration = std::time::Duration::from_millis(1500);
    let (own, childs) = sys::socketpair();
    let me = std::process::id() as i32;
    // (It is made before the connection, and has no part in that.)
    let child = sys::fork(|| {
        let _ = (sys::close(own), sys::read(childs, &mut [0; 1]));
        std::thread::sleep(LIMIT / 10);
        sys::kill(me, libc::SIGSTOP).expect("the parent");
        std::thread::sleep(LIMIT);
        sys::kill(me, libc::SIGCONT).expect("the parent");
        0
    });
    let _ = sys::close(childs);
    let fd = cx.warm().fd;
    let _ = sys::write(own, b"g");
    let begin = std::time::Instant::now();
    let told = sys::poll(&[(fd, POLLIN)], LIMIT.as_millis() as i32).0;
    let is_soon = begin.elapsed() < LIMIT + LIMIT / 2;
    say!("poll -> {}, soon {is_soon}", show(told));
    say!("child {}", sys::wait(child));
    cx.ask("send 0 abc");
    say!("then {}", poll1(fd, POLLIN, 3000));
}
