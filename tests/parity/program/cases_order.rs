//! The order in which an answer tells of several connections: that of arrival, and whoever was told of and is
//! ready still comes behind all others.

use crate::context::{Case, Cx, Pair, say, until, until_ready};
use isthmus_tests::sys::{self, Fd, ep_add};
use libc::{EPOLLIN, EPOLLOUT, EPOLLRDHUP, POLLIN};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

pub(crate) const CASES: &[Case] = &[
    case("order.of_arrival", of_arrival),
    case("order.one_at_a_time", one_at_a_time),
    case("order.of_what_is_not_read", of_what_is_not_read),
    case("order.of_an_end_and_bytes", of_an_end_and_bytes),
    case("order.of_bytes_and_an_end", of_bytes_and_an_end),
    case("order.of_whoever_closes", of_whoever_closes),
    case("order.of_those_with_room", of_those_with_room),
    case("order.of_more_bytes", of_more_bytes),
    case("order.of_what_was_read_between", of_what_was_read_between),
    case("order.of_room_and_bytes_later", of_room_and_bytes_later),
    case("order.of_what_is_asked_later", of_what_is_asked_later),
    case("order.of_edges", of_edges),
];

/// So many connections, in a set that has them the other way round.
fn several(cx: &mut Cx, many: usize, events: i32) -> (Fd, Vec<Pair>) {
    let pairs: Vec<Pair> = (0..many).map(|_| cx.warm()).collect();
    let set = sys::epoll();
    for (mark, pair) in pairs.iter().enumerate().rev() {
        ep_add(set, pair.fd, events, mark as u64).expect("add");
    }
    (set, pairs)
}

fn send(cx: &mut Cx, pair: &Pair) {
    cx.peer(&format!("send {} x", pair.id));
    until_ready(pair.fd, POLLIN);
}

/// Whom the set tells of, in this order, by answers of `most` at most.
fn told(set: Fd, most: usize) -> Vec<u64> {
    let told = sys::ep_wait_in_order(sys::Wait::Plain, set, most, 0).expect("answer");
    told.iter().map(|(mark, _)| *mark).collect()
}

fn of_arrival(cx: &mut Cx) {
    let (set, pairs) = several(cx, 4, EPOLLIN);
    for order in [[2, 0, 3, 1], [1, 3, 2, 0]] {
        for at in order {
            send(cx, &pairs[at]);
        }
        say!("{:?}", told(set, 8));
        for pair in &pairs {
            sys::recv(pair.fd, &mut [0; 4], 0).expect("byte");
        }
    }
}

fn one_at_a_time(cx: &mut Cx) {
    let (set, pairs) = several(cx, 4, EPOLLIN);
    for at in [2, 0, 3, 1] {
        send(cx, &pairs[at]);
    }
    for _ in 0..4 {
        let next = told(set, 1);
        say!("{next:?}");
        sys::recv(pairs[next[0] as usize].fd, &mut [0; 4], 0).expect("byte");
    }
}

fn of_what_is_not_read(cx: &mut Cx) {
    let (set, pairs) = several(cx, 3, EPOLLIN);
    for at in [2, 0] {
        send(cx, &pairs[at]);
    }
    say!("{:?}", told(set, 1));
    send(cx, &pairs[1]);
    say!("then {:?}", told(set, 8));
    say!("and again {:?}", told(set, 8));
}

fn of_an_end_and_bytes(cx: &mut Cx) {
    let (set, pairs) = several(cx, 2, EPOLLIN | EPOLLRDHUP);
    // (Looked at in no other way: the end has to be found out by the wait. Over loopback it is here.)
    cx.peer(&format!("shut {} 1", pairs[0].id));
    send(cx, &pairs[1]);
    say!("{:?}", told(set, 8));
}

fn of_bytes_and_an_end(cx: &mut Cx) {
    let (set, pairs) = several(cx, 2, EPOLLIN);
    send(cx, &pairs[1]);
    cx.peer(&format!("shut {} 1", pairs[0].id));
    say!("{:?}", told(set, 8));
}

