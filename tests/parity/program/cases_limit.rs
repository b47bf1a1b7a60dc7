//! A program whose limit of descriptors is lower than what we wait for on its behalf (sshd's sandbox sets it
//! to 1): every call works as before, and poll refuses what the kernel refuses, no more.

use crate::context::{Case, Cx, got, read_all, say};
use isthmus_tests::sys::{self, Fd, Select, show};
use std::time::Duration;

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

pub(crate) const CASES: &[Case] = &[
    case("limit.one_reads", |cx| reads(cx, 1)),
    case("limit.none_reads", |cx| reads(cx, 0)),
    case("limit.one_writes", |cx| writes(cx, 1)),
    case("limit.none_writes", |cx| writes(cx, 0)),
    case("limit.one_polls", polls),
    case("limit.many_polls", many_polls),
    case("limit.none_polls", none_polls),
    case("limit.selects", selects),
    case("limit.epoll", epoll),
    case("limit.interrupted", interrupted),
    case("limit.peer_dies", peer_dies),
    Case { name: "limit.set_without_memory", shm: false, run: set_without_memory },
];

/// No memory is to be had any more when the first connection goes into a set.
fn set_without_memory(cx: &mut Cx) {
    let (p, ep) = (cx.warm(), sys::epoll());
    sys::limit_data(Some(4096));
    let added = sys::ep_add(ep, p.fd, libc::EPOLLIN, 1);
    sys::limit_data(None);
    say!("add -> {}", show(added));
    for text in ["one", "two"] {
        cx.peer(&format!("send 0 {text}"));
        say!("told {}", sys::ep_show(ep, 1000));
        read_say(p.fd);
        say!("quiet {}", sys::ep_show(ep, 20));
    }
    say!("mod -> {}", show(sys::ep_mod(ep, p.fd, libc::EPOLLOUT, 2)));
    say!("told {}", sys::ep_show(ep, 1000));
    say!("del -> {}", show(sys::ep_del(ep, p.fd)));
    say!("write -> {}", show(sys::write(p.fd, b"after")));
    cx.peer("recvn 0 5");
}

fn read_say(fd: Fd) {
    let mut buf = [0u8; 16];
    let r = sys::read(fd, &mut buf);
    say!("read -> {}", got(r, &buf));
}

fn reads(cx: &mut Cx, limit: u64) {
    let fd = cx.warm().fd;
    sys::limit_fds(limit);
    for _ in 0..3 {
        cx.ask("later 30 send 0 hello");
        read_say(fd);
    }
    sys::set_timeout(fd, libc::SO_RCVTIMEO, 60).expect("time limit");
    read_say(fd);
    sys::set_timeout(fd, libc::SO_RCVTIMEO, 0).expect("no time limit");
    cx.ask("later 30 shut 0 1");
    read_say(fd);
    say!("write -> {}", show(sys::write(fd, b"after")));
    cx.peer("recvn 0 5");
}

fn writes(cx: &mut Cx, limit: u64) {
    let fd = cx.warm().fd;
    sys::limit_fds(limit);
    let total = 4 << 20;
    cx.tell(&format!("recvn 0 {total}"));
    say!("{}", crate::context::write_all(fd, &crate::context::pattern(total)));
    say!("peer has {}", cx.answer());
}

fn polls(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    sys::limit_fds(1);
    let readable = |timeout| say!("poll -> {}", sys::poll1(p.fd, libc::POLLIN | libc::POLLRDHUP, timeout));
    readable(0);
    readable(40);
    cx.ask("later 30 send 0 hello");
    readable(5000);
    read_say(p.fd);
    say!("both ways -> {}", sys::poll1(p.fd, libc::POLLIN | libc::POLLOUT, 5000));
    say!("two -> {:?}", sys::poll(&[(p.fd, libc::POLLIN), (q.fd, libc::POLLOUT)], 1000));
    say!("two, not ours -> {:?}", sys::poll(&[(p.fd, libc::POLLIN), (-1, 0)], 0));
    say!("ppoll of two -> {:?}", sys::ppoll(&[(p.fd, libc::POLLIN), (q.fd, libc::POLLOUT)], Some(1000)));
    cx.ask("later 30 shut 0 1");
    readable(5000);
    cx.watch(q.fd);
}

/// As many as the limit allows, none of them idle for long.
fn many_polls(cx: &mut Cx) {
    let all: Vec<_> = (0..5).map(|_| cx.warm()).collect();
    sys::limit_fds(5);
    let entries: Vec<_> = all.iter().map(|p| (p.fd, libc::POLLIN)).collect();
    say!("none -> {:?}", sys::poll(&entries, 40));
    for p in &all {
        cx.ask(&format!("later 20 send {} hello", p.id));
        say!("{} -> {:?}", p.id, sys::poll(&entries, 5000));
        read_say(p.fd);
    }
    say!("closed number -> {:?}", sys::poll(&[(all[0].fd, libc::POLLIN), (400, libc::POLLIN)], 5000));
    cx.ask("later 30 close 2");
    say!("end -> {:?}", sys::poll(&entries, 5000));
    read_say(all[2].fd);
    cx.watch(all[0].fd);
}

fn none_polls(cx: &mut Cx) {
    let fd = cx.warm().fd;
    cx.peer("send 0 hello");
    sys::limit_fds(0);
    for events in [libc::POLLIN, libc::POLLOUT, 0] {
        say!("one -> {}", sys::poll1(fd, events, 0));
    }
    say!("none -> {:?}", sys::poll(&[], 1));
    read_say(fd);
}

fn selects(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    sys::limit_fds(1);
    say!("nothing -> {}", sys::select(Select::Plain, &[p.fd, q.fd], &[], &[], 40));
    for kind in [Select::Plain, Select::Precise] {
        cx.ask(&format!("later 30 send {} hello", q.id));
        say!("one -> {}", sys::select(kind, &[p.fd, q.fd], &[], &[p.fd], 5000));
        read_say(q.fd);
    }
    say!("space -> {}", sys::select(Select::Plain, &[p.fd], &[p.fd, q.fd], &[], 5000));
    cx.ask("later 30 close 0");
    say!("end -> {}", sys::select(Select::Plain, &[p.fd, q.fd], &[], &[], 5000));
    read_say(p.fd);
    cx.watch(q.fd);
}

fn epoll(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let ep = sys::epoll();
    sys::ep_add(ep, fd, libc::EPOLLIN, 7).expect("add");
    sys::limit_fds(0);
    cx.ask("later 30 send 0 hello");
    say!("epoll -> {}", sys::ep_show(ep, 5000));
    read_say(fd);
    cx.ask("later 30 shut 0 1");
    say!("epoll -> {}", sys::ep_show(ep, 5000));
    read_say(fd);
}

fn interrupted(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::limit_fds(1);
    sys::catch(libc::SIGUSR1, false);
    let me = sys::this_thread();
    let nagger = std::thread::spawn(move || {
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(60));
            sys::signal_thread(me, libc::SIGUSR1);
        }
    });
    read_say(fd);
    say!("poll -> {}", sys::poll1(fd, libc::POLLIN, 5000));
    nagger.join().expect("nagger");
    say!("{} signals", sys::hits());
}

fn peer_dies(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::limit_fds(1);
    let pid = cx.peer_pid();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        let _ = sys::kill(pid, libc::SIGKILL);
    });
    say!("{}", read_all(fd, 100));
    killer.join().expect("killer");
}
