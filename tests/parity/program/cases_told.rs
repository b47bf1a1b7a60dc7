//! Calls that are told of an end although they move nothing, or of a signal when they have moved something.
//! Invariant: rows say only what TCP decides: no sizes, no times.

use crate::context::{Case, Cx, fill, say, settle};
use isthmus_tests::sys::{self, Fd, poll1, show, so_error};
use libc::{
    MSG_FASTOPEN, MSG_NOSIGNAL, MSG_WAITALL, O_NONBLOCK, POLLIN, POLLOUT, POLLRDHUP, SHUT_WR,
    SPLICE_F_NONBLOCK,
};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("told.send_of_nothing", send_of_nothing),
    case("told.splice_into_what_nobody_reads", splice_into_what_nobody_reads),
    case("told.splice_out_of_a_reset", splice_out_of_a_reset),
    case("told.splice_waits_for_the_socket", splice_waits_for_the_socket),
    case("told.fast_open_when_connected", fast_open_when_connected),
    case("told.reset_after_own_shutdown", reset_after_own_shutdown),
    case("told.shutdown_by_another_process", shutdown_by_another_process),
    case("told.unread_for_too_long_by_write", unread_for_too_long_by_write),
    case("told.unread_for_too_long_by_poll", unread_for_too_long_by_poll),
    case("told.code_of_a_broken_pipe", code_of_a_broken_pipe),
    case("told.own_shutdown_raises_nothing", own_shutdown_raises_nothing),
    case("told.signal_with_some_bytes_read", signal_with_some_bytes_read),
    case("told.signal_with_some_bytes_written", signal_with_some_bytes_written),
];

fn state(fd: Fd) -> String {
    poll1(fd, POLLIN | POLLOUT | POLLRDHUP, 0)
}

fn nothing(fd: Fd) -> String {
    show(sys::send(fd, b"", MSG_NOSIGNAL))
}

fn send_of_nothing(cx: &mut Cx) {
    let p = cx.warm();
    say!("open {}", nothing(p.fd));
    say!("send -> {}", show(sys::send(p.fd, b"unread", MSG_NOSIGNAL)));
    settle();
    cx.end_by("die");
    settle();
    say!("nothing {}, {}, {}", nothing(p.fd), nothing(p.fd), state(p.fd));
    say!("read {}, error {}", show(sys::read(p.fd, &mut [0; 9])), so_error(p.fd));
}

/// An event loop that moves its bytes by splice alone learns of the end by it.
fn splice_into_what_nobody_reads(cx: &mut Cx) {
    for may_wait in [true, false] {
        let p = cx.pair();
        let (from, to) = sys::pipe(0);
        fill(p.fd);
        sys::write(to, b"bytes").expect("write");
        if !may_wait {
            sys::nonblocking(p.fd, true);
        }
        cx.ask(&format!("linger {} 1 0", p.id));
        cx.ask(&format!("close {}", p.id));
        settle();
        for flags in [SPLICE_F_NONBLOCK, 0, SPLICE_F_NONBLOCK] {
            say!("splice -> {}", show(sys::splice(from, p.fd, 5, flags)));
        }
    }
}

fn splice_out_of_a_reset(cx: &mut Cx) {
    let p = cx.warm();
    let (_from, to) = sys::pipe(0);
    cx.ask("send 0 tail");
    crate::context::until_queued(p.fd, 4);
    say!("send -> {}", show(sys::send(p.fd, b"unread", MSG_NOSIGNAL)));
    settle();
    cx.end_by("exit");
    settle();
    for _ in 0..3 {
        say!("splice -> {}", show(sys::splice(p.fd, to, 100, 0)));
    }
    say!("error {}", so_error(p.fd));
}

/// SPLICE_F_NONBLOCK is about the pipe.
fn splice_waits_for_the_socket(cx: &mut Cx) {
    let p = cx.warm();
    let (_from, to) = sys::pipe(0);
    cx.tell("later 80 send 0 late");
    say!("splice -> {}", show(sys::splice(p.fd, to, 100, SPLICE_F_NONBLOCK)));
    cx.answer();
    say!("flags -> {}", show(sys::fcntl(p.fd, libc::F_SETFL, O_NONBLOCK)));
    say!("splice -> {}", show(sys::splice(p.fd, to, 100, 0)));
}

fn fast_open_when_connected(cx: &mut Cx) {
    let p = cx.warm();
    say!("send -> {}", show(sys::send(p.fd, b"early", MSG_FASTOPEN)));
    say!("send -> {}", show(sys::send(p.fd, b"more", 0)));
    say!("read {}", cx.ask("recvn 0 4"));
}

