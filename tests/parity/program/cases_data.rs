//! Points 1-11, 14-16: the data calls on a healthy connection.

use crate::context::{Case, Cx, got, pattern, read_all, say, settle, until_queued, write_all};
use isthmus_tests::sys::{self, show};
use libc::{MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, MSG_TRUNC, MSG_WAITALL};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

pub(crate) const CASES: &[Case] = &[
    case("data.short_read", short_read),
    case("data.zero_length", zero_length),
    case("data.nothing_first", nothing_first),
    case("data.nonblocking_meanwhile", nonblocking_meanwhile),
    case("data.peek", peek),
    case("data.peek_over_wrap", peek_over_wrap),
    case("data.waitall", waitall),
    case("data.waitall_eof", waitall_eof),
    case("data.dontwait", dontwait),
    case("data.truncate", truncate),
    case("data.more_and_cork", more_and_cork),
    case("data.vectors", vectors),
    case("data.vector_limits", vector_limits),
    case("data.messages", messages),
    case("data.names", names),
    case("data.bad_pointer", bad_pointer),
    case("data.many_messages", many_messages),
    case("data.queue_sizes", queue_sizes),
    case("data.tcp_view", tcp_view),
    Case { name: "data.large_both_ways", shm: false, run: large_both_ways },
    case("data.odd_sizes", odd_sizes),
    case("data.writers_keep_records", writers_keep_records),
    case("data.lowat_read", lowat_read),
    case("data.first_use_is_write", first_use_is_write),
    case("data.first_use_is_late_read", first_use_is_late_read),
    case("data.ping_pong", ping_pong),
    case("data.offset_calls", offset_calls),
    case("data.errno_kept", errno_kept),
    case("data.long_messages_end_at_no_power_of_two", long_messages),
];

fn short_read(cx: &mut Cx) {
    let p = cx.pair();
    let mut buf = [0u8; 100];
    cx.peer("send 0 hello");
    let r = sys::read(p.fd, &mut buf);
    say!("read 100 -> {}", got(r, &buf));
    cx.peer("send 0 abcdefgh");
    for n in [3, 2, 100] {
        let r = sys::recv(p.fd, &mut buf[..n], 0);
        say!("recv {n} -> {}", got(r, &buf));
    }
    say!("write -> {}", show(sys::write(p.fd, b"answer")));
    cx.peer("recv 0 100");
}

fn zero_length(cx: &mut Cx) {
    let p = cx.warm();
    say!("send 0 -> {}", show(sys::send(p.fd, &[], 0)));
    say!("write 0 -> {}", show(sys::write(p.fd, &[])));
    cx.peer("poll 0 1 50");
    say!("recv 0 idle dontwait -> {}", show(sys::recv(p.fd, &mut [], MSG_DONTWAIT)));
    say!("read 0 idle -> {}", show(sys::read(p.fd, &mut [])));
    cx.peer("send 0 x");
    until_queued(p.fd, 1);
    say!("recv 0 with data -> {}", show(sys::recv(p.fd, &mut [], MSG_DONTWAIT)));
    say!("read 0 with data -> {}", show(sys::read(p.fd, &mut [])));
    say!("writev of empties -> {}", show(sys::writev(p.fd, &[&[], &[]])));
    say!("queued {}", sys::queued(p.fd));
}

fn peek(cx: &mut Cx) {
    let p = cx.pair();
    let mut buf = [0u8; 100];
    cx.peer("send 0 first");
    for n in [3, 100, 100] {
        let r = sys::recv(p.fd, &mut buf[..n], MSG_PEEK);
        say!("peek {n} -> {}", got(r, &buf));
    }
    cx.peer("send 0 second");
    until_queued(p.fd, 11);
    let r = sys::recv(p.fd, &mut buf, MSG_PEEK);
    say!("peek more -> {}", got(r, &buf));
    let r = sys::recv(p.fd, &mut buf[..8], MSG_PEEK | MSG_WAITALL);
    say!("peek waitall 8 -> {}", got(r, &buf));
    let r = sys::read(p.fd, &mut buf);
    say!("read -> {}", got(r, &buf));
    let r = sys::recv(p.fd, &mut buf, MSG_PEEK | MSG_DONTWAIT);
    say!("peek empty -> {}", got(r, &buf));
    cx.peer("shut 0 1");
    settle();
    let r = sys::recv(p.fd, &mut buf, MSG_PEEK);
    say!("peek at EOF -> {}", got(r, &buf));
}

