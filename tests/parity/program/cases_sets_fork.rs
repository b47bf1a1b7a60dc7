//! Sets that several processes have since a fork, and what one of them asks of such a set afterwards: the
//! others are told of it, with the data that was asked for, or of nothing.

use crate::context::{Case, Cx, say, settle, until, until_queued};
use isthmus_tests::sys::{self, Fd, ep_add, ep_del, ep_mod, ep_show, show};
use libc::{EPOLLET, EPOLLIN, EPOLLONESHOT, EPOLLOUT};

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    any("setsfork.child_adds", |cx| child_adds(cx, EPOLLIN, false)),
    any("setsfork.child_adds_with_bytes_unread", |cx| child_adds(cx, EPOLLIN, true)),
    any("setsfork.child_adds_edge", |cx| child_adds(cx, EPOLLIN | EPOLLET, false)),
    any("setsfork.child_adds_once", |cx| child_adds(cx, EPOLLIN | EPOLLONESHOT, true)),
    any("setsfork.child_adds_its_own", child_adds_its_own),
    any("setsfork.child_adds_what_is_not_connected", child_adds_what_is_not_connected),
    any("setsfork.in_flight_and_not_connected", in_flight_and_not_connected),
    any("setsfork.child_modifies", child_modifies),
    any("setsfork.child_takes_out", child_takes_out),
    any("setsfork.child_changes_another_set", |cx| changes_another(cx, EPOLLIN)),
    any("setsfork.child_changes_another_set_edge", |cx| changes_another(cx, EPOLLIN | EPOLLET)),
    any("setsfork.child_changes_another_set_once", |cx| changes_another(cx, EPOLLIN | EPOLLONESHOT)),
    any("setsfork.child_changes_another_set_of_room", |cx| changes_another(cx, EPOLLIN | EPOLLOUT)),
    any("setsfork.parent_modifies_while_the_child_waits", parent_modifies),
    any("setsfork.parent_adds_while_the_child_waits", parent_adds),
    any("setsfork.daemon", daemon),
    any("setsfork.own_shutdown_is_an_edge", own_shutdown_is_an_edge),
    any("setsfork.what_was_ready_before", what_was_ready_before),
];

/// Has a child do something, to the end.
fn child(act: impl FnOnce() -> String) {
    let pid = sys::fork(|| {
        let told = act();
        say!("child: {told}");
        0
    });
    say!("child ended {}", sys::wait(pid));
}

/// Beside a connection that another process has as well, what that one says by other means, before bytes
/// come, is told of before these.
fn what_was_ready_before(cx: &mut Cx) {
    let (p, (word, into), (end, ended)) = (cx.warm(), sys::pipe(0), sys::pipe(0));
    let pid = sys::fork(|| {
        let _ = (sys::close(ended), sys::read(end, &mut [0]));
        0
    });
    let set = sys::epoll();
    for (mark, fd) in [(1, p.fd), (7, word)] {
        ep_add(set, fd, EPOLLIN, mark).expect("add");
    }
    for _ in 0..5 {
        say!("nothing {}", ep_show(set, 0));
        sys::write(into, b".").expect("a word");
        cx.ask(&format!("send {} x", p.id));
        until_queued(p.fd, 1);
        let first = sys::ep_wait_in_order(sys::Wait::Plain, set, 1, 1000).expect("a wait");
        say!("first {first:?}");
        say!("{} {}", show(sys::read(word, &mut [0])), read(p.fd));
    }
    let _ = sys::close(ended);
    say!("child ended {}", sys::wait(pid));
}

fn read(fd: Fd) -> String {
    let mut buf = [0; 9];
    show(sys::recv(fd, &mut buf, libc::MSG_DONTWAIT))
}

fn child_adds(cx: &mut Cx, events: i32, has_bytes: bool) {
    let (p, ep) = (cx.warm(), sys::epoll());
    if has_bytes {
        cx.peer("send 0 unread");
        until_queued(p.fd, 6);
    }
    child(|| show(ep_add(ep, p.fd, events, 7)));
    if has_bytes {
        say!("unread {}", ep_show(ep, 1000));
        say!("read {}", read(p.fd));
    }
    say!("quiet {}", ep_show(ep, 20));
    for text in ["one", "two"] {
        cx.peer(&format!("send 0 {text}"));
        say!("told {} then {}", ep_show(ep, 300), ep_show(ep, 20));
        say!("read {}", read(p.fd));
        say!("quiet {}", ep_show(ep, 20));
    }
    say!("add {}", show(ep_add(ep, p.fd, EPOLLIN, 8)));
    say!("mod {}", show(ep_mod(ep, p.fd, EPOLLIN | EPOLLOUT, 9)));
    say!("told {}", ep_show(ep, 1000));
    cx.peer("shut 0 1");
    say!("told {}", ep_show(ep, 1000));
}

