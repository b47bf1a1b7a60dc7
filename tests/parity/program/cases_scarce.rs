//! A program that may have no more descriptors than it has, for good: every call that makes one finds those
//! numbers that shared memory does not need, and they come back when it does.

use crate::context::{Case, Cx, read_all, say, until_queued};
use isthmus_tests::sys::{self, Fd, InHandler, int_by_name, show};
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    Case { name: "scarce.all_calls", shm: true, run: all_calls },
    Case { name: "scarce.after_a_second", shm: true, run: after_a_second },
    Case { name: "scarce.dup_onto_any", shm: true, run: dup_onto_any },
    Case { name: "scarce.shared_connections", shm: false, run: shared_connections },
    Case { name: "scarce.shared_with_a_handler", shm: false, run: shared_with_a_handler },
    Case { name: "scarce.dup_onto_shared", shm: false, run: dup_onto_shared },
    Case { name: "scarce.several_take_shared", shm: false, run: several_take_shared },
    Case { name: "scarce.few", shm: false, run: few },
    Case { name: "scarce.to_itself", shm: false, run: to_itself },
    Case { name: "scarce.connect_under_way", shm: false, run: connect_under_way },
    Case { name: "scarce.passed_on", shm: false, run: |cx| passed_on(cx, false, false) },
    Case { name: "scarce.passed_unread", shm: false, run: |cx| passed_on(cx, true, false) },
    Case { name: "scarce.passed_by_both", shm: false, run: |cx| passed_on(cx, false, true) },
    Case { name: "scarce.passed_unread_by_both", shm: false, run: |cx| passed_on(cx, true, true) },
    Case { name: "scarce.dup_onto_passed", shm: false, run: |cx| dup_onto_passed(cx, false, false) },
    Case { name: "scarce.dup_onto_unread", shm: false, run: |cx| dup_onto_passed(cx, true, true) },
];

/// Some connections come, move bytes and go, so that there are slots that nobody uses.
fn come_and_go(cx: &mut Cx) {
    let pairs: Vec<_> = (0..16).map(|_| cx.warm()).collect();
    for p in pairs {
        assert_eq!(sys::close(p.fd), Ok(0));
        cx.ask(&format!("drain {}", p.id));
        cx.ask(&format!("close {}", p.id));
    }
}

/// Calls `make` until it fails; how many descriptors it made, and why no more.
fn fill(make: impl Fn(&mut [i32; 2]) -> sys::Ret) -> (usize, String) {
    let mut made: Vec<Fd> = Vec::new();
    let why = loop {
        let mut pair = [-1; 2];
        match make(&mut pair) {
            Ok(fd) if pair[0] < 0 => made.push(fd as Fd),
            Ok(_) => made.extend(pair),
            Err(errno) => break show(Err(errno)),
        }
    };
    for fd in &made {
        assert_eq!(sys::close(*fd), Ok(0));
    }
    (made.len(), why)
}

fn all_calls(cx: &mut Cx) {
    sys::limit_fds_for_good(1024);
    let path = c"/dev/null".as_ptr().addr();
    let here = libc::AT_FDCWD as usize;
    let (unix, stream) = (libc::AF_UNIX as usize, libc::SOCK_STREAM as usize);
    let no_signals = [0u64; 16];
    let signals = no_signals.as_ptr().addr();
    let epoll = sys::epoll();
    let ptmx = libc::O_RDWR | libc::O_NOCTTY;
    let calls: [(&str, &[usize]); 27] = [
        ("socket", &[unix, stream, 0]),
        ("open", &[path, 0, 0]),
        ("open64", &[path, 0, 0]),
        ("openat", &[here, path, 0, 0]),
        ("openat64", &[here, path, 0, 0]),
        ("creat", &[path, 0o600]),
        ("creat64", &[path, 0o600]),
        ("__open_2", &[path, 0]),
        ("__open64_2", &[path, 0]),
        ("__openat_2", &[here, path, 0]),
        ("__openat64_2", &[here, path, 0]),
        ("inotify_init", &[]),
        ("pidfd_open", &[std::process::id() as usize, 0]),
        ("posix_openpt", &[ptmx as usize]),
        ("eventfd", &[0, 0]),
        ("timerfd_create", &[1, 0]),
        ("signalfd", &[usize::MAX, signals, 0]),
        ("inotify_init1", &[0]),
        ("memfd_create", &[c"scarce".as_ptr().addr(), 0]),
        ("epoll_create1", &[0]),
        ("epoll_create", &[1]),
        ("dup", &[0]),
        ("dup", &[epoll as usize]),
        ("fcntl", &[0, libc::F_DUPFD as usize, 3]),
        ("fcntl64", &[epoll as usize, libc::F_DUPFD_CLOEXEC as usize, 3]),
        ("__fcntl", &[0, libc::F_DUPFD as usize, 3]),
        ("accept4", &[usize::MAX, 0, 0, 0]),
    ];
    for (name, args) in calls {
        come_and_go(cx);
        let (made, why) = fill(|_| int_by_name(name, args));
        // (An ordinary user may have few inotify instances, and a machine few terminals.)
        let is_counted = matches!(name, "inotify_init" | "inotify_init1" | "posix_openpt");
        let many = is_counted || name == "accept4" || made > 995;
        say!("{name}: nearly all {many}, then {}", if is_counted { "" } else { &why });
    }
    for (name, before) in [("pipe", &[][..]), ("pipe2", &[]), ("socketpair", &[unix, stream, 0])] {
        come_and_go(cx);
        let (made, why) = fill(|pair| int_by_name(name, &[before, &[pair.as_mut_ptr().addr(), 0]].concat()));
        say!("{name}: nearly all {}, then {why}", made > 995);
    }
    accepts(cx);
    is_shared_again(cx);
}

