//! What a client writes before the server's end has looked at the connection: over TCP it is the server's
//! kernel's by then, whoever reads it, and whenever the client makes its next call.

use crate::context::{
    Case, Cx, Pair, Role, digest, fill, got, pattern, read_all, say, settle, until, write_all,
};
use isthmus_tests::sys::{self, Fd, ep_add, ep_show, poll1, show};
use libc::{EPOLLET, EPOLLOUT, MSG_DONTWAIT, MSG_MORE, MSG_PEEK, MSG_WAITALL, POLLIN, POLLOUT};
use std::process::Command;
use std::time::Duration;

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("early.a_plain_program_reads", a_plain_program_reads),
    case("early.server_without_descriptors", server_without_descriptors),
    case("early.a_write_that_may_not_wait", a_write_that_may_not_wait),
    case("early.a_write_that_nobody_reads", a_write_that_nobody_reads),
    case("early.pieces", pieces),
    case("early.edge_writer", edge_writer),
    case("early.first_answer_is_one_edge", first_answer_is_one_edge),
    case("early.held_back", held_back),
    case("early.shown_and_counted", shown_and_counted),
    case("early.half_close", half_close),
    case("early.one_thread_has_both_ends", one_thread_has_both_ends),
    case("early.closed_without_a_look", closed_without_a_look),
    case("early.an_end_within_a_large_write", an_end_within_a_large_write),
    case("early.no_byte_is_queued_twice", no_byte_is_queued_twice),
    case("early.low_water_and_a_small_buffer", low_water_and_a_small_buffer),
    case("early.pieces_are_one_write", pieces_are_one_write),
    case("early.pieces_to_a_closed_end", pieces_to_a_closed_end),
    case("early.pieces_and_small_buffers", pieces_and_small_buffers),
    case("early.written_while_it_connects", written_while_it_connects),
    Case { name: "early.a_large_write_waits_for_a_look", shm: true, run: |cx| waits_for_a_look(cx, false) },
    Case { name: "early.small_buffers_and_a_late_look", shm: true, run: small_buffers_and_late_look },
    Case { name: "early.a_corked_write_waits_for_a_look", shm: true, run: |cx| waits_for_a_look(cx, true) },
];

/// What a program without the library reads from `fd`, if that is there within three seconds.
pub(crate) fn read_by_plain_program(fd: Fd, bytes: usize) -> String {
    let stdin = sys::owned(sys::dup(fd).expect("dup") as Fd);
    let mut command = Command::new("/usr/bin/timeout");
    command
        .args(["3", "head", "-c", &bytes.to_string()])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(stdin);
    command.output().map_or_else(|why| why.to_string(), |read| digest(&read.stdout))
}

/// What a process reads from `fd` that can open nothing more, if that is there within three seconds.
pub(crate) fn read_without_descriptors(fd: Fd, bytes: usize) -> String {
    let (out, into) = sys::pipe(libc::O_CLOEXEC);
    let pid = sys::fork(|| {
        sys::limit_fds_for_good(0);
        sys::set_timeout(fd, libc::SO_RCVTIMEO, 3000).expect("a time limit");
        let mut buf = vec![0; bytes];
        let read = got(sys::recv(fd, &mut buf, MSG_WAITALL), &buf);
        let _ = sys::write(into, read.as_bytes());
        0
    });
    let mut buf = [0; 99];
    sys::wait(pid);
    let read = sys::read(out, &mut buf)
        .map_or("nothing".into(), |count| String::from_utf8_lossy(&buf[..count]).into());
    for end in [out, into] {
        sys::close(end).expect("close");
    }
    read
}

/// The client writes, and then makes no call on any socket; the server's end does something.
fn server_reads(cx: &mut Cx, verb: &str, reads: fn(Fd, usize) -> String) {
    let p = cx.pair();
    if cx.role == Role::Client {
        say!("write -> {}", show(sys::write(p.fd, b"hello")));
        cx.peer(&format!("{verb} {} 5", p.id));
    } else {
        cx.peer(&format!("send {} hello", p.id));
        say!("{verb}: {}", reads(p.fd, 5));
    }
}

fn a_plain_program_reads(cx: &mut Cx) {
    server_reads(cx, "plain", read_by_plain_program);
}

fn server_without_descriptors(cx: &mut Cx) {
    server_reads(cx, "starved", read_without_descriptors);
}