fn peek_over_wrap(cx: &mut Cx) {
    let p = cx.pair();
    let (mut a, mut b, mut same) = (vec![0u8; 7919], vec![0u8; 7919], 0);
    let want = pattern(7919);
    for _ in 0..200 {
        cx.ask("sendn 0 7919");
        let r1 = sys::recv(p.fd, &mut a, MSG_PEEK | MSG_WAITALL);
        let r2 = sys::recv(p.fd, &mut b, MSG_WAITALL);
        same += usize::from(r1 == Ok(7919) && r2 == Ok(7919) && a == want && b == want);
    }
    say!("{same} of 200 peeks equal the read after them");
}

fn waitall(cx: &mut Cx) {
    let p = cx.pair();
    let mut buf = [0u8; 16];
    cx.peer("send 0 abc");
    cx.ask("later 60 send 0 defgh");
    let r = sys::recv(p.fd, &mut buf[..8], MSG_WAITALL);
    say!("waitall 8 in two parts -> {}", got(r, &buf));
    cx.peer("send 0 abc");
    sys::set_timeout(p.fd, libc::SO_RCVTIMEO, 80).expect("timeout");
    let r = sys::recv(p.fd, &mut buf[..8], MSG_WAITALL);
    say!("waitall 8 with timeout -> {}", got(r, &buf));
    let r = sys::recv(p.fd, &mut buf[..8], MSG_WAITALL);
    say!("waitall 8 with timeout, nothing there -> {}", got(r, &buf));
    cx.peer("send 0 abcdef");
    until_queued(p.fd, 6);
    let r = sys::recv(p.fd, &mut buf[..8], MSG_WAITALL | MSG_DONTWAIT);
    say!("waitall 8 dontwait -> {}", got(r, &buf));
}

fn waitall_eof(cx: &mut Cx) {
    let p = cx.pair();
    let mut buf = [0u8; 16];
    cx.peer("send 0 abcde");
    cx.ask("later 60 shut 0 1");
    let r = sys::recv(p.fd, &mut buf[..8], MSG_WAITALL);
    say!("waitall 8 then EOF -> {}", got(r, &buf));
    let r = sys::recv(p.fd, &mut buf[..8], MSG_WAITALL);
    say!("again -> {}", got(r, &buf));
}

fn dontwait(cx: &mut Cx) {
    let p = cx.pair();
    sys::wait_once();
    let mut buf = [0u8; 16];
    let r = sys::recv(p.fd, &mut buf, MSG_DONTWAIT);
    say!("recv dontwait -> {}", got(r, &buf));
    let (r, w) = sys::pipe(libc::O_NONBLOCK);
    say!("foreign pipe read -> {}", show(sys::read(r, &mut buf)));
    let (a, _b) = sys::socketpair();
    say!("foreign unix recv dontwait -> {}", show(sys::recv(a, &mut buf, MSG_DONTWAIT)));
    say!("foreign pipe write -> {}", show(sys::write(w, b"x")));
    sys::nonblocking(p.fd, true);
    say!("read nonblocking -> {}", show(sys::read(p.fd, &mut buf)));
    say!("recv waitall nonblocking -> {}", show(sys::recv(p.fd, &mut buf, MSG_WAITALL)));
    cx.peer("send 0 x");
    until_queued(p.fd, 1);
    say!("read nonblocking with data -> {}", show(sys::read(p.fd, &mut buf)));
    say!("send dontwait -> {}", show(sys::send(p.fd, b"yy", MSG_DONTWAIT)));
    cx.peer("recv 0 9");
}

