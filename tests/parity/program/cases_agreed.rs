//! Calls that the kernel refuses: nothing has happened to the connection, whatever they would have done.

use crate::context::{Case, Cx, say, until_queued};
use isthmus_tests::sys::{self, Denied, Fd, call, int_by_name, show};
use std::process::Command;

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("agreed.dup_beyond_the_limit", dup_beyond_the_limit),
    case("agreed.range_with_a_strange_flag", range_with_a_strange_flag),
    case("agreed.passing", passing),
    case("agreed.limits", limits),
    any("agreed.filter_over_exec", |cx| behind_a_filter(cx, true)),
    any("agreed.filter_of_its_own", |cx| behind_a_filter(cx, false)),
    any("agreed.closefrom", closefrom),
];

/// A connection with bytes unread at this end.
fn loaded(cx: &mut Cx) -> (Fd, u32) {
    let p = cx.warm();
    cx.peer(&format!("send {} hello", p.id));
    until_queued(p.fd, 5);
    (p.fd, p.id)
}

/// They are there still, and the other end gets what is written.
fn unhurt(cx: &mut Cx, (fd, id): (Fd, u32)) {
    say!("read -> {}", show(sys::recv(fd, &mut [0; 9], libc::MSG_DONTWAIT)));
    say!("write -> {}", show(sys::write(fd, b"after")));
    cx.peer(&format!("recv {id} 9"));
    cx.peer(&format!("send {id} hello"));
    until_queued(fd, 5);
}

/// The number was had before the limit was lowered, and no other is to be had there.
fn dup_beyond_the_limit(cx: &mut Cx) {
    let p = loaded(cx);
    let high = sys::fcntl(p.0, libc::F_DUPFD, 60).expect("a number") as Fd;
    sys::close(p.0).expect("close");
    let (p, n) = ((high, p.1), high as usize);
    let most = sys::most_fds();
    sys::limit_fds(high as u64);
    say!("dup2 -> {}", show(sys::dup2(1, high)));
    say!("dup3 -> {}", show(sys::dup3(1, high, libc::O_CLOEXEC)));
    #[cfg(target_arch = "x86_64")]
    say!("by number -> {}", show(call(libc::SYS_dup2, [1, n, 0, 0, 0, 0])));
    #[cfg(not(target_arch = "x86_64"))]
    say!("by number -> {}", show(sys::dup2(1, high)));
    say!("by number -> {}", show(call(libc::SYS_dup3, [1, n, 0, 0, 0, 0])));
    say!("from none -> {} {}", show(sys::dup2(-1, high)), show(sys::dup3(999, high, 0)));
    sys::limit_fds(most);
    unhurt(cx, p);
    cx.watch(high);
}

fn range_with_a_strange_flag(cx: &mut Cx) {
    let p = loaded(cx);
    for flags in [0xff00, 1, 1 << 20 | 2] {
        say!("{flags:x} -> {}", show(sys::close_range(3, u32::MAX, flags)));
        let args = [3, u32::MAX as usize, flags as usize, 0, 0, 0];
        say!("by number -> {}", show(call(libc::SYS_close_range, args)));
        unhurt(cx, p);
    }
    cx.watch(p.0);
}

/// A copy that nobody got: what is unread at the last close resets the connection.
fn passing(cx: &mut Cx) {
    let p = loaded(cx);
    let (unix, other) = sys::socketpair();
    sys::close(other).expect("close");
    sys::ignore(libc::SIGPIPE, true);
    say!("sent -> {}", show(sys::send_fd(unix, p.0)));
    unhurt(cx, p);
    cx.watch(p.0);
    say!("close -> {}", show(sys::close(p.0)));
    cx.peer(&format!("drain {}", p.1));
}

