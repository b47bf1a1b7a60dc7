//! Interest that comes and goes: event loops that take sockets out of a set and put them back with every
//! message. What the kernel is told of it later, or never, must not show.

use crate::context::{Case, Cx, say, settle, until_queued, until_ready};
use isthmus_tests::sys::{self, Fd, ep_add, ep_del, ep_mod, ep_show, ep_wait, show};
use libc::{EPOLLET, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLRDHUP, SHUT_RD, SHUT_WR};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

pub(crate) const CASES: &[Case] = &[
    case("interest.back_and_forth", back_and_forth),
    case("interest.taken_back", taken_back),
    case("interest.end_while_taken_back", end_while_taken_back),
    case("interest.end_while_writing_only", end_while_writing_only),
    case("interest.taken_back_then_dup", taken_back_then_dup),
    case("interest.taken_back_then_closed", taken_back_then_closed),
    case("interest.taken_back_then_fork", taken_back_then_fork),
    case("interest.taken_back_then_oneshot", taken_back_then_oneshot),
    case("interest.mod_wakes_sleeper", mod_wakes_sleeper),
    case("interest.add_back_wakes_sleeper", add_back_wakes_sleeper),
    case("interest.mod_of_a_polled_set", mod_of_a_polled_set),
    case("interest.once_after_shutting_both_ways", once_after_shutting_both_ways),
    case("interest.asked_after_the_end", asked_after_the_end),
    case("interest.room_alone_by_edges", room_alone_by_edges),
    case("interest.too_few_by_edges", |cx| too_few_by_edges(cx, 0)),
    case("interest.too_few_by_edges_asleep", |cx| too_few_by_edges(cx, 40)),
    case("interest.two_sets", two_sets),
    Case { name: "interest.killed_while_nothing_is_asked", shm: false, run: killed_while_nothing_is_asked },
    case("interest.blocked_reader_beside", blocked_reader_beside),
];

/// Whoever has shut both ways himself is told of the end of both, whenever he asks.
fn once_after_shutting_both_ways(cx: &mut Cx) {
    let p = cx.warm();
    let (ep, other) = (sys::epoll(), sys::epoll());
    let _ = ep_add(ep, p.fd, EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, 1);
    cx.ask("send 0 unread");
    until_queued(p.fd, 6);
    for how in [SHUT_RD, SHUT_WR] {
        say!("shut {}", show(sys::shutdown(p.fd, how)));
        say!("once {}", ep_show(ep, 1000));
        say!("again {}", ep_show(ep, 0));
        say!("asked {} {}", show(ep_mod(ep, p.fd, EPOLLIN | EPOLLONESHOT, 2)), ep_show(ep, 1000));
        let _ = ep_mod(ep, p.fd, EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, 3);
        say!("late {} {}", show(ep_add(other, p.fd, EPOLLIN | EPOLLONESHOT, 4)), ep_show(other, 1000));
        let _ = ep_del(other, p.fd);
    }
    say!("read {}", show(sys::recv(p.fd, &mut [0; 16], 0)));
    say!("after {}", ep_show(ep, 1000));
}

/// Who asks for edges of room alone is told of none by what arrives.
fn room_alone_by_edges(cx: &mut Cx) {
    let (p, ep) = (cx.warm(), sys::epoll());
    say!("add {} {}", show(ep_add(ep, p.fd, EPOLLOUT | EPOLLET, 1)), ep_show(ep, 1000));
    for _ in 0..3 {
        cx.peer("send 0 abc");
        say!("told {} {}", ep_show(ep, 0), ep_show(ep, 60));
    }
    say!("mod {}", show(ep_mod(ep, p.fd, EPOLLIN | EPOLLET, 2)));
    say!("asked {} {}", ep_show(ep, 1000), ep_show(ep, 0));
    until_queued(p.fd, 9);
    cx.peer("send 0 more");
    say!("more {}", ep_show(ep, 1000));
}

