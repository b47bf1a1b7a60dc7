//! Points 26 and 29: a thread that was asked to end, and makes a call that need not wait. Invariant: what is
//! ready is there before the call, and what it moved is looked at behind it.

use crate::context::{Case, Cx, say, settle, until_queued};
use isthmus_tests::sys::{self, Point, Sleep, show};

pub(crate) const CASES: &[Case] = &[
    Case { name: "cancel.before_a_call", shm: true, run: |cx| before_a_call(cx, false) },
    Case { name: "cancel.off_before_a_call", shm: true, run: |cx| before_a_call(cx, true) },
    Case { name: "cancel.anywhere", shm: true, run: anywhere },
    Case { name: "cancel.while_it_sleeps", shm: false, run: while_it_sleeps },
];

/// A thread is asked to end while it sleeps in a call: one at which threads end, and some at which they go
/// on until it returns.
fn while_it_sleeps(cx: &mut Cx) {
    let fd = cx.warm().fd;
    for call in [Sleep::RecvByNumber, Sleep::Sendfile, Sleep::Recv] {
        let sleeper = sys::sleep_in(call, fd);
        settle();
        sleeper.cancel();
        settle();
        match call {
            Sleep::Sendfile => _ = cx.peer(&format!("recvn 0 {}", sys::FILE)),
            _ => _ = cx.ask("send 0 abc"),
        }
        say!("{call:?} {}", sleeper.join());
    }
    say!("left {}", sys::queued(fd));
}

/// Each call with bytes to read and room to write; the rest of the connection stays as it was.
fn before_a_call(cx: &mut Cx, is_off: bool) {
    let fd = cx.warm().fd;
    let set = sys::epoll();
    sys::ep_add(set, fd, libc::EPOLLIN, 1).expect("add");
    let port = cx.listening_peer();
    for point in Point::ALL {
        cx.ask("send 0 abcdef");
        until_queued(fd, 6);
        let on = match point {
            Point::EpollWait | Point::EpollPwait => set,
            Point::Connect => sys::tcp(libc::SOCK_CLOEXEC),
            Point::Close | Point::Fclose => sys::dup(fd).expect("dup") as sys::Fd,
            _ => fd,
        };
        let end = sys::cancelled_before(point, on, port, is_off);
        say!("{point:?} {end}, left {}", sys::queued(fd));
        if on != fd && on != set {
            say!("then closed {}", show(sys::close(on)));
        }
        while sys::queued(fd) > 0 {
            let _ = sys::read(fd, &mut [0; 9]);
        }
        settle();
        say!("moved {}", cx.ask("queued 0"));
    }
    say!("write -> {}", show(sys::write(fd, b"on")));
    cx.peer(if is_off { "recvn 0 20" } else { "recvn 0 2" });
}

/// A thread that may be cancelled at any instruction is so in the middle of many looks: the connection goes
/// on.
fn anywhere(cx: &mut Cx) {
    let fd = cx.warm().fd;
    for round in 0..40 {
        let end = sys::cancelled_anywhere(fd);
        if end != "cancelled" {
            say!("round {round}: {end}");
        }
        cx.ask("send 0 abc");
        let mut bytes = [0; 3];
        let read = sys::recv(fd, &mut bytes, libc::MSG_WAITALL);
        if read != Ok(3) {
            return say!("round {round}: {}", show(read));
        }
    }
    say!("write -> {}", show(sys::write(fd, b"on")));
    cx.peer("recvn 0 2");
}
