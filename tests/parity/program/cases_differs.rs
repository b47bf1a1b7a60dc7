//! What differs from TCP: of each line of LIMITATIONS that tells of a call, a case that shows it. Invariant:
//! with both ends enabled a transcript is TCP's but for the lines of `tests/parity/differs.txt`; who makes
//! one of these cases equal takes it out there, and the line out of LIMITATIONS.

use crate::cases_early::read_by_plain_program;
use crate::cases_handler::interrupted;
use crate::cases_operator::send_home;
use crate::context::{Case, Cx, say, settle, until_queued, until_ready};
use isthmus_tests::sys::{self, Denied, Fd, InHandler, ep_add, ep_show, ep_wait, poll1, show};
use libc::{EPOLLET, EPOLLIN, EPOLLRDHUP, IPPROTO_TCP, POLLIN, SIGUSR1, SOL_SOCKET};
use std::time::Duration;

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("differs.select_of_many", select_of_many),
    case("differs.signal_names_a_doorbell", signal_names_a_doorbell),
    case("differs.held_for_several_waiters", held_for_several_waiters),
    case("differs.times_asked_for_late", times_asked_for_late),
    case("differs.options_that_come_too_late", options_too_late),
    case("differs.filter_drops_nothing", filter_drops_nothing),
    case("differs.pace_is_not_kept", pace_is_not_kept),
    case("differs.deferred_accept_comes_at_once", deferred_accept),
    case("differs.nothing_asked_of_a_killed_peer", nothing_asked),
    case("differs.reset_is_told_to_each", reset_is_told_to_each),
    case("differs.set_that_its_maker_adds_to_late", set_that_its_maker_adds_to_late),
    case("differs.bytes_for_who_keeps_it", bytes_for_who_keeps_it),
    case("differs.bytes_for_who_gets_it_back", bytes_for_who_gets_it_back),
    case("differs.edge_around_a_level", edge_around_a_level),
    case("differs.set_around_one_with_nothing", set_around_one_with_nothing),
    case("differs.order_of_arrival", order_of_arrival),
    case("differs.handler_replaces_what_is_read", handler_replaces),
    case("differs.early_signal_beside_another_handler", early_signal),
    case("differs.handed_to_a_plain_program", handed_to_a_plain_program),
    case("differs.killed_after_going_home", killed_after_going_home),
    case("differs.unread_of_what_was_inherited", unread_of_what_was_inherited),
    case("differs.unread_behind_a_filter", unread_behind_a_filter),
    case("differs.stopped_in_its_time", stopped_in_its_time),
    case("differs.written_past_every_hook", written_past_every_hook),
];

fn select_of_many(cx: &mut Cx) {
    let fd = cx.warm().fd;
    cx.peer("send 0 abc");
    until_queued(fd, 3);
    for names in [1000, 1100] {
        say!("{names}: {}", show(sys::select_wide(fd, names, 50)));
    }
}

fn signal_names_a_doorbell(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::catch_with_descriptor(SIGUSR1);
    sys::fcntl(fd, libc::F_SETOWN, std::process::id() as i32).expect("owner");
    sys::fcntl(fd, sys::F_SETSIG, SIGUSR1).expect("signal");
    sys::fcntl(fd, libc::F_SETFL, libc::O_ASYNC).expect("async");
    cx.peer("send 0 abc");
    crate::context::until("signal", || sys::signalled_descriptor() >= 0);
    say!("the signal names the socket: {}", sys::signalled_descriptor() == fd);
}

/// Two threads wait, either of whom may be gone when the bytes are due.
fn held_for_several_waiters(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let waiters: Vec<_> = (0..2).map(|_| std::thread::spawn(move || poll1(fd, POLLIN, 140))).collect();
    settle();
    cx.peer("more 0 abc");
    let woken = waiters.into_iter().map(|waiter| waiter.join().expect("waiter")).any(|events| events != "-");
    say!("seen within 100 ms: {woken}");
}

fn times_asked_for_late(cx: &mut Cx) {
    let fd = cx.warm().fd;
    say!("option -> {}", show(sys::setopt(fd, SOL_SOCKET, libc::SO_TIMESTAMP, 1)));
    // (The kernel begins to stamp a moment after it was asked: net_enable_timestamp defers.)
    let is_stamped = (0..30).any(|pause| {
        std::thread::sleep(Duration::from_millis(pause));
        cx.ask("send 0 abcd");
        !sys::recvmsg_left(fd, 4, 64, 0).ends_with("control []")
    });
    say!("stamped: {is_stamped}");
}