fn truncate(cx: &mut Cx) {
    let p = cx.pair();
    cx.peer("send 0 abcde");
    until_queued(p.fd, 5);
    say!("truncate 3 -> {}", show(sys::recv_null(p.fd, 3, MSG_TRUNC)));
    say!("queued {}", sys::queued(p.fd));
    let mut buf = [0u8; 9];
    let r = sys::read(p.fd, &mut buf);
    say!("read -> {}", got(r, &buf));
}

fn more_and_cork(cx: &mut Cx) {
    let p = cx.pair();
    say!("more -> {}", show(sys::send(p.fd, b"ab", libc::MSG_MORE)));
    say!("last -> {}", show(sys::send(p.fd, b"cd", 0)));
    cx.peer("recvn 0 4");
    say!("nodelay -> {}", show(sys::setopt(p.fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)));
    say!("cork -> {}", show(sys::setopt(p.fd, libc::IPPROTO_TCP, libc::TCP_CORK, 1)));
    say!("corked write -> {}", show(sys::write(p.fd, b"efgh")));
    cx.peer("recvn 0 4");
    say!("uncork -> {}", show(sys::setopt(p.fd, libc::IPPROTO_TCP, libc::TCP_CORK, 0)));
    say!("more, never finished -> {}", show(sys::send(p.fd, b"ij", libc::MSG_MORE)));
    cx.peer("recvn 0 2");
}

fn vectors(cx: &mut Cx) {
    let p = cx.pair();
    say!("writev -> {}", show(sys::writev(p.fd, &[b"ab", b"", b"cde", b"f"])));
    cx.peer("recvn 0 6");
    cx.peer("send 0 abcdefghij");
    until_queued(p.fd, 10);
    let (mut a, mut b, mut c) = ([0u8; 3], [0u8; 1], [0u8; 20]);
    let r = sys::readv(p.fd, &mut [&mut a, &mut b, &mut c]);
    say!("readv 3+1+20 -> {} {:?} {:?} {:?}", show(r), a, b, &c[..6]);
    say!("sendto -> {}", show(sys::sendto(p.fd, b"xyz", MSG_NOSIGNAL)));
    cx.peer("recvn 0 3");
    let big = pattern(300_000);
    let parts: Vec<&[u8]> = big.chunks(999).collect();
    cx.tell("recvn 0 300000");
    say!("writev of {} parts -> {}", parts.len(), show(sys::writev(p.fd, &parts)));
    say!("peer got {}", cx.answer());
}

fn vector_limits(cx: &mut Cx) {
    let p = cx.pair();
    let parts = vec![&b"z"[..]; 1025];
    say!("writev 1024 -> {}", show(sys::writev(p.fd, &parts[..1024])));
    say!("writev 1025 -> {}", show(sys::writev(p.fd, &parts)));
    say!("sendmsg 1024 -> {}", show(sys::sendmsg(p.fd, &parts[..1024], 0)));
    say!("sendmsg 1025 -> {}", show(sys::sendmsg(p.fd, &parts, 0)));
    cx.peer("recvn 0 2048");
    cx.peer("sendn 0 3000");
    until_queued(p.fd, 3000);
    let mut space = vec![[0u8; 1]; 1025];
    let mut bufs: Vec<&mut [u8]> = space.iter_mut().map(|b| &mut b[..]).collect();
    say!("readv 1025 -> {}", show(sys::readv(p.fd, &mut bufs)));
    say!("recvmsg 1025 -> {:?}", sys::recvmsg(p.fd, &mut bufs, 0).0);
    say!("readv 1024 -> {}", show(sys::readv(p.fd, &mut bufs[..1024])));
    say!("recvmsg 1024 -> {:?}", sys::recvmsg(p.fd, &mut bufs[..1024], 0));
    say!("readv 0 -> {}", show(sys::readv(p.fd, &mut [])));
    say!("writev 0 -> {}", show(sys::writev(p.fd, &[])));
    say!("queued {}", sys::queued(p.fd));
}