/// A limit that is refused, or lies nowhere, is none.
fn limits(cx: &mut Cx) {
    let p = loaded(cx);
    let wrong = [5u64, 4];
    let args = [libc::RLIMIT_NOFILE as usize, wrong.as_ptr().addr()];
    for name in ["setrlimit", "setrlimit64"] {
        say!("{name} -> {}", show(int_by_name(name, &args)));
        say!("{name} nowhere -> {}", show(int_by_name(name, &[args[0], 8])));
    }
    for name in ["prlimit", "prlimit64"] {
        say!("{name} -> {}", show(int_by_name(name, &[0, args[0], args[1], 0])));
        say!("{name} nowhere -> {}", show(int_by_name(name, &[0, args[0], 8, 0])));
    }
    unhurt(cx, p);
    cx.watch(p.0);
}

const CALLS: [(&str, i64); 5] = [
    ("close", libc::SYS_close),
    ("dup2", DUP2),
    ("dup3", libc::SYS_dup3),
    ("close_range", libc::SYS_close_range),
    ("shutdown", libc::SYS_shutdown),
];
#[cfg(target_arch = "x86_64")]
const DUP2: i64 = libc::SYS_dup2;
#[cfg(not(target_arch = "x86_64"))]
const DUP2: i64 = libc::SYS_dup3;

/// Each of the calls is answered with an error by a filter, which the program has from its start on or
/// installs itself beside a connection that it has.
fn behind_a_filter(cx: &mut Cx, is_over_exec: bool) {
    let (_, port) = cx.listen();
    // (A program is not even loaded without close.)
    for (name, number) in CALLS.into_iter().filter(|(name, _)| *name != "close" || !is_over_exec) {
        cx.ask(&format!("connect 90 {port}"));
        let mut program = Command::new("/proc/self/exe");
        let (listener, _) = cx.listen();
        let inherited = sys::dup(listener).expect("a copy without FD_CLOEXEC");
        program.args(["--refused", name, &inherited.to_string(), &is_over_exec.to_string()]);
        let refuse = move || {
            if is_over_exec {
                let _ = sys::deny(&[Denied::Call(number)]);
            }
        };
        // (Its answers are compared, so whoever answers for the peer is this process.)
        let out = std::thread::spawn(move || sys::run_in_child(program, refuse));
        for step in ["send 90 hello", "recvn 90 5", "send 90 again", "drain 90", "close 90"] {
            cx.peer(step);
        }
        say!("{name}: {}", out.join().expect("thread"));
        let _ = sys::close(inherited as Fd);
    }
}

/// What the program behind the filter does.
pub(crate) fn refused(name: &str, listener: Fd, is_over_exec: bool) {
    let fd = sys::accept(listener).expect("accept") as Fd;
    until_queued(fd, 5);
    if !is_over_exec {
        let (_, number) = CALLS.into_iter().find(|(known, _)| *known == name).expect("a call");
        sys::deny(&[Denied::Call(number)]).expect("filter");
    }
    let r = match name {
        "close" => sys::close(fd),
        "dup2" => sys::dup2(0, fd),
        "dup3" => sys::dup3(0, fd, 0),
        "close_range" => sys::close_range(fd as u32, u32::MAX, 0),
        _ => sys::shutdown(fd, libc::SHUT_RDWR),
    };
    let mut buf = [0; 5];
    let first = show(sys::recv(fd, &mut buf, libc::MSG_WAITALL));
    let write = show(sys::write(fd, b"there"));
    let then = show(sys::recv(fd, &mut buf, libc::MSG_WAITALL));
    println!("{} / {first} {write} {then} {}", show(r), String::from_utf8_lossy(&buf));
}

/// Where close_range(2) is refused, libc's closefrom(3) closes one by one.
fn closefrom(cx: &mut Cx) {
    let p = cx.warm();
    let pid = sys::fork(|| {
        let copy = sys::dup2(p.fd, 300).expect("dup2") as Fd;
        let file = sys::dup2(1, 301).expect("dup2") as Fd;
        sys::deny(&[Denied::Call(libc::SYS_close_range)]).expect("filter");
        let _ = sys::int_by_name("closefrom", &[300]);
        let gone = [copy, file].map(|fd| show(sys::write(fd, b"gone")));
        say!("{gone:?} {}", show(sys::write(p.fd, b"here")));
        0
    });
    say!("child {}", sys::wait(pid));
    cx.peer(&format!("recvn {} 4", p.id));
}