/// Bytes that do not suffice for SO_RCVLOWAT wake nobody, and so tell of no room.
fn too_few_by_edges(cx: &mut Cx, ms: i32) {
    let (p, ep) = (cx.warm(), sys::epoll());
    sys::setopt(p.fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 10).expect("lowat");
    say!("add {} {}", show(ep_add(ep, p.fd, EPOLLIN | EPOLLOUT | EPOLLET, 1)), ep_show(ep, 1000));
    let mut unread = 0;
    for text in ["six456", "twelve789012", "one", "twelve789012"] {
        cx.peer(&format!("send 0 {text}"));
        unread += text.len();
        until_queued(p.fd, unread as i32);
        say!("{unread}: told {} {}", ep_show(ep, ms), ep_show(ep, ms));
        if unread > 10 {
            say!("read {}", show(sys::recv(p.fd, &mut [0; 99], libc::MSG_DONTWAIT)));
            unread = 0;
        }
    }
    cx.peer("send 0 twelve789012");
    until_queued(p.fd, 12);
    say!("read {}", show(sys::recv(p.fd, &mut [0; 99], libc::MSG_DONTWAIT)));
    say!("of what was read {} {}", ep_show(ep, 1000), ep_show(ep, ms));
}

/// The end of the peer's stream, and room to write, in one answer: there may be no other.
fn asked_after_the_end(cx: &mut Cx) {
    for how in [0, EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLONESHOT] {
        let (p, ep) = (cx.warm(), sys::epoll());
        cx.peer(&format!("shut {} 1", p.id));
        settle();
        for events in [EPOLLIN | EPOLLOUT, EPOLLIN | EPOLLOUT | EPOLLRDHUP] {
            say!("add {} {}", show(ep_add(ep, p.fd, events | how, 1)), ep_show(ep, 1000));
            say!("mod {} {}", show(ep_mod(ep, p.fd, events | how, 2)), ep_show(ep, 1000));
            let _ = ep_del(ep, p.fd);
        }
        sys::close(ep).expect("close");
    }
}

/// A program that has paused reading, and hears of errors alone: its peer is killed with bytes unread; of the
/// end of a stream it hears nothing.
fn killed_while_nothing_is_asked(cx: &mut Cx) {
    let masks = [0, libc::EPOLLPRI, libc::EPOLLET, EPOLLONESHOT];
    let pairs = masks.map(|_| cx.warm());
    let sets = masks.map(|_| sys::epoll());
    for ((p, ep), mask) in pairs.iter().zip(sets).zip(masks) {
        ep_add(ep, p.fd, mask, 1).expect("add");
        say!("write {} {}", show(sys::write(p.fd, b"unread")), ep_show(ep, 0));
    }
    let q = cx.warm();
    let quiet = sys::epoll();
    ep_add(quiet, q.fd, 0, 2).expect("add");
    cx.end_by("die");
    for ep in sets {
        say!("killed {}", ep_show(ep, 2000));
    }
    say!("with nothing unread {} {}", ep_show(quiet, 100), ep_show(quiet, 100));
}

/// An echo client as redis-benchmark is one: for every message the socket is put in for output, then for
/// input.
fn back_and_forth(cx: &mut Cx) {
    let p = cx.warm();
    sys::nonblocking(p.fd, true);
    let ep = sys::epoll();
    cx.tell("echo 0 20000");
    let (mut back, mut lost) = (0, 0);
    for round in 0..200 {
        let added = ep_add(ep, p.fd, EPOLLOUT, round);
        lost += u32::from(added.is_err());
        lost += u32::from(ep_wait(ep, 3000) != Ok(vec![(round, EPOLLOUT as u32)]));
        let _ = sys::write(p.fd, &[round as u8; 100]);
        lost += u32::from(ep_mod(ep, p.fd, EPOLLIN, round + 1).is_err());
        let mut got = 0;
        while got < 100 && lost < 3 {
            lost += u32::from(ep_wait(ep, 3000) != Ok(vec![(round + 1, EPOLLIN as u32)]));
            let mut buf = [0; 100];
            got += sys::read(p.fd, &mut buf).unwrap_or(0);
        }
        back += got;
        lost += u32::from(ep_del(ep, p.fd).is_err());
    }
    say!("back {back}, wrong {lost}");
    cx.answer();
}

