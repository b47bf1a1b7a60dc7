//! Points 44-55: epoll in all modes, in every order of registration and use.

use crate::context::{Case, Cx, Pair, fill, say, settle, until, until_queued, until_ready};
use isthmus_tests::sys::{self, Fd, ep_add, ep_del, ep_mod, ep_show, ep_wait, show, show_events, so_error};
use libc::{
    EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLRDHUP, POLLIN,
};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("epoll.level", level),
    case("epoll.others_beside_unread", others_beside_unread),
    case("epoll.edge", edge),
    any("epoll.edge_output", edge_output),
    case("epoll.oneshot", oneshot),
    case("epoll.oneshot_both", oneshot_both),
    case("epoll.oneshot_two_threads", oneshot_two_threads),
    case("epoll.exclusive", exclusive),
    case("epoll.exclusive_wakes_one", exclusive_wakes_one),
    case("epoll.nested", nested),
    case("epoll.nobody_starves", nobody_starves),
    case("epoll.several_sets", several_sets),
    case("epoll.control_errors", control_errors),
    case("epoll.delete", delete),
    case("epoll.close_without_delete", close_without_delete),
    case("epoll.close_with_dup", close_with_dup),
    case("epoll.mod_interest", mod_interest),
    any("epoll.half_closed", half_closed),
    any("epoll.reset", reset),
    case("epoll.registered_before_use", registered_before_use),
    any("epoll.registered_before_connect", registered_before_connect),
    case("epoll.level_before_connect", level_before_connect),
    any("epoll.watched_before_listen", watched_before_listen),
    any("epoll.nonblocking_connect", nonblocking_connect),
    any("epoll.accept_loop", accept_loop),
    any("epoll.accept_loop_edge", accept_loop_edge),
    case("epoll.mixed_set", mixed_set),
    case("epoll.user_data", user_data),
    case("epoll.one_at_a_time", one_at_a_time),
    case("epoll.timeouts", timeouts),
    case("epoll.low_water", low_water),
    case("epoll.low_water_is_an_edge", |cx| low_water_is_an_edge(cx, false)),
    case("epoll.low_water_wakes", |cx| low_water_is_an_edge(cx, true)),
    case("epoll.own_shutdown_is_an_edge", |cx| own_shutdown_is_an_edge(cx, EPOLLIN | EPOLLET)),
    case("epoll.own_shutdown_is_an_edge_of_room", |cx| own_shutdown_is_an_edge(cx, EPOLLOUT | EPOLLET)),
    case("epoll.own_shutdown_wakes", own_shutdown_wakes),
    case("epoll.own_shutdown_of_nothing", own_shutdown_of_nothing),
    case("epoll.edge_of_what_was_read", edge_of_what_was_read),
    case("epoll.shared_over_fork", shared_over_fork),
    case("epoll.edge_ping_pong", edge_ping_pong),
    case("epoll.wakes_waiting_thread", wakes_waiting_thread),
    case("epoll.add_while_waiting", add_while_waiting),
];

fn set_of(p: Pair, events: i32) -> Fd {
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, events, 1)));
    ep
}

fn read_some(fd: Fd, n: usize) {
    say!("read {n} -> {}", show(sys::recv(fd, &mut vec![0; n], libc::MSG_DONTWAIT)));
}

/// What a program asks of a set is answered by its next wait, whatever else is ready.
fn others_beside_unread(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, EPOLLIN);
    cx.peer("send 0 unread");
    say!("data {}", ep_show(ep, 3000));
    for _ in 0..20 {
        let other = sys::int_by_name("eventfd", &[0, 0]).expect("eventfd") as Fd;
        say!("data {}", ep_show(ep, 0));
        say!("add -> {} {}", show(ep_add(ep, other, EPOLLOUT, 7)), ep_show(ep, 0));
        say!("mod -> {} {}", show(ep_mod(ep, other, EPOLLIN, 7)), ep_show(ep, 0));
        say!("mod -> {} {}", show(ep_mod(ep, other, EPOLLOUT, 8)), ep_show(ep, 0));
        let _ = sys::close(other);
    }
    read_some(p.fd, 9);
}

