//! Points 32 to 35: a connection that was passed, when the process which made it ends, or becomes another
//! program, before anybody has looked; and what a program that started meanwhile leaves of a close.

use crate::cases_fork::exec_self;
use crate::context::{Case, Cx, got, read_all, say, settle, until_ready};
use isthmus_tests::sys::{self, Fd, show};
use std::os::unix::process::CommandExt;
use std::process::Command;

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    any("passed.by_who_ends", |cx| by_who_ends(cx, false)),
    any("passed.by_who_ends_and_looked_at", |cx| by_who_ends(cx, true)),
    any("passed.by_who_ends_then_execed", by_who_ends_then_execed),
    any("passed.after_exec_unused", after_exec_unused),
    any("passed.then_short_of_numbers", then_short_of_numbers),
    any("passed.execed_then_closed_unread", execed_then_closed_unread),
    any("passed.copy_closed_then_closed_unread", copy_closed_then_closed_unread),
    any("passed.closed_by_who_passed_it", closed_by_who_passed_it),
    any("passed.in_vain_then_closed_unread", in_vain_then_closed_unread),
    any("passed.to_oneself", to_oneself),
    any("passed.copied_before_a_look_and_closed_unread", copied_before_a_look),
    any("passed.on_its_way_when_both_have_ended", on_its_way),
    any("passed.dropped_with_bytes_that_came_later", dropped_with_bytes),
    any("passed.kept_by_who_is_killed_unread", kept_by_who_is_killed),
    any("passed.closed_before_and_left_unread_at_exit", left_unread_at_exit),
];

/// A connection that a child of this process makes, and passes to it; the child ends. Between the two the
/// socket is polled, if it `is_looked_at`, and the other end is told `meanwhile`.
fn passed_by_a_child(cx: &mut Cx, is_looked_at: bool, meanwhile: &str) -> Fd {
    let (own, childs) = sys::socketpair();
    let pid = sys::fork(|| {
        let p = cx.warm();
        let is_passed = sys::send_fd(childs, p.fd).is_ok();
        let _ = sys::read(childs, &mut [0; 1]);
        (!is_passed).into()
    });
    let fd = sys::recv_fd(own).expect("a descriptor") as Fd;
    if is_looked_at {
        say!("polled {}", sys::poll1(fd, libc::POLLIN, 0));
    }
    cx.tell(meanwhile);
    settle();
    let _ = sys::write(own, b"x");
    say!("child {}", sys::wait(pid));
    settle();
    fd
}

/// The other end sleeps in a read all the time.
fn by_who_ends(cx: &mut Cx, is_looked_at: bool) {
    let fd = passed_by_a_child(cx, is_looked_at, "recvn 0 4");
    settle();
    say!("write -> {}", show(sys::write(fd, b"ping")));
    say!("the other end: {}", cx.answer());
    cx.peer("send 0 pong");
    let mut buf = [0; 9];
    let read = sys::read(fd, &mut buf);
    say!("read -> {}", got(read, &buf));
    say!("close -> {}", show(sys::close(fd)));
    cx.peer("recv 0 9");
}

fn by_who_ends_then_execed(cx: &mut Cx) {
    let fd = passed_by_a_child(cx, true, "send 0 ping");
    say!("the other end: {}", cx.answer());
    say!("program {}", exec_self(fd));
    cx.peer("recvn 0 2004");
    say!("write -> {}", show(sys::write(fd, b"more")));
    cx.peer("recvn 0 4");
}

/// What the next program does with the connection that it has not used: it passes it to nobody in particular,
/// and writes.
pub(crate) fn pass_unused(fd: Fd) {
    let (a, _b) = sys::socketpair();
    let is_passed = sys::send_fd(a, fd).is_ok();
    std::process::exit((!(is_passed && sys::write(fd, b"four") == Ok(4))).into());
}

fn after_exec_unused(cx: &mut Cx) {
    let p = cx.warm();
    sys::fcntl(p.fd, libc::F_SETFD, 0).expect("inheritable");
    let program =
        Command::new("/proc/self/exe").arg0("parity-case").args(["--passes", &p.fd.to_string()]).status();
    say!("program {}", program.map_or("lost".into(), |status| status.to_string()));
    cx.peer("recvn 0 4");
    say!("write -> {}", show(sys::write(p.fd, b"more")));
    cx.peer("recvn 0 4");
}

