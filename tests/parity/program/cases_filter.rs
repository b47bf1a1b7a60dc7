//! A process that installs a filter of system calls, made for what it does itself, goes on with its
//! connections: whatever we did beside that before, we do no more.

use crate::context::{Case, Cx, got, pattern, say, until_queued, write_all};
use isthmus_tests::sys::{self, Denied, Fd, Select, show};
use std::process::Command;

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

pub(crate) const CASES: &[Case] = &[
    case("filter.inherited", |cx| inherited(cx, true)),
    case("filter.inherited_by_syscall", |cx| inherited(cx, false)),
    case("filter.early_bytes", early_bytes),
    any("filter.own", own),
    any("filter.own_without_poll", |cx| {
        own_without(cx, || _ = sys::deny(&[libc::SYS_poll, libc::SYS_ppoll].map(Denied::Call)));
    }),
    any("filter.own_that_knows_poll_alone", own_that_knows_poll_alone),
    any("filter.own_that_kills_for_a_futex", |cx| {
        own_without(cx, || {
            let allowed: Vec<i64> = ALLOWED.iter().copied().filter(|call| *call != libc::SYS_futex).collect();
            sys::allow_only(&allowed, false).expect("filter");
        });
    }),
    any("filter.own_that_kills_for_getpid", |cx| {
        own_without_a_name(cx, || _ = sys::kill_for(libc::SYS_getpid));
    }),
    any("filter.own_without_getpid", |cx| {
        own_without_a_name(cx, || _ = sys::deny(&[Denied::Call(libc::SYS_getpid)]));
    }),
    any("filter.unused", unused),
    any("filter.limited", limited),
    case("filter.refused", refused),
    any("filter.without_network", |cx| bystander(cx, without_network)),
    any("filter.tcp_of_no_interest", |cx| bystander(cx, tcp_of_no_interest)),
    any("filter.strict", strict),
    any("filter.strict_end", strict_end),
    #[cfg(target_arch = "x86_64")]
    any("filter.over_exec_without_poll", |cx| without(cx, libc::SYS_poll)),
    any("filter.over_exec_without_ppoll", |cx| without(cx, libc::SYS_ppoll)),
    any("filter.without_exit_group", without_exit_group),
];

/// What the plain program here needs, and no call more.
const ALLOWED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_close,
    libc::SYS_futex,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_getpid,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_exit_group,
];

/// All that such a program does with a connection: waits for bytes in every way, fills it, sees its end.
fn converse(cx: &mut Cx, fd: Fd, id: u32) {
    let later = |cx: &mut Cx| drop(cx.ask(&format!("later 30 send {id} hello")));
    // However often the time limit passes, where others have the cores.
    let read_say = |what: &str| {
        let mut buf = [0; 16];
        let r = loop {
            match sys::read(fd, &mut buf) {
                Err(sys::Errno(libc::EAGAIN)) => {}
                other => break other,
            }
        };
        say!("{what} {}", got(r, &buf));
    };
    for _ in 0..10 {
        later(cx);
        read_say("read");
    }
    later(cx);
    say!("poll {}", sys::poll1(fd, libc::POLLIN | libc::POLLRDHUP, 5000));
    read_say("then");
    later(cx);
    say!("select {}", sys::select(Select::Plain, &[fd], &[], &[], 5000));
    read_say("then");
    say!("time limit {}", show(sys::read(fd, &mut [0; 16])));
    cx.tell(&format!("recvn {id} 600000"));
    say!("{}", write_all(fd, &pattern(600_000)));
    say!("peer has {}", cx.answer());
    cx.tell(&format!("sendn {id} 600000"));
    say!("{} bytes back", take(fd, 600_000));
    say!("peer {}", cx.answer());
    cx.ask(&format!("later 30 shut {id} 1"));
    read_say("end");
    say!("poll {}", sys::poll1(fd, libc::POLLIN | libc::POLLRDHUP, 5000));
    say!("write {}", show(sys::write(fd, b"after")));
    cx.peer(&format!("recvn {id} 5"));
}

/// Reads `count` bytes, however often the time limit passes.
fn take(fd: Fd, count: usize) -> String {
    let (mut all, mut buf) = (vec![], vec![0; 65536]);
    while all.len() < count {
        match sys::read(fd, &mut buf) {
            Ok(0) => return format!("end after {}", all.len()),
            Ok(got) => all.extend_from_slice(&buf[..got]),
            Err(sys::Errno(libc::EAGAIN)) => {}
            Err(errno) => return errno.to_string(),
        }
    }
    format!("{} {}", all.len(), all == pattern(count))
}