fn level(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, EPOLLIN);
    say!("idle {}", ep_show(ep, 0));
    cx.peer("send 0 abcd");
    say!("data {}", ep_show(ep, 3000));
    say!("again {}", ep_show(ep, 3000));
    read_some(p.fd, 2);
    say!("partly read {}", ep_show(ep, 3000));
    read_some(p.fd, 9);
    say!("drained {}", ep_show(ep, 30));
    read_some(p.fd, 9);
    say!("mod -> {}", show(ep_mod(ep, p.fd, EPOLLIN | EPOLLOUT, 2)));
    say!("writable {}", ep_show(ep, 3000));
    cx.peer("send 0 x");
    until_ready(p.fd, POLLIN);
    say!("both {}", ep_show(ep, 3000));
}

fn edge(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, EPOLLIN | EPOLLET);
    say!("idle {}", ep_show(ep, 20));
    cx.peer("send 0 abcd");
    say!("edge {}", ep_show(ep, 3000));
    say!("no second edge {}", ep_show(ep, 20));
    read_some(p.fd, 2);
    say!("no edge after a partial read {}", ep_show(ep, 20));
    cx.peer("send 0 ef");
    say!("new data, new edge {}", ep_show(ep, 3000));
    read_some(p.fd, 9);
    read_some(p.fd, 9);
    say!("drained {}", ep_show(ep, 20));
    cx.peer("send 0 gh");
    say!("edge {}", ep_show(ep, 3000));
    say!("mod -> {}", show(ep_mod(ep, p.fd, EPOLLIN | EPOLLET, 5)));
    say!("mod gives an edge {}", ep_show(ep, 3000));
    let ep2 = set_of(p, EPOLLIN | EPOLLET);
    say!("add gives an edge {}", ep_show(ep2, 3000));
    say!("only one {}", ep_show(ep2, 20));
    read_some(p.fd, 9);
    cx.peer("shut 0 1");
    say!("end is an edge {}", ep_show(ep2, 3000));
}

fn edge_output(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, EPOLLIN | EPOLLOUT | EPOLLET);
    say!("initial {}", ep_show(ep, 3000));
    say!("none {}", ep_show(ep, 20));
    cx.peer("send 0 abc");
    say!("arrival reports both {}", ep_show(ep, 3000));
    read_some(p.fd, 9);
    fill(p.fd);
    let _ = ep_wait(ep, 0);
    say!("full {}", ep_show(ep, 20));
    cx.ask("later 1 discard 0");
    say!("room is an edge {}", ep_show(ep, 3000));
}

fn oneshot(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, EPOLLIN | EPOLLONESHOT);
    cx.peer("send 0 ab");
    say!("once {}", ep_show(ep, 3000));
    say!("disabled {}", ep_show(ep, 20));
    cx.peer("send 0 cd");
    until_queued(p.fd, 4);
    say!("still {}", ep_show(ep, 20));
    say!("mod -> {}", show(ep_mod(ep, p.fd, EPOLLIN | EPOLLONESHOT, 2)));
    say!("again {}", ep_show(ep, 3000));
    read_some(p.fd, 9);
    say!("mod -> {}", show(ep_mod(ep, p.fd, EPOLLIN | EPOLLONESHOT, 3)));
    say!("drained {}", ep_show(ep, 20));
    cx.peer("send 0 e");
    say!("third {}", ep_show(ep, 3000));
}

fn oneshot_both(cx: &mut Cx) {
    let p = cx.warm();
    cx.peer("send 0 ab");
    until_queued(p.fd, 2);
    let ep = set_of(p, EPOLLIN | EPOLLOUT | EPOLLONESHOT | EPOLLRDHUP);
    say!("one record for both {}", ep_show(ep, 3000));
    say!("disabled {}", ep_show(ep, 20));
    cx.peer("shut 0 1");
    say!("end not reported {}", ep_show(ep, 20));
    say!("mod -> {}", show(ep_mod(ep, p.fd, EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, 4)));
    say!("now {}", ep_show(ep, 3000));
}

fn oneshot_two_threads(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, EPOLLIN | EPOLLONESHOT);
    let mut total = 0;
    for _ in 0..6 {
        let wait = move || std::thread::spawn(move || ep_wait(ep, 150).map_or(9, |v| v.len()));
        let (a, b) = (wait(), wait());
        cx.ask("send 0 x");
        total += a.join().expect("a") + b.join().expect("b");
        sys::read(p.fd, &mut [0; 1]).expect("read");
        ep_mod(ep, p.fd, EPOLLIN | EPOLLONESHOT, 1).expect("mod");
    }
    say!("{total} records for 6 arrivals");
}