/// A connection that the parent has never had.
fn child_adds_its_own(cx: &mut Cx) {
    let (ep, (l, port)) = (sys::epoll(), sys::listener());
    let (r, w) = sys::pipe(0);
    let pid = sys::fork(|| {
        let fd = sys::accept(l).expect("accept") as Fd;
        let added = ep_add(ep, fd, EPOLLIN, 7);
        let _ = sys::write(w, b"x");
        sys::poll_nothing(400).expect("a pause");
        say!("child: {} {} {}", show(added), ep_show(ep, 1000), read(fd));
        0
    });
    cx.ask(&format!("connect 0 {port}"));
    let _ = sys::read(r, &mut [0; 1]);
    cx.peer("send 0 one");
    say!("told {}", ep_show(ep, 1000));
    say!("child ended {}", sys::wait(pid));
}

/// What was asked before the fork, asked otherwise.
fn child_adds_what_is_not_connected(_: &mut Cx) {
    let (ep, fd) = (sys::epoll(), sys::tcp(0));
    child(|| show(ep_add(ep, fd, EPOLLIN | EPOLLOUT, 7)));
    say!("told {}", ep_show(ep, 1000));
    child(|| show(ep_mod(ep, fd, EPOLLIN, 8)));
    say!("told {}", ep_show(ep, 1000));
    say!("mod {}", show(ep_mod(ep, fd, EPOLLOUT, 9)));
    say!("told {}", ep_show(ep, 1000));
}

/// Closed by everybody, it lives on in a message.
fn in_flight_and_not_connected(_: &mut Cx) {
    let (ep, fd, (a, b)) = (sys::epoll(), sys::tcp(0), sys::socketpair());
    say!("add -> {}", show(ep_add(ep, fd, EPOLLIN, 7)));
    say!("told {}", ep_show(ep, 1000));
    say!("pass -> {}", show(sys::send_fd(a, fd)));
    say!("close -> {}", show(sys::close(fd)));
    say!("told {}", ep_show(ep, 1000));
    say!("received {}", sys::recv_fd(b).is_ok());
}

fn child_modifies(cx: &mut Cx) {
    let (p, ep) = (cx.warm(), sys::epoll());
    say!("add {}", show(ep_add(ep, p.fd, EPOLLIN, 1)));
    child(|| show(ep_mod(ep, p.fd, EPOLLIN | EPOLLOUT, 2)));
    say!("told {}", ep_show(ep, 1000));
    cx.peer("send 0 one");
    settle();
    say!("told {}", ep_show(ep, 1000));
    say!("read {}", read(p.fd));
    say!("told {}", ep_show(ep, 1000));
    say!("mod {}", show(ep_mod(ep, p.fd, EPOLLIN, 3)));
    say!("quiet {}", ep_show(ep, 20));
    cx.peer("send 0 two");
    say!("told {}", ep_show(ep, 1000));
    say!("del {}", show(ep_del(ep, p.fd)));
    say!("quiet {}", ep_show(ep, 20));
}

fn child_takes_out(cx: &mut Cx) {
    let (p, ep) = (cx.warm(), sys::epoll());
    say!("add {}", show(ep_add(ep, p.fd, EPOLLIN, 1)));
    child(|| show(ep_del(ep, p.fd)));
    cx.peer("send 0 one");
    settle();
    say!("quiet {}", ep_show(ep, 20));
    say!("mod {}", show(ep_mod(ep, p.fd, EPOLLIN, 3)));
    say!("del {}", show(ep_del(ep, p.fd)));
    say!("add {}", show(ep_add(ep, p.fd, EPOLLIN, 4)));
    say!("told {}", ep_show(ep, 1000));
    say!("read {}", read(p.fd));
    say!("quiet {}", ep_show(ep, 20));
}

/// A child that waits on the set, and learns what its parent has asked since.
fn waiting_child(ep: Fd, go: Fd, expected: u64) -> i32 {
    sys::fork(move || {
        // (From here on it is known to wait.)
        let _ = ep_show(ep, 20);
        let mut step = [0; 1];
        let _ = sys::read(go, &mut step);
        let told = sys::ep_wait(ep, 3000).unwrap_or_default();
        u8::from(told.first().map(|event| event.0) != Some(expected))
    })
}

