//! Edge-triggered writers that find no space: whoever was told that there is none is told
//! once there is, though nothing is sent in between.

use crate::context::{Case, Cx, Pair, fill, say};
use isthmus_tests::sys::{self, ep_add, ep_del, ep_show, show};
use libc::{EPOLLET, EPOLLIN, EPOLLOUT};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

pub(crate) const CASES: &[Case] = &[case("stall.after_another_connection", after_another_connection)];

const BOTH: i32 = EPOLLIN | EPOLLOUT | EPOLLET;

/// The peer reads all, while this thread sleeps.
fn told(cx: &mut Cx, p: Pair, ep: sys::Fd) {
    say!("full {}", ep_show(ep, 30));
    cx.ask(&format!("later 40 discard {}", p.id));
    say!("room is an edge {}", ep_show(ep, 3000));
}

/// What the set had been told of the first connection says nothing about the second, which has stalled as often.
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