fn exclusive(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, EPOLLIN | EPOLLEXCLUSIVE);
    say!("mod -> {}", show(ep_mod(ep, p.fd, EPOLLIN, 1)));
    cx.peer("send 0 x");
    say!("data {}", ep_show(ep, 3000));
    say!("level {}", ep_show(ep, 3000));
    say!("del -> {}", show(ep_del(ep, p.fd)));
    say!("with oneshot -> {}", show(ep_add(ep, p.fd, EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT, 1)));
    say!("mod to exclusive -> {}", show(ep_mod(ep, p.fd, EPOLLIN | EPOLLEXCLUSIVE, 1)));
    say!("add edge -> {}", show(ep_add(ep, p.fd, EPOLLIN | EPOLLEXCLUSIVE | EPOLLET, 7)));
    say!("edge {}", ep_show(ep, 3000));
}

fn exclusive_wakes_one(cx: &mut Cx) {
    let p = cx.warm();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let ep = sys::epoll();
            ep_add(ep, p.fd, EPOLLIN | EPOLLEXCLUSIVE, 1).expect("add");
            std::thread::spawn(move || ep_wait(ep, 400).map_or(0, |v| v.len()))
        })
        .collect();
    settle();
    cx.peer("send 0 x");
    let woken: usize = waiters.into_iter().map(|w| w.join().expect("waiter")).sum();
    say!("at least one of three woke: {}", woken >= 1);
}

fn nested(cx: &mut Cx) {
    let p = cx.warm();
    let (inner, outer) = (set_of(p, EPOLLIN), sys::epoll());
    say!("add inner -> {}", show(ep_add(outer, inner, EPOLLIN, 9)));
    say!("idle {} {}", ep_show(outer, 20), sys::poll1(inner, POLLIN, 0));
    cx.ask("later 50 send 0 abc");
    say!("outer {}", ep_show(outer, 3000));
    say!("poll of inner {}", sys::poll1(inner, POLLIN, 3000));
    say!("select of inner {}", sys::select(sys::Select::Plain, &[inner], &[], &[], 1000));
    say!("inner {}", ep_show(inner, 3000));
    read_some(p.fd, 9);
    say!("inner drained {}", ep_show(inner, 0));
    say!("outer drained {}", ep_show(outer, 20));
    cx.ask("later 50 send 0 d");
    say!("poll wakes {}", sys::poll1(outer, POLLIN, 3000));
    say!("loop -> {}", show(ep_add(inner, outer, EPOLLIN, 1)));
}

fn several_sets(cx: &mut Cx) {
    let p = cx.warm();
    let (a, b, c) = (set_of(p, EPOLLIN), set_of(p, EPOLLIN | EPOLLET), set_of(p, EPOLLOUT));
    say!("idle {} {} {}", ep_show(a, 0), ep_show(b, 0), ep_show(c, 0));
    cx.peer("send 0 ab");
    say!("data {} {}", ep_show(a, 3000), ep_show(b, 3000));
    say!("again {} {} {}", ep_show(a, 0), ep_show(b, 0), ep_show(c, 0));
    read_some(p.fd, 9);
    say!("drained {} {} {}", ep_show(a, 20), ep_show(b, 0), ep_show(c, 0));
    say!("close a -> {}", show(sys::close(a)));
    cx.peer("send 0 c");
    say!("data {}", ep_show(b, 3000));
}