fn messages(cx: &mut Cx) {
    let p = cx.pair();
    say!("sendmsg -> {}", show(sys::sendmsg(p.fd, &[b"ab", b"cd"], MSG_NOSIGNAL)));
    cx.peer("recvn 0 4");
    cx.peer("send 0 abcdef");
    until_queued(p.fd, 6);
    let (mut a, mut b) = ([0u8; 2], [0u8; 9]);
    say!("recvmsg peek -> {:?}", sys::recvmsg(p.fd, &mut [&mut a], MSG_PEEK));
    say!("recvmsg -> {:?}", sys::recvmsg(p.fd, &mut [&mut a, &mut b], 0));
    say!("data {a:?} {:?}", &b[..4]);
    say!("recvmsg empty -> {:?}", sys::recvmsg(p.fd, &mut [&mut a], MSG_DONTWAIT).0);
    cx.peer("shut 0 1");
    settle();
    say!("recvmsg at EOF -> {:?}", sys::recvmsg(p.fd, &mut [&mut a], 0));
}

fn names(cx: &mut Cx) {
    let p = cx.pair();
    cx.peer("send 0 abc");
    let mut buf = [0u8; 9];
    let (r, len) = sys::recvfrom(p.fd, &mut buf, 0);
    say!("recvfrom -> {} addrlen {len}", got(r, &buf));
    let known = sys::peer_port(p.fd).is_ok_and(|n| n > 0) && sys::port_of(p.fd) > 0;
    say!("both names known: {known}");
}

fn bad_pointer(cx: &mut Cx) {
    let p = cx.pair();
    cx.peer("send 0 abcd");
    until_queued(p.fd, 4);
    let outcome = |pid: i32| match sys::wait(pid).as_str() {
        "exit 14" | "signal 11" => "EFAULT or SIGSEGV".to_string(),
        other => other.to_string(),
    };
    let code = |r: sys::Ret| r.err().map_or(0, |e| e.0 as u8);
    say!("bad recv -> {}", outcome(sys::fork(|| code(sys::recv_bad(p.fd, 4)))));
    say!("bad send -> {}", outcome(sys::fork(|| code(sys::send_bad(p.fd, 4)))));
    say!("half bad readv -> {}", outcome(sys::fork(|| code(sys::readv_half_bad(p.fd, &mut [0; 2], 4)))));
    let mut buf = [0u8; 9];
    let r = sys::recv(p.fd, &mut buf, MSG_PEEK);
    say!("still there: {}", r.is_ok_and(|n| n == 4 || n == 2));
}

fn many_messages(cx: &mut Cx) {
    let p = cx.pair();
    say!("sendmmsg -> {:?}", sys::sendmmsg(p.fd, &[b"one", b"three", b"x"], 0));
    cx.peer("recvn 0 9");
    cx.peer("send 0 abcdefg");
    until_queued(p.fd, 7);
    let (mut a, mut b, mut c) = ([0u8; 4], [0u8; 9], [0u8; 9]);
    let r = sys::recvmmsg(p.fd, &mut [&mut a, &mut b, &mut c], MSG_DONTWAIT, None);
    say!("recvmmsg -> {r:?} {a:?} {:?}", &b[..3]);
    let r = sys::recvmmsg(p.fd, &mut [&mut a, &mut b], MSG_DONTWAIT, None);
    say!("recvmmsg empty -> {:?}", r.0);
    cx.peer("send 0 hi");
    let r = sys::recvmmsg(p.fd, &mut [&mut a, &mut b], libc::MSG_WAITFORONE, Some(2000));
    say!("recvmmsg waitforone -> {r:?}");
}