fn options_too_late(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let refused = |name, value: &[u8]| {
        sys::setopt_bytes(fd, IPPROTO_TCP, name, value) == Err(sys::Errno(libc::EOPNOTSUPP))
    };
    // (The kernel may lack some of them, or keep one from this user.)
    let of_tcp = [
        (libc::TCP_ULP, b"tls".to_vec()),
        (libc::TCP_REPAIR, vec![1, 0, 0, 0]),
        (libc::TCP_MD5SIG, md5_key(fd)),
    ];
    say!("not supported: {}", of_tcp.iter().any(|(name, value)| refused(*name, value)));
}

/// `struct tcp_md5sig` for the other end: an address of this family, and a key of three bytes.
fn md5_key(fd: Fd) -> Vec<u8> {
    let family = sys::getopt(fd, SOL_SOCKET, libc::SO_DOMAIN).expect("family") as u16;
    let mut value = vec![0; 216];
    value[..2].copy_from_slice(&family.to_ne_bytes());
    if i32::from(family) == libc::AF_INET {
        value[4..8].copy_from_slice(&[127, 0, 0, 1]);
    } else {
        value[8..24].copy_from_slice(&std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets());
    }
    value[130] = 3;
    value[136..139].copy_from_slice(b"key");
    value
}

fn filter_drops_nothing(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let filter = sys::drop_all_that_comes(fd);
    if filter == Err(sys::Errno(libc::EPERM)) {
        // (Some kernels let nobody but root have one.)
        return say!("not here: {}", show(filter));
    }
    say!("filter -> {}", show(filter));
    cx.peer("send 0 abc");
    say!("poll {}", poll1(fd, POLLIN, 300));
}

fn pace_is_not_kept(cx: &mut Cx) {
    let fd = cx.warm().fd;
    say!("pace -> {}", show(sys::setopt(fd, SOL_SOCKET, libc::SO_MAX_PACING_RATE, 20_000)));
    say!("write -> {}", show(sys::write(fd, &[7; 240_000])));
    cx.ask("poll 0 1 3000");
    settle();
    let queued: usize = cx.ask("queued 0").parse().expect("a number");
    say!("all there at once: {}", queued == 240_000);
}

/// By whoever has the library and listens.
fn deferred_accept(cx: &mut Cx) {
    let l = sys::tcp_listener(0);
    say!("option -> {}", show(sys::setopt(l, IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, 5)));
    sys::bind(l, 0).and_then(|_| sys::listen(l, 16)).expect("listen");
    let port = sys::port_of(l);
    cx.ask(&format!("connect 0 {port}"));
    say!("without data {}", poll1(l, POLLIN, 300));
    cx.peer("send 0 abc");
    say!("with data {}", poll1(l, POLLIN, 3000));
}

fn nothing_asked(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let child = sys::fork(|| {
        std::thread::sleep(Duration::from_secs(20));
        0
    });
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, fd, 0, 1)));
    say!("write -> {}", show(sys::write(fd, b"unread")));
    cx.end_by("die");
    say!("set {}", ep_show(ep, 1200));
    sys::kill(child, libc::SIGKILL).expect("kill");
    sys::wait(child);
}

fn reset_is_told_to_each(cx: &mut Cx) {
    let p = cx.warm();
    let (r, w) = sys::pipe(0);
    let child = sys::fork(|| {
        let _ = sys::read(r, &mut [0; 1]);
        u8::from(sys::read(p.fd, &mut [0; 9]) == Err(sys::Errno(libc::ECONNRESET)))
    });
    say!("write -> {}", show(sys::write(p.fd, b"unread")));
    cx.ask("poll 0 1 3000");
    cx.end_by("die");
    until_ready(p.fd, libc::POLLHUP);
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
    sys::write(w, b"x").expect("pipe");
    say!("told to the child as well: {}", sys::wait(child) == "exit 1");
}

/// The child has not waited yet, and the connection is not touched again.
fn set_that_its_maker_adds_to_late(cx: &mut Cx) {
    let p = cx.warm();
    let (ep, (r, w)) = (sys::epoll(), sys::pipe(0));
    let child = sys::fork(|| {
        let _ = sys::read(r, &mut [0; 1]);
        u8::from(ep_wait(ep, 600).is_ok_and(|events| !events.is_empty()))
    });
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN, 1)));
    cx.peer("send 0 abc");
    until_queued(p.fd, 3);
    sys::write(w, b"x").expect("pipe");
    say!("the child is told: {}", sys::wait(child) == "exit 1");
    say!("and its maker {}", ep_show(ep, 3000));
}