fn control_errors(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, EPOLLIN);
    say!("add twice -> {}", show(ep_add(ep, p.fd, EPOLLIN, 2)));
    say!("del -> {}", show(ep_del(ep, p.fd)));
    say!("del again -> {}", show(ep_del(ep, p.fd)));
    say!("mod unknown -> {}", show(ep_mod(ep, p.fd, EPOLLIN, 1)));
    say!("add itself -> {}", show(ep_add(ep, ep, EPOLLIN, 1)));
    say!("bad set -> {}", show(ep_add(p.fd, p.fd, EPOLLIN, 1)));
    say!("set is no epoll -> {}", show(ep_add(0, p.fd, EPOLLIN, 1)));
    say!("closed set -> {}", show(ep_add(4000, p.fd, EPOLLIN, 1)));
    say!("closed fd -> {}", show(ep_add(ep, 4000, EPOLLIN, 1)));
    say!("regular file -> {}", show(ep_add(ep, sys::memfile(b"x"), EPOLLIN, 1)));
    say!("bad op -> {}", show(sys::ctl(ep, 77, p.fd, 1, 1)));
    say!("wait no room -> {}", show_events(sys::ep_wait_by(sys::Wait::Plain, ep, 0, 0)));
    say!("wait on a socket -> {}", ep_show(p.fd, 0));
    say!("wait on nothing -> {}", ep_show(4000, 0));
    say!("add again -> {}", show(ep_add(ep, p.fd, EPOLLIN, 3)));
    cx.peer("send 0 x");
    say!("data {}", ep_show(ep, 3000));
}

fn delete(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, EPOLLIN);
    cx.peer("send 0 x");
    until_queued(p.fd, 1);
    say!("del -> {}", show(ep_del(ep, p.fd)));
    say!("nothing {}", ep_show(ep, 20));
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN, 8)));
    say!("data {}", ep_show(ep, 3000));
}

fn close_without_delete(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    let ep = set_of(p, EPOLLIN);
    say!("add -> {}", show(ep_add(ep, q.fd, EPOLLIN, 2)));
    cx.peer("send 0 x");
    until_queued(p.fd, 1);
    say!("close -> {}", show(sys::close(p.fd)));
    say!("nothing {}", ep_show(ep, 20));
    cx.peer("send 1 x");
    say!("the other {}", ep_show(ep, 3000));
    let (r, w) = sys::pipe(0);
    say!("number reused {}", r == p.fd);
    say!("add new owner -> {}", show(ep_add(ep, r, EPOLLIN, 3)));
    say!("pipe write {}", show(sys::write(w, b"x")));
    settle();
    say!("both {}", ep_show(ep, 3000));
    cx.watch(q.fd);
}

fn close_with_dup(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, EPOLLIN);
    let d = sys::dup(p.fd).expect("dup") as Fd;
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer("send 0 x");
    say!("old record lives {}", ep_show(ep, 3000));
    say!("add dup -> {}", show(ep_add(ep, d, EPOLLIN, 2)));
    say!("two records {}", ep_show(ep, 3000));
    read_some(d, 9);
    say!("drained {}", ep_show(ep, 20));
    say!("close last -> {}", show(sys::close(d)));
    say!("gone {}", ep_show(ep, 20));
    cx.peer("drain 0");
    let q = cx.pair();
    cx.watch(q.fd);
    cx.ask("send 1 w");
    say!("read -> {}", show(sys::read(q.fd, &mut [0; 9])));
    say!("write -> {}", show(sys::write(q.fd, b"hello")));
    cx.peer("recv 1 9");
}

fn mod_interest(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, 0);
    cx.peer("send 0 x");
    until_queued(p.fd, 1);
    say!("no interest {}", ep_show(ep, 20));
    for events in [EPOLLIN, EPOLLOUT, EPOLLIN | EPOLLOUT, 0, EPOLLIN | EPOLLET, EPOLLIN] {
        say!("mod -> {}", show(ep_mod(ep, p.fd, events, 1)));
        say!("now {}", ep_show(ep, 20));
        say!("then {}", ep_show(ep, 0));
    }
}

fn half_closed(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, EPOLLIN | EPOLLRDHUP);
    cx.peer("send 0 abc");
    cx.peer("shut 0 1");
    until_ready(p.fd, libc::POLLRDHUP);
    say!("data and end {}", ep_show(ep, 3000));
    read_some(p.fd, 9);
    read_some(p.fd, 9);
    say!("end {}", ep_show(ep, 3000));
    say!("shutdown -> {}", show(sys::shutdown(p.fd, libc::SHUT_WR)));
    until_ready(p.fd, libc::POLLHUP);
    say!("both ends {}", ep_show(ep, 3000));
    say!("mod to nothing -> {}", show(ep_mod(ep, p.fd, 0, 1)));
    say!("hangup comes unasked {}", ep_show(ep, 3000));
}