fn exchange(cx: &mut Cx, p: &Pair) {
    cx.peer(&format!("send {} answer", p.id));
    say!("read {}", read_all(p.fd, 6));
    say!("write -> {}", show(sys::write(p.fd, b"and back")));
    cx.peer(&format!("recvn {} 8", p.id));
}

fn a_write_that_may_not_wait(cx: &mut Cx) {
    const MUCH: usize = 1_000_000;
    let p = cx.pair();
    let taken = sys::send(p.fd, &pattern(MUCH), MSG_DONTWAIT).expect("room");
    say!("more than a fresh send buffer: {}", taken > 100_000);
    say!("more, in the end: {}", fill(p.fd) > 0 || taken == MUCH);
}

fn a_write_that_nobody_reads(cx: &mut Cx) {
    const MUCH: usize = 1_000_000;
    let p = cx.pair();
    sys::set_timeout(p.fd, libc::SO_SNDTIMEO, 500).expect("a time limit");
    say!("write -> {}", show(sys::write(p.fd, &pattern(MUCH))));
    cx.peer(&format!("recvn {} {MUCH}", p.id));
    exchange(cx, &p);
}

/// Small ones, none of which may wait, before the server's end has looked, and after it has: nobody has read
/// the first yet.
fn pieces(cx: &mut Cx) {
    let p = cx.pair();
    let send = |bytes: &[u8]| show(sys::send(p.fd, bytes, MSG_DONTWAIT));
    say!("{} {}", send(b"one"), send(b"two"));
    cx.peer(&format!("poll {} {POLLIN} 1000", p.id));
    say!("{} {}", send(b"three"), poll1(p.fd, POLLOUT, 0));
    say!("{} {}", send(b"four"), send(&[b'x'; 60_000]));
    cx.peer(&format!("recvn {} 15", p.id));
    cx.peer(&format!("recvn {} 60000", p.id));
    exchange(cx, &p);
}

/// No room before anybody has looked; the edge comes with it.
fn edge_writer(cx: &mut Cx) {
    let p = cx.pair();
    sys::nonblocking(p.fd, true);
    let ep = sys::epoll();
    ep_add(ep, p.fd, EPOLLOUT | EPOLLET, 1).expect("add");
    say!("room {}", ep_show(ep, 1000));
    let sent = fill(p.fd);
    say!("full {}", ep_show(ep, 20));
    cx.tell(&format!("recvn {} {sent}", p.id));
    say!("room {}", ep_show(ep, 3000));
    let _ = cx.answer();
    sys::nonblocking(p.fd, false);
    exchange(cx, &p);
}

/// The answer comes between what is held back and what it waits for.
fn held_back(cx: &mut Cx) {
    let p = cx.pair();
    for text in [b"one ", b"two "] {
        say!("more -> {}", show(sys::send(p.fd, text, MSG_MORE)));
        cx.ask(&format!("poll {} {POLLIN} 0", p.id));
    }
    say!("send -> {}", show(sys::send(p.fd, b"three", MSG_DONTWAIT)));
    cx.peer(&format!("recvn {} 13", p.id));
    exchange(cx, &p);
}

fn shown_and_counted(cx: &mut Cx) {
    let p = cx.pair();
    cx.peer(&format!("send {} early", p.id));
    settle();
    let mut buf = [0; 9];
    say!("queued {} poll {}", sys::queued(p.fd), poll1(p.fd, POLLIN, 0));
    let seen = sys::recv(p.fd, &mut buf[..5], MSG_PEEK | MSG_WAITALL);
    say!("peek {}", got(seen, &buf));
    cx.ask(&format!("later 50 send {} late", p.id));
    let read = sys::recv(p.fd, &mut buf, MSG_WAITALL);
    say!("all {}", got(read, &buf));
    say!("queued {} poll {}", sys::queued(p.fd), poll1(p.fd, POLLIN, 0));
    exchange(cx, &p);
}

/// The client has ended its stream before anybody looked; the answer goes back.
fn half_close(cx: &mut Cx) {
    let p = cx.pair();
    say!("{}", write_all(p.fd, &pattern(50_000)));
    say!("shut -> {}", show(sys::shutdown(p.fd, libc::SHUT_WR)));
    cx.peer(&format!("drain {}", p.id));
    cx.peer(&format!("send {} answer", p.id));
    cx.peer(&format!("close {}", p.id));
    say!("read {}", read_all(p.fd, 9));
}