fn reset_after_own_shutdown(cx: &mut Cx) {
    let p = cx.warm();
    say!("send -> {}", show(sys::send(p.fd, b"unread", MSG_NOSIGNAL)));
    settle();
    say!("shut -> {}", show(sys::shutdown(p.fd, SHUT_WR)));
    cx.end_by("exit");
    settle();
    for _ in 0..2 {
        say!("send -> {}", show(sys::send(p.fd, b"x", MSG_NOSIGNAL)));
    }
    say!("{}, read {}", state(p.fd), show(sys::read(p.fd, &mut [0; 9])));
}

/// A blocked writer is told at once of the shutdown of another process that has the socket, also if that one
/// has not used it before.
fn shutdown_by_another_process(cx: &mut Cx) {
    let p = cx.pair();
    let child = sys::fork(|| {
        std::thread::sleep(std::time::Duration::from_millis(200));
        u8::from(sys::shutdown(p.fd, SHUT_WR).is_err())
    });
    let block = vec![7; 1 << 20];
    let told = loop {
        if let Err(errno) = sys::send(p.fd, &block, MSG_NOSIGNAL) {
            break errno;
        }
    };
    say!("writes until {told}, child {}", sys::wait(child));
}

/// What has come is returned, whatever SA_RESTART says.
fn signal_with_some_bytes_read(cx: &mut Cx) {
    let p = cx.warm();
    sys::catch(libc::SIGALRM, true);
    cx.ask("send 0 some");
    cx.tell("later 600 send 0 rest");
    sys::alarm_in(150);
    say!("read -> {}", show(sys::recv(p.fd, &mut [0; 8], MSG_WAITALL)));
    say!("signals {}", sys::hits());
    say!("read -> {}", show(sys::recv(p.fd, &mut [0; 4], MSG_WAITALL)));
    cx.answer();
}

fn signal_with_some_bytes_written(cx: &mut Cx) {
    let p = cx.warm();
    sys::catch(libc::SIGALRM, true);
    let much = vec![0; 48 << 20];
    sys::alarm_in(400);
    let sent = sys::write(p.fd, &much);
    say!("written some {}, signals {}", sent.is_ok_and(|count| count > 0 && count < much.len()), sys::hits());
}

/// A connection whose bytes nobody reads, and which gives up after half a second.
fn impatient(cx: &mut Cx) -> Fd {
    let fd = cx.warm().fd;
    say!("limit -> {}", show(sys::setopt(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 500)));
    fd
}

fn unread_for_too_long_by_write(cx: &mut Cx) {
    let fd = impatient(cx);
    let block = vec![7; 1 << 20];
    let told = loop {
        if let Err(errno) = sys::send(fd, &block, MSG_NOSIGNAL) {
            break errno;
        }
    };
    say!("writes until {told}, then {}", nothing(fd));
    say!("read -> {}, error {}", show(sys::read(fd, &mut [0; 9])), so_error(fd));
}

fn unread_for_too_long_by_poll(cx: &mut Cx) {
    let fd = impatient(cx);
    fill(fd);
    while !poll1(fd, POLLRDHUP, 20_000).contains("ERR") {}
    say!("error {}, then {}", so_error(fd), so_error(fd));
    say!("send -> {}, read -> {}", nothing(fd), show(sys::read(fd, &mut [0; 9])));
}

/// It is a signal of the kernel's, for a call of this process.
fn code_of_a_broken_pipe(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::catch_with_sender(libc::SIGPIPE);
    say!("shut -> {}", show(sys::shutdown(fd, SHUT_WR)));
    say!("send -> {}", show(sys::send(fd, b"x", 0)));
    let (code, sender, user) = sys::sender_of_signal();
    say!("code {code}, of this process {}, user {user}", sender == std::process::id() as i32);
}

fn own_shutdown_raises_nothing(cx: &mut Cx) {
    for how in [SHUT_WR, libc::SHUT_RD, libc::SHUT_RDWR] {
        let fd = cx.warm().fd;
        sys::catch(libc::SIGIO, true);
        sys::fcntl(fd, libc::F_SETOWN, std::process::id() as i32).expect("owner");
        sys::fcntl(fd, libc::F_SETFL, libc::O_ASYNC).expect("flags");
        settle();
        let before = sys::hits();
        say!("shut {how} -> {}", show(sys::shutdown(fd, how)));
        settle();
        say!("signals {}", sys::hits() - before);
        sys::fcntl(fd, libc::F_SETFL, 0).expect("flags");
    }
}