fn reset(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
    cx.peer("linger 0 1 0");
    cx.peer("close 0");
    until_ready(p.fd, libc::POLLERR);
    say!("reset {}", ep_show(ep, 3000));
    say!("mod -> {}", show(ep_mod(ep, p.fd, EPOLLERR | EPOLLHUP, 1)));
    say!("unasked {}", ep_show(ep, 3000));
    read_some(p.fd, 9);
    read_some(p.fd, 9);
    say!("after {}", ep_show(ep, 3000));
}

fn registered_before_use(cx: &mut Cx) {
    let p = cx.pair();
    let ep = set_of(p, EPOLLIN);
    say!("idle {}", ep_show(ep, 20));
    cx.peer("send 0 abc");
    say!("data {}", ep_show(ep, 3000));
    read_some(p.fd, 9);
    say!("drained {}", ep_show(ep, 20));
    say!("write -> {}", show(sys::write(p.fd, b"hello")));
    cx.peer("recv 0 9");
    cx.peer("send 0 def");
    say!("data {}", ep_show(ep, 3000));
}

fn registered_before_connect(cx: &mut Cx) {
    let port = cx.listening_peer();
    let fd = sys::tcp(libc::SOCK_NONBLOCK);
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, fd, EPOLLIN | EPOLLOUT | EPOLLET, 1)));
    say!("unconnected {}", ep_show(ep, 20));
    let r = show(sys::connect(fd, port));
    say!("connect in progress or done: {}", r == "0" || r == "EINPROGRESS");
    say!("connected {}", ep_show(ep, 3000));
    say!("error {}", so_error(fd));
    cx.peer("accept 9");
    cx.peer("send 9 abc");
    let mut seen = 0;
    until("input event", || {
        ep_wait(ep, 100).into_iter().flatten().for_each(|(_, e)| seen |= e);
        seen & EPOLLIN as u32 != 0
    });
    read_some(fd, 9);
    say!("write -> {}", show(sys::write(fd, b"hello")));
    cx.peer("recv 9 9");
    cx.peer("send 9 def");
    say!("data {}", ep_show(ep, 3000));
}

/// As proxies do it: the set first, then connect(), then everything through the set.
fn level_before_connect(cx: &mut Cx) {
    let port = cx.listening_peer();
    let fd = sys::tcp(libc::SOCK_NONBLOCK);
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, fd, EPOLLIN | EPOLLRDHUP, 1)));
    say!("again -> {}", show(ep_add(ep, fd, EPOLLIN, 1)));
    say!("mod -> {}", show(ep_mod(ep, fd, EPOLLOUT, 2)));
    let r = show(sys::connect(fd, port));
    say!("connect in progress or done: {}", r == "0" || r == "EINPROGRESS");
    say!("connected {}", ep_show(ep, 3000));
    cx.ask("accept 9");
    say!("write -> {}", show(sys::write(fd, b"sixteen-bytes-ok")));
    cx.peer("recv 9 16");
    say!("mod -> {}", show(ep_mod(ep, fd, EPOLLIN | EPOLLRDHUP, 3)));
    cx.peer("send 9 sixteen-bytes-ok");
    say!("data {}", ep_show(ep, 3000));
    read_some(fd, 16);
    say!("drained {}", ep_show(ep, 20));
    cx.peer("close 9");
    say!("end {}", ep_show(ep, 3000));
    cx.watch(fd);
    cx.wrote_early(16);
}

/// A socket that goes into a set first and becomes a listener.
fn watched_before_listen(cx: &mut Cx) {
    let l = sys::tcp_listener(0);
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, l, EPOLLIN, 1)));
    say!("unconnected {}", ep_show(ep, 20));
    sys::bind(l, 0).expect("bind");
    say!("listen -> {}", show(sys::listen(l, 16)));
    say!("quiet {}", ep_show(ep, 20));
    let port = sys::port_of(l);
    cx.ask(&format!("connect 5 {port}"));
    say!("knock {}", ep_show(ep, 3000));
    let s = sys::accept(l).expect("accept") as Fd;
    cx.peer("send 5 abc");
    read_some(s, 9);
    say!("mod -> {}", show(ep_mod(ep, l, EPOLLIN | EPOLLOUT, 2)));
    say!("del -> {}", show(ep_del(ep, l)));
    say!("del again -> {}", show(ep_del(ep, l)));
}

