//! The table of ends: every way in which the other end can go, times what this end has done before, times the
//! calls that learn of it. Invariant: a row is one connection with a puppet of its own, and rows say only
//! what TCP decides: no sizes, no times.

use crate::context::{Case, Cx, Pair, Role, fill, say, settle, until};
use isthmus_tests::sys::{self, Errno, Fd, Ret, poll1, show, so_error};
use libc::{
    EPOLLEXCLUSIVE, EPOLLIN, EPOLLOUT, EPOLLRDHUP, MSG_DONTWAIT, MSG_NOSIGNAL, POLLIN, POLLOUT, POLLRDHUP,
    SHUT_RD, SHUT_WR,
};
use std::time::{Duration, Instant};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("ends.close", |cx| table(cx, &[&["close 0"]], GONE)),
    case("ends.close_unread", |cx| table(cx, &[&["unread", "close 0"]], GONE)),
    case("ends.linger_zero", |cx| table(cx, &[&["linger 0 1 0", "close 0"]], GONE)),
    case("ends.shut_wr", |cx| table(cx, &[&["shut 0 1"]], HELD)),
    case("ends.shut_rd", |cx| table(cx, &[&["shut 0 0"]], HELD)),
    case("ends.shut_wr_close", |cx| table(cx, &[&["shut 0 1", "close 0"]], GONE)),
    case("ends.shut_rdwr", |cx| table(cx, &[&["shut 0 2"]], STILL)),
    case("ends.shut_rdwr_close", |cx| table(cx, &[&["shut 0 2", "close 0"]], GONE)),
    case("ends.shut_rdwr_exit", |cx| table(cx, &[&["shut 0 2", "exit"]], GONE)),
    case("ends.shut_wr_die", |cx| table(cx, &[&["shut 0 1", "die"]], GONE)),
    case("ends.shut_wr_die_unread", |cx| table(cx, &[&["unread", "shut 0 1", "die"]], GONE)),
    case("ends.exit", |cx| table(cx, &[&["exit"]], GONE)),
    case("ends.exit_unread", |cx| table(cx, &[&["unread", "exit"]], GONE)),
    case("ends.die", |cx| table(cx, &[&["die"]], GONE)),
    case("ends.die_unread", |cx| table(cx, &[&["unread", "die"]], GONE)),
    case("ends.shut_wr_child_die", |cx| table(cx, &[&["copy 0", "shut 0 1", "die"]], GONE)),
];

/// What this end has done before.
const STATES: [&str; 5] = ["fresh", "shut_rd", "shut_wr", "unread", "full"];

/// Calls after the end, for an end that leaves nobody who reads.
const GONE: &[&str] = &[
    "rrww",
    "wwrr",
    "poll",
    "write_on",
    "poll_on",
    "epoll_on",
    "in_send",
    "in_poll",
    "in_epoll",
    "in_epoll_exclusive",
    "in_recv",
];
/// The same while somebody may read: what would wait for ever is left out.
const HELD: &[&str] = &["rrww", "wwrr", "poll"];
/// For an end that is held by somebody who said that he will not read: what is queued already stays where it
/// is.
const STILL: &[&str] = &["rrww", "wwrr", "poll", "write_on", "poll_on", "epoll_on"];