fn prepare(fd: Fd) {
    sys::set_timeout(fd, libc::SO_RCVTIMEO, 300).expect("time limit");
}

/// As sshd does it: the child of a process that has the connection, too.
fn inherited(cx: &mut Cx, by_prctl: bool) {
    let p = cx.warm();
    prepare(p.fd);
    let pid = sys::fork(|| {
        sys::allow_only(ALLOWED, by_prctl).expect("filter");
        converse(cx, p.fd, p.id);
        0
    });
    say!("child {}", sys::wait(pid));
    say!("write {}", show(sys::write(p.fd, b"parent")));
    cx.peer("recvn 0 6");
}

/// What the client wrote before anybody looked is there still when the filter comes: what follows goes
/// through shared memory.
fn early_bytes(cx: &mut Cx) {
    const EARLY: usize = 20_000;
    const ID: u32 = 7;
    let (l, port) = cx.listen();
    cx.ask(&format!("connect {ID} {port}"));
    cx.peer(&format!("sendn {ID} {EARLY}"));
    let fd = sys::accept(l).expect("accept") as Fd;
    prepare(fd);
    cx.watch(fd);
    cx.wrote_early(EARLY);
    say!("poll {}", sys::poll1(fd, libc::POLLIN, 5000));
    let pid = sys::fork(|| {
        sys::allow_only(ALLOWED, true).expect("filter");
        say!("early {}", take(fd, EARLY));
        converse(cx, fd, ID);
        0
    });
    say!("child {}", sys::wait(pid));
}

fn own(cx: &mut Cx) {
    let pid = sys::fork(|| {
        let p = cx.warm();
        prepare(p.fd);
        sys::allow_only(ALLOWED, true).expect("filter");
        converse(cx, p.fd, p.id);
        sys::close(p.fd).expect("close");
        0
    });
    say!("child {}", sys::wait(pid));
}

/// The filter refuses what we need, and the program does not.
fn own_without(cx: &mut Cx, confine: fn()) {
    const MUCH: usize = 600_000;
    let p = cx.warm();
    let pid = sys::fork(|| {
        confine();
        let mut buf = [0; 16];
        for word in ["one", "two"] {
            cx.ask(&format!("later 30 send {} {word}", p.id));
            let read = sys::read(p.fd, &mut buf);
            say!("read {}", got(read, &buf));
        }
        cx.tell(&format!("recvn {} {MUCH}", p.id));
        say!("{}", write_all(p.fd, &pattern(MUCH)));
        say!("peer has {}", cx.answer());
        cx.tell(&format!("sendn {} {MUCH}", p.id));
        say!("{} bytes back", take(p.fd, MUCH));
        say!("peer {}", cx.answer());
        cx.ask(&format!("later 30 shut {} 1", p.id));
        let read = sys::read(p.fd, &mut buf);
        say!("end {}", got(read, &buf));
        0
    });
    say!("child {}", sys::wait(pid));
}

/// The program does not ask who it is, and may not: also where connections are ended, made, and left behind.
fn own_without_a_name(cx: &mut Cx, confine: fn()) {
    let port = cx.listening_peer();
    let (p, q) = (cx.warm(), cx.warm());
    let pid = sys::fork(|| {
        let (own, unused) = (sys::tcp(0), sys::tcp(0));
        say!("connect {}", show(sys::connect(own, port)));
        cx.ask("accept 7");
        confine();
        cx.ask(&format!("later 30 send {} one", p.id));
        let mut buf = [0; 16];
        let read = sys::read(p.fd, &mut buf);
        say!("read {}", got(read, &buf));
        for fd in [p.fd, own] {
            say!("write {}", show(sys::write(fd, b"bytes")));
            say!("shutdown {}", show(sys::shutdown(fd, libc::SHUT_WR)));
            say!("close {}", show(sys::close(fd)));
        }
        say!("connect {}", show(sys::connect(unused, port)));
        say!("child of the child {}", sys::wait(sys::fork(|| 3)));
        0
    });
    say!("child {}", sys::wait(pid));
    cx.peer(&format!("recv {} 9", p.id));
    cx.peer("recvn 7 5");
    say!("write {}", show(sys::write(q.fd, b"parent")));
    cx.peer(&format!("recvn {} 6", q.id));
}