fn nonblocking_connect(cx: &mut Cx) {
    let port = cx.listening_peer();
    let fd = sys::tcp(libc::SOCK_NONBLOCK);
    let ep = sys::epoll();
    let r = show(sys::connect(fd, port));
    say!("connect in progress or done: {}", r == "0" || r == "EINPROGRESS");
    say!("add -> {}", show(ep_add(ep, fd, EPOLLOUT, 1)));
    say!("connected {}", ep_show(ep, 3000));
    say!("error {}", so_error(fd));
    say!("mod -> {}", show(ep_mod(ep, fd, EPOLLIN, 1)));
    say!("write -> {}", show(sys::write(fd, b"hello")));
    cx.peer("accept 9");
    cx.peer("recv 9 9");
    cx.peer("send 9 abc");
    say!("data {}", ep_show(ep, 3000));
    read_some(fd, 9);
    say!("drained {}", ep_show(ep, 20));
}

fn accepting(cx: &mut Cx, edge: i32) {
    let (l, port) = sys::listener();
    sys::nonblocking(l, true);
    let ep = sys::epoll();
    say!("add listener -> {}", show(ep_add(ep, l, EPOLLIN | edge, 1000)));
    let mut conns = Vec::new();
    for id in 0..4 {
        cx.ask(&format!("connect {id} {port}"));
        say!("listener ready {}", ep_show(ep, 3000));
        let fd = sys::accept4(l, libc::SOCK_NONBLOCK).expect("accept4") as Fd;
        say!("add -> {}", show(ep_add(ep, fd, EPOLLIN | EPOLLRDHUP | edge, id as u64)));
        conns.push(fd);
    }
    for id in [2, 0, 3, 1] {
        cx.peer(&format!("send {id} hello"));
        say!("data {}", ep_show(ep, 3000));
        read_some(conns[id], 9);
        say!("write -> {}", show(sys::write(conns[id], b"answer")));
        cx.peer(&format!("recv {id} 9"));
    }
    for id in 0..4 {
        cx.peer(&format!("close {id}"));
        say!("end {}", ep_show(ep, 3000));
        sys::close(conns[id as usize]).expect("close");
    }
    say!("quiet {}", ep_show(ep, 20));
}

fn accept_loop(cx: &mut Cx) {
    accepting(cx, 0);
}

fn accept_loop_edge(cx: &mut Cx) {
    accepting(cx, EPOLLET);
}

fn mixed_set(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    let (r, w) = sys::pipe(0);
    let (e, t) = (sys::eventfd(0), sys::timer(30));
    let ep = sys::epoll();
    for (fd, data) in [(p.fd, 1), (q.fd, 2), (r, 3), (e, 4), (t, 5)] {
        say!("add -> {}", show(ep_add(ep, fd, EPOLLIN, data)));
    }
    say!("timer {}", ep_show(ep, 3000));
    cx.peer("send 1 x");
    until_ready(q.fd, POLLIN);
    say!("second {}", ep_show(ep, 3000));
    say!("write {}", show(sys::write(w, b"x")));
    say!("write {}", show(sys::write(e, &1u64.to_ne_bytes())));
    cx.peer("send 0 y");
    until_ready(p.fd, POLLIN);
    say!("all {}", ep_show(ep, 3000));
    read_some(p.fd, 9);
    sys::read(t, &mut [0; 8]).expect("timer");
    sys::read(r, &mut [0; 8]).expect("pipe");
    say!("rest {}", ep_show(ep, 3000));
}

fn user_data(cx: &mut Cx) {
    let p = cx.warm();
    let (r, w) = sys::pipe(0);
    let ep = sys::epoll();
    sys::write(w, b"x").expect("pipe");
    say!("add pipe {}", show(ep_add(ep, r, EPOLLIN, 5)));
    for data in [0, u64::MAX, 0x7fff_ffff_f000, p.fd as u64, 1 << 63] {
        say!("add {}", show(ep_add(ep, p.fd, EPOLLOUT, data)));
        say!("{}", ep_show(ep, 3000));
        say!("del {}", show(ep_del(ep, p.fd)));
    }
    cx.peer("send 0 x");
    read_some(p.fd, 0);
}

