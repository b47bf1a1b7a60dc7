//! Points 30-31 and 37-40 within one process: the dup family, number reuse, limits, stdio streams.

use crate::context::{Case, Cx, got, pattern, read_all, say, settle, until_queued};
use isthmus_tests::sys::{self, Fd, Stream, poll1, show};
use libc::{F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_GETFL, O_NONBLOCK};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("fds.dup3_that_is_refused", dup3_that_is_refused),
    case("fds.dup_family", dup_family),
    case("fds.dup_before_use", dup_before_use),
    case("fds.dup2_replaces", dup2_replaces),
    any("fds.dup_keeps_open", dup_keeps_open),
    case("fds.nonblock_is_shared", nonblock_is_shared),
    case("fds.accept4_flags", accept4_flags),
    any("fds.number_reuse", number_reuse),
    any("fds.raw_close", raw_close),
    any("fds.close_range_own", close_range_own),
    any("fds.a_table_of_its_own", a_table_of_its_own),
    any("fds.close_loop", close_loop),
    case("fds.many_connections", many_connections),
    any("fds.limit", limit),
    case("fds.stdio_streams", stdio_streams),
    case("fds.stdio_read_only", stdio_read_only),
    case("fds.stdio_as_first_use", stdio_as_first_use),
    case("fds.dprintf", dprintf),
    any("fds.libcs_messages", libcs_messages),
    any("fds.self_connection", self_connection),
    any("fds.self_connection_server_first", self_connection_server_first),
    case("fds.two_at_once", two_at_once),
];

fn exchange(cx: &mut Cx, fd: Fd, id: u32) {
    cx.peer(&format!("send {id} ping"));
    let mut buf = [0u8; 9];
    let r = sys::read(fd, &mut buf);
    say!("read -> {}", got(r, &buf));
    say!("write -> {}", show(sys::write(fd, b"pong")));
    cx.peer(&format!("recv {id} 9"));
}

fn dup_family(cx: &mut Cx) {
    let p = cx.pair();
    exchange(cx, p.fd, 0);
    let copies = [
        sys::dup(p.fd),
        sys::dup2(p.fd, 200),
        sys::dup3(p.fd, 201, libc::O_CLOEXEC),
        sys::fcntl(p.fd, F_DUPFD, 210),
        sys::fcntl(p.fd, F_DUPFD_CLOEXEC, 220),
    ];
    for c in copies {
        let fd = c.expect("copy") as Fd;
        say!("cloexec {:?}", sys::fcntl(fd, F_GETFD, 0));
        exchange(cx, fd, 0);
        say!("close -> {}", show(sys::close(fd)));
        say!("gone -> {}", show(sys::write(fd, b"x")));
    }
    say!("dup2 to itself same {}", sys::dup2(p.fd, p.fd) == Ok(p.fd as usize));
    say!("dup3 to itself {}", show(sys::dup3(p.fd, p.fd, 0)));
    say!("dup of nothing {}", show(sys::dup(4000)));
    exchange(cx, p.fd, 0);
}

fn dup_before_use(cx: &mut Cx) {
    let p = cx.pair();
    let d = sys::dup(p.fd).expect("dup") as Fd;
    say!("close original -> {}", show(sys::close(p.fd)));
    exchange(cx, d, 0);
    let e = sys::dup(d).expect("dup") as Fd;
    exchange(cx, e, 0);
    exchange(cx, d, 0);
    cx.watch(d);
}

fn dup2_replaces(cx: &mut Cx) {
    let (p, q) = (cx.pair(), cx.pair());
    exchange(cx, p.fd, 0);
    exchange(cx, q.fd, 1);
    say!("dup2 worked {}", sys::dup2(q.fd, p.fd) == Ok(p.fd as usize));
    cx.peer("drain 0");
    exchange(cx, p.fd, 1);
    exchange(cx, q.fd, 1);
    say!("close -> {}", show(sys::close(q.fd)));
    exchange(cx, p.fd, 1);
    cx.watch(p.fd);
}

fn dup_keeps_open(cx: &mut Cx) {
    let p = cx.pair();
    exchange(cx, p.fd, 0);
    let d = sys::dup(p.fd).expect("dup") as Fd;
    say!("close one -> {}", show(sys::close(p.fd)));
    cx.peer("poll 0 1 60");
    exchange(cx, d, 0);
    say!("close last -> {}", show(sys::close(d)));
    cx.peer("poll 0 1 3000");
    cx.peer("drain 0");
}