fn of_whoever_closes(cx: &mut Cx) {
    let (set, pairs) = several(cx, 3, EPOLLIN);
    for at in [1, 2, 0] {
        cx.peer(&format!("close {}", pairs[at].id));
    }
    say!("{:?}", told(set, 8));
    for pair in &pairs {
        say!("end: {}", sys::show(sys::recv(pair.fd, &mut [0; 4], 0)));
    }
}

fn of_those_with_room(cx: &mut Cx) {
    let (set, _pairs) = several(cx, 3, EPOLLIN | EPOLLOUT);
    let mut turns = vec![];
    until("everybody's turn", || {
        turns.extend(told(set, 1));
        turns.len() >= 6
    });
    say!("{turns:?}");
}

fn of_more_bytes(cx: &mut Cx) {
    let (set, pairs) = several(cx, 3, EPOLLIN);
    for at in [2, 0, 1] {
        send(cx, &pairs[at]);
    }
    say!("{:?}", told(set, 8));
    for more in [0, 2, 0] {
        send_more(cx, &pairs[more]);
        say!("more for {more}: {:?}", told(set, 8));
    }
    say!("the first {:?}", told(set, 1));
    send_more(cx, &pairs[1]);
    say!("then {:?}", told(set, 8));
}

/// The same where unread bytes make it ready already.
fn send_more(cx: &mut Cx, pair: &Pair) {
    let unread = sys::queued(pair.fd);
    cx.peer(&format!("send {} y", pair.id));
    until("more bytes", || sys::queued(pair.fd) > unread);
}

/// Who was told of stays where he is until a wait finds nothing of him.
fn of_what_was_read_between(cx: &mut Cx) {
    let (set, pairs) = several(cx, 3, EPOLLIN);
    for at in [2, 0, 1] {
        send(cx, &pairs[at]);
    }
    say!("{:?}", told(set, 8));
    for at in [2, 0] {
        sys::recv(pairs[at].fd, &mut [0; 4], 0).expect("byte");
    }
    send(cx, &pairs[2]);
    say!("read and more: {:?}", told(set, 8));
    send(cx, &pairs[0]);
    say!("looked at between: {:?}", told(set, 8));
}

fn of_room_and_bytes_later(cx: &mut Cx) {
    let (set, pairs) = several(cx, 4, EPOLLIN | EPOLLOUT);
    for at in [3, 1] {
        send(cx, &pairs[at]);
    }
    say!("{:?}", told(set, 8));
    send(cx, &pairs[2]);
    say!("{:?}", told(set, 8));
}

fn of_what_is_asked_later(cx: &mut Cx) {
    let (set, pairs) = several(cx, 4, EPOLLIN);
    for at in [3, 1] {
        send(cx, &pairs[at]);
    }
    for at in [0, 3, 2] {
        sys::ep_mod(set, pairs[at].fd, EPOLLIN | EPOLLOUT, at as u64).expect("mod");
    }
    say!("{:?}", told(set, 8));
    sys::ep_mod(set, pairs[1].fd, 0, 1).expect("mod");
    say!("one asks for nothing: {:?}", told(set, 8));
    sys::ep_mod(set, pairs[1].fd, EPOLLIN, 1).expect("mod");
    say!("and for bytes again: {:?}", told(set, 8));
    sys::ep_del(set, pairs[2].fd).expect("del");
    ep_add(set, pairs[2].fd, EPOLLIN | EPOLLOUT, 2).expect("add");
    say!("out and in again: {:?}", told(set, 8));
}

fn of_edges(cx: &mut Cx) {
    let (set, pairs) = several(cx, 3, EPOLLIN | libc::EPOLLET);
    say!("{:?}", told(set, 8));
    for at in [2, 0, 1] {
        send(cx, &pairs[at]);
    }
    say!("{:?}", told(set, 8));
    for at in [1, 2] {
        send_more(cx, &pairs[at]);
    }
    say!("more: {:?}", told(set, 8));
    for at in [2, 0] {
        sys::ep_mod(set, pairs[at].fd, EPOLLIN | libc::EPOLLET, at as u64).expect("mod");
    }
    send_more(cx, &pairs[1]);
    say!("asked anew: {:?}", told(set, 8));
}