/// The parent has the connection in two sets. The child asks something else of one of them: of the other the
/// parent goes on to be told, whatever was unread.
fn changes_another(cx: &mut Cx, events: i32) {
    for has_bytes in [false, true] {
        let (p, kept, changed) = (cx.warm(), sys::epoll(), sys::epoll());
        ep_add(kept, p.fd, events, 7).expect("add");
        ep_add(changed, p.fd, EPOLLIN, 8).expect("add");
        if has_bytes {
            cx.peer(&format!("send {} unread", p.id));
            until_queued(p.fd, 6);
        }
        child(|| show(ep_mod(changed, p.fd, EPOLLOUT, 9)));
        say!("kept {} changed {}", ep_show(kept, 20), ep_show(changed, 1000));
        say!("read {}", read(p.fd));
        for text in ["one", "two"] {
            if events & EPOLLONESHOT != 0 {
                say!("asked again -> {}", show(ep_mod(kept, p.fd, events, 7)));
            }
            let _ = ep_show(kept, 0);
            cx.peer(&format!("send {} {text}", p.id));
            until_queued(p.fd, 3);
            say!("told {} changed {}", ep_show(kept, 1000), ep_show(changed, 20));
            say!("read {} then {}", read(p.fd), ep_show(kept, 20));
        }
        say!("mod -> {} {}", show(ep_mod(kept, p.fd, EPOLLOUT, 10)), ep_show(kept, 20));
        say!("del -> {}", show(ep_del(kept, p.fd)));
        say!("changed {}", ep_show(changed, 20));
    }
}

fn parent_modifies(cx: &mut Cx) {
    let (p, ep) = (cx.warm(), sys::epoll());
    say!("add {}", show(ep_add(ep, p.fd, EPOLLIN, 1)));
    let (r, w) = sys::pipe(0);
    let pid = waiting_child(ep, r, 2);
    std::thread::sleep(std::time::Duration::from_millis(200));
    say!("mod {}", show(ep_mod(ep, p.fd, EPOLLIN, 2)));
    let _ = sys::write(w, b"x");
    cx.peer("send 0 one");
    say!("child told otherwise {}", sys::wait(pid));
    say!("told {}", ep_show(ep, 1000));
}

fn parent_adds(cx: &mut Cx) {
    let (first, second, ep) = (cx.warm(), cx.warm(), sys::epoll());
    say!("add {}", show(ep_add(ep, first.fd, EPOLLIN, 1)));
    let (r, w) = sys::pipe(0);
    let pid = waiting_child(ep, r, 2);
    std::thread::sleep(std::time::Duration::from_millis(200));
    say!("add {}", show(ep_add(ep, second.fd, EPOLLIN, 2)));
    let _ = sys::write(w, b"x");
    cx.peer("send 1 one");
    say!("child told otherwise {}", sys::wait(pid));
    say!("told {}", ep_show(ep, 1000));
}

/// Whose parent has ended has the set for itself.
fn daemon(cx: &mut Cx) {
    let (p, ep) = (cx.warm(), sys::epoll());
    let (r, w) = sys::pipe(0);
    let pid = sys::fork(|| {
        sys::fork(|| {
            sys::poll_nothing(200).expect("a pause");
            let added = ep_add(ep, p.fd, EPOLLIN, 7);
            let told = format!("{} {} {}", show(added), ep_show(ep, 3000), read(p.fd));
            let _ = sys::write(w, told.as_bytes());
            0
        });
        0
    });
    say!("child ended {}", sys::wait(pid));
    std::thread::sleep(std::time::Duration::from_millis(400));
    cx.peer("send 0 one");
    let mut told = [0; 64];
    let count = sys::read(r, &mut told).unwrap_or(0);
    say!("daemon: {}", String::from_utf8_lossy(&told[..count]));
}

/// Of net/tcp_states.h.
const TCP_FIN_WAIT1: i32 = 4;

/// The first wait after it tells of it, with room for one, although a child has all of it as well.
fn own_shutdown_is_an_edge(cx: &mut Cx) {
    for how in [libc::SHUT_WR, libc::SHUT_RDWR] {
        let (p, ep) = (cx.warm(), sys::epoll());
        ep_add(ep, p.fd, EPOLLIN | EPOLLOUT | EPOLLET, 7).expect("add");
        let next = || sys::show_events(sys::ep_wait_by(sys::Wait::Plain, ep, 1, 0));
        say!("added {} then {}", next(), next());
        let (r, w) = sys::pipe(0);
        let pid = sys::fork(|| {
            let _ = sys::read(r, &mut [0; 1]);
            0
        });
        settle();
        say!("shut -> {}", show(sys::shutdown(p.fd, how)));
        // (The peer's acknowledgement is another edge.)
        until("acknowledgement", || sys::tcp_state(p.fd) != TCP_FIN_WAIT1);
        settle();
        say!("told {} then {} {}", next(), next(), next());
        sys::write(w, b"x").expect("an end");
        say!("child ended {}", sys::wait(pid));
    }
}
