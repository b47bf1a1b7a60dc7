//! What TCP would have taken: writes that nobody reads yet, and everything that may happen while bytes lie on
//! both ways. Whether they went by memory or by TCP in the end is not asked: both is right.

use crate::context::{
    Case, Cx, Pair, digest, fill, got, pattern, read_all, say, settle, until, until_ready, write_all,
};
use isthmus_tests::sys::{self, Fd, ep_add, ep_mod, poll1, show};
use libc::{
    EPOLLET, EPOLLEXCLUSIVE, EPOLLIN, EPOLLONESHOT, EPOLLOUT, MSG_DONTWAIT, MSG_PEEK, MSG_WAITALL, POLLIN,
    POLLOUT,
};
use std::time::{Duration, Instant};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("overflow.both_write_first", both_write_first),
    case("overflow.blocking_write_returns", blocking_write_returns),
    case("overflow.fresh_connection", fresh_connection),
    case("overflow.takes_what_tcp_takes", takes_what_tcp_takes),
    case("overflow.time_limit", time_limit),
    case("overflow.half_close", half_close),
    case("overflow.close", close),
    case("overflow.writer_killed", writer_killed),
    case("overflow.reader_killed", reader_killed),
    case("overflow.reader_shuts_down", reader_shuts_down),
    case("overflow.fork", fork),
    case("overflow.fork_reader", fork_reader),
    case("overflow.dup", dup),
    case("overflow.ways_to_read", ways_to_read),
    case("overflow.ways_to_write", ways_to_write),
    case("overflow.spliced_before_a_reset", spliced_before_a_reset),
    case("overflow.passed_and_reset", passed_and_reset),
    case("overflow.queued", queued),
    case("overflow.edge_reader", edge_reader),
    case("overflow.oneshot_reader", oneshot_reader),
    case("overflow.level_reader", level_reader),
    case("overflow.edge_writer", edge_writer),
    case("overflow.exclusive_writer", exclusive_writer),
    case("overflow.oneshot_writer", oneshot_writer),
    case("overflow.level_writer", level_writer),
    case("overflow.poll_writer", poll_writer),
    case("overflow.slow_reader", slow_reader),
    case("overflow.back_and_forth", back_and_forth),
    case("overflow.both_ways_at_once", both_ways_at_once),
    case("overflow.two_writers", two_writers),
    case("overflow.one_thread_both_ends", one_thread_both_ends),
    case("overflow.small_send_buffer", small_send_buffer),
    case("overflow.small_buffers", small_buffers),
    case("overflow.asks_again_in_vain", asks_again_in_vain),
];

const LARGE: usize = 1_000_000;

/// A megabyte that the peer has written and we have not read, but for what its TCP does not take.
fn received(cx: &mut Cx) -> Pair {
    let p = cx.warm();
    cx.tell(&format!("sendn {} {LARGE}", p.id));
    say!("peer wrote {}", cx.answer());
    p
}

fn both_write_first(cx: &mut Cx) {
    const MUCH: usize = 2_000_000;
    let p = cx.warm();
    cx.tell(&format!("sendn {} {MUCH}", p.id));
    say!("wrote {}", write_all(p.fd, &pattern(MUCH)));
    say!("peer wrote {}", cx.answer());
    cx.tell(&format!("recvn {} {MUCH}", p.id));
    say!("read {}", read_all(p.fd, MUCH));
    say!("peer read {}", cx.answer());
    say!("small -> {}", show(sys::write(p.fd, b"small")));
    cx.peer("recvn 0 5");
}

fn blocking_write_returns(cx: &mut Cx) {
    let p = cx.warm();
    for size in [300_000, LARGE] {
        say!("write of {size} -> {}", show(sys::write(p.fd, &pattern(size))));
    }
    cx.peer("recvn 0 300000");
    cx.peer(&format!("recvn 0 {LARGE}"));
    cx.peer("send 0 answer");
    say!("read {}", read_all(p.fd, 6));
}

/// Nobody has read anything of it yet.
fn fresh_connection(cx: &mut Cx) {
    let p = cx.pair();
    cx.peer("send 0 hello");
    say!("read {}", read_all(p.fd, 5));
    say!("write -> {}", show(sys::write(p.fd, &pattern(LARGE))));
    cx.peer(&format!("recvn 0 {LARGE}"));
}