fn nonblock_is_shared(cx: &mut Cx) {
    let p = cx.pair();
    sys::wait_once();
    let d = sys::dup(p.fd).expect("dup") as Fd;
    let flags = |fd| sys::fcntl(fd, F_GETFL, 0).map(|f| f & O_NONBLOCK as usize != 0);
    say!("nonblocking {:?} {:?}", flags(p.fd), flags(d));
    sys::nonblocking(d, true);
    say!("nonblocking {:?} {:?}", flags(p.fd), flags(d));
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 4])));
    say!("FIONBIO off {:?}", sys::ioctl_int(p.fd, libc::FIONBIO, 0).0);
    say!("nonblocking {:?} {:?}", flags(p.fd), flags(d));
    exchange(cx, d, 0);
    sys::nonblocking(p.fd, true);
    say!("read -> {}", show(sys::read(d, &mut [0; 4])));
    sys::nonblocking(p.fd, false);
    say!("access mode {:?}", sys::fcntl(p.fd, F_GETFL, 0).map(|f| f & libc::O_ACCMODE as usize));
}

fn accept4_flags(cx: &mut Cx) {
    let (l, port) = sys::listener();
    cx.ask(&format!("connect 7 {port}"));
    let fd = sys::accept4(l, libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC).expect("accept4") as Fd;
    say!("nonblocking {:?}", sys::fcntl(fd, F_GETFL, 0).map(|f| f & O_NONBLOCK as usize != 0));
    say!("cloexec {:?}", sys::fcntl(fd, F_GETFD, 0));
    say!("read -> {}", show(sys::read(fd, &mut [0; 4])));
    cx.peer("send 7 abc");
    until_queued(fd, 3);
    say!("read -> {}", show(sys::read(fd, &mut [0; 4])));
    sys::nonblocking(l, true);
    say!("accept4 on empty queue -> {}", show(sys::accept4(l, 0)));
    cx.watch(fd);
}

/// Every kind of descriptor that can take over a closed connection's number must behave as itself.
fn number_reuse(cx: &mut Cx) {
    for (i, kind) in ["null", "pipe", "eventfd", "memfile", "socketpair"].iter().enumerate() {
        let p = cx.pair();
        exchange(cx, p.fd, i as u32);
        say!("close -> {}", show(sys::close(p.fd)));
        let fd = match *kind {
            "null" => sys::open_null().expect("open") as Fd,
            "pipe" => sys::pipe(0).0,
            "eventfd" => sys::eventfd(1),
            "memfile" => sys::memfile(b"content"),
            _ => sys::socketpair().0,
        };
        say!("{kind} took the number: {}", fd == p.fd);
        sys::nonblocking(fd, true);
        say!("{kind} read -> {}", show(sys::read(fd, &mut [0; 8])));
        say!("{kind} poll {}", poll1(fd, libc::POLLIN, 0));
        sys::close(fd).expect("close");
    }
    let p = cx.pair();
    exchange(cx, p.fd, 5);
}

fn raw_close(cx: &mut Cx) {
    let p = cx.pair();
    exchange(cx, p.fd, 0);
    say!("raw close -> {}", show(sys::close_raw(p.fd)));
    cx.peer("drain 0");
    let (r, w) = sys::pipe(O_NONBLOCK);
    say!("number reused {}", r == p.fd || w == p.fd);
    say!("read -> {}", show(sys::read(r, &mut [0; 4])));
    say!("write -> {}", show(sys::write(w, b"abc")));
    say!("read -> {}", show(sys::read(r, &mut [0; 4])));
    sys::close(r).and(sys::close(w)).expect("close");
    let q = cx.pair();
    exchange(cx, q.fd, 1);
}

/// Two used connections moved to high numbers, so that a range above them holds nothing of std's.
fn two_high(cx: &mut Cx) -> (Fd, Fd) {
    let (p, q) = (cx.pair(), cx.pair());
    exchange(cx, p.fd, 0);
    exchange(cx, q.fd, 1);
    let high = |fd| {
        let copy = sys::fcntl(fd, F_DUPFD, 100).expect("copy") as Fd;
        sys::close(fd).map(|_| copy).expect("close")
    };
    let (p, q) = (high(p.fd), high(q.fd));
    exchange(cx, p, 0);
    (p, q)
}

fn close_range_own(cx: &mut Cx) {
    let (p, _) = two_high(cx);
    say!("close_range -> {}", show(sys::close_range(100, u32::MAX, 0)));
    cx.peer("drain 0");
    cx.peer("drain 1");
    say!("gone -> {}", show(sys::read(p, &mut [0; 1])));
    let r = cx.pair();
    exchange(cx, r.fd, 2);
}