fn queue_sizes(cx: &mut Cx) {
    let p = cx.pair();
    say!("write -> {}", show(sys::write(p.fd, b"12345")));
    cx.peer("poll 0 1 3000");
    cx.peer("queued 0");
    cx.peer("recv 0 2");
    cx.peer("queued 0");
    cx.peer("recv 0 9");
    settle();
    say!("SIOCOUTQ after all is read {:?}", sys::ioctl_int(p.fd, libc::TIOCOUTQ, -1));
    cx.peer("send 0 abcde");
    until_queued(p.fd, 5);
    say!("FIONREAD {:?}", sys::ioctl_int(p.fd, libc::FIONREAD, -1));
    let mut buf = [0u8; 2];
    say!("read -> {}", show(sys::read(p.fd, &mut buf)));
    say!("FIONREAD {:?}", sys::ioctl_int(p.fd, libc::FIONREAD, -1));
}

fn tcp_view(cx: &mut Cx) {
    let p = cx.pair();
    cx.peer("send 0 xyz");
    let mut buf = [0u8; 3];
    say!("read -> {}", show(sys::read(p.fd, &mut buf)));
    say!("state {}", sys::tcp_state(p.fd));
    for (name, opt) in [
        ("type", libc::SO_TYPE),
        ("domain", libc::SO_DOMAIN),
        ("protocol", libc::SO_PROTOCOL),
        ("error", libc::SO_ERROR),
        ("acceptconn", libc::SO_ACCEPTCONN),
    ] {
        say!("{name} {:?}", sys::getopt(p.fd, libc::SOL_SOCKET, opt));
    }
    for opt in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
        say!("set -> {}", show(sys::setopt(p.fd, libc::SOL_SOCKET, opt, 32768)));
        say!("get -> {:?}", sys::getopt(p.fd, libc::SOL_SOCKET, opt));
    }
    say!("keepalive -> {}", show(sys::setopt(p.fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)));
    say!("socket {}", sys::is_socket(p.fd));
    say!("unknown option {:?}", sys::getopt(p.fd, libc::IPPROTO_TCP, 9999));
    cx.peer("send 0 y");
    say!("read -> {}", show(sys::read(p.fd, &mut buf)));
}

fn large_both_ways(cx: &mut Cx) {
    let p = cx.pair();
    cx.tell("echo 0 3000000");
    let data = pattern(3_000_000);
    let writer = std::thread::spawn(move || write_all(p.fd, &data));
    say!("read back {}", read_all(p.fd, 3_000_000));
    say!("writer {}", writer.join().expect("writer"));
    say!("peer {}", cx.answer());
}

fn odd_sizes(cx: &mut Cx) {
    let p = cx.pair();
    for n in [1, 2, 3, 7, 4095, 4096, 4097, 16384, 65535, 65536, 65537, 1_000_003] {
        cx.tell(&format!("recvn 0 {n}"));
        say!("{n}: {} peer {}", write_all(p.fd, &pattern(n)), cx.answer());
        cx.tell(&format!("sendn 0 {n}"));
        say!("{n}: {} peer {}", read_all(p.fd, n), cx.answer());
    }
}

fn writers_keep_records(cx: &mut Cx) {
    const RECORD: usize = 1000;
    const EACH: usize = 100;
    let q = cx.pair();
    cx.tell(&format!("echo {} {}", q.id, 4 * EACH * RECORD));
    let writers: Vec<_> = (0..4u8)
        .map(|i| {
            std::thread::spawn(move || {
                (0..EACH).filter(|_| sys::write(q.fd, &[b'a' + i; RECORD]) == Ok(RECORD)).count()
            })
        })
        .collect();
    let mut all = vec![0u8; 4 * EACH * RECORD];
    let r = sys::recv(q.fd, &mut all, MSG_WAITALL);
    let torn = all.chunks(RECORD).filter(|c| c.iter().any(|x| *x != c[0])).count();
    let written: usize = writers.into_iter().map(|w| w.join().expect("writer")).sum();
    say!("written {written} read {} torn {torn}", show(r));
    cx.answer();
}