fn takes_what_tcp_takes(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    let block = [7u8; 65536];
    // (A reader that waits for a core may be about to read.)
    settle();
    let first = (0..64).map_while(|_| sys::send(p.fd, &block, MSG_DONTWAIT).ok()).sum::<usize>();
    say!("until the first EAGAIN more than the ring: {}", first > 500_000);
    say!("in the end some megabytes: {}", fill(q.fd) > 2_000_000);
    say!("poll {}", poll1(q.fd, POLLOUT, 50));
    cx.ask("later 1 discard 1");
    until_ready(q.fd, POLLOUT);
    say!("goes on {}", sys::send(q.fd, &block, MSG_DONTWAIT).is_ok());
}

fn time_limit(cx: &mut Cx) {
    let p = cx.warm();
    say!("limit -> {}", show(sys::set_timeout(p.fd, libc::SO_SNDTIMEO, 150)));
    let begin = Instant::now();
    let r = sys::write(p.fd, &vec![1u8; 64 << 20]);
    say!("some of it {}", r.is_ok_and(|count| count > LARGE));
    say!("waited {}", begin.elapsed() >= Duration::from_millis(140));
    say!(
        "again -> {}",
        show(sys::write(p.fd, &vec![1u8; 8 << 20]).map(|_| 1).or_else(|e| match e.0 {
            libc::EAGAIN => Ok(1),
            _ => Err(e),
        }))
    );
}

fn half_close(cx: &mut Cx) {
    let p = cx.warm();
    say!("write -> {}", show(sys::write(p.fd, &pattern(LARGE))));
    say!("shutdown -> {}", show(sys::shutdown(p.fd, libc::SHUT_WR)));
    say!("write -> {}", show(sys::send(p.fd, b"x", libc::MSG_NOSIGNAL)));
    cx.peer("drain 0");
    cx.peer("send 0 answer");
    say!("read {}", read_all(p.fd, 6));
}

fn close(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    say!("write -> {}", show(sys::write(p.fd, &pattern(LARGE))));
    say!("close -> {}", show(sys::close(p.fd)));
    settle();
    cx.peer("drain 0");
    say!("other write -> {}", show(sys::write(q.fd, b"still here")));
    cx.peer("recvn 1 10");
}

fn writer_killed(cx: &mut Cx) {
    let p = received(cx);
    cx.end_by("die");
    say!("read {}", read_all(p.fd, usize::MAX));
}

fn reader_killed(cx: &mut Cx) {
    let p = cx.warm();
    say!("write -> {}", show(sys::write(p.fd, &pattern(LARGE))));
    cx.end_by("die");
    until_ready(p.fd, libc::POLLERR | libc::POLLHUP);
    say!("poll {}", poll1(p.fd, POLLIN | POLLOUT, 0));
    say!("write -> {}", show(sys::send(p.fd, b"x", libc::MSG_NOSIGNAL)));
    say!("write -> {}", show(sys::send(p.fd, b"x", libc::MSG_NOSIGNAL)));
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
}

/// A reset that finds bytes on TCP.
fn reader_shuts_down(cx: &mut Cx) {
    let p = cx.warm();
    say!("write -> {}", show(sys::write(p.fd, &pattern(LARGE))));
    cx.peer("recvn 0 400000");
    cx.peer("close 0");
    until_ready(p.fd, libc::POLLERR | libc::POLLHUP);
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
    say!("write -> {}", show(sys::send(p.fd, b"x", libc::MSG_NOSIGNAL)));
}

fn fork(cx: &mut Cx) {
    let p = cx.warm();
    say!("parent wrote {}", write_all(p.fd, &pattern(500_000)));
    let fd = p.fd;
    let child = sys::fork(move || u8::from(write_all(fd, &pattern(500_001)) != "500001 written"));
    say!("child {}", sys::wait(child));
    say!("parent wrote {}", write_all(p.fd, &pattern(1000)));
    for size in [500_000, 500_001, 1000] {
        cx.peer(&format!("recvn 0 {size}"));
    }
    say!("parent wrote {}", write_all(p.fd, &pattern(2000)));
    cx.peer("recvn 0 2000");
}