/// The program polls behind a filter that refuses ppoll; something was unread when that came.
fn own_that_knows_poll_alone(cx: &mut Cx) {
    let p = cx.warm();
    cx.peer(&format!("send {} banner", p.id));
    until_queued(p.fd, 6);
    let pid = sys::fork(|| {
        sys::deny(&[Denied::Call(libc::SYS_ppoll)]).expect("filter");
        let mut buf = [0; 16];
        for word in ["one", "two", "three"] {
            say!("poll {}", sys::poll1(p.fd, libc::POLLIN, 5000));
            let read = sys::read(p.fd, &mut buf);
            say!("read {}", got(read, &buf));
            say!("room {}", sys::poll1(p.fd, libc::POLLOUT, 5000));
            say!("quiet {}", sys::poll1(p.fd, libc::POLLIN, 20));
            cx.ask(&format!("later 30 send {} {word}", p.id));
        }
        0
    });
    say!("child {}", sys::wait(pid));
}

/// Nothing was decided when the filter came.
fn unused(cx: &mut Cx) {
    let pid = sys::fork(|| {
        let p = cx.pair();
        prepare(p.fd);
        sys::allow_only(ALLOWED, true).expect("filter");
        converse(cx, p.fd, p.id);
        0
    });
    say!("child {}", sys::wait(pid));
}

/// sshd's limit of descriptors comes before its filter.
fn limited(cx: &mut Cx) {
    let p = cx.warm();
    prepare(p.fd);
    let pid = sys::fork(|| {
        sys::limit_fds(1);
        sys::allow_only(ALLOWED, true).expect("filter");
        converse(cx, p.fd, p.id);
        0
    });
    say!("child {}", sys::wait(pid));
}

/// A filter that the kernel does not take leaves all as it was.
fn refused(cx: &mut Cx) {
    let p = cx.warm();
    say!("{}", show(sys::allow_only(&[0; 4096], true)));
    prepare(p.fd);
    converse(cx, p.fd, p.id);
    let q = cx.warm();
    cx.watch(q.fd);
}

fn strict(cx: &mut Cx) {
    let p = cx.warm();
    let pid = sys::fork(|| {
        sys::allow_read_and_write().expect("filter");
        let mut buf = [0; 9];
        let mut wrote = 0;
        while wrote < 3 && sys::read(p.fd, &mut buf) == Ok(4) && &buf[..4] == b"ping" {
            wrote += usize::from(sys::write(p.fd, b"pong") == Ok(4));
        }
        sys::end_thread()
    });
    for _ in 0..3 {
        cx.peer("send 0 ping");
        cx.peer("recvn 0 4");
    }
    say!("child {}", sys::wait(pid));
}

/// The client has ended its stream, and waits for an answer: a process that may only read and write hears of
/// the end by a read.
fn strict_end(cx: &mut Cx) {
    const MUCH: usize = 33_000;
    let p = cx.warm();
    cx.tell(&format!("sendn {} {MUCH}", p.id));
    say!("poll {}", sys::poll1(p.fd, libc::POLLIN, 5000));
    say!("sent {}", cx.answer());
    let pid = sys::fork(|| {
        sys::allow_read_and_write().expect("filter");
        let mut buf = [0; 4096];
        while matches!(sys::read(p.fd, &mut buf), Ok(1..)) {}
        let _ = sys::write(p.fd, b"end");
        sys::end_thread()
    });
    cx.ask(&format!("later 50 shut {} 1", p.id));
    cx.peer(&format!("recvn {} 3", p.id));
    say!("child {}", sys::wait(pid));
}

/// A program that never shared anything when its filter came: nothing of ours is to be seen behind that.
fn bystander(cx: &mut Cx, act: fn() -> Option<()>) {
    /// (brk is the tests' own.)
    const MORE: &[i64] = &[
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_poll,
        libc::SYS_ppoll,
        libc::SYS_select,
        libc::SYS_pselect6,
        libc::SYS_pipe2,
        libc::SYS_dup2,
        libc::SYS_dup3,
        libc::SYS_close,
        libc::SYS_close_range,
        libc::SYS_fcntl,
        libc::SYS_splice,
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_setsockopt,
        libc::SYS_getsockopt,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_getsockname,
        libc::SYS_connect,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_shutdown,
        libc::SYS_sendto,
        libc::SYS_recvfrom,
        libc::SYS_sendmsg,
        libc::SYS_recvmsg,
        libc::SYS_epoll_create1,
        libc::SYS_epoll_ctl,
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_prlimit64,
        libc::SYS_setrlimit,
        libc::SYS_getrlimit,
        libc::SYS_brk,
        libc::SYS_exit_group,
    ];
    let pid = sys::fork(|| {
        sys::allow_only(MORE, true).expect("filter");
        act().is_none().into()
    });
    say!("child {}", sys::wait(pid));
    let p = cx.warm();
    cx.peer(&format!("close {}", p.id));
}