fn lowat_read(cx: &mut Cx) {
    let p = cx.pair();
    say!("set -> {}", show(sys::setopt(p.fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 4)));
    say!("get -> {:?}", sys::getopt(p.fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT));
    cx.peer("send 0 ab");
    until_queued(p.fd, 2);
    cx.ask("later 80 send 0 cdef");
    let mut buf = [0u8; 16];
    let r = sys::read(p.fd, &mut buf);
    say!("at least four: {}", r.is_ok_and(|n| n >= 4));
}

fn first_use_is_write(cx: &mut Cx) {
    let p = cx.pair();
    say!("write -> {}", show(sys::write(p.fd, b"early")));
    say!("write -> {}", show(sys::write(p.fd, b"bird")));
    cx.peer("recvn 0 9");
    cx.peer("send 0 worm");
    let mut buf = [0u8; 9];
    let r = sys::read(p.fd, &mut buf);
    say!("read -> {}", got(r, &buf));
}

fn first_use_is_late_read(cx: &mut Cx) {
    let p = cx.pair();
    cx.peer("send 0 one");
    cx.peer("sendn 0 5000");
    settle();
    say!("read {}", read_all(p.fd, 5003));
    say!("write -> {}", show(sys::write(p.fd, b"thanks")));
    cx.peer("recvn 0 6");
}

fn ping_pong(cx: &mut Cx) {
    let p = cx.pair();
    cx.tell("echo 0 200000");
    let (out, mut back, mut good) = (pattern(200), [0u8; 200], 0);
    for _ in 0..1000 {
        let w = sys::write(p.fd, &out);
        let r = sys::recv(p.fd, &mut back, MSG_WAITALL);
        good += usize::from(w == Ok(200) && r == Ok(200) && back[..] == out[..]);
    }
    say!("{good} of 1000 exchanges, peer {}", cx.answer());
}

fn offset_calls(cx: &mut Cx) {
    let p = cx.pair();
    say!("pwritev2 -1 -> {}", show(sys::pwritev2(p.fd, &[b"ab", b"c"], -1, 0)));
    cx.peer("recvn 0 3");
    cx.peer("send 0 xyz");
    let mut buf = [0u8; 9];
    say!("preadv2 -1 -> {}", show(sys::preadv2(p.fd, &mut [&mut buf], -1, 0)));
    say!("preadv2 0 -> {}", show(sys::preadv2(p.fd, &mut [&mut buf], 0, 0)));
    let (out, minus_one) = (*b"by number", usize::MAX);
    let vector = |at: usize, len: usize| [at, len];
    let from = vector((&raw const out).expose_provenance(), out.len());
    let call = |number, vector: &[usize; 2]| {
        let at = std::ptr::from_ref(vector).expose_provenance();
        show(sys::call(number, [p.fd as usize, at, 1, minus_one, 0, 0]))
    };
    say!("write -> {}", show(sys::write(p.fd, b"first ")));
    say!("pwritev2 by number -> {}", call(libc::SYS_pwritev2, &from));
    say!("write -> {}", show(sys::write(p.fd, b" last")));
    cx.peer("recvn 0 20");
    cx.peer("send 0 xyz");
    let into = vector((&raw mut buf).expose_provenance(), buf.len());
    say!("preadv2 by number -> {}", call(libc::SYS_preadv2, &into));
    say!("pread -> {}", show(sys::pread(p.fd, &mut buf)));
    say!("lseek -> {}", show(sys::lseek(p.fd)));
}