fn fork_reader(cx: &mut Cx) {
    let p = received(cx);
    let fd = p.fd;
    let want = digest(&pattern(LARGE)[..300_000]);
    let child = sys::fork(move || u8::from(read_all(fd, 300_000) != want));
    say!("child {}", sys::wait(child));
    say!("rest {}", read_all(p.fd, LARGE - 300_000));
    cx.peer("send 0 more");
    say!("more {}", read_all(p.fd, 4));
}

fn dup(cx: &mut Cx) {
    let p = cx.warm();
    let copy = sys::dup(p.fd).expect("dup") as Fd;
    say!("write -> {}", show(sys::write(p.fd, &pattern(LARGE))));
    say!("close -> {}", show(sys::close(p.fd)));
    say!("write -> {}", show(sys::write(copy, &pattern(300_000))));
    cx.peer(&format!("recvn 0 {LARGE}"));
    cx.peer("recvn 0 300000");
    say!("close -> {}", show(sys::close(copy)));
    cx.peer("drain 0");
}

/// Each way of reading goes over the border between the two ways at some place.
fn ways_to_read(cx: &mut Cx) {
    let p = received(cx);
    let mut all = Vec::new();
    let (mut buf, mut half) = (vec![0u8; 40_000], vec![0u8; 20_000]);
    let (r, w) = sys::pipe(0);
    for round in 0.. {
        let room = (LARGE - all.len()).min(40_000);
        if room == 0 {
            break;
        }
        let (count, bytes) = match round % 5 {
            0 => (sys::recv(p.fd, &mut buf[..room], MSG_WAITALL), &buf[..]),
            1 => {
                let seen = sys::recv(p.fd, &mut buf[..room], MSG_PEEK).expect("peek");
                let mut again = vec![0u8; seen];
                let taken = sys::recv(p.fd, &mut again, MSG_WAITALL);
                assert!(taken == Ok(seen) && again[..] == buf[..seen], "a peek shows what comes");
                (taken, &buf[..])
            }
            2 => {
                let (first, second) = half.split_at_mut(9_000);
                let count = sys::readv(p.fd, &mut [&mut first[..room.min(9_000)], second]);
                (count, &half[..])
            }
            3 => {
                let count = sys::splice(p.fd, w, room.min(4096), 0).expect("splice");
                (sys::read(r, &mut buf[..count]), &buf[..])
            }
            _ => (sys::recvmsg(p.fd, &mut [&mut buf[..room]], 0).0, &buf[..]),
        };
        all.extend_from_slice(&bytes[..count.expect("bytes")]);
    }
    say!("all {} want {}", digest(&all), digest(&pattern(LARGE)));
    cx.peer("send 0 tail");
    let r = sys::recv(p.fd, &mut buf[..4], MSG_PEEK | MSG_WAITALL);
    say!("peek {}", got(r, &buf));
    say!("discard {}", show(sys::recv_null(p.fd, 4, libc::MSG_TRUNC | MSG_WAITALL)));
    say!("nothing left {}", show(sys::recv(p.fd, &mut buf, MSG_DONTWAIT)));
}

fn ways_to_write(cx: &mut Cx) {
    let p = cx.warm();
    let bytes = pattern(LARGE);
    let file = sys::memfile(&bytes);
    let (r, w) = sys::pipe(0);
    say!("write {}", show(sys::write(p.fd, &bytes[..200_000])));
    say!("writev {}", show(sys::writev(p.fd, &[&bytes[200_000..200_007], &bytes[200_007..400_000]])));
    say!("sendfile {:?}", sys::sendfile(p.fd, file, Some(400_000), 200_000));
    say!("sendmsg {}", show(sys::sendmsg(p.fd, &[&bytes[600_000..700_000], &bytes[700_000..800_000]], 0)));
    let mut at = 800_000;
    while at < LARGE {
        let fed = sys::write(w, &bytes[at..(at + 4096).min(LARGE)]).expect("pipe");
        let mut left = fed;
        while left > 0 {
            left -= sys::splice(r, p.fd, left, 0).expect("splice");
        }
        at += fed;
    }
    cx.peer(&format!("recvn 0 {LARGE}"));
    say!("want {}", digest(&bytes));
}