/// A child keeps the socket that this process closes.
fn bytes_for_who_keeps_it(cx: &mut Cx) {
    let (p, ep) = (cx.warm(), sys::epoll());
    say!("add {}", show(ep_add(ep, p.fd, EPOLLIN, 1)));
    let child = sys::fork(|| {
        std::thread::sleep(Duration::from_secs(5));
        0
    });
    say!("close {}", show(sys::close(p.fd)));
    cx.peer("send 0 bytes");
    say!("told {}", ep_show(ep, 200));
    say!("kill {}", show(sys::kill(child, libc::SIGKILL)));
    let _ = sys::wait(child);
}

fn bytes_for_who_gets_it_back(cx: &mut Cx) {
    let (p, ep, (a, b)) = (cx.warm(), sys::epoll(), sys::socketpair());
    say!("add {}", show(ep_add(ep, p.fd, EPOLLIN, 1)));
    say!("pass {}, close {}", show(sys::send_fd(a, p.fd)), show(sys::close(p.fd)));
    let copy = sys::recv_fd(b).expect("a descriptor") as Fd;
    cx.peer("send 0 bytes");
    until_queued(copy, 5);
    say!("told {}", ep_show(ep, 200));
}

fn edge_around_a_level(cx: &mut Cx) {
    let p = cx.warm();
    let (inner, outer) = (sys::epoll(), sys::epoll());
    say!("add -> {}", show(ep_add(inner, p.fd, EPOLLIN, 1)));
    say!("none {}", ep_show(inner, 0));
    say!("nest -> {}", show(ep_add(outer, inner, EPOLLIN | EPOLLET, 2)));
    cx.peer("send 0 a");
    say!("first {}", ep_show(outer, 3000));
    say!("none {}", ep_show(outer, 20));
    cx.peer("send 0 b");
    say!("second, unread {}", ep_show(outer, 100));
    say!("inner {}", ep_show(inner, 3000));
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
    say!("inner {}", ep_show(inner, 20));
    cx.peer("send 0 c");
    say!("third {}", ep_show(outer, 3000));
}

/// The inner set asks for nothing that has come, and nobody waits for it.
fn set_around_one_with_nothing(cx: &mut Cx) {
    let p = cx.warm();
    let (inner, outer) = (sys::epoll(), sys::epoll());
    say!("add -> {}", show(ep_add(inner, p.fd, EPOLLRDHUP, 1)));
    say!("none {}", ep_show(inner, 0));
    say!("nest -> {}", show(ep_add(outer, inner, EPOLLIN, 2)));
    say!("poll {}", poll1(p.fd, POLLIN, 0));
    cx.peer("send 0 a");
    until_queued(p.fd, 1);
    settle();
    say!("outer {} {}", ep_show(outer, 20), ep_show(outer, 20));
    say!("inner {}", ep_show(inner, 20));
    say!("outer, then {}", ep_show(outer, 20));
}

/// A call that is restarted looks its number up again.
fn handler_replaces(cx: &mut Cx) {
    let p = cx.warm();
    let (r, w) = sys::pipe(0);
    sys::write(w, b"xyz").expect("pipe");
    let replace = InHandler::Replace(r);
    let (read, handled) = interrupted(p.fd, true, replace, || sys::read(p.fd, &mut [0; 9]));
    say!("in the handler {handled:?}, then {}", show(read));
    cx.peer("drain 0");
}

/// A signal in the first moments of a call, whose handler has SA_RESTART while another one has not. (Of
/// several tries, since a machine that is busy may let a call sleep before it.)
fn early_signal(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::catch(libc::SIGUSR2, false);
    let mut is_interrupted = false;
    for _ in 0..10 {
        sys::catch(SIGUSR1, true);
        let target = sys::this_thread();
        let read = std::thread::scope(|scope| {
            scope.spawn(move || {
                sys::block(SIGUSR1, true);
                std::thread::sleep(Duration::from_millis(15));
                sys::signal_thread(target, SIGUSR1);
            });
            cx.ask("later 150 send 0 abc");
            sys::read(fd, &mut [0; 9])
        });
        if read.is_err() {
            is_interrupted = true;
            sys::read(fd, &mut [0; 9]).expect("what comes later");
        }
    }
    say!("interrupted: {is_interrupted}");
}