/// The receiver has no number to spare any more when it first uses the connection.
fn then_short_of_numbers(cx: &mut Cx) {
    let (a, b) = sys::socketpair();
    let p = cx.warm();
    cx.peer("send 0 left-in-memory");
    say!("pass -> {}", show(sys::send_fd(a, p.fd)));
    say!("close -> {}", show(sys::close(p.fd)));
    let fd = sys::recv_fd(b).expect("a descriptor") as Fd;
    sys::limit_fds(1);
    let mut buf = [0; 14];
    let read = sys::recv(fd, &mut buf, libc::MSG_WAITALL);
    say!("recv -> {}", got(read, &buf));
    say!("write -> {}", show(sys::write(fd, b"ping")));
    cx.peer("recvn 0 4");
}

/// Nobody has got the copies; each of two connections is closed with bytes that nobody has read.
fn in_vain_then_closed_unread(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    for (nth, fd) in [(0, p.fd), (1, q.fd)] {
        cx.peer(&format!("send {nth} nobody-reads-this"));
        until_ready(fd, libc::POLLIN);
        let (a, b) = sys::socketpair();
        sys::close(b).expect("close");
        let passed = if nth == 0 { sys::send_fd_times(a, fd, 2) } else { sys::send_fd(a, fd) };
        say!("pass -> {}", show(passed));
        say!("close -> {}", show(sys::close(fd)));
        settle();
        cx.peer(&format!("recv {nth} 9"));
    }
}

/// A program that never looks at the connection had a copy of it, and has ended.
fn execed_then_closed_unread(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    sys::fcntl(p.fd, libc::F_SETFD, 0).expect("inheritable");
    cx.peer("send 0 nobody-reads-this");
    until_ready(p.fd, libc::POLLIN);
    let program = sys::fork(|| {
        sys::execv("/bin/true", &["true".into()]);
        9
    });
    say!("program {}", sys::wait(program));
    say!("close -> {}", show(sys::close(p.fd)));
    settle();
    cx.peer("recv 0 9");
    cx.watch(q.fd);
}

/// Closed with bytes unread where there was a copy once: of this process, or of a child that has closed it.
fn copy_closed_then_closed_unread(cx: &mut Cx) {
    let (a, b) = sys::socketpair();
    for (is_childs, next) in [(false, "recv"), (true, "recv"), (true, "send")] {
        let pair = cx.warm();
        say!("pass -> {}", show(sys::send_fd(a, pair.fd)));
        let take_and_close = || sys::recv_fd(b).and_then(|copy| sys::close(copy as Fd)).is_err().into();
        let failed =
            if is_childs { sys::wait(sys::fork(take_and_close)) } else { format!("{}", take_and_close()) };
        cx.ask(&format!("send {} nobody-reads-this", pair.id));
        until_ready(pair.fd, libc::POLLIN);
        say!("copy {failed}, close -> {}", show(sys::close(pair.fd)));
        settle();
        for verb in [next, "send", "recv"] {
            cx.peer(&format!("{verb} {} 9", pair.id));
        }
    }
}

/// Who has the last copy does not know that it is the last, and leaves bytes unread.
fn closed_by_who_passed_it(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    let ((a, b), (go, gone)) = (sys::socketpair(), sys::socketpair());
    let child = sys::fork(|| {
        let copy = sys::recv_fd(b).map_or(-1, |copy| copy as Fd);
        let _ = (sys::close(p.fd), sys::write(gone, b"g"), sys::read(gone, &mut [0; 1]));
        sys::close(copy).is_err().into()
    });
    say!("pass -> {}", show(sys::send_fd(a, p.fd)));
    let _ = sys::read(go, &mut [0; 1]);
    cx.peer("send 0 nobody-reads-this");
    until_ready(p.fd, libc::POLLIN);
    say!("close -> {}", show(sys::close(p.fd)));
    let _ = sys::write(go, b"c");
    say!("child {}", sys::wait(child));
    settle();
    cx.peer("recv 0 9");
    cx.peer("send 0 x");
    cx.watch(q.fd);
}

/// A set knows a copy that came back to its process for the same socket, as it knows a duplicate.
fn to_oneself(cx: &mut Cx) {
    let p = cx.warm();
    let (ep, (a, b)) = (sys::epoll(), sys::socketpair());
    say!("add -> {}", show(sys::ep_add(ep, p.fd, libc::EPOLLIN | libc::EPOLLOUT, 1)));
    say!("pass -> {}", show(sys::send_fd(a, p.fd)));
    let copy = sys::recv_fd(b).expect("a descriptor") as Fd;
    for is_closed in [false, true] {
        if is_closed {
            say!("close -> {}", show(sys::close(p.fd)));
        }
        cx.peer("send 0 x");
        until_ready(copy, libc::POLLIN);
        say!("told {}", sys::ep_show(ep, 1000));
        say!("read -> {}, {}", show(sys::read(copy, &mut [0; 9])), sys::ep_show(ep, 1000));
    }
    cx.peer("shut 0 1");
    until_ready(copy, libc::POLLIN);
    say!("told {}, close -> {}", sys::ep_show(ep, 1000), show(sys::close(copy)));
    say!("told {}", sys::ep_show(ep, 5));
}