/// Each of these is the first to find no number since connections were shared again.
fn after_a_second(cx: &mut Cx) {
    sys::limit_fds_for_good(1024);
    let path = c"/dev/null".as_ptr().addr();
    let calls: [(&str, &[usize]); 4] = [
        ("creat", &[path, 0o600]),
        ("__open_2", &[path, 0]),
        ("__openat64_2", &[libc::AT_FDCWD as usize, path, 0]),
        ("pidfd_open", &[std::process::id() as usize, 0]),
    ];
    for (name, args) in calls {
        come_and_go(cx);
        let (made, why) = fill(|_| int_by_name(name, args));
        say!("{name}: nearly all {}, then {why}", made > 995);
        is_shared_again(cx);
    }
}

/// What was given up is taken again after a second, by the next connection; a listener is found again once it
/// has accepted one.
fn is_shared_again(cx: &mut Cx) {
    std::thread::sleep(Duration::from_millis(1_100));
    cx.warm();
    let p = cx.warm();
    cx.watch(p.fd);
}

/// A server has room for one more connection only if it gives numbers back.
fn accepts(cx: &mut Cx) {
    let (l, port) = sys::listener();
    for name in ["accept", "accept4"] {
        come_and_go(cx);
        let id = if name == "accept" { 900 } else { 901 };
        cx.ask(&format!("connect {id} {port}"));
        let mut others: Vec<Fd> = Vec::new();
        // (By the number of what is open, so that the call itself is the one that fails first.)
        while let Ok(fd) = sys::raw_dup(0) {
            others.push(fd as Fd);
        }
        // (Over TCP it is refused now, and goes well when there is room.)
        let accepted = int_by_name(name, &[l as usize, 0, 0, 0]);
        for fd in others {
            assert_eq!(sys::close(fd), Ok(0));
        }
        let fd = accepted.or_else(|_| int_by_name(name, &[l as usize, 0, 0, 0])).expect("accepted") as Fd;
        cx.ask(&format!("send {id} hello"));
        let mut bytes = [0; 5];
        say!("read -> {}", show(sys::recv(fd, &mut bytes, libc::MSG_WAITALL)));
        assert_eq!(sys::close(fd), Ok(0));
        cx.ask(&format!("close {id}"));
    }
}

/// The program takes every number between a connect() that does not wait and its first look at the socket.
fn connect_under_way(cx: &mut Cx) {
    const ID: u32 = 700;
    sys::limit_fds_for_good(256);
    let port = cx.listening_peer();
    let fd = sys::tcp(libc::SOCK_CLOEXEC);
    sys::nonblocking(fd, true);
    say!("connect -> {}", show(sys::connect(fd, port)));
    let (_, why) = fill(|_| int_by_name("dup", &[0]));
    say!("then {why}");
    sys::nonblocking(fd, false);
    sys::set_timeout(fd, libc::SO_RCVTIMEO, 3000).expect("a time limit");
    cx.ask(&format!("accept {ID}"));
    cx.peer(&format!("send {ID} hello"));
    say!("read {}", read_all(fd, 5));
    say!("write -> {}", show(sys::write(fd, b"there")));
    cx.peer(&format!("recvn {ID} 5"));
}

/// dup2 onto every number: those of unused slots make way.
fn dup_onto_any(cx: &mut Cx) {
    sys::limit_fds_for_good(1024);
    come_and_go(cx);
    let refused = (500..1000).filter(|number| sys::dup2(0, *number).is_err()).count();
    say!("all of 500 numbers but for a few {}", refused <= 8);
    for number in 500..1000 {
        let _ = sys::close(number);
    }
    is_shared_again(cx);
}