/// A client that has looked in vain is told of the end as soon as the server's close() has returned.
fn closed_without_a_look(_cx: &mut Cx) {
    let (listener, port) = sys::listener();
    let recv = |fd| show(sys::recv(fd, &mut [0; 9], libc::MSG_DONTWAIT));
    for _ in 0..20 {
        let client = sys::tcp(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
        say!("connect {}", show(sys::connect(client, port)));
        let server = sys::accept(listener).expect("accept") as Fd;
        say!("nothing {}", recv(client));
        say!("close {}", show(sys::close(server)));
        say!("the end {}", recv(client));
        say!("close {}", show(sys::close(client)));
    }
}

/// Nobody reads while it writes.
fn one_thread_has_both_ends(cx: &mut Cx) {
    let (l, port) = cx.listen();
    let client = sys::tcp(0);
    sys::connect(client, port).expect("connect");
    let server = sys::accept(l).expect("accept") as Fd;
    for size in [1, 1, 100_000, 1, 100_000] {
        sys::set_timeout(client, libc::SO_SNDTIMEO, 500).expect("a time limit");
        say!("write -> {} poll {}", show(sys::write(client, &pattern(size))), poll1(server, POLLIN, 1000));
    }
    say!("read {}", read_all(server, 200_003));
    say!("write -> {}", show(sys::write(server, b"answer")));
    say!("read {}", read_all(client, 6));
}

/// A call on a socket whose connect() has run out of its time waits for as long once more, for the handshake.
fn written_while_it_connects(cx: &mut Cx) {
    let (l, port) = cx.listen();
    // (One waits to be accepted, and there is no room for another.)
    sys::listen(l, 0).expect("listen");
    sys::connect(sys::tcp(0), port).expect("connect");
    let late = sys::tcp(0);
    sys::set_timeout(late, libc::SO_SNDTIMEO, 200).expect("a time limit");
    say!("connect -> {}", show(sys::connect(late, port)));
    sys::catch(libc::SIGALRM, false);
    sys::alarm_in(3000);
    say!("write -> {}", show(sys::write(late, b"x")));
    say!("send -> {}", show(sys::send(late, b"x", MSG_DONTWAIT)));
}

/// A server that is not under the library ends its own stream while the client writes: that is no end of what
/// is written.
fn an_end_within_a_large_write(cx: &mut Cx) {
    const MUCH: usize = 300_000;
    if cx.role == Role::Server {
        return;
    }
    let bytes = pattern(MUCH);
    for _ in 0..20 {
        let p = cx.pair();
        cx.ask(&format!("later 3 shut_unseen {}", p.id));
        say!("write -> {}", show(sys::write(p.fd, &bytes)));
        cx.peer(&format!("plain {} {MUCH}", p.id));
        say!("read {}", read_all(p.fd, 1));
    }
}

/// Until nothing more is taken, before anybody looked; the other kernel's end takes little.
fn no_byte_is_queued_twice(cx: &mut Cx) {
    let (l, port) = cx.listen();
    sys::setopt(l, libc::SOL_SOCKET, libc::SO_RCVBUF, 4096).expect("a small buffer");
    let fd = sys::tcp(libc::SOCK_CLOEXEC);
    sys::connect(fd, port).expect("connect");
    let (mut written, mut most) = (0, 0);
    while written < 4_000_000
        && let Ok(count) = sys::send(fd, &[b'x'; 3000], MSG_DONTWAIT)
    {
        written += count;
        let queued = sys::ioctl_int(fd, libc::TIOCOUTQ, -1).1;
        most = most.max((queued as usize).saturating_sub(written));
    }
    say!("written {} above {most}", written > 100_000);
}

/// A server that looks within a moment gets the most of it by the ring. (One of twenty looks in time, and not
/// before the first byte, however busy the machine is.)
fn waits_for_a_look(cx: &mut Cx, is_corked: bool) {
    const MUCH: usize = 600_000;
    const FIRST: usize = 32 * 1024 - 27;
    if cx.role == Role::Server {
        return;
    }
    let (port, bytes) = (cx.listening_peer(), pattern(MUCH));
    let mut least = u64::MAX;
    for id in 50..70 {
        let fd = sys::tcp(libc::SOCK_CLOEXEC);
        sys::connect(fd, port).expect("connect");
        sys::setopt(fd, libc::IPPROTO_TCP, libc::TCP_CORK, is_corked.into()).expect("cork");
        cx.ask(&format!("accept {id}"));
        cx.ask(&format!("later 4 recvn {id} {MUCH}"));
        say!("write -> {}", show(sys::write(fd, &bytes)));
        sys::setopt(fd, libc::IPPROTO_TCP, libc::TCP_CORK, 0).expect("no cork");
        until("all of TCP's was read", || sys::is_tcp_acked(fd));
        let acked = sys::tcp_bytes(fd).map_or(0, |(_, acked)| acked);
        if (FIRST as u64..least).contains(&acked) {
            least = acked;
            cx.watch(fd);
        }
    }
    cx.wrote_early(FIRST);
}

/// TCP alone bounds an upload that a slow reader begins late, and the ring has the rest of it. (Of three of
/// five at least, however busy the machine is.)
fn small_buffers_and_late_look(cx: &mut Cx) {
    const MUCH: usize = 200_000;
    const FIRST: usize = 64 * 1024;
    let (l, port) = cx.listen();
    sys::setopt(l, libc::SOL_SOCKET, libc::SO_RCVBUF, 4096).expect("a small buffer");
    let mut all = Vec::new();
    for _ in 0..5 {
        let client = sys::tcp(libc::SOCK_CLOEXEC);
        sys::setopt(client, libc::SOL_SOCKET, libc::SO_SNDBUF, 4096).expect("a small buffer");
        sys::connect(client, port).expect("connect");
        let server = sys::accept(l).expect("accept") as Fd;
        let reader = std::thread::spawn(move || {
            let mut read = 0;
            while read < MUCH {
                std::thread::sleep(Duration::from_millis(if read == 0 { 30 } else { 1 }));
                read += sys::read(server, &mut [0; 3000]).expect("bytes");
            }
            read
        });
        say!("write -> {}", show(sys::write(client, &vec![b'x'; MUCH])));
        say!("read {}", reader.join().expect("a reader"));
        let acked = sys::tcp_bytes(client).map_or(0, |(_, acked)| acked);
        all.push((acked, client));
    }
    all.sort_unstable();
    cx.watch(all[2].1);
    cx.wrote_early(FIRST);
}

/// A server that waits for more than is left of what came first, and a client whose kernel takes little.
fn low_water_and_a_small_buffer(cx: &mut Cx) {
    (0..4).for_each(|_| low_water(cx));
}

fn low_water(cx: &mut Cx) {
    const MUCH: usize = 1_000_000;
    const PIECE: usize = 30_000;
    let (l, port) = cx.listen();
    let writer = sys::fork(|| {
        let client = sys::tcp(libc::SOCK_CLOEXEC);
        sys::connect(client, port).expect("connect");
        sys::setopt(client, libc::SOL_SOCKET, libc::SO_SNDBUF, 8192).expect("a small buffer");
        sys::set_timeout(client, libc::SO_SNDTIMEO, 5000).expect("a time limit");
        u8::from(write_all(client, &vec![b'x'; MUCH]) != format!("{MUCH} written"))
    });
    let server = sys::accept(l).expect("accept") as Fd;
    say!("look {}", poll1(server, POLLIN, 5000));
    settle();
    let (mut buf, mut read) = (vec![0; PIECE], 0);
    while read < MUCH {
        let wanted = PIECE.min(MUCH - read);
        sys::setopt(server, libc::SOL_SOCKET, libc::SO_RCVLOWAT, wanted as i32).expect("low water");
        if poll1(server, POLLIN, 4000) != "IN" {
            break;
        }
        sys::setopt(server, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 1).expect("low water");
        read += sys::recv(server, &mut buf[..wanted], 0).expect("bytes");
    }
    sys::close(server).expect("close");
    say!("read {read}, writer {}", sys::wait(writer));
}

/// A client, and what its server has accepted and nobody has looked at.
fn unseen(cx: &mut Cx) -> (Fd, Fd) {
    let (l, port) = cx.listen();
    let client = sys::tcp(libc::SOCK_CLOEXEC);
    sys::connect(client, port).expect("connect");
    (client, sys::accept(l).expect("accept") as Fd)
}

/// The calls that write in pieces, on a new connection each.
fn in_pieces(cx: &mut Cx, size: usize, mut with: impl FnMut(&str, (Fd, Fd), &dyn Fn(Fd) -> sys::Ret)) {
    let (bytes, file) = (pattern(size), sys::memfile(&pattern(size)));
    let pieces: Vec<&[u8]> = bytes.chunks(size / 50).collect();
    with("writev", unseen(cx), &|fd| sys::writev(fd, &pieces));
    with("sendmsg", unseen(cx), &|fd| sys::sendmsg(fd, &pieces, MSG_DONTWAIT));
    with("sendfile", unseen(cx), &|fd| sys::sendfile(fd, file, Some(0), 999_999).0);
    with("sendfile of nothing", unseen(cx), &|fd| sys::sendfile(fd, file, Some(0), 0).0);
    let _ = sys::close(file);
}

/// What a call writes goes out as one segment, though nothing waits for more of it (TCP_NODELAY).
fn pieces_are_one_write(cx: &mut Cx) {
    in_pieces(cx, 10_918, |name, (client, server), write| {
        sys::setopt(client, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1).expect("no delay");
        let written = write(client);
        say!("{name} -> {}, {} segments", show(written), sys::tcp_segments(client));
        say!("read {}", read_all(server, written.unwrap_or(0)));
        let _ = (sys::close(server), sys::close(client));
    });
}

/// The kernel looks once whether somebody reads.
fn pieces_to_a_closed_end(cx: &mut Cx) {
    sys::ignore(libc::SIGPIPE, true);
    let mut write_to_closed = |name: &str, (client, server), write: &dyn Fn(Fd) -> sys::Ret| {
        sys::close(server).expect("close");
        // (Nor has it looked itself.)
        settle();
        say!("{name} -> {}", show(write(client)));
        settle();
        say!("again -> {}", show(write(client)));
        let _ = sys::close(client);
    };
    in_pieces(cx, 10_918, &mut write_to_closed);
    in_pieces(cx, 500_000, &mut write_to_closed);
}

/// Small segments stop at a small window, for seconds.
fn pieces_and_small_buffers(cx: &mut Cx) {
    let (l, port) = cx.listen();
    sys::setopt(l, libc::SOL_SOCKET, libc::SO_RCVBUF, 4096).expect("a small buffer");
    let mut seed = 7u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let mut late = 0;
    for _ in 0..150 {
        let bytes = vec![b'x'; 20_000 + random(100_000)];
        let (mut pieces, mut rest) = (Vec::new(), &bytes[..]);
        while pieces.len() < 63 && !rest.is_empty() {
            let (piece, others) = rest.split_at(rest.len().min(1 + random(2000)));
            pieces.push(piece);
            rest = others;
        }
        pieces.push(rest);
        let client = sys::tcp(libc::SOCK_CLOEXEC);
        sys::setopt(client, libc::SOL_SOCKET, libc::SO_SNDBUF, 4096).expect("a small buffer");
        sys::set_timeout(client, libc::SO_SNDTIMEO, 1500).expect("a time limit");
        sys::connect(client, port).expect("connect");
        let server = sys::accept(l).expect("accept") as Fd;
        let sizes: Vec<usize> = (0..16).map(|_| 1 + random(3000)).collect();
        let reader = std::thread::spawn(move || {
            let mut buf = [0; 3000];
            let mut wanted = sizes.iter().cycle().map(|size| sys::read(server, &mut buf[..*size]));
            wanted.by_ref().find(|read| !matches!(read, Ok(1..)))
        });
        late += usize::from(sys::writev(client, &pieces) != Ok(bytes.len()));
        let _ = sys::shutdown(client, libc::SHUT_WR);
        let _ = (reader.join(), sys::close(client), sys::close(server));
    }
    say!("late {late}");
}

/// What becomes of a connection behind its first bytes is no edge, also where an answer holds one event.
fn first_answer_is_one_edge(cx: &mut Cx) {
    for events in [EPOLLOUT, EPOLLOUT | libc::EPOLLRDHUP] {
        let p = cx.pair();
        let ep = sys::epoll();
        say!("add -> {}", show(ep_add(ep, p.fd, libc::EPOLLIN | EPOLLET | events, 1)));
        let wait = |ms| sys::show_events(sys::ep_wait_by(sys::Wait::Plain, ep, 1, ms));
        say!("at first {} {}", wait(1000), wait(5));
        for _ in 0..3 {
            cx.ask(&format!("send {} hi", p.id));
            until("bytes", || sys::queued(p.fd) == 2);
            say!("told {} {}", wait(1000), wait(5));
            say!("read {}", show(sys::recv(p.fd, &mut [0; 9], 0)));
            say!("send {}", show(sys::send(p.fd, b"hi", 0)));
            cx.ask(&format!("recvn {} 2", p.id));
        }
    }
}
