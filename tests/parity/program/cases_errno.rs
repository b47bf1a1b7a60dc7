//! Point 39: a call that succeeds leaves errno as it was, whatever happens behind it.

use crate::context::{Case, Cx, say, until_queued};
use isthmus_tests::sys::{self, Fd, Select, Wait};
use libc::{F_DUPFD, F_GETFL, POLLIN, SOL_SOCKET};

pub(crate) const CASES: &[Case] = &[
    Case { name: "errno.kept_by_senders", shm: true, run: senders },
    Case { name: "errno.kept_by_receivers", shm: true, run: receivers },
    Case { name: "errno.kept_by_waits", shm: true, run: waits },
    Case { name: "errno.kept_by_calls_on_numbers", shm: true, run: numbers },
    Case { name: "errno.kept_while_connections_begin_and_end", shm: false, run: beginnings },
];

/// Calls it with an errno that nothing sets.
fn kept<T, E>(name: &str, call: impl FnOnce() -> Result<T, E>) {
    sys::set_errno(77);
    let is_fine = call().is_ok();
    let errno = sys::errno();
    say!("{name}: fine {is_fine}, errno {}", if errno == sys::Errno(77) { "kept" } else { "lost" });
}

fn senders(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let (r, w) = sys::pipe(0);
    let file = sys::memfile(b"abcd");
    kept("write", || sys::write(fd, b"ab"));
    kept("send", || sys::send(fd, b"ab", 0));
    kept("sendto", || sys::sendto(fd, b"ab", 0));
    kept("sendmsg", || sys::sendmsg(fd, &[b"a", b"b"], 0));
    kept("sendmmsg", || sys::sendmmsg(fd, &[b"a", b"b"], 0).0);
    kept("writev", || sys::writev(fd, &[b"a", b"b"]));
    kept("pwritev2", || sys::pwritev2(fd, &[b"a", b"b"], -1, 0));
    kept("sendfile", || sys::sendfile(fd, file, Some(0), 2).0);
    sys::write(w, b"ab").expect("pipe");
    kept("splice", || sys::splice(r, fd, 2, 0));
    kept("nothing", || sys::write(fd, b""));
    cx.peer("recvn 0 18");
}

fn receivers(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let (_r, w) = sys::pipe(0);
    cx.peer("send 0 abcdefghijklmnopqrst");
    until_queued(fd, 20);
    let mut buf = [0u8; 2];
    kept("peek", || sys::recv(fd, &mut buf, libc::MSG_PEEK));
    kept("read", || sys::read(fd, &mut buf));
    kept("recv", || sys::recv(fd, &mut buf, 0));
    kept("recvfrom", || sys::recvfrom(fd, &mut buf, 0).0);
    kept("recvmsg", || sys::recvmsg(fd, &mut [&mut buf], 0).0);
    kept("recvmmsg", || sys::recvmmsg(fd, &mut [&mut buf], 0, None).0);
    kept("readv", || sys::readv(fd, &mut [&mut buf]));
    kept("preadv2", || sys::preadv2(fd, &mut [&mut buf], -1, 0));
    kept("truncated", || sys::recv_null(fd, 2, libc::MSG_TRUNC));
    kept("splice", || sys::splice(fd, w, 2, 0));
    cx.ask("later 60 send 0 xy");
    kept("waitall", || sys::recv(fd, &mut [0; 4], libc::MSG_WAITALL));
    cx.ask("later 60 shut 0 1");
    kept("end", || sys::read(fd, &mut buf));
}

fn waits(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let ep = sys::epoll();
    kept("add", || sys::ep_add(ep, fd, libc::EPOLLIN, 1));
    for what in ["idle", "ready"] {
        kept(&format!("{what}: poll"), || sys::poll(&[(fd, POLLIN)], 20).0);
        kept(&format!("{what}: ppoll"), || sys::ppoll(&[(fd, POLLIN)], Some(20)).0);
        for kind in [Select::Plain, Select::Precise] {
            kept(&format!("{what}: {kind:?}"), || sys::select_over(kind, fd, 20).0);
        }
        for kind in [Wait::Plain, Wait::Mask, Wait::Nano] {
            kept(&format!("{what}: {kind:?}"), || sys::ep_wait_by(kind, ep, 4, 20));
        }
        if what == "idle" {
            cx.peer("send 0 x");
            until_queued(fd, 1);
        }
    }
    kept("modify", || sys::ep_mod(ep, fd, libc::EPOLLIN | libc::EPOLLET, 1));
    kept("edge", || sys::ep_wait(ep, 3000));
    kept("no edge", || sys::ep_wait(ep, 20));
    kept("take out", || sys::ep_del(ep, fd));
    kept("close", || sys::close(ep));
}

fn numbers(cx: &mut Cx) {
    let fd = cx.warm().fd;
    kept("F_GETFL", || sys::fcntl(fd, F_GETFL, 0));
    kept("O_NONBLOCK", || sys::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK));
    kept("FIONBIO", || sys::ioctl_int(fd, libc::FIONBIO, 0).0);
    kept("FIONREAD", || sys::ioctl_int(fd, libc::FIONREAD, 0).0);
    kept("SIOCOUTQ", || sys::ioctl_int(fd, libc::TIOCOUTQ, 0).0);
    kept("SIOCATMARK", || sys::ioctl_int(fd, 0x8905, 0).0);
    kept("getsockopt", || sys::getopt(fd, SOL_SOCKET, libc::SO_ERROR));
    kept("setsockopt", || sys::setopt(fd, SOL_SOCKET, libc::SO_RCVLOWAT, 1));
    kept("dup2 and close", || sys::dup2(fd, 200).and_then(|copy| sys::close(copy as Fd)));
    kept("dup3 and close_range", || {
        sys::dup3(fd, 200, libc::O_CLOEXEC).and_then(|copy| sys::close_range(copy as u32, copy as u32, 0))
    });
    kept("F_DUPFD and a close by number", || {
        sys::fcntl(fd, F_DUPFD, 200).and_then(|copy| sys::close_raw(copy as Fd))
    });
    let (a, _b) = sys::socketpair();
    kept("passed", || sys::send_fd(a, fd));
    kept("fork", || Ok::<_, ()>(sys::wait(sys::fork(|| u8::from(sys::errno() != sys::Errno(77))))));
    kept("shutdown", || sys::shutdown(fd, libc::SHUT_WR));
    cx.peer("drain 0");
}

fn beginnings(cx: &mut Cx) {
    for round in 0..3 {
        kept("socket", || Ok::<_, ()>(sys::close(sys::tcp(0))));
        let listener = sys::tcp_listener(0);
        sys::bind(listener, 0).expect("bind");
        kept("listen", || sys::listen(listener, 4));
        let client = sys::tcp(0);
        kept("connect", || sys::connect(client, sys::port_of(listener)));
        let mut server = -1;
        kept("accept", || sys::accept(listener).map(|fd| server = fd as Fd));
        match round {
            0 => kept("first poll", || sys::poll(&[(server, POLLIN)], 0).0),
            1 => kept("first write", || sys::write(server, b"ab")),
            _ => kept("first close", || sys::close(server)),
        }
        kept("the client's write", || sys::write(client, b"ab"));
        kept("the client's close", || sys::close(client));
        kept("the listener's close", || sys::close(listener));
    }
    let _ = cx;
}