/// Connections that are in use, in sets and out of them, go on when the program takes every number.
fn shared_connections(cx: &mut Cx) {
    sys::limit_fds_for_good(256);
    let pairs: Vec<_> = (0..12).map(|_| cx.warm()).collect();
    let set = sys::epoll();
    for p in &pairs[..8] {
        let edge = if p.id % 2 == 0 { libc::EPOLLET } else { 0 };
        sys::ep_add(set, p.fd, libc::EPOLLIN | edge, u64::from(p.id)).expect("add");
    }
    let reader = pairs[11].fd;
    let blocked = std::thread::spawn(move || {
        let mut bytes = [0; 5];
        format!("blocked read -> {}", show(sys::recv(reader, &mut bytes, libc::MSG_WAITALL)))
    });
    let (made, why) = fill(|_| sys::dup(0));
    say!("{made} more, then {why}");
    cx.ask("send 11 hello");
    say!("{}", blocked.join().expect("a thread"));
    for p in &pairs[..11] {
        cx.ask(&format!("send {} hello", p.id));
        if p.id < 8 {
            say!("epoll -> {}", sys::ep_show(set, 5000));
        }
        let mut bytes = [0; 5];
        say!("{} read -> {}", p.id, show(sys::recv(p.fd, &mut bytes, libc::MSG_WAITALL)));
        say!("write -> {}", show(sys::write(p.fd, b"after")));
        cx.peer(&format!("recvn {} 5", p.id));
    }
    for p in pairs {
        assert_eq!(sys::close(p.fd), Ok(0));
        cx.peer(&format!("drain {}", p.id));
    }
}

/// Who reads is in a signal handler when the program wants the last number, and cannot look until it returns.
fn shared_with_a_handler(cx: &mut Cx) {
    sys::limit_fds_for_good(256);
    let pair = cx.warm();
    sys::call_in_handler(libc::SIGUSR1, true, InHandler::Nap, pair.fd);
    let (tell, told) = std::sync::mpsc::channel();
    let blocked = std::thread::spawn(move || {
        tell.send(sys::this_thread()).expect("somebody waits");
        let mut bytes = [0; 5];
        format!("blocked read -> {}", show(sys::recv(pair.fd, &mut bytes, libc::MSG_WAITALL)))
    });
    let reader = told.recv().expect("a thread");
    std::thread::sleep(Duration::from_millis(80));
    let mut others: Vec<Fd> = Vec::new();
    while let Ok(fd) = sys::raw_dup(0) {
        others.push(fd as Fd);
    }
    sys::signal_thread(reader, libc::SIGUSR1);
    std::thread::sleep(Duration::from_millis(5));
    let (made, why) = fill(|_| sys::dup(0));
    say!("{} more, then {why}", others.len() + made);
    for fd in others {
        assert_eq!(sys::close(fd), Ok(0));
    }
    cx.ask(&format!("send {} hello", pair.id));
    say!("{}", blocked.join().expect("a thread"));
    say!("write -> {}", show(sys::write(pair.fd, b"after")));
    cx.peer(&format!("recvn {} 5", pair.id));
}

/// dup2 onto every number: those of connections in use make way, and the connections go on.
fn dup_onto_shared(cx: &mut Cx) {
    sys::limit_fds_for_good(256);
    let pairs: Vec<_> = (0..12).map(|_| cx.warm()).collect();
    let refused = (100..256).filter(|number| sys::dup2(0, *number).is_err()).count();
    say!("{refused} of 156 numbers refused");
    for p in pairs {
        cx.ask(&format!("send {} hello", p.id));
        let mut bytes = [0; 5];
        say!("{} read -> {}", p.id, show(sys::recv(p.fd, &mut bytes, libc::MSG_WAITALL)));
        say!("write -> {}", show(sys::write(p.fd, b"after")));
        cx.peer(&format!("recvn {} 5", p.id));
    }
}

/// Several threads at once put their own onto every number, of connections with bytes that nobody has read.
fn several_take_shared(cx: &mut Cx) {
    sys::limit_fds_for_good(256);
    let pairs: Vec<_> = (0..12).map(|_| cx.warm()).collect();
    for p in &pairs {
        cx.ask(&format!("send {} early", p.id));
        until_queued(p.fd, 5);
    }
    let begin = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                begin.wait();
                (100..256).for_each(|number| _ = sys::dup2(0, number));
            });
        }
    });
    for p in pairs {
        cx.ask(&format!("send {} late", p.id));
        say!("{} read {}", p.id, read_all(p.fd, 9));
        say!("write -> {}", show(sys::write(p.fd, b"after")));
        cx.peer(&format!("recvn {} 5", p.id));
    }
}