/// The reset is told once, by the call that finds no more bytes.
fn spliced_before_a_reset(cx: &mut Cx) {
    let p = received(cx);
    cx.peer("linger 0 1 0");
    cx.peer("close 0");
    until_ready(p.fd, libc::POLLERR | libc::POLLHUP);
    let (r, w) = sys::pipe(0);
    let mut buf = vec![0u8; 65536];
    let (mut count, mut end) = (0, None);
    while end.is_none() {
        match sys::splice(p.fd, w, 3000, libc::SPLICE_F_NONBLOCK) {
            Ok(0) => end = Some("EOF".to_string()),
            Ok(moved) => {
                count +=
                    (0..moved).step_by(65536).map(|_| sys::read(r, &mut buf).expect("pipe")).sum::<usize>()
            }
            Err(errno) => end = Some(show(Err(errno))),
        }
    }
    say!("some bytes {}, then {}", count > 0, end.unwrap_or_default());
    say!("then {}", show(sys::read(p.fd, &mut buf)));
}

/// What another process reads of it has no gap.
fn passed_and_reset(cx: &mut Cx) {
    let p = received(cx);
    let want = pattern(LARGE);
    let (a, b) = sys::socketpair();
    let child = sys::fork(|| {
        std::thread::sleep(Duration::from_millis(100));
        let Ok(fd) = sys::recv_fd(b) else { return 7 };
        let (mut at, mut buf) = (0, vec![0u8; 50_000]);
        while let Ok(count @ 1..) = sys::read(fd as Fd, &mut buf) {
            if buf[..count] != want[at..at + count] {
                return 8;
            }
            at += count;
        }
        0
    });
    say!("pass -> {}", show(sys::send_fd(a, p.fd)));
    cx.peer("linger 0 1 0");
    cx.peer("close 0");
    say!("child {}", sys::wait(child));
}

/// TCP has been full, and its one reader, who writes as well, leaves the piece of a record there: nobody
/// reads that before he writes the rest.
fn one_thread_both_ends(cx: &mut Cx) {
    const PIECE: usize = 100;
    let (l, port) = sys::listener();
    let c = sys::tcp(0);
    say!("connect -> {}", show(sys::connect(c, port)));
    let s = sys::accept(l).expect("accept") as Fd;
    let mut buf = [0u8; 65536];
    // (Written by a client, and by a server; at once, and after a poll.)
    for (from, to, polls) in [(c, s, false), (s, c, false), (c, s, true), (s, c, true)] {
        // (The ring alone, so that the stretch is one of a full ring.)
        for _ in 0..3 {
            say!("{} {}", show(sys::write(from, b"x")), show(sys::read(to, &mut buf)));
        }
        let sent = fill(from);
        let mut left = sent - PIECE;
        while left > 0 {
            left -= sys::read(to, &mut buf[..left.min(65536)]).expect("read");
        }
        if polls {
            say!("poll {}", poll1(from, POLLOUT, 500));
        }
        say!("write -> {}", show(sys::send(from, &[8u8; 4000], MSG_DONTWAIT)));
        say!("read {}", read_all(to, PIECE + 4000));
    }
    let _ = cx;
}

fn queued(cx: &mut Cx) {
    let p = received(cx);
    let mut buf = vec![0u8; 65536];
    let mut left = LARGE;
    while left > 5 {
        left -= sys::read(p.fd, &mut buf[..(left - 5).min(65536)]).expect("read");
    }
    until("five bytes", || sys::queued(p.fd) == 5);
    say!("poll {}", poll1(p.fd, POLLIN, 0));
    say!("read {}", show(sys::read(p.fd, &mut buf)));
    say!("queued {} poll {}", sys::queued(p.fd), poll1(p.fd, POLLIN, 0));
    say!("write {}", show(sys::write(p.fd, &pattern(LARGE))));
    cx.peer(&format!("recvn 0 {LARGE}"));
    until("an empty queue", || sys::ioctl_int(p.fd, libc::TIOCOUTQ, -1).1 == 0);
}

