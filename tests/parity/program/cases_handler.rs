//! Points 8, 27 and 29: calls that a handler makes on the descriptor that its thread is in a call on,
//! whatever they are, and to which thread SIGPIPE comes.

use crate::context::{Case, Cx, say, settle};
use isthmus_tests::sys::{self, Fd, InHandler, show};
use libc::{MSG_NOSIGNAL, SHUT_WR, SIGPIPE, SIGUSR1};
use std::time::Duration;

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("handler.asks_and_sends_in_a_read", asks_and_sends_in_a_read),
    case("handler.asks_and_sends_in_a_wait", asks_and_sends_in_a_wait),
    any("handler.closes_what_is_read", closes_what_is_read),
    case("handler.sigpipe_comes_to_the_writing_thread", sigpipe_of_a_thread),
];

/// Makes `call` while a signal interrupts this thread, once, so late that it sleeps; what both returned.
pub(crate) fn interrupted<T>(
    fd: Fd,
    restart: bool,
    in_handler: InHandler,
    call: impl FnOnce() -> T,
) -> (T, Option<sys::Ret>) {
    sys::call_in_handler(SIGUSR1, restart, in_handler, fd);
    let target = sys::this_thread();
    let made = std::thread::scope(|scope| {
        scope.spawn(move || {
            sys::block(SIGUSR1, true);
            std::thread::sleep(Duration::from_millis(80));
            sys::signal_thread(target, SIGUSR1);
        });
        call()
    });
    (made, sys::handler_result())
}

const CALLS: [InHandler; 3] = [InHandler::Poll, InHandler::Recv, InHandler::Send];

fn asks_and_sends_in_a_read(cx: &mut Cx) {
    let fd = cx.warm().fd;
    for (restart, call) in [true, false].into_iter().flat_map(|restart| CALLS.map(|call| (restart, call))) {
        cx.ask("later 400 send 0 abc");
        let (read, handled) = interrupted(fd, restart, call, || sys::read(fd, &mut [0; 9]));
        say!("restart {restart}, {call:?} {handled:?}: read -> {}", show(read));
        if read.is_err() {
            say!("again -> {}", show(sys::read(fd, &mut [0; 9])));
        }
        if call == InHandler::Send {
            cx.peer("recvn 0 1");
        }
    }
}

fn asks_and_sends_in_a_wait(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let ep = sys::epoll();
    sys::ep_add(ep, fd, libc::EPOLLIN, 1).expect("add");
    for call in CALLS {
        let (polled, handled) = interrupted(fd, true, call, || sys::poll1(fd, libc::POLLIN, 3000));
        say!("{call:?} {handled:?}: poll -> {polled}");
        let (waited, handled) = interrupted(fd, true, call, || sys::ep_show(ep, 3000));
        say!("{call:?} {handled:?}: epoll_wait -> {waited}");
        if call == InHandler::Send {
            cx.peer("recvn 0 2");
        }
    }
    cx.peer("send 0 x");
    say!("then {}", sys::ep_show(ep, 3000));
}

/// A call that is restarted looks its number up again.
fn closes_what_is_read(cx: &mut Cx) {
    for restart in [true, false] {
        let p = cx.warm();
        let (read, handled) = interrupted(p.fd, restart, InHandler::Close, || sys::read(p.fd, &mut [0; 9]));
        say!("restart {restart}: read -> {}, in the handler {handled:?}", show(read));
        cx.peer(&format!("drain {}", p.id));
        cx.peer(&format!("close {}", p.id));
        say!("gone -> {}", show(sys::close(p.fd)));
    }
}

/// Libraries block it in their thread, write, and take what has become pending (libpq, OpenSSL's users).
fn sigpipe_of_a_thread(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::catch(SIGPIPE, true);
    say!("shutdown -> {}", show(sys::shutdown(fd, SHUT_WR)));
    let writer = std::thread::spawn(move || {
        sys::block(SIGPIPE, true);
        say!("write -> {}", show(sys::write(fd, b"x")));
        say!("pending {} {}", sys::take_pending(SIGPIPE), sys::take_pending(SIGPIPE));
        say!("send -> {}", show(sys::send(fd, b"x", MSG_NOSIGNAL)));
        say!("pending {}", sys::take_pending(SIGPIPE));
    });
    writer.join().expect("writer");
    settle();
    say!("the handler ran {} times", sys::hits());
    cx.peer("drain 0");
}