/// Runs all rows of a kind of end, several at a time, and prints them in order.
fn table(cx: &mut Cx, ends: &[&[&str]], calls: &[&'static str]) {
    let role = cx.role;
    for end in ends {
        let rows: Vec<(&str, &str)> =
            STATES.iter().flat_map(|state| calls.iter().map(move |call| (*state, *call))).collect();
        let rows: Vec<_> = rows.into_iter().filter(|row| row.0 != "full" || calls == GONE).collect();
        for some in rows.chunks(10) {
            let told: Vec<String> = std::thread::scope(|scope| {
                let run = |&(state, call): &(&'static str, &'static str)| {
                    let end: Vec<String> = end.iter().map(|word| word.to_string()).collect();
                    scope.spawn(move || row(role, &end, state, call))
                };
                let threads: Vec<_> = some.iter().map(run).collect();
                threads.into_iter().map(|thread| thread.join().expect("a row")).collect()
            });
            told.iter().for_each(|line| say!("{line}"));
        }
    }
}

fn row(role: Role, end: &[String], state: &str, call: &str) -> String {
    let mut cx = Cx::start(role, false);
    let pair = cx.warm();
    prepare(&mut cx, pair, state);
    let does_wait = call.starts_with("in_");
    if does_wait && state != "full" && call != "in_recv" {
        fill(pair.fd);
    }
    let told =
        if does_wait { during(&mut cx, pair, end, (state, call)) } else { after(&mut cx, pair, end, call) };
    cx.end_quietly();
    let _ = sys::close(pair.fd);
    format!("{state} {call}: {told}")
}

fn prepare(cx: &mut Cx, pair: Pair, state: &str) {
    match state {
        "shut_rd" => drop(sys::shutdown(pair.fd, SHUT_RD)),
        "shut_wr" => drop(sys::shutdown(pair.fd, SHUT_WR)),
        "unread" => {
            cx.ask("send 0 tail");
            crate::context::until_queued(pair.fd, 4);
        }
        "full" => drop(fill(pair.fd)),
        _ => {}
    }
}

/// The other end goes. ("unread" is our doing: bytes that it has not read by then.)
fn go(cx: &mut Cx, fd: Fd, end: &[String]) {
    let mut copy = None;
    for step in end {
        match step.as_str() {
            "unread" => {
                let _ = sys::send(fd, b"unread", MSG_NOSIGNAL | MSG_DONTWAIT);
                settle();
            }
            "die" | "exit" => cx.end_by(step),
            "copy 0" => copy = Some(cx.ask(step)),
            step => drop(cx.ask(step)),
        }
    }
    if let Some(child) = copy {
        until("end of the copy", || has_ended(&child));
    }
    settle();
}

/// Whether a process has ended, even if nobody has reaped it.
fn has_ended(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

fn after(cx: &mut Cx, pair: Pair, end: &[String], call: &str) -> String {
    let fd = pair.fd;
    go(cx, fd, end);
    match call {
        "rrww" => [read(fd), read(fd), write(fd), write(fd), write(fd), read(fd), error(fd)].join(", "),
        "wwrr" => [write(fd), write(fd), write(fd), read(fd), read(fd), read(fd), error(fd)].join(", "),
        "poll" => [ready(fd), epoll_ready(fd), write(fd), ready(fd), error(fd), ready(fd)].join(", "),
        "write_on" => write_on(fd),
        "poll_on" => poll_on(fd),
        _ => epoll_on(fd, EPOLLOUT),
    }
}

/// The end comes while a call waits; or after it, where what this end has done before answers it.
fn during(cx: &mut Cx, pair: Pair, end: &[String], (state, call): (&str, &str)) -> String {
    let is_answered_at_once =
        (state == "shut_wr" && call != "in_recv") || (state, call) == ("shut_rd", "in_recv");
    let (fd, call) = (pair.fd, call.to_string());
    let waiting = std::thread::spawn(move || match call.as_str() {
        "in_send" => write_on(fd),
        "in_poll" => poll_on(fd),
        "in_epoll" => epoll_on(fd, EPOLLOUT),
        "in_epoll_exclusive" => epoll_on(fd, EPOLLOUT | EPOLLEXCLUSIVE),
        _ => [read_waiting(fd), read_waiting(fd)].join(", "),
    });
    if is_answered_at_once {
        until("answer", || waiting.is_finished());
    }
    settle();
    go(cx, fd, end);
    waiting.join().expect("a waiting call")
}

fn read(fd: Fd) -> String {
    settle();
    let mut buf = [0; 64];
    format!("read {}", show(sys::recv(fd, &mut buf, MSG_DONTWAIT)))
}

fn read_waiting(fd: Fd) -> String {
    format!("read {}", show(sys::recv(fd, &mut [0; 64], 0)))
}

fn write(fd: Fd) -> String {
    settle();
    format!("write {}", show(sys::send(fd, b"late", MSG_NOSIGNAL | MSG_DONTWAIT)))
}

fn ready(fd: Fd) -> String {
    settle();
    format!("poll {}", poll1(fd, POLLIN | POLLOUT | POLLRDHUP, 0))
}

fn epoll_ready(fd: Fd) -> String {
    let ep = sys::epoll();
    let _ = sys::ep_add(ep, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP, 1);
    let told = format!("epoll {}", sys::ep_show(ep, 0));
    let _ = sys::close(ep);
    told
}

fn error(fd: Fd) -> String {
    format!("SO_ERROR {}", so_error(fd))
}

/// Writes without end, waiting in the call: which error ends it.
fn write_on(fd: Fd) -> String {
    let block = vec![7u8; 65536];
    until_error(|| sys::send(fd, &block, MSG_NOSIGNAL))
}

/// Says it if a wait was not answered. (What it says of an end that comes at this very moment is a matter of
/// luck.)
fn waited(answer: &str) -> &'static str {
    if matches!(answer, "-" | "[]") { " after a wait without answer" } else { "" }
}

/// The same, waiting in poll, and whether its waits were answered.
fn poll_on(fd: Fd) -> String {
    let (block, mut last) = (vec![7u8; 65536], String::new());
    let told = until_error(|| match sys::send(fd, &block, MSG_NOSIGNAL | MSG_DONTWAIT) {
        Err(Errno(libc::EAGAIN)) => {
            last += waited(&poll1(fd, POLLOUT, 5000));
            Ok(0)
        }
        other => other,
    });
    told + &last
}

/// The same, waiting in a level-triggered set.
fn epoll_on(fd: Fd, events: i32) -> String {
    let (block, ep, mut last) = (vec![7u8; 65536], sys::epoll(), String::new());
    let _ = sys::ep_add(ep, fd, events, 1);
    let told = until_error(|| match sys::send(fd, &block, MSG_NOSIGNAL | MSG_DONTWAIT) {
        Err(Errno(libc::EAGAIN)) => {
            last += waited(&sys::ep_show(ep, 5000));
            Ok(0)
        }
        other => other,
    });
    let _ = sys::close(ep);
    told + &last
}

fn until_error(mut write: impl FnMut() -> Ret) -> String {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(8) {
        if let Err(errno) = write() {
            return format!("writes until {errno}");
        }
    }
    "writes for ever".into()
}