fn handed_to_a_plain_program(cx: &mut Cx) {
    let p = cx.warm();
    cx.peer("send 0 abc");
    until_queued(p.fd, 3);
    say!("it reads {}", read_by_plain_program(p.fd, 3));
}

fn killed_after_going_home(cx: &mut Cx) {
    let fd = cx.warm().fd;
    say!("write -> {}", show(sys::write(fd, b"unread")));
    cx.ask("poll 0 1 3000");
    send_home(std::process::id() as i32);
    cx.end_by("die");
    until_ready(fd, libc::POLLRDHUP);
    say!("read -> {}", show(sys::read(fd, &mut [0; 9])));
}

/// The program that had it, too, has long ended.
fn unread_of_what_was_inherited(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::fcntl(fd, libc::F_SETFD, 0).expect("inheritable");
    say!("program {}", sys::wait(sys::vfork_exec(c"/bin/true")));
    cx.peer("send 0 unread");
    until_queued(fd, 6);
    say!("close -> {}", show(sys::close(fd)));
    crate::context::settle();
    cx.peer("has_peer 0");
    cx.peer("recv 0 9");
}

/// Behind a filter that refuses what nobody here calls.
fn confine() {
    sys::deny(&[Denied::Call(libc::SYS_swapoff)]).expect("seccomp");
}

fn unread_behind_a_filter(cx: &mut Cx) {
    let fd = cx.warm().fd;
    confine();
    cx.peer("send 0 ignored");
    until_queued(fd, 7);
    say!("close -> {}", show(sys::close(fd)));
    cx.ask("poll 0 8193 3000");
    cx.peer("recv 0 9");
}

/// Whom an answer tells of first.
fn first_of(set: Fd) -> u64 {
    sys::ep_wait_in_order(sys::Wait::Plain, set, 8, 0).expect("answer")[0].0
}

fn order_of_arrival(cx: &mut Cx) {
    let (set, counter, pairs) = (sys::epoll(), sys::eventfd(0), [cx.warm(), cx.warm()]);
    for (mark, pair) in pairs.iter().enumerate() {
        ep_add(set, pair.fd, EPOLLIN, mark as u64).expect("add");
    }
    for (text, at, many) in [("x", 0, 1), ("x", 1, 1), ("y", 0, 2)] {
        cx.ask(&format!("send {} {text}", pairs[at].id));
        until_queued(pairs[at].fd, many);
    }
    say!("written to first: {}", first_of(set));
    for pair in &pairs {
        sys::recv(pair.fd, &mut [0; 9], 0).expect("bytes");
    }
    say!("read {}", ep_show(set, 0));
    ep_add(set, counter, EPOLLIN, 7).expect("add");
    sys::write(counter, &1_u64.to_ne_bytes()).expect("count");
    cx.ask(&format!("send {} x", pairs[0].id));
    until_queued(pairs[0].fd, 1);
    say!("the counter first: {}", first_of(set) == 7);
}

/// A process that is stopped and goes on, without any handler, while a call with a time limit waits.
fn stopped_in_its_time(cx: &mut Cx) {
    let (fd, us) = (cx.warm().fd, std::process::id() as i32);
    sys::set_timeout(fd, libc::SO_RCVTIMEO, 900).expect("time limit");
    let child = sys::fork(|| {
        for signal in [libc::SIGSTOP, libc::SIGCONT] {
            std::thread::sleep(Duration::from_millis(150));
            let _ = sys::kill(us, signal);
        }
        // (Its end is no signal to us meanwhile.)
        std::thread::sleep(Duration::from_secs(2));
        0
    });
    say!("read -> {}", show(sys::recv(fd, &mut [0; 9], 0)));
    say!("child {}", sys::wait(child));
}

/// What came first, that or what went through memory, nobody could tell in general.
fn written_past_every_hook(cx: &mut Cx) {
    let p = cx.warm();
    // (A client's direction begins on TCP.)
    for _ in 0..3 {
        cx.ask("send 0 ask");
        say!("recv -> {}", show(sys::recv(p.fd, &mut [0; 3], libc::MSG_WAITALL)));
        say!("send -> {}", show(sys::send(p.fd, b"told", 0)));
        cx.ask("recvn 0 4");
    }
    cx.peer("send_unseen 0 past");
    crate::context::settle();
    say!("{}", crate::context::read_all(p.fd, 4));
}