/// With room for one event, every ready descriptor gets its turn.
fn one_at_a_time(cx: &mut Cx) {
    let pairs: Vec<Pair> = (0..10).map(|_| cx.warm()).collect();
    let ep = sys::epoll();
    for p in &pairs {
        ep_add(ep, p.fd, EPOLLIN, u64::from(p.id)).expect("add");
        cx.ask(&format!("send {} x", p.id));
        until_queued(p.fd, 1);
    }
    let mut seen = [0; 10];
    for _ in 0..100 {
        let v = sys::ep_wait_by(sys::Wait::Plain, ep, 1, 1000).expect("wait");
        v.iter().for_each(|(d, _)| seen[*d as usize] += 1);
    }
    say!("nobody starved: {}", seen.iter().all(|n| *n >= 5));
    say!("all at once: {}", ep_wait(ep, 0).map_or(0, |v| v.len()));
}

/// With room for one event, a socket that always has something to read does not keep a pipe from being heard.
fn nobody_starves(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, EPOLLIN);
    cx.ask("send 0 x");
    until_queued(p.fd, 1);
    let (r, w) = sys::pipe(0);
    say!("add pipe {}", show(ep_add(ep, r, EPOLLIN, 77)));
    say!("write {}", show(sys::write(w, b"x")));
    let one = || sys::ep_wait_by(sys::Wait::Plain, ep, 1, 1000).expect("wait");
    let is_heard = (0..200_000).any(|_| one().iter().any(|(data, _)| *data == 77));
    let is_read = (0..200_000).any(|_| one().iter().any(|(data, _)| *data == 1));
    say!("the pipe is heard: {is_heard}, and so is the socket: {is_read}");
}

fn timeouts(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, EPOLLIN);
    for kind in [sys::Wait::Plain, sys::Wait::Mask, sys::Wait::Nano] {
        say!("{kind:?} 0 {}", show_events(sys::ep_wait_by(kind, ep, 8, 0)));
        let begin = std::time::Instant::now();
        say!("{kind:?} 30 {}", show_events(sys::ep_wait_by(kind, ep, 8, 30)));
        say!("not early: {}", begin.elapsed().as_millis() >= 29);
        cx.ask("later 50 send 0 x");
        say!("{kind:?} forever {}", show_events(sys::ep_wait_by(kind, ep, 8, -1)));
        read_some(p.fd, 9);
    }
}

fn low_water(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, EPOLLIN);
    sys::setopt(p.fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 4).expect("lowat");
    cx.peer("send 0 ab");
    settle();
    say!("two of four {}", ep_show(ep, 30));
    cx.peer("send 0 cd");
    say!("four of four {}", ep_show(ep, 3000));
}

/// What `act` makes the set tell, asked before it or behind it.
fn told_by(ep: Fd, is_asleep: bool, act: impl FnOnce()) -> String {
    if !is_asleep {
        act();
        return ep_show(ep, 100);
    }
    let sleeper = std::thread::spawn(move || ep_show(ep, 300));
    settle();
    act();
    sleeper.join().expect("sleeper")
}

fn low_water_is_an_edge(cx: &mut Cx, is_asleep: bool) {
    let p = cx.warm();
    let set_to = |bytes| _ = sys::setopt(p.fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes).expect("lowat");
    set_to(100);
    let ep = set_of(p, EPOLLIN | EPOLLET);
    say!("add -> {}", show(ep_add(ep, p.fd, 0, 2)));
    cx.peer("send 0 0123456789");
    until_queued(p.fd, 10);
    settle();
    say!("ten of a hundred {}", ep_show(ep, 20));
    for bytes in [11, 10, 5, 5] {
        say!("ten of {bytes} {}", told_by(ep, is_asleep && bytes < 11, || set_to(bytes)));
        say!("once {}", ep_show(ep, 20));
    }
    read_some(p.fd, 99);
    set_to(1);
    say!("none of one {}", ep_show(ep, 20));
}

fn own_shutdown_is_an_edge(cx: &mut Cx, events: i32) {
    let p = cx.warm();
    let ep = set_of(p, events);
    say!("at first {}", ep_show(ep, 20));
    cx.peer("send 0 ab");
    until_queued(p.fd, 2);
    say!("bytes {}", ep_show(ep, 300));
    for time in ["shut", "and again"] {
        say!("{time} {}", show(sys::shutdown(p.fd, libc::SHUT_WR)));
        // (TCP wakes once more when its FIN is acknowledged, after 40 ms.)
        std::thread::sleep(std::time::Duration::from_millis(120));
        say!("told {}", ep_show(ep, 100));
        say!("once {}", ep_show(ep, 20));
    }
}