fn waits(fd: Fd) -> Option<()> {
    let (r, _) = sys::poll(&[(fd, libc::POLLIN)], 1000);
    let (s, _) = sys::ppoll(&[(fd, libc::POLLIN)], Some(1000));
    let selected = [Select::Plain, Select::Precise].map(|kind| sys::select(kind, &[fd], &[], &[], 1000));
    let set = sys::epoll();
    sys::ep_add(set, fd, libc::EPOLLIN, 7).ok()?;
    let events = sys::ep_wait(set, 1000).ok()?;
    sys::ep_del(set, fd).ok()?;
    sys::close(set).ok()?;
    let is_told = selected.iter().all(|told| told.starts_with('1')) && events.len() == 1;
    (r == Ok(1) && s == Ok(1) && is_told).then_some(())
}

fn without_network() -> Option<()> {
    let (r, w) = sys::pipe(0);
    sys::write(w, b"x").ok()?;
    waits(r)?;
    let (one, other) = sys::socketpair();
    sys::send(one, b"x", 0).ok()?;
    waits(other)?;
    sys::send_fd(one, r).ok()?;
    sys::recv(other, &mut [0; 1], 0).ok()?;
    let passed = sys::recv_fd(other).ok()? as Fd;
    sys::splice(passed, one, 1, 0).ok()?;
    sys::dup2(r, 60).ok()?;
    sys::close(60).ok()?;
    sys::limit_fds(100);
    sys::close_range(r as u32, u32::MAX, 0).map(drop).ok()
}

fn tcp_of_no_interest() -> Option<()> {
    let (listener, port) = sys::listener();
    let client = sys::tcp(0);
    sys::set_timeout(client, libc::SO_RCVTIMEO, 1000).ok()?;
    sys::connect(client, port).ok()?;
    let server = sys::accept(listener).ok()? as Fd;
    sys::write(client, b"ping").ok()?;
    waits(server)?;
    sys::read(server, &mut [0; 4]).ok()?;
    sys::send(server, b"pong", 0).ok()?;
    sys::recv(client, &mut [0; 4], 0).ok()?;
    sys::shutdown(client, libc::SHUT_WR).ok()?;
    sys::read(server, &mut [0; 4]).ok()?;
    [client, server, listener].into_iter().all(|fd| sys::close(fd).is_ok()).then_some(())
}

/// A filter that comes over exec and refuses a call by which we wait where the plain program only reads and
/// selects.
fn without(cx: &mut Cx, number: i64) {
    let (listener, port) = cx.listen();
    let inherited = sys::dup(listener).expect("a copy without FD_CLOEXEC");
    cx.ask(&format!("connect 90 {port}"));
    let mut program = Command::new("/proc/self/exe");
    program.args(["--waits", &inherited.to_string()]);
    // (Rust's own start polls, and goes on by fcntl where that says EAGAIN.)
    let refuse = move || _ = sys::deny_with(&[Denied::Call(number)], libc::EAGAIN);
    let out = std::thread::spawn(move || sys::run_in_child(program, refuse));
    for step in ["later 200 send 90 hello", "recvn 90 5", "later 200 send 90 again", "drain 90", "close 90"] {
        cx.peer(step);
    }
    say!("{}", out.join().expect("thread"));
    let _ = sys::close(inherited as Fd);
}

/// What the program behind the filter does.
pub(crate) fn waits_behind_one(listener: Fd) {
    let fd = sys::accept(listener).expect("accept") as Fd;
    let mut buf = [0; 5];
    let first = sys::recv(fd, &mut buf, libc::MSG_WAITALL);
    let wrote = show(sys::write(fd, &buf));
    let selected = sys::select(Select::Plain, &[fd], &[], &[], 5000);
    let then = sys::read(fd, &mut buf);
    println!("{} {wrote} {selected} {}", show(first), got(then, &buf));
}

/// The end of a process, one thread after the other.
fn without_exit_group(cx: &mut Cx) {
    let p = cx.warm();
    let pid = sys::fork(|| {
        sys::deny(&[Denied::Call(libc::SYS_exit_group)]).expect("filter");
        say!("write {}", show(sys::write(p.fd, b"last")));
        7
    });
    say!("child {}", sys::wait(pid));
    cx.peer(&format!("recvn {} 4", p.id));
}
