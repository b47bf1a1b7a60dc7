//! Small stacks: what a call takes on a connection. Programs call from handlers with alternate stacks of 8
//! KiB and from threads with 16 KiB.

use crate::context::{Case, Cx, fill, say};
use isthmus_tests::sys::{self, Fd};
use libc::POLLIN;

pub(crate) const CASES: &[Case] = &[
    Case { name: "stack.reads_and_writes", shm: false, run: reads_and_writes },
    Case { name: "stack.polls", shm: true, run: polls },
    Case { name: "stack.first_uses", shm: true, run: first_uses },
    Case { name: "stack.transfers", shm: true, run: transfers },
    Case { name: "stack.ends", shm: true, run: ends },
];

/// On the way of data and of a small poll, and anywhere else.
const SMALL: usize = 2048;
const LARGE: usize = 4096;

/// The first use of an accepted socket answers the handshake, in the machine that also speaks to peers
/// elsewhere.
const HANDSHAKE: usize = 8192;
/// What the callers here take themselves, unoptimised as they are.
const OWN: usize = 800;

/// Runs `act`, a call on `fd`, on a painted stack.
fn within(what: &str, bound: usize, fd: Fd, act: impl FnMut(Fd)) {
    within_over(OWN, what, bound, fd, act);
}

/// The same for a caller that takes `own` bytes itself.
fn within_over(own: usize, what: &str, bound: usize, fd: Fd, mut act: impl FnMut(Fd)) {
    let taken = sys::depth_of(&mut || act(fd));
    let is_within = taken <= bound + own;
    say!("{what}: {}", if is_within { "within bounds".into() } else { format!("{taken} bytes") });
}

fn reads_and_writes(cx: &mut Cx) {
    let fd = cx.warm().fd;
    cx.ask("send 0 0123456789");
    crate::context::until_queued(fd, 10);
    within("read", SMALL, fd, |fd| _ = sys::read(fd, &mut [0; 4]));
    within_over(2900, "recvmsg", SMALL, fd, |fd| _ = sys::recvmsg(fd, &mut [&mut [0; 2]], 0));
    within("write", SMALL, fd, |fd| _ = sys::write(fd, b"abc"));
    within_over(1500, "writev", SMALL, fd, |fd| _ = sys::writev(fd, &[b"abc", b"de"]));
    cx.ask("recv 0 100");
    within("read that waits", SMALL, fd, |fd| {
        let _ = sys::set_timeout(fd, libc::SO_RCVTIMEO, 20);
        let _ = sys::recv(fd, &mut [0; 20], libc::MSG_WAITALL);
    });
    fill(fd);
    within("write that waits", SMALL, fd, |fd| {
        let _ = sys::set_timeout(fd, libc::SO_SNDTIMEO, 20);
        let _ = sys::write(fd, &[0; 100]);
    });
    cx.tell("discard 0");
    sys::shutdown(fd, libc::SHUT_WR).expect("shutdown");
    cx.answer();
}

fn polls(cx: &mut Cx) {
    let fd = cx.warm().fd;
    within_over(1600, "poll", SMALL, fd, |fd| _ = sys::poll(&[(fd, POLLIN)], 0));
    within_over(1700, "poll that waits", SMALL, fd, |fd| _ = sys::poll(&[(fd, POLLIN); 16], 20));
    within_over(2100, "larger poll", LARGE, fd, |fd| _ = sys::poll(&[(fd, POLLIN); 60], 20));
    within_over(3200, "large poll", LARGE, fd, |fd| _ = sys::poll(&[(fd, POLLIN); 200], 20));
    within_over(6200, "select", SMALL, fd, |fd| _ = sys::select(sys::Select::Plain, &[fd], &[fd], &[], 0));
    within_over(6200, "select that waits", SMALL, fd, |fd| {
        _ = sys::select(sys::Select::Plain, &[fd], &[], &[], 20)
    });
    let ep = sys::epoll();
    within("epoll_ctl", LARGE, fd, |fd| _ = sys::ep_add(ep, fd, libc::EPOLLIN, 7));
    within_over(1600, "epoll_wait", LARGE, fd, |_| _ = sys::ep_wait(ep, 20));
}

/// A connection of its own each: what is measured happens once.
fn first_uses(cx: &mut Cx) {
    let port = cx.listening_peer();
    for id in 0..3 {
        let fd = sys::tcp(0);
        within("connect", LARGE, fd, |fd| _ = sys::connect(fd, port));
        cx.ask(&format!("accept {id}"));
        within("first write", LARGE, fd, |fd| _ = sys::write(fd, b"hello"));
        cx.ask(&format!("recv {id} 9"));
        cx.ask(&format!("send {id} answer"));
        within("read of the answer", LARGE, fd, |fd| _ = sys::read(fd, &mut [0; 9]));
        cx.watch(fd);
        cx.wrote_early(5);
    }
    let l = sys::tcp_listener(0);
    sys::bind(l, 0).expect("bind");
    within("listen", LARGE, l, |fd| _ = sys::listen(fd, 5));
    for id in 3..6 {
        cx.ask(&format!("connect {id} {}", sys::port_of(l)));
        cx.ask(&format!("send {id} hello"));
        let s = std::cell::Cell::new(-1);
        within("accept", LARGE, l, |fd| s.set(sys::accept(fd).map_or(-1, |fd| fd as Fd)));
        within("first read", HANDSHAKE, s.get(), |fd| _ = sys::read(fd, &mut [0; 9]));
        cx.watch(s.get());
        cx.wrote_early(5);
        sys::write(s.get(), b"answer").expect("write");
        cx.ask(&format!("recv {id} 9"));
    }
}

fn transfers(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let (r, w) = sys::pipe(0);
    let file = sys::memfile(b"bytes of a file");
    cx.ask("send 0 0123456789");
    crate::context::until_queued(fd, 10);
    within("splice out", LARGE, fd, |fd| _ = sys::splice(fd, w, 5, 0));
    within("splice in", LARGE, fd, |fd| _ = sys::splice(r, fd, 2, 0));
    within("sendfile", LARGE, fd, |fd| _ = sys::sendfile(fd, file, Some(0), 10));
    within("FIONREAD", SMALL, fd, |fd| _ = sys::queued(fd));
}

fn ends(cx: &mut Cx) {
    let p = cx.warm();
    within("dup", LARGE, p.fd, |fd| _ = sys::dup(fd));
    within("shutdown", LARGE, p.fd, |fd| _ = sys::shutdown(fd, libc::SHUT_WR));
    within("close", LARGE, cx.pair().fd, |fd| _ = sys::dup2(0, fd));
}
