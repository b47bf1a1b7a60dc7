//! Edge-triggered writers that find no space before, while and after they ask: whoever was told that there is
//! none is told once there is, though nothing is sent in between.

use crate::cases_operator::send_home;
use crate::context::{Case, Cx, Pair, fill, say};
use isthmus_tests::sys::{self, Select, ep_add, ep_del, ep_mod, ep_show, show};
use libc::{EPOLLET, EPOLLEXCLUSIVE, EPOLLIN, EPOLLOUT, POLLOUT};

/// (What fills both directions goes by TCP as well.)
const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("stall.before_the_set", before_the_set),
    case("stall.before_an_exclusive_registration", before_exclusive),
    case("stall.before_the_question", before_the_question),
    case("stall.under_a_sleeper", under_a_sleeper),
    case("stall.after_another_connection", after_another_connection),
    case("stall.a_reader_that_rests_again", rests_again),
    case("stall.a_reader_that_rests_again_and_goes_home", rests_and_goes_home),
    case("stall.reads_no_more", reads_no_more),
    case("stall.reads_no_more_after_a_part", reads_a_part_and_no_more),
    case("stall.reads_no_more_but_what_came", reads_what_came),
    case("stall.killed_behind_its_own_bytes", killed_behind_its_bytes),
];

const BOTH: i32 = EPOLLIN | EPOLLOUT | EPOLLET;

/// The peer reads all, while this thread sleeps.
fn told(cx: &mut Cx, p: Pair, ep: sys::Fd) {
    say!("full {}", ep_show(ep, 30));
    cx.ask(&format!("later 40 discard {}", p.id));
    say!("room is an edge {}", ep_show(ep, 3000));
}

fn added_full(cx: &mut Cx, events: i32) {
    let p = cx.warm();
    fill(p.fd);
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, events, 1)));
    told(cx, p, ep);
}

fn before_the_set(cx: &mut Cx) {
    added_full(cx, BOTH);
}

fn before_exclusive(cx: &mut Cx) {
    added_full(cx, BOTH | EPOLLEXCLUSIVE);
}

fn before_the_question(cx: &mut Cx) {
    let p = cx.warm();
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN, 1)));
    fill(p.fd);
    say!("mod -> {}", show(ep_mod(ep, p.fd, BOTH, 2)));
    told(cx, p, ep);
}

fn under_a_sleeper(cx: &mut Cx) {
    let p = cx.warm();
    fill(p.fd);
    let ep = sys::epoll();
    let waiter = std::thread::spawn(move || ep_show(ep, 3000));
    std::thread::sleep(std::time::Duration::from_millis(40));
    say!("add -> {}", show(ep_add(ep, p.fd, BOTH, 1)));
    cx.ask(&format!("later 40 discard {}", p.id));
    say!("room is an edge {}", waiter.join().expect("waiter"));
}

/// What the set had been told of the first connection says nothing about the second, which has stalled as
/// often.
fn after_another_connection(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, BOTH, 1)));
    say!("initial {}", ep_show(ep, 3000));
    fill(p.fd);
    told(cx, p, ep);
    say!("del -> {}", show(ep_del(ep, p.fd)));
    say!("add -> {}", show(ep_add(ep, q.fd, BOTH, 2)));
    fill(q.fd);
    told(cx, q, ep);
}

/// A full connection of which the peer reads the larger part, and rests: there is room then.
fn read_in_part(cx: &mut Cx) -> (Pair, sys::Fd) {
    let p = cx.warm();
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, BOTH, 1)));
    say!("initial {}", ep_show(ep, 3000));
    let total = fill(p.fd);
    say!("full {}", ep_show(ep, 30));
    cx.ask(&format!("later 40 recvn {} {}", p.id, total / 10 * 6));
    (p, ep)
}

fn rests_again(cx: &mut Cx) {
    let (p, ep) = read_in_part(cx);
    say!("room is an edge {}", ep_show(ep, 5000));
    say!("there is {}", sys::send(p.fd, &[1; 1000], libc::MSG_DONTWAIT).is_ok());
}

fn rests_and_goes_home(cx: &mut Cx) {
    let (p, ep) = read_in_part(cx);
    let me = std::process::id() as i32;
    let operator = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        send_home(me);
    });
    say!("room is an edge {}", ep_show(ep, 5000));
    operator.join().expect("operator");
    say!("there is {}", sys::send(p.fd, &[1; 1000], libc::MSG_DONTWAIT).is_ok());
}

/// Whether poll, select and a set tell of room as long as a call finds some, after a peer has shut both ways.
/// (For some milliseconds each may speak of what has just changed.)
fn said_in_vain(p: Pair) {
    let ep = sys::epoll();
    ep_add(ep, p.fd, EPOLLOUT, 1).expect("add");
    let asked: [(&str, &dyn Fn() -> bool); 3] = [
        ("poll", &|| sys::poll(&[(p.fd, POLLOUT)], 5).1[0] & POLLOUT != 0),
        ("select", &|| sys::select(Select::Precise, &[], &[p.fd], &[], 5).contains("w=1")),
        ("epoll", &|| sys::ep_wait(ep, 5).expect("wait").iter().any(|(_, told)| told & EPOLLOUT as u32 != 0)),
    ];
    for (name, has_room) in asked {
        let is_full = || sys::send(p.fd, &[1; 1000], libc::MSG_DONTWAIT) == Err(sys::Errno(libc::EAGAIN));
        let vain = (0..100).filter(|_| has_room() && is_full()).count();
        say!("{name} in vain: {}", vain > 10);
    }
}

fn reads_no_more(cx: &mut Cx) {
    let p = cx.warm();
    fill(p.fd);
    cx.ask(&format!("shut {} 2", p.id));
    said_in_vain(p);
}

fn reads_a_part_and_no_more(cx: &mut Cx) {
    let p = cx.warm();
    let total = fill(p.fd);
    cx.ask(&format!("recvn {} {}", p.id, total / 10 * 3));
    fill(p.fd);
    cx.ask(&format!("shut {} 2", p.id));
    said_in_vain(p);
}

/// (What its kernel holds, which is what the ring holds here.)
fn reads_what_came(cx: &mut Cx) {
    let p = cx.warm();
    fill(p.fd);
    cx.ask(&format!("shut {} 2", p.id));
    cx.ask(&format!("recvn {} {}", p.id, 200_000));
    said_in_vain(p);
}

/// A reader whose end waits behind what it has put into TCP itself: who writes hears of that all the same, in
/// a write that waits.
fn killed_behind_its_bytes(cx: &mut Cx) {
    let p = cx.warm();
    cx.ask(&format!("fill {}", p.id));
    sys::set_timeout(p.fd, libc::SO_SNDTIMEO, 1000).expect("a time limit");
    let bytes = vec![1; 64 << 20];
    cx.ask("later 15 die");
    let part = sys::send(p.fd, &bytes, libc::MSG_NOSIGNAL);
    say!("a part {}", part.is_ok_and(|count| count < bytes.len()));
    let told = sys::send(p.fd, b"x", libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT);
    // (Which of the two depends on whether the write had begun.)
    say!("it is over {}", matches!(told, Err(sys::Errno(libc::ECONNRESET | libc::EPIPE))));
}