fn taken_back(cx: &mut Cx) {
    let p = cx.warm();
    let ep = sys::epoll();
    for round in 0..3 {
        say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN, round)));
        say!("idle {}", ep_show(ep, 20));
        say!("del -> {}", show(ep_del(ep, p.fd)));
        cx.peer("send 0 x");
        until_queued(p.fd, 1);
        say!("nothing {}", ep_show(ep, 20));
        say!("mod -> {}", show(ep_mod(ep, p.fd, EPOLLIN, 7)));
        say!("del again -> {}", show(ep_del(ep, p.fd)));
        say!("add back -> {}", show(ep_add(ep, p.fd, EPOLLIN | EPOLLOUT, 9)));
        say!("both {}", ep_show(ep, 3000));
        say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
        say!("out {}", ep_show(ep, 3000));
        say!("del -> {}", show(ep_del(ep, p.fd)));
    }
}

fn end_while_taken_back(cx: &mut Cx) {
    let p = cx.warm();
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN | EPOLLRDHUP, 1)));
    say!("idle {}", ep_show(ep, 20));
    say!("del -> {}", show(ep_del(ep, p.fd)));
    cx.peer("shut 0 1");
    until_ready(p.fd, libc::POLLRDHUP);
    say!("nothing {}", ep_show(ep, 20));
    say!("nothing {}", ep_show(ep, 20));
    say!("add back -> {}", show(ep_add(ep, p.fd, EPOLLIN | EPOLLRDHUP, 2)));
    say!("end {}", ep_show(ep, 3000));
}

fn end_while_writing_only(cx: &mut Cx) {
    let p = cx.warm();
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN | EPOLLRDHUP, 1)));
    say!("mod -> {}", show(ep_mod(ep, p.fd, EPOLLOUT, 2)));
    cx.peer("shut 0 1");
    until_ready(p.fd, libc::POLLRDHUP);
    say!("out only {}", ep_show(ep, 3000));
    say!("mod -> {}", show(ep_mod(ep, p.fd, 0, 3)));
    say!("nothing {}", ep_show(ep, 20));
    say!("mod -> {}", show(ep_mod(ep, p.fd, EPOLLIN, 4)));
    say!("end {}", ep_show(ep, 3000));
}

fn taken_back_then_dup(cx: &mut Cx) {
    let p = cx.warm();
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN, 1)));
    say!("del -> {}", show(ep_del(ep, p.fd)));
    let copy = sys::dup(p.fd).expect("dup") as Fd;
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer("send 0 x");
    until_queued(copy, 1);
    say!("nothing {}", ep_show(ep, 20));
    say!("add copy -> {}", show(ep_add(ep, copy, EPOLLIN, 2)));
    say!("data {}", ep_show(ep, 3000));
    cx.watch(copy);
}

fn taken_back_then_closed(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN, 1)));
    say!("del -> {}", show(ep_del(ep, p.fd)));
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer("drain 0");
    let moved = sys::dup(q.fd).expect("dup") as Fd;
    say!("number reused {}", moved == p.fd);
    say!("add new owner -> {}", show(ep_add(ep, moved, EPOLLIN, 2)));
    cx.peer("send 1 x");
    say!("data {}", ep_show(ep, 3000));
    cx.watch(moved);
}

fn taken_back_then_fork(cx: &mut Cx) {
    let p = cx.warm();
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN, 1)));
    say!("del -> {}", show(ep_del(ep, p.fd)));
    cx.peer("send 0 x");
    until_queued(p.fd, 1);
    let pid = sys::fork(|| {
        let before = ep_wait(ep, 20) == Ok(vec![]);
        let added = ep_add(ep, p.fd, EPOLLIN, 5).is_ok();
        let after = ep_wait(ep, 3000) == Ok(vec![(5, EPOLLIN as u32)]);
        u8::from(!before)
            + 2 * u8::from(!added)
            + 4 * u8::from(!after)
            + 8 * u8::from(ep_del(ep, p.fd).is_err())
    });
    say!("child {}", sys::wait(pid));
    say!("parent {}", ep_show(ep, 20));
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN, 6)));
    say!("data {}", ep_show(ep, 3000));
}

