//! Edge-triggered writers that find no space before, while and after they ask: whoever was told that there is
//! none is told once there is, though nothing is sent in between.

use crate::cases_operator::send_home;
use crate::context::{Case, Cx, Pair, fill, say};
use isthmus_tests::sys::{self, ep_add, ep_del, ep_mod, ep_show, show};
use libc::{EPOLLET, EPOLLEXCLUSIVE, EPOLLIN, EPOLLOUT};

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
