//! epoll_ctl's refusals in the kernel's order, and waits without room for an event.

use crate::context::{Case, Cx, say};
use isthmus_tests::sys::{self, show};
use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLIN, EPOLLOUT};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

pub(crate) const CASES: &[Case] = &[
    case("control.exclusive", exclusive),
    case("control.whose_error_is_first", whose_error_is_first),
    case("control.no_room_for_events", no_room_for_events),
];

const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;

fn exclusive(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let ep = sys::epoll();
    let with = [
        0,
        libc::EPOLLIN,
        libc::EPOLLIN | libc::EPOLLRDHUP,
        libc::EPOLLIN | libc::EPOLLPRI,
        libc::EPOLLIN | libc::EPOLLRDNORM,
        libc::EPOLLIN | libc::EPOLLONESHOT,
        libc::EPOLLIN | libc::EPOLLET | libc::EPOLLOUT | libc::EPOLLERR | libc::EPOLLHUP | libc::EPOLLWAKEUP,
    ];
    for events in with {
        let events = events as u32 | EXCLUSIVE;
        let add = |ep| show(sys::ctl(ep, EPOLL_CTL_ADD, fd, events, 1));
        say!("{events:x}: add {} again {}", add(ep), add(ep));
        say!("modify {}", show(sys::ctl(ep, EPOLL_CTL_MOD, fd, EPOLLIN as u32, 1)));
        say!("delete {}", show(sys::ep_del(ep, fd)));
    }
    sys::ep_add(ep, fd, EPOLLIN, 1).expect("add");
    say!("modify {}", show(sys::ctl(ep, EPOLL_CTL_MOD, fd, EPOLLIN as u32 | EXCLUSIVE, 1)));
}

fn whose_error_is_first(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let ep = sys::epoll();
    for epfd in [-1, 0, 999, fd, ep] {
        for op in [EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL, 9, EPOLL_CTL_ADD, EPOLL_CTL_DEL] {
            // (0 is what the case was started with, be it what it may.)
            let r = sys::ctl(epfd, op, fd, (EPOLLIN | EPOLLOUT) as u32, 1);
            say!("op {op} -> {}", if epfd == 0 { r.is_err().to_string() } else { show(r) });
        }
    }
}

fn no_room_for_events(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let ep = sys::epoll();
    sys::ep_add(ep, fd, EPOLLIN, 1).expect("add");
    say!("nothing there -> {}", show(sys::ep_wait_into_null(ep, 20)));
    cx.peer("send 0 x");
    say!("something there -> {}", show(sys::ep_wait_into_null(ep, 3000)));
    say!("set {}", sys::ep_show(ep, 3000));
}
