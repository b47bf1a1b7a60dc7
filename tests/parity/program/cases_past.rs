//! Writes past every hook, by the `syscall` instruction, on a connection that has moved bytes by calls that
//! are seen: they arrive behind those, however the other end waits, and both ends go on.

use crate::context::{Case, Cx, Pair, say, settle};
use isthmus_tests::sys::{self, Select, poll1, show};
use libc::{EPOLLET, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLRDHUP, MSG_DONTWAIT, MSG_PEEK, POLLIN};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("past.before_recv", |cx| told(cx, |p| take(p, 0))),
    case("past.before_recv_that_does_not_wait", |cx| told(cx, |p| take(p, MSG_DONTWAIT))),
    case("past.before_a_peek", |cx| told(cx, |p| take(p, MSG_PEEK))),
    case("past.before_poll", |cx| told(cx, |p| poll1(p.fd, POLLIN, 3000))),
    case("past.before_select", |cx| told(cx, |p| sys::select(Select::Precise, &[p.fd], &[], &[], 3000))),
    case("past.before_a_set", |cx| told(cx, |p| in_a_set(p, EPOLLIN))),
    case("past.before_a_set_that_tells_edges", |cx| told(cx, |p| in_a_set(p, EPOLLIN | EPOLLET))),
    case("past.in_recv", in_recv),
    case("past.in_a_set", |cx| in_a_set_meanwhile(cx, 0)),
    case("past.in_a_set_that_tells_edges", |cx| in_a_set_meanwhile(cx, EPOLLET)),
    case("past.in_a_set_that_tells_edges_of_room", |cx| in_a_set_meanwhile(cx, EPOLLET | EPOLLOUT)),
    case("past.in_a_set_that_tells_once", |cx| in_a_set_meanwhile(cx, EPOLLONESHOT)),
    case("past.in_poll", in_poll),
    case("past.behind_what_is_unread", behind_what_is_unread),
    case("past.the_last_words", the_last_words),
    case("past.by_us", by_us),
];

fn take(p: Pair, flags: i32) -> String {
    let mut bytes = [0; 16];
    let count = sys::recv(p.fd, &mut bytes, flags);
    format!("{} {}", show(count), String::from_utf8_lossy(&bytes).trim_end_matches('\0'))
}

fn in_a_set(p: Pair, events: i32) -> String {
    let set = sys::epoll();
    sys::ep_add(set, p.fd, events, 7).expect("add");
    let told = sys::ep_show(set, 3000);
    let _ = sys::close(set);
    told
}

/// Both go on as if nothing had happened.
fn goes_on(cx: &mut Cx, p: Pair) {
    for text in ["one", "two"] {
        cx.peer(&format!("send {} {text}", p.id));
        say!("{}", take(p, 0));
        say!("send -> {}", show(sys::send(p.fd, b"answer", 0)));
        cx.peer(&format!("recvn {} 6", p.id));
    }
}

fn told(cx: &mut Cx, look: impl Fn(Pair) -> String) {
    let p = cx.warm();
    cx.peer(&format!("send_unseen {} unseen", p.id));
    settle();
    say!("{}", look(p));
    say!("{}", take(p, MSG_DONTWAIT));
    goes_on(cx, p);
}

fn in_recv(cx: &mut Cx) {
    let p = cx.warm();
    let waiter = std::thread::spawn(move || take(p, 0));
    settle();
    cx.peer(&format!("send_unseen {} unseen", p.id));
    say!("{}", waiter.join().expect("a waiter"));
    goes_on(cx, p);
}

fn in_poll(cx: &mut Cx) {
    let p = cx.warm();
    let waiter = std::thread::spawn(move || poll1(p.fd, POLLIN | libc::POLLRDHUP, 3000));
    settle();
    cx.peer(&format!("send_unseen {} unseen", p.id));
    say!("{} {}", waiter.join().expect("a waiter"), take(p, 0));
    goes_on(cx, p);
}

fn in_a_set_meanwhile(cx: &mut Cx, how: i32) {
    let p = cx.warm();
    let set = sys::epoll();
    let asked = EPOLLIN | EPOLLRDHUP | how;
    sys::ep_add(set, p.fd, asked, 7).expect("add");
    if how & EPOLLOUT != 0 {
        say!("at first {}", sys::ep_show(set, 3000));
    }
    for text in ["past", "memory"] {
        if how & EPOLLONESHOT != 0 {
            sys::ep_mod(set, p.fd, asked, 8).expect("anew");
        }
        let waiter = std::thread::spawn(move || sys::ep_show(set, 3000));
        settle();
        cx.peer(&format!("send_unseen {} {text}", p.id));
        say!("{} {}", waiter.join().expect("a waiter"), take(p, 0));
    }
    goes_on(cx, p);
    // (TCP tells of room whenever something was acknowledged.)
    if how & EPOLLOUT == 0 {
        say!("{}", sys::ep_show(set, 0));
    }
}

/// Bytes that lie in the ring come first, and what is seen comes after.
fn behind_what_is_unread(cx: &mut Cx) {
    let p = cx.warm();
    cx.peer(&format!("send {} first", p.id));
    cx.peer(&format!("send_unseen {} second", p.id));
    settle();
    let mut bytes = [0; 11];
    say!("{} {:?}", show(sys::recv(p.fd, &mut bytes, libc::MSG_WAITALL)), String::from_utf8_lossy(&bytes));
    goes_on(cx, p);
}

/// As libc writes what it has to say of a broken heap, and ends the process.
fn the_last_words(cx: &mut Cx) {
    let p = cx.warm();
    cx.peer(&format!("send_unseen {} last", p.id));
    cx.end_by("die");
    say!("{}", take(p, 0));
    say!("{}", take(p, 0));
}

fn by_us(cx: &mut Cx) {
    let p = cx.warm();
    say!("write -> {}", show(sys::write_unseen(p.fd, b"unseen")));
    cx.peer(&format!("recvn {} 6", p.id));
    goes_on(cx, p);
}