/// The program takes every number between passing a connection on and the receiver's first look at it: of one
/// with bytes that nobody has read, and where the other end, which has the memory too, has done so before.
fn passed_on(cx: &mut Cx, unread: bool, by_both: bool) {
    sys::limit_fds_for_good(256);
    receiver_looks_after(cx, unread, by_both, || {
        let (made, why) = fill(|_| sys::dup(0));
        say!("nearly all {}, then {why}", made > 235);
    });
}

/// The same where it puts its own onto every number.
fn dup_onto_passed(cx: &mut Cx, unread: bool, by_both: bool) {
    sys::limit_fds_for_good(256);
    receiver_looks_after(cx, unread, by_both, || {
        let refused = (60..250).filter(|number| sys::dup2(0, *number).is_err()).count();
        say!("but for the one of unread memory refused: {}", refused.saturating_sub(unread.into()));
        (60..250).for_each(|number| _ = sys::close(number));
    });
}

/// Takes every number that there is.
pub(crate) fn take_all_numbers() -> String {
    fill(|_| sys::dup(0)).1
}

/// Passes a connection on, perhaps with bytes that nobody has read, does `what`, and lets a process that had
/// no part in the connection go on with it.
fn receiver_looks_after(cx: &mut Cx, unread: bool, by_both: bool, what: impl Fn()) {
    cx.ask("few 256");
    let (a, b) = sys::socketpair();
    let receiver = sys::fork(|| {
        let _ = sys::close(a);
        let Ok(fd) = sys::recv_fd(b).map(|fd| fd as Fd) else { return 7 };
        let read = if unread { read_all(fd, 5) } else { String::new() };
        let wrote = sys::write(fd, b"passed");
        say!("{read} write -> {}, then {}", show(wrote), read_all(fd, 5));
        0
    });
    let _ = sys::close(b);
    let p = cx.warm();
    if unread {
        cx.ask(&format!("send {} early", p.id));
    }
    sys::kill(receiver, libc::SIGSTOP).expect("a child");
    say!("pass -> {}", show(sys::send_fd(a, p.fd)));
    let _ = sys::close(p.fd);
    if by_both {
        cx.ask("take_all");
    }
    what();
    sys::kill(receiver, libc::SIGCONT).expect("a child");
    cx.peer(&format!("recvn {} 6", p.id));
    cx.ask(&format!("send {} after", p.id));
    let status = sys::reap(receiver, 0).map(|(_, status)| sys::show_status(status));
    say!("receiver {status:?}");
    let _ = sys::close(a);
}

/// Who may have a few numbers only has all of them.
fn few(cx: &mut Cx) {
    sys::limit_fds_for_good(64);
    let mut pairs = Vec::new();
    for _ in 0..20 {
        pairs.push(cx.warm());
    }
    let (made, why) = fill(|_| sys::dup(0));
    say!("{made} more, then {why}");
    for p in pairs {
        assert_eq!(sys::close(p.fd), Ok(0));
    }
    let (made, why) = fill(|_| sys::dup(0));
    say!("{made} without them, then {why}");
}

/// A process connects to itself until it has no number more, for the last connection or for accepting it: the
/// memory that was meant for that keeps none.
fn to_itself(cx: &mut Cx) {
    for most in [160, 161] {
        let pid = sys::fork(|| {
            sys::limit_fds_for_good(256);
            sys::limit_fds(most);
            say!("{}", connect_to_itself());
            0
        });
        say!("child {}", sys::wait(pid));
    }
    cx.warm();
}

/// How many numbers it had, and what there was none for.
fn connect_to_itself() -> String {
    let (listener, port) = sys::listener();
    let (mut made, mut accepted) = (0, Ok(0));
    let is_one_left = || sys::dup(listener).is_ok_and(|copy| sys::close(copy as Fd).is_ok());
    while accepted.is_ok() && is_one_left() {
        let fd = sys::tcp(0);
        sys::connect(fd, port).expect("connect");
        made += 1;
        accepted = sys::accept(listener);
        if let Ok(other) = accepted {
            made += 1;
            sys::write(fd, b"ping").expect("write");
            assert_eq!(sys::read(other as Fd, &mut [0; 4]), Ok(4));
        }
    }
    while sys::open_null().is_ok() {
        made += 1;
    }
    format!("{made} {}", accepted.is_ok())
}