/// Its first look comes when a child has a copy; the child is gone when it closes.
fn copied_before_a_look(cx: &mut Cx) {
    let (l, port) = cx.listen();
    cx.ask(&format!("connect 0 {port}"));
    let fd = sys::accept(l).expect("accept") as Fd;
    let (r, w) = sys::pipe(0);
    let child = sys::fork(|| u8::from(sys::read(r, &mut [0; 1]) != Ok(1)));
    say!("write -> {}", show(sys::write(fd, b"hello")));
    cx.peer("recv 0 9");
    cx.peer("send 0 ignored");
    until_ready(fd, libc::POLLIN);
    sys::write(w, b"x").expect("pipe");
    say!("child {}", sys::wait(child));
    say!("close -> {}", show(sys::close(fd)));
    settle();
    cx.peer("recv 0 9");
}

/// Everything was read when who passed it closed it; what comes while it is on its way is nobody's.
fn dropped_with_bytes(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    let (a, b) = sys::socketpair();
    say!("pass -> {}", show(sys::send_fd(a, p.fd)));
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer("send 0 nobody-reads-this");
    settle();
    [a, b].into_iter().for_each(|fd| say!("close -> {}", show(sys::close(fd))));
    settle();
    cx.peer("recv 0 9");
    cx.watch(q.fd);
}

/// Who leaves it has read everything, by a close or at the end of his process; who goes on with it is killed.
fn kept_by_who_is_killed(cx: &mut Cx) {
    for leaves_by_exit in [false, true] {
        let (p, (hold, _held)) = (cx.warm(), sys::pipe(0));
        let keeper = sys::fork(|| u8::from(sys::read(hold, &mut [0; 1]).is_err()));
        if leaves_by_exit {
            say!("leaver {}", sys::wait(sys::fork(|| 0)));
        }
        say!("close -> {}", show(sys::close(p.fd)));
        cx.peer(&format!("send {} nobody-reads-this", p.id));
        settle();
        sys::kill(keeper, libc::SIGKILL).expect("kill");
        say!("keeper {}", sys::wait(keeper));
        settle();
        cx.peer(&format!("recv {} 9", p.id));
    }
    cx.warm();
}

/// A child closes the copy that it inherited, is passed another one when bytes have come, and ends.
fn left_unread_at_exit(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    let ((a, b), (r, w)) = (sys::socketpair(), sys::pipe(0));
    let child = sys::fork(|| {
        let is_told = sys::close(p.fd).is_ok() && sys::write(w, b"x") == Ok(1);
        (!is_told || sys::recv_fd(b).is_err()).into()
    });
    let _ = sys::read(r, &mut [0; 1]);
    cx.peer("send 0 nobody-reads-this");
    until_ready(p.fd, libc::POLLIN);
    say!("pass -> {}", show(sys::send_fd(a, p.fd)));
    say!("close -> {}", show(sys::close(p.fd)));
    say!("child {}", sys::wait(child));
    settle();
    cx.peer("recv 0 9");
    cx.watch(q.fd);
}

/// Both ends have ended their streams, and nobody has a descriptor: the kernel lists the socket no more. The
/// peer goes on with other connections before somebody takes it.
fn on_its_way(cx: &mut Cx) {
    let (a, b) = sys::socketpair();
    for _ in 0..3 {
        let p = cx.warm();
        cx.peer(&format!("sendn {} 100000", p.id));
        cx.peer(&format!("shut {} 1", p.id));
        say!("shut -> {}", show(sys::shutdown(p.fd, libc::SHUT_WR)));
        say!("pass -> {} close -> {}", show(sys::send_fd(a, p.fd)), show(sys::close(p.fd)));
        cx.peer(&format!("drain {}", p.id));
        cx.peer(&format!("close {}", p.id));
        // (So many that memory which looks like nobody's is looked for.)
        let others: Vec<_> = (0..12).map(|_| cx.warm()).collect();
        let fd = sys::recv_fd(b).expect("a descriptor") as Fd;
        say!("read {}", read_all(fd, usize::MAX));
        say!("close -> {}", show(sys::close(fd)));
        for other in others {
            cx.ask(&format!("close {}", other.id));
            let _ = sys::close(other.fd);
        }
    }
}