/// Reads as told by a set until the end; a read may come short only where nothing is left.
fn read_by(cx: &mut Cx, events: i32, is_short_enough: bool) {
    let p = cx.warm();
    sys::nonblocking(p.fd, true);
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN | events, 1)));
    cx.tell(&format!("sendn {} {LARGE}", p.id));
    std::thread::sleep(Duration::from_millis(30));
    let (mut all, mut buf) = (Vec::new(), vec![0u8; 50_000]);
    while all.len() < LARGE {
        if sys::ep_wait(ep, 3000) != Ok(vec![(1, EPOLLIN as u32)]) {
            say!("no event after {} bytes", all.len());
            break;
        }
        while let Ok(count) = sys::read(p.fd, &mut buf) {
            all.extend_from_slice(&buf[..count]);
            if count < buf.len() && is_short_enough || events & EPOLLET == 0 {
                break;
            }
        }
        if events & EPOLLONESHOT != 0 {
            ep_mod(ep, p.fd, EPOLLIN | events, 1).expect("mod");
        }
    }
    say!("peer wrote {}", cx.answer());
    say!("all {} want {}", digest(&all), digest(&pattern(LARGE)));
    say!("then {}", sys::ep_show(ep, 0));
    cx.peer("send 0 more");
    say!("then {}", sys::ep_show(ep, 3000));
    say!("then {}", show(sys::read(p.fd, &mut buf)));
}

fn edge_reader(cx: &mut Cx) {
    read_by(cx, EPOLLET, true);
}

fn oneshot_reader(cx: &mut Cx) {
    read_by(cx, EPOLLONESHOT, false);
}

fn level_reader(cx: &mut Cx) {
    read_by(cx, 0, false);
}

/// Writes as told by a set, to a peer that begins to read late.
fn write_by(cx: &mut Cx, events: i32) {
    const MUCH: usize = 8_000_000;
    let p = cx.warm();
    sys::nonblocking(p.fd, true);
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLOUT | events, 1)));
    cx.ask("later 150 poll 0 1 1");
    let begin = Instant::now();
    let (bytes, mut at, mut is_told) = (pattern(MUCH), 0, false);
    while at < MUCH {
        if !is_told && begin.elapsed() > Duration::from_millis(150) {
            cx.tell(&format!("recvn 0 {MUCH}"));
            is_told = true;
        }
        match sys::ep_wait(ep, if is_told { 3000 } else { 20 }) {
            Ok(told) if told.is_empty() && !is_told => continue,
            Ok(told) if told == vec![(1, EPOLLOUT as u32)] => {}
            other => {
                say!("after {at} bytes {other:?}");
                break;
            }
        }
        while at < MUCH {
            match sys::write(p.fd, &bytes[at..(at + 100_000).min(MUCH)]) {
                Ok(count) => at += count,
                Err(_) => break,
            }
        }
        if events & EPOLLONESHOT != 0 {
            ep_mod(ep, p.fd, EPOLLOUT | events, 1).expect("mod");
        }
    }
    say!("peer read {} want {}", cx.answer(), digest(&bytes));
}

fn edge_writer(cx: &mut Cx) {
    write_by(cx, EPOLLET);
}

/// (A record of this kind cannot be modified.)
fn exclusive_writer(cx: &mut Cx) {
    write_by(cx, EPOLLET | EPOLLEXCLUSIVE);
}

fn oneshot_writer(cx: &mut Cx) {
    write_by(cx, EPOLLONESHOT);
}

fn level_writer(cx: &mut Cx) {
    write_by(cx, 0);
}

/// Polls for room before each write, first while nobody reads.
fn poll_writer(cx: &mut Cx) {
    let p = cx.warm();
    sys::nonblocking(p.fd, true);
    let (bytes, mut at) = (pattern(LARGE), 0);
    while at < LARGE {
        if sys::poll(&[(p.fd, POLLOUT)], 1000).1 == [POLLOUT] {
            at += sys::write(p.fd, &bytes[at..(at + 60_000).min(LARGE)]).unwrap_or(0);
        } else {
            say!("no room after {at} bytes");
            break;
        }
    }
    cx.peer(&format!("recvn 0 {LARGE}"));
    say!("want {}", digest(&bytes));
}

/// The reader moves, then rests, then moves: the writer waits, overflows and goes back.
fn slow_reader(cx: &mut Cx) {
    let p = cx.warm();
    let fd = p.fd;
    let writer = std::thread::spawn(move || write_all(fd, &pattern(6_000_000)));
    let mut sum = 0;
    for round in 0..30 {
        std::thread::sleep(Duration::from_millis(if round % 3 == 0 { 25 } else { 1 }));
        sum += 200_000;
        cx.peer("recvn 0 200000");
    }
    say!("{sum}, {}", writer.join().expect("writer"));
}