fn errno_kept(cx: &mut Cx) {
    let p = cx.pair();
    let mut buf = [0u8; 9];
    let kept = |name: &str, r: &mut dyn FnMut() -> bool| {
        sys::set_errno(77);
        let ok = r();
        say!("{name}: ok {ok} errno kept {}", sys::errno() == sys::Errno(77));
    };
    kept("write", &mut || sys::write(p.fd, b"abc").is_ok());
    cx.peer("recvn 0 3");
    cx.peer("send 0 hello");
    kept("read", &mut || sys::read(p.fd, &mut buf).is_ok());
    kept("poll", &mut || sys::poll(&[(p.fd, 1)], 0).0.is_ok());
    kept("fcntl", &mut || sys::fcntl(p.fd, libc::F_GETFL, 0).is_ok());
    kept("dup", &mut || sys::dup(p.fd).is_ok_and(|d| sys::close(d as i32).is_ok()));
    kept("epoll", &mut || {
        let ep = sys::epoll();
        sys::ep_add(ep, p.fd, 1, 1).is_ok() && sys::ep_wait(ep, 0).is_ok() && sys::close(ep).is_ok()
    });
    kept("new connection", &mut || {
        let (l, port) = sys::listener();
        let c = sys::tcp(0);
        sys::connect(c, port).is_ok() && sys::accept(l).is_ok() && sys::write(c, b"x").is_ok()
    });
    kept("shutdown", &mut || sys::shutdown(p.fd, 1).is_ok());
}

/// A reader without patience that takes a full buffer for "there is more" (as Apache Thrift's server does) is
/// not told EAGAIN in the middle of each message. (Now and then it is, by TCP as well: where it reads faster
/// than it is written to.)
fn long_messages(cx: &mut Cx) {
    const BUFFER: usize = 8192;
    for len in [70_001, 150_001] {
        let p = cx.warm();
        let (mut at_its_end, mut in_vain, mut buf) = (0, 0, [0; BUFFER]);
        for _ in 0..10 {
            cx.ask(&format!("later 0 sendn {} {len}", p.id));
            let mut left = len;
            while left > 0 {
                let ready = sys::poll1(p.fd, libc::POLLIN, 5000);
                assert!(ready.contains("IN"), "no bytes: {ready}");
                let (mut got, mut all) = (BUFFER, 0);
                while got == BUFFER {
                    let read = sys::recv(p.fd, &mut buf, MSG_DONTWAIT);
                    got = read.unwrap_or(0);
                    in_vain += usize::from(read.is_err() && all == 0);
                    at_its_end += usize::from(read.is_err() && all > 0);
                    all += got;
                }
                left -= all;
            }
        }
        let of_ten = if at_its_end < 4 { "rarely".to_string() } else { format!("{at_its_end} times") };
        say!("{len}: EAGAIN behind a full buffer {of_ten}, at once {in_vain}");
    }
}

/// The first use of a connection waits for bytes, and takes none.
fn nothing_first(cx: &mut Cx) {
    for flags in [0, MSG_WAITALL, MSG_PEEK, MSG_TRUNC] {
        let p = cx.pair();
        cx.ask(&format!("later 50 send {} abc", p.id));
        say!("recv of nothing, {flags:x} -> {}", show(sys::recv(p.fd, &mut [], flags)));
        let mut buf = [0; 9];
        let read = sys::read(p.fd, &mut buf);
        say!("read -> {}", got(read, &buf));
        say!("write -> {}", show(sys::write(p.fd, b"answer")));
        cx.peer(&format!("recvn {} 6", p.id));
    }
}

/// O_NONBLOCK is for calls that begin after it was set.
fn nonblocking_meanwhile(cx: &mut Cx) {
    let p = cx.warm();
    sys::wait_once();
    let read = std::thread::spawn(move || {
        let mut buf = [0; 12];
        let read = sys::recv(p.fd, &mut buf, MSG_WAITALL);
        got(read, &buf)
    });
    cx.peer("send 0 two-");
    settle();
    sys::nonblocking(p.fd, true);
    say!("at once -> {}", show(sys::recv(p.fd, &mut [0; 9], MSG_PEEK)));
    cx.peer("send 0 more-");
    settle();
    cx.peer("send 0 end");
    say!("read -> {}", read.join().expect("a reader"));
}