fn taken_back_then_oneshot(cx: &mut Cx) {
    let p = cx.warm();
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN, 1)));
    say!("del -> {}", show(ep_del(ep, p.fd)));
    say!("add once -> {}", show(ep_add(ep, p.fd, EPOLLIN | EPOLLONESHOT, 2)));
    cx.peer("send 0 x");
    say!("once {}", ep_show(ep, 3000));
    say!("spent {}", ep_show(ep, 20));
    say!("mod to level -> {}", show(ep_mod(ep, p.fd, EPOLLIN, 3)));
    say!("data {}", ep_show(ep, 3000));
    say!("mod out -> {}", show(ep_mod(ep, p.fd, EPOLLOUT, 4)));
    say!("out {}", ep_show(ep, 3000));
}

fn sleeper(ep: Fd) -> std::thread::JoinHandle<String> {
    let sleeper = std::thread::spawn(move || ep_show(ep, 5000));
    settle();
    sleeper
}

fn mod_wakes_sleeper(cx: &mut Cx) {
    let p = cx.warm();
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN, 1)));
    let woken = sleeper(ep);
    say!("mod -> {}", show(ep_mod(ep, p.fd, EPOLLIN | EPOLLOUT, 2)));
    say!("woken {}", woken.join().expect("sleeper"));
    say!("mod -> {}", show(ep_mod(ep, p.fd, 0, 3)));
    cx.peer("send 0 x");
    until_queued(p.fd, 1);
    let woken = sleeper(ep);
    say!("mod -> {}", show(ep_mod(ep, p.fd, EPOLLIN, 4)));
    say!("woken {}", woken.join().expect("sleeper"));
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
    let woken = sleeper(ep);
    say!("mod -> {}", show(ep_mod(ep, p.fd, EPOLLIN, 5)));
    cx.peer("send 0 y");
    say!("woken {}", woken.join().expect("sleeper"));
}

fn add_back_wakes_sleeper(cx: &mut Cx) {
    let p = cx.warm();
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN, 1)));
    say!("del -> {}", show(ep_del(ep, p.fd)));
    let woken = sleeper(ep);
    say!("add back -> {}", show(ep_add(ep, p.fd, EPOLLIN, 2)));
    cx.peer("send 0 x");
    say!("woken {}", woken.join().expect("sleeper"));
}

fn mod_of_a_polled_set(cx: &mut Cx) {
    let p = cx.warm();
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN, 1)));
    let poller = std::thread::spawn(move || sys::poll(&[(ep, libc::POLLIN)], 5000).1[0]);
    settle();
    say!("mod -> {}", show(ep_mod(ep, p.fd, EPOLLOUT, 2)));
    say!("polled {}", poller.join().expect("poller"));
    say!("out {}", ep_show(ep, 3000));
}

/// Two loops share a socket: what one drains and takes back, the other still waits for.
fn two_sets(cx: &mut Cx) {
    let p = cx.warm();
    let (one, two) = (sys::epoll(), sys::epoll());
    say!("add -> {}", show(ep_add(one, p.fd, EPOLLIN, 1)));
    say!("add -> {}", show(ep_add(two, p.fd, EPOLLIN, 2)));
    say!("idle {}", ep_show(one, 20));
    say!("del -> {}", show(ep_del(one, p.fd)));
    let woken = sleeper(two);
    say!("add back -> {}", show(ep_add(one, p.fd, EPOLLIN, 3)));
    say!("idle {}", ep_show(one, 20));
    cx.peer("send 0 x");
    say!("woken {}", woken.join().expect("sleeper"));
    say!("first {}", ep_show(one, 3000));
}

/// A loop that finds nothing must not take a ring away from a call that sleeps on the same socket.
fn blocked_reader_beside(cx: &mut Cx) {
    let p = cx.warm();
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN | EPOLLOUT, 1)));
    for _ in 0..20 {
        let reader = std::thread::spawn(move || sys::read(p.fd, &mut [0; 9]));
        let _ = ep_wait(ep, 0);
        let _ = ep_mod(ep, p.fd, EPOLLIN, 1);
        let _ = ep_wait(ep, 0);
        cx.ask("send 0 x");
        while ep_wait(ep, 0) != Ok(vec![]) && !reader.is_finished() {}
        say!("read -> {}", show(reader.join().expect("reader")));
        let _ = ep_mod(ep, p.fd, EPOLLIN | EPOLLOUT, 1);
    }
}