fn back_and_forth(cx: &mut Cx) {
    let p = cx.warm();
    let mut state = 88_172_645_463_325_252u64;
    for round in 0..60 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let most = [20, 5_000, 300_000, 700_000][round % 4];
        let (ours, theirs) = (1 + (state % most) as usize, 1 + ((state >> 32) % most) as usize);
        if round % 3 == 0 {
            cx.tell(&format!("sendn 0 {theirs}"));
        }
        say!("{} {}", write_all(p.fd, &pattern(ours)), write_all(p.fd, &pattern(ours / 7 + 1)));
        if round % 3 == 0 {
            say!("{} {}", cx.answer(), read_all(p.fd, theirs));
        }
        cx.peer(&format!("recvn 0 {ours}"));
        cx.peer(&format!("recvn 0 {}", ours / 7 + 1));
    }
}

fn both_ways_at_once(cx: &mut Cx) {
    const MUCH: usize = 12_000_000;
    let p = cx.warm();
    let fd = p.fd;
    cx.tell(&format!("echo 0 {MUCH}"));
    let writer = std::thread::spawn(move || write_all(fd, &pattern(MUCH)));
    std::thread::sleep(Duration::from_millis(60));
    say!("back {} want {}", read_all(p.fd, MUCH), digest(&pattern(MUCH)));
    say!("{} {}", writer.join().expect("writer"), cx.answer());
}

/// Records of two threads stay whole as long as nobody has to wait.
fn two_writers(cx: &mut Cx) {
    let p = cx.warm();
    let fd = p.fd;
    let writers = [b'a', b'!'].map(|byte| {
        std::thread::spawn(move || (0..100).all(|_| sys::write(fd, &[byte; 10_000]) == Ok(10_000)))
    });
    for writer in writers {
        say!("wrote {}", writer.join().expect("writer"));
    }
    say!("shutdown -> {}", show(sys::shutdown(p.fd, libc::SHUT_WR)));
    cx.peer("tally 0");
}

/// What is taken without waiting, and that more is taken once that was read.
fn taken(cx: &mut Cx, p: Pair, between: std::ops::Range<usize>) {
    let all = fill(p.fd);
    say!("about as much as TCP takes: {}", between.contains(&all));
    cx.peer("nonblock 0 1");
    cx.ask(&format!("later 20 discard {}", p.id));
    until_ready(p.fd, POLLOUT);
    say!("goes on {}", sys::send(p.fd, b"more", MSG_DONTWAIT).is_ok());
}

fn small_send_buffer(cx: &mut Cx) {
    let p = cx.warm();
    say!("set -> {}", show(sys::setopt(p.fd, libc::SOL_SOCKET, libc::SO_SNDBUF, 4096)));
    taken(cx, p, 60_000..230_000);
}

/// Set before the connection is used: by the one end for sending, by the other for what it accepts.
fn small_buffers(cx: &mut Cx) {
    let (l, port) = sys::listener();
    say!("listener -> {}", show(sys::setopt(l, libc::SOL_SOCKET, libc::SO_SNDBUF, 4096)));
    say!("connect -> {}", cx.ask(&format!("connect 0 {port}")));
    let fd = sys::accept(l).expect("accept") as Fd;
    cx.watch(fd);
    cx.peer("send 0 hello");
    say!("read {}", read_all(fd, 5));
    say!("write -> {}", show(sys::write(fd, b"hello")));
    cx.peer("recvn 0 5");
    taken(cx, Pair { fd, id: 0 }, 60_000..230_000);
}

/// A program that throws away what is not taken, and goes on: its reader computes meanwhile.
fn asks_again_in_vain(cx: &mut Cx) {
    const PIECE: usize = 50_000;
    let p = cx.warm();
    sys::nonblocking(p.fd, true);
    cx.ask(&format!("later 1 compute {} 700", p.id));
    std::thread::sleep(std::time::Duration::from_millis(20));
    let piece = vec![b'm'; PIECE];
    let taken: usize = (0..100).filter_map(|_| sys::write(p.fd, &piece).ok()).sum();
    say!("takes megabytes: {}", taken > 2_000_000);
    cx.tell(&format!("recvn {} {taken}", p.id));
    say!("all of it arrives: {}", cx.answer() == digest(&vec![b'm'; taken]));
}