fn own_shutdown_wakes(cx: &mut Cx) {
    let p = cx.warm();
    cx.peer("send 0 ab");
    until_queued(p.fd, 2);
    let ep = set_of(p, EPOLLIN | EPOLLET);
    say!("bytes {}", ep_show(ep, 300));
    say!("shut {}", told_by(ep, true, || _ = sys::shutdown(p.fd, libc::SHUT_WR)));
}

fn own_shutdown_of_nothing(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, EPOLLIN | EPOLLET);
    say!("shut {}", told_by(ep, true, || _ = sys::shutdown(p.fd, libc::SHUT_WR)));
    cx.peer("send 0 ab");
    say!("bytes {}", ep_show(ep, 300));
    say!("once {}", ep_show(ep, 20));
}

/// Bytes that are read before the set is asked were an edge all the same: what else stands is told.
fn edge_of_what_was_read(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, EPOLLIN | EPOLLOUT | EPOLLET);
    say!("at first {}", ep_show(ep, 300));
    for text in ["ab", "cd"] {
        cx.peer(&format!("send 0 {text}"));
        until_queued(p.fd, 2);
        read_some(p.fd, 9);
        say!("room {}", ep_show(ep, 100));
        say!("once {}", ep_show(ep, 20));
    }
}

fn shared_over_fork(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, EPOLLIN | EPOLLONESHOT);
    let pid = sys::fork(|| match ep_wait(ep, 3000) {
        Ok(v) if v == [(1, EPOLLIN as u32)] => u8::from(sys::read(p.fd, &mut [0; 9]) != Ok(2)),
        _ => 9,
    });
    cx.peer("send 0 ab");
    say!("child {}", sys::wait(pid));
    cx.peer("send 0 cd");
    say!("consumed for the parent too {}", ep_show(ep, 30));
    say!("mod -> {}", show(ep_mod(ep, p.fd, EPOLLIN | EPOLLONESHOT, 6)));
    say!("parent {}", ep_show(ep, 3000));
    read_some(p.fd, 9);
}

/// The usual edge-triggered loop: read until a short read, then wait. It must never hang.
fn edge_ping_pong(cx: &mut Cx) {
    let p = cx.warm();
    sys::nonblocking(p.fd, true);
    let ep = set_of(p, EPOLLIN | EPOLLET);
    cx.tell("echo 0 300000");
    let (mut sent, mut back, mut lost) = (0usize, 0usize, 0);
    while back < 300_000 && lost < 3 {
        if sent == back {
            let n = (1 + sent * 7 % 900).min(300_000 - sent);
            sent += sys::write(p.fd, &vec![1; n]).unwrap_or(0);
        }
        if ep_wait(ep, 2000) == Ok(vec![]) {
            lost += 1;
        }
        let mut buf = [0u8; 256];
        while let Ok(n) = sys::read(p.fd, &mut buf) {
            back += n;
            if n < buf.len() {
                break;
            }
        }
    }
    say!("sent {sent} back {back} waits in vain {lost}");
    cx.answer();
}

fn wakes_waiting_thread(cx: &mut Cx) {
    let p = cx.warm();
    let ep = set_of(p, EPOLLIN | EPOLLET);
    let waiters: Vec<_> =
        (0..4).map(|_| std::thread::spawn(move || ep_wait(ep, 300).map_or(0, |v| v.len()))).collect();
    settle();
    cx.peer("send 0 x");
    let woken: usize = waiters.into_iter().map(|w| w.join().expect("waiter")).sum();
    say!("woken by one edge: {}", woken.min(1));
}

fn add_while_waiting(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.pair());
    let ep = set_of(p, EPOLLIN);
    let waiter = std::thread::spawn(move || ep_show(ep, 5000));
    settle();
    say!("add -> {}", show(ep_add(ep, q.fd, EPOLLIN, 2)));
    cx.peer("send 1 x");
    say!("waiter {}", waiter.join().expect("waiter"));
    cx.watch(p.fd);
}