/// A thread leaves the process's table of descriptors, and closes in its own what the others go on using.
fn a_table_of_its_own(cx: &mut Cx) {
    const UNSHARE: i32 = 2;
    let pairs = [0, 1].map(|_| cx.warm());
    let [one, other] = pairs.map(|p| p.fd);
    let apart = std::thread::spawn(move || {
        let parted = [sys::own_table(), sys::close(one)];
        // (The number is another file's here.)
        let file = sys::memfile(b"its own");
        parted.map(show).join(" ") + &format!(" {}", show(sys::close(file)))
    });
    say!("apart {}", apart.join().expect("thread"));
    exchange(cx, one, 0);
    let swept = std::thread::spawn(move || show(sys::close_range(other as u32, other as u32, UNSHARE)));
    say!("swept {}", swept.join().expect("thread"));
    exchange(cx, other, 1);
    exchange(cx, one, 0);
    for p in pairs {
        cx.peer(&format!("close {}", p.id));
        say!("end {}", show(sys::read(p.fd, &mut [0; 1])));
    }
    let later = cx.pair();
    exchange(cx, later.fd, later.id);
}

fn close_loop(cx: &mut Cx) {
    let (p, q) = two_high(cx);
    let closed = (100..1024).filter(|fd| sys::close(*fd).is_ok()).count();
    say!("closed exactly the two: {}", closed == 2);
    say!("gone -> {} {}", show(sys::read(p, &mut [0; 1])), show(sys::read(q, &mut [0; 1])));
    cx.peer("drain 0");
    cx.peer("drain 1");
    let r = cx.pair();
    exchange(cx, r.fd, 2);
    let s = cx.pair();
    exchange(cx, s.fd, 3);
}

fn many_connections(cx: &mut Cx) {
    let pairs: Vec<_> = (0..40).map(|_| cx.pair()).collect();
    let mut good = 0;
    for p in &pairs {
        cx.ask(&format!("sendn {} 3000", p.id));
        good += usize::from(read_all(p.fd, 3000) == crate::context::digest(&pattern(3000)));
    }
    say!("{good} of 40 connections carried data");
    pairs.iter().rev().for_each(|p| sys::close(p.fd).map(drop).expect("close"));
    cx.peer("drain 0");
    cx.peer("drain 39");
    let p = cx.pair();
    exchange(cx, p.fd, p.id);
}

/// With no descriptor left to use, connections still work and errno stays the program's.
fn limit(cx: &mut Cx) {
    let warm = cx.pair();
    exchange(cx, warm.fd, 0);
    let (l, port) = sys::listener();
    let c = sys::tcp(0);
    let next = sys::dup(c).expect("dup");
    sys::close(next as Fd).expect("close");
    sys::limit_fds(next as u64 + 1);
    say!("connect -> {}", show(sys::connect(c, port)));
    let s = sys::accept(l);
    say!("accept works {}", s.is_ok());
    say!("no room for another {}", show(sys::dup(l)));
    say!("write -> {}", show(sys::write(c, b"hello")));
    let mut buf = [0u8; 9];
    let r = sys::read(s.expect("accepted") as Fd, &mut buf);
    say!("read -> {}", got(r, &buf));
    exchange(cx, warm.fd, 0);
}

fn stdio_streams(cx: &mut Cx) {
    let p = cx.pair();
    exchange(cx, p.fd, 0);
    let d = sys::dup(p.fd).expect("dup") as Fd;
    let (mut r, mut w) = (Stream::open(p.fd, "r"), Stream::open(d, "w"));
    say!("put -> {}", show(w.put("hello over stdio\n", true)));
    cx.peer("recvn 0 17");
    cx.peer("send 0 line1_line2_");
    cx.peer("sendn 0 5000");
    say!("fread {}", crate::context::digest(&r.bytes(5012)));
    say!("put -> {}", show(w.put("buffered", false)));
    cx.peer("poll 0 1 30");
    say!("fclose writer -> {}", show(w.close()));
    cx.peer("recvn 0 8");
    cx.peer("shut 0 1");
    say!("at end {:?}", r.line());
    say!("fclose reader -> {}", show(r.close()));
    cx.peer("drain 0");
}

fn stdio_read_only(cx: &mut Cx) {
    let p = cx.pair();
    let mut s = Stream::open(p.fd, "r+");
    cx.ask("later 40 last 0 hello");
    say!("line {:?}", s.line());
    say!("line {:?}", s.line());
    cx.watch(sys::dup(p.fd).expect("dup") as Fd);
    say!("fclose -> {}", show(s.close()));
    cx.peer("close 0");
}

fn stdio_as_first_use(cx: &mut Cx) {
    let p = cx.pair();
    let mut s = Stream::open(p.fd, "w");
    say!("put -> {}", show(s.put("GET / HTTP/1.0\r\n\r\n", true)));
    cx.peer("recvn 0 18");
    cx.peer("send 0 ok");
    let mut buf = [0u8; 9];
    let r = sys::read(p.fd, &mut buf);
    say!("read -> {}", got(r, &buf));
    cx.watch(sys::dup(p.fd).expect("dup") as Fd);
    say!("fclose -> {}", show(s.close()));
}

