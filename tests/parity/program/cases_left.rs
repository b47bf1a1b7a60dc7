//! Calls that never return: their thread is cancelled in them, or a handler jumps out of them. The connection
//! is as good as before, and leaves nothing behind when it is closed.

use crate::context::{Case, Cx, say};
use isthmus_tests::sys::{self, Blocking, Fd, show};

pub(crate) const CASES: &[Case] = &[
    Case { name: "left.by_jump", shm: true, run: by_jump },
    Case { name: "left.by_cancellation", shm: true, run: by_cancellation },
    Case { name: "left.by_jump_again_and_again", shm: true, run: again_and_again },
    Case { name: "left.in_the_middle_of_a_copy", shm: true, run: in_the_middle_of_a_copy },
    Case { name: "left.many_sockets_polled", shm: true, run: many_sockets_polled },
    Case { name: "left.closed_in_a_call_that_is_left", shm: true, run: closed_in_a_call },
];

const CALLS: [Blocking; 6] =
    [Blocking::Read, Blocking::Recv, Blocking::Write, Blocking::Poll, Blocking::Select, Blocking::EpollWait];

/// Descriptors of this process, the library's included.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("descriptors").count()
}

/// Leaves `rounds` calls of each kind, each on a connection that is closed then, and tells of what is left.
fn leave_all(cx: &mut Cx, rounds: usize, leave: impl Fn(Blocking, Fd) -> bool) {
    let kept = cx.warm();
    for what in CALLS {
        let mut before = 0;
        for round in 0..rounds {
            let p = cx.warm();
            let set = sys::epoll();
            sys::ep_add(set, p.fd, libc::EPOLLIN, 7).expect("add");
            let left = leave(what, if what == Blocking::EpollWait { set } else { p.fd });
            if !left || round == 0 {
                say!("{what:?}: left {left}");
            }
            sys::close(set).expect("close");
            if what != Blocking::Write {
                cx.ask(&format!("send {} ping", p.id));
                let got = sys::recv(p.fd, &mut [0; 4], libc::MSG_WAITALL);
                if got != Ok(4) || round == 0 {
                    say!("recv -> {}", show(got));
                }
            }
            sys::close(p.fd).expect("close");
            let end = cx.ask(&format!("discard {}", p.id));
            if end != "EOF" || round == 0 {
                say!("the other end: {end}");
            }
            cx.ask(&format!("close {}", p.id));
            if round == 2 {
                before = descriptors();
            }
        }
        let now = descriptors();
        let is_flat = now < before + rounds;
        say!("{what:?}: nothing is left behind: {is_flat}");
        if !is_flat {
            println!("# {before} descriptors, then {now}");
        }
    }
    cx.watch(kept.fd);
}

fn by_jump(cx: &mut Cx) {
    leave_all(cx, 12, |what, fd| sys::leave_by_jump(what, fd, 8000));
}

fn by_cancellation(cx: &mut Cx) {
    leave_all(cx, 12, |what, fd| sys::cancel_in(what, fd, 8) == "cancelled");
}

/// One connection, many calls, no others between them; and then it is closed.
fn again_and_again(cx: &mut Cx) {
    let mut before = 0;
    let kept = cx.warm();
    for round in 0..12 {
        let p = cx.warm();
        let left = (0..8).filter(|_| sys::leave_by_jump(Blocking::Recv, p.fd, 4000)).count();
        sys::close(p.fd).expect("close");
        let end = cx.ask(&format!("drain {}", p.id));
        if left != 8 || end != "'' then EOF" {
            say!("left {left}, the other end {end}");
        }
        cx.ask(&format!("close {}", p.id));
        if round == 2 {
            before = descriptors();
        }
    }
    say!("nothing is left behind: {}", descriptors() < before + 12);
    cx.watch(kept.fd);
}

/// The next write of the thread is not refused because it was left in one.
fn in_the_middle_of_a_copy(cx: &mut Cx) {
    let p = cx.warm();
    cx.tell(&format!("discard {}", p.id));
    let (mut left, mut refused) = (0, 0);
    for round in 0..40 {
        left += usize::from(sys::leave_copy_by_jump(p.fd, 1500 + 37 * round));
        refused += usize::from(sys::send(p.fd, b"more", libc::MSG_NOSIGNAL) != Ok(4));
    }
    say!("left {left}, refused {refused}");
    say!("shutdown -> {}", show(sys::shutdown(p.fd, libc::SHUT_WR)));
    say!("the other end: {}", cx.answer());
}

/// A poll of more than one line of notes.
fn many_sockets_polled(cx: &mut Cx) {
    let kept = cx.warm();
    let mut before = 0;
    for round in 0..3 {
        let pairs: Vec<_> = (0..40).map(|_| cx.warm()).collect();
        let fds: Vec<Fd> = pairs.iter().map(|p| p.fd).collect();
        say!("left {}", sys::leave_poll_by_jump(&fds, 8000));
        for p in pairs {
            sys::close(p.fd).expect("close");
            let end = cx.ask(&format!("drain {}", p.id));
            if end != "'' then EOF" {
                say!("the other end: {end}");
            }
            cx.ask(&format!("close {}", p.id));
        }
        if round == 0 {
            before = descriptors();
        }
    }
    say!("nothing is left behind: {}", descriptors() < before + 20);
    cx.watch(kept.fd);
}

/// The close comes while a thread is in the call; then the thread is cancelled, and the next connections
/// begin.
fn closed_in_a_call(cx: &mut Cx) {
    let kept = cx.warm();
    let mut before = 0;
    for round in 0..12 {
        let p = cx.warm();
        let closer = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(15));
            sys::close(p.fd)
        });
        let end = sys::cancel_in(Blocking::Recv, p.fd, 25);
        let closed = closer.join().expect("closer");
        // (It may have been told EBADF before.)
        if end == "stuck" || closed != Ok(0) {
            say!("{end}, close -> {}", show(closed));
        }
        // (Here a shared connection ends when the next one begins.)
        cx.warm();
        let end = cx.ask(&format!("drain {}", p.id));
        if end != "'' then EOF" {
            say!("the other end: {end}");
        }
        cx.ask(&format!("close {}", p.id));
        if round == 2 {
            before = descriptors();
        }
    }
    let (last, fd) = (cx.warm(), kept.fd);
    // (Of those that began in between each has one of its own here, and two of the library's.)
    say!("nothing is left behind: {}", descriptors() < before + 9 * 3 + 9);
    cx.peer(&format!("send {} ping", last.id));
    say!("recv -> {}", show(sys::recv(last.fd, &mut [0; 4], libc::MSG_WAITALL)));
    cx.watch(fd);
}