/// libc's own messages on stderr, which is the connection, as inetd has it.
fn libcs_messages(cx: &mut Cx) {
    let own = sys::dup(2).expect("dup") as Fd;
    for nth in 0..4 {
        let p = cx.warm();
        sys::dup2(p.fd, 2).expect("dup2");
        let before = sys::write(2, b"before ");
        sys::libcs_own_messages(nth, 2);
        let after = sys::write(2, b"after");
        sys::dup2(own, 2).expect("dup2");
        say!("{} {}", show(before), show(after));
        say!("shutdown -> {}", show(sys::shutdown(p.fd, libc::SHUT_WR)));
        cx.peer(&format!("drain {}", p.id));
        cx.peer(&format!("send {} answer", p.id));
        let mut buf = [0; 9];
        let read = sys::read(p.fd, &mut buf);
        say!("read -> {}", got(read, &buf));
    }
}

fn dprintf(cx: &mut Cx) {
    let p = cx.pair();
    say!("dprintf -> {}", show(sys::dprintf(p.fd, "formatted")));
    cx.peer("recvn 0 9");
    exchange(cx, p.fd, 0);
    say!("dprintf -> {}", show(sys::dprintf(p.fd, "again")));
    cx.peer("recvn 0 5");
}

/// One thread, both ends.
fn self_connection(cx: &mut Cx) {
    let (l, port) = sys::listener();
    let c = sys::tcp(0);
    say!("connect -> {}", show(sys::connect(c, port)));
    say!("write before accept -> {}", show(sys::write(c, b"early")));
    let s = sys::accept(l).expect("accept") as Fd;
    let mut buf = [0u8; 64];
    for i in 0..3 {
        let r = sys::read(s, &mut buf);
        say!("{i} server read -> {}", got(r, &buf));
        say!("{i} server write -> {}", show(sys::write(s, b"reply")));
        let r = sys::read(c, &mut buf);
        say!("{i} client read -> {}", got(r, &buf));
        say!("{i} client write -> {}", show(sys::write(c, b"again")));
    }
    say!("shutdown -> {}", show(sys::shutdown(c, libc::SHUT_WR)));
    settle();
    say!("{}", read_all(s, usize::MAX));
    say!("close -> {} {}", show(sys::close(s)), show(sys::read(c, &mut buf)));
    let _ = cx;
}

fn self_connection_server_first(cx: &mut Cx) {
    let (l, port) = sys::listener();
    let c = sys::tcp(0);
    say!("connect -> {}", show(sys::connect(c, port)));
    let s = sys::accept(l).expect("accept") as Fd;
    let mut buf = [0u8; 64];
    say!("server poll {}", poll1(s, libc::POLLIN | libc::POLLOUT, 0));
    say!("client poll {}", poll1(c, libc::POLLIN | libc::POLLOUT, 0));
    say!("server write -> {}", show(sys::write(s, b"banner")));
    let r = sys::read(c, &mut buf);
    say!("client read -> {}", got(r, &buf));
    say!("client close -> {}", show(sys::close(c)));
    say!("server read -> {}", show(sys::read(s, &mut buf)));
    let _ = cx;
}

fn two_at_once(cx: &mut Cx) {
    let (p, q) = (cx.pair(), cx.pair());
    cx.peer("send 1 second");
    cx.peer("send 0 first");
    let mut buf = [0u8; 9];
    let r = sys::read(p.fd, &mut buf);
    say!("0: {}", got(r, &buf));
    let r = sys::read(q.fd, &mut buf);
    say!("1: {}", got(r, &buf));
    say!("{} {}", show(sys::write(q.fd, b"to1")), show(sys::write(p.fd, b"to0")));
    cx.peer("recv 0 9");
    cx.peer("recv 1 9");
}

/// A call that the kernel refuses closes nothing.
fn dup3_that_is_refused(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let copy = sys::dup(fd).expect("dup") as Fd;
    say!("flags of nobody -> {}", show(sys::dup3(fd, copy, 5)));
    say!("onto itself -> {}", show(sys::dup3(fd, fd, 0)));
    say!("from none -> {}", show(sys::dup3(-1, copy, 0)));
    say!("from none -> {}", show(sys::dup2(-1, copy)));
    say!("write -> {}", show(sys::write(copy, b"copy")));
    cx.peer("recvn 0 4");
    say!("close -> {}", show(sys::close(fd)));
    say!("write -> {}", show(sys::write(copy, b"alone")));
    cx.peer("recvn 0 5");
    cx.peer("send 0 back");
    say!("read -> {}", show(sys::read(copy, &mut [0; 9])));
    cx.watch(copy);
}
