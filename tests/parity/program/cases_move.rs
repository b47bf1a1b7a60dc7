//! Points 7, 12, 13: sendfile, splice and friends, urgent data.

use crate::context::{
    Case, Cx, digest, fill, got, pattern, read_all, say, settle, until_queued, until_ready,
};
use isthmus_tests::sys::{self, poll1, show};
use libc::{MSG_DONTWAIT, MSG_OOB, POLLIN, POLLPRI, SPLICE_F_NONBLOCK};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("move.sendfile", sendfile),
    case("move.sendfile_large", sendfile_large),
    any("move.sendfile_nonblocking", sendfile_nonblocking),
    case("move.sendfile_first_use", sendfile_first_use),
    any("move.sendfile_into_a_reset", sendfile_into_a_reset),
    any("move.sendfile_of_nothing", sendfile_of_nothing),
    case("move.sendfile_out", sendfile_out),
    case("move.splice_out", splice_out),
    case("move.splice_in", splice_in),
    case("move.splice_large", splice_large),
    case("move.splice_is_refused", splice_is_refused),
    case("move.splice_errors", splice_errors),
    case("move.splice_waits_for_nobody", splice_waits_for_nobody),
    // (What the ring does not take goes over TCP.)
    Case { name: "move.splice_in_its_time", shm: false, run: splice_in_its_time },
    case("move.refused_by_the_kernel", refused_by_the_kernel),
    case("move.splice_beside_a_peek_offset", splice_beside_a_peek_offset),
    case("move.splice_is_interrupted", splice_is_interrupted),
    case("move.splice_in_moves_all", splice_in_moves_all),
    case("move.tee", tee),
    any("move.urgent", urgent),
    any("move.urgent_inline", urgent_inline),
    any("move.urgent_within_a_read_for_all", urgent_within_a_read_for_all),
    any("move.urgent_sent", urgent_sent),
];

fn sendfile(cx: &mut Cx) {
    let p = cx.warm();
    let file = sys::memfile(&pattern(5000));
    let (r, o) = sys::sendfile(p.fd, file, Some(1000), 1500);
    say!("with offset -> {} offset {o:?} position {}", show(r), sys::position(file));
    cx.peer("recvn 0 1500");
    let (r, o) = sys::sendfile(p.fd, file, None, 700);
    say!("without -> {} offset {o:?} position {}", show(r), sys::position(file));
    cx.peer("recvn 0 700");
    let (r, o) = sys::sendfile(p.fd, file, Some(4500), 9999);
    say!("past the end -> {} offset {o:?} position {}", show(r), sys::position(file));
    cx.peer("recvn 0 500");
    let (r, o) = sys::sendfile(p.fd, file, Some(5000), 10);
    say!("at the end -> {} offset {o:?}", show(r));
    say!("nothing -> {:?}", sys::sendfile(p.fd, file, Some(0), 0));
    say!("from a socket -> {}", show(sys::sendfile(p.fd, p.fd, None, 10).0));
    say!("from nothing -> {}", show(sys::sendfile(p.fd, 4000, None, 10).0));
    say!("write -> {}", show(sys::write(p.fd, b"tail")));
    cx.peer("recvn 0 4");
}

fn sendfile_large(cx: &mut Cx) {
    let p = cx.warm();
    let file = sys::memfile(&pattern(2_000_000));
    cx.tell("recvn 0 2000000");
    let mut offset = 0;
    while offset < 2_000_000 {
        match sys::sendfile(p.fd, file, Some(offset), 2_000_000 - offset as usize) {
            (Ok(n), Some(o)) if n > 0 && o == offset + n as i64 => offset = o,
            other => {
                say!("unexpected {other:?}");
                break;
            }
        }
    }
    say!("sent {offset}, position {}, peer {}", sys::position(file), cx.answer());
}

fn sendfile_nonblocking(cx: &mut Cx) {
    let p = cx.warm();
    sys::nonblocking(p.fd, true);
    let file = sys::memfile(&pattern(100_000));
    let (mut total, mut last) = (0usize, Ok(0));
    while total < 1 << 30 {
        last = sys::sendfile(p.fd, file, Some(0), 100_000).0;
        match last {
            Ok(n) => total += n,
            Err(_) => break,
        }
    }
    say!("fills up with {} after some data {}", show(last), total > 0);
    cx.ask("later 1 discard 0");
    until_ready(p.fd, libc::POLLOUT);
    say!("goes on {}", sys::sendfile(p.fd, file, Some(0), 1000).0.is_ok());
}

fn sendfile_first_use(cx: &mut Cx) {
    let p = cx.pair();
    let file = sys::memfile(&pattern(5000));
    say!("sendfile -> {}", show(sys::sendfile(p.fd, file, None, 5000).0));
    cx.peer("recvn 0 5000");
    cx.peer("send 0 ok");
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
}

/// A call that has moved something, and ends with a reset, has been told of it: the next one is behind that.
fn sendfile_into_a_reset(cx: &mut Cx) {
    const MORE_THAN_BUFFERS: usize = 32 << 20;
    let p = cx.warm();
    sys::ignore(libc::SIGPIPE, true);
    let file = sys::memfile(b"");
    let sparse = std::fs::File::from(sys::owned(sys::dup(file).expect("dup") as i32));
    sparse.set_len(MORE_THAN_BUFFERS as u64).expect("length");
    cx.ask("later 400 close 0");
    let (sent, at) = sys::sendfile(p.fd, file, Some(0), MORE_THAN_BUFFERS);
    let is_part = sent.is_ok_and(|count| count > 0 && count < MORE_THAN_BUFFERS);
    say!("a part {is_part}, as the offset says {}", sent.ok().map(|count| count as i64) == at);
    say!("then {}", show(sys::sendfile(p.fd, file, Some(0), 1000).0));
    say!("error {}", sys::so_error(p.fd));
    say!("write -> {}", show(sys::write(p.fd, b"x")));
}

/// The file is looked at first: where it has nothing to send, the socket is asked for nothing.
fn sendfile_of_nothing(cx: &mut Cx) {
    sys::catch(libc::SIGPIPE, true);
    let file = sys::memfile(b"0123456789");
    let send = |what: &str, fd| {
        let (at_end, at) = sys::sendfile(fd, file, Some(10), 100);
        let beyond = sys::sendfile(fd, file, Some(99), 100).0;
        say!("{what}: {} offset {at:?}, {}, signals {}", show(at_end), show(beyond), sys::hits());
    };
    let full = cx.warm().fd;
    fill(full);
    send("full", full);
    sys::nonblocking(full, true);
    send("full, without a wait", full);
    let shut = cx.warm().fd;
    say!("shutdown {}", show(sys::shutdown(shut, libc::SHUT_WR)));
    send("shut", shut);
    let left = cx.warm();
    say!("never read {}", show(sys::write(left.fd, b"never read")));
    cx.peer(&format!("close {}", left.id));
    until_ready(left.fd, libc::POLLHUP);
    send("reset", left.fd);
    say!("from nothing {}", show(sys::sendfile(left.fd, 4000, Some(0), 9).0));
    say!("write {}, signals {}", show(sys::write(left.fd, b"x")), sys::hits());
    say!("write {}, signals {}", show(sys::write(left.fd, b"x")), sys::hits());
}

/// From a socket, which goes into a pipe alone.
fn sendfile_out(cx: &mut Cx) {
    let p = cx.warm();
    let ((r, w), file) = (sys::pipe(0), sys::memfile(b""));
    let to_pipe = |count| show(sys::sendfile(w, p.fd, None, count).0);
    for is_nonblocking in [false, true] {
        sys::nonblocking(p.fd, is_nonblocking);
        cx.peer("send 0 abcdef");
        until_queued(p.fd, 6);
        say!("from a place -> {}", show(sys::sendfile(w, p.fd, Some(0), 4).0));
        say!("into a file -> {}", show(sys::sendfile(file, p.fd, None, 4).0));
        say!("of nothing -> {}", to_pipe(0));
        say!("{} {}", to_pipe(4), to_pipe(99));
        let mut buf = [0; 9];
        let read = sys::read(r, &mut buf);
        say!("from the pipe -> {}", got(read, &buf));
    }
    say!("none left -> {}", to_pipe(4));
    cx.peer("shut 0 1");
    until_ready(p.fd, libc::POLLRDHUP);
    say!("at the end -> {}", to_pipe(4));
}

fn splice_out(cx: &mut Cx) {
    let p = cx.warm();
    let (r, w) = sys::pipe(0);
    say!("pipe write -> {}", show(sys::write(w, b"through a pipe")));
    say!("splice -> {}", show(sys::splice(r, p.fd, 7, 0)));
    cx.peer("recvn 0 7");
    say!("splice -> {}", show(sys::splice(r, p.fd, 100, 0)));
    cx.peer("recvn 0 7");
    say!("empty pipe -> {}", show(sys::splice(r, p.fd, 100, SPLICE_F_NONBLOCK)));
    sys::close(w).expect("close");
    say!("ended pipe -> {}", show(sys::splice(r, p.fd, 100, 0)));
}

/// SO_PEEK_OFF is for looks: splice takes the first bytes, and leaves it as it is.
fn splice_beside_a_peek_offset(cx: &mut Cx) {
    let p = cx.warm();
    let (r, w) = sys::pipe(0);
    say!("set -> {}", show(sys::setopt(p.fd, libc::SOL_SOCKET, libc::SO_PEEK_OFF, 0)));
    cx.peer("send 0 0123456789abcdefghij");
    until_queued(p.fd, 20);
    let mut buf = [0u8; 20];
    let seen = sys::recv(p.fd, &mut buf[..5], libc::MSG_PEEK);
    say!("peek {}", got(seen, &buf));
    for len in [4, 3] {
        say!("splice -> {}", show(sys::splice(p.fd, w, len, 0)));
        say!("offset {:?}", sys::getopt(p.fd, libc::SOL_SOCKET, libc::SO_PEEK_OFF));
        let piped = sys::read(r, &mut buf);
        say!("pipe {}", got(piped, &buf));
    }
    let rest = sys::recv(p.fd, &mut buf, MSG_DONTWAIT);
    say!("rest {}", got(rest, &buf));
}

/// By a handler without SA_RESTART, once; with it the call goes on.
fn splice_is_interrupted(cx: &mut Cx) {
    let p = cx.warm();
    let (r, w) = sys::pipe(0);
    sys::nonblocking(w, true);
    while sys::write(w, &[0; 4096]).is_ok() {}
    sys::nonblocking(w, false);
    cx.peer("send 0 0123");
    until_queued(p.fd, 4);
    sys::catch(libc::SIGALRM, false);
    sys::alarm_in(60);
    say!("splice -> {}, handler ran {}", show(sys::splice(p.fd, w, 4, 0)), sys::hits());
    sys::catch(libc::SIGALRM, true);
    sys::alarm_in(60);
    let reading = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(150));
        sys::read(r, &mut [0; 65536])
    });
    say!("splice -> {}, handler ran {}", show(sys::splice(p.fd, w, 4, 0)), sys::hits());
    say!("emptied {}", reading.join().expect("reader").is_ok());
}

/// All that is in the pipe goes with one call; and what is not there is not waited for.
fn splice_in_moves_all(cx: &mut Cx) {
    let p = cx.warm();
    let (r, w) = sys::pipe(0);
    for (count, len) in [(15, 1 << 20), (15, 50_000), (1, 100_000)] {
        for _ in 0..count {
            sys::write(w, &pattern(4096)).expect("pipe");
        }
        say!("splice {len} -> {}", show(sys::splice(r, p.fd, len, 0)));
        let rest = sys::splice(r, p.fd, 1 << 20, SPLICE_F_NONBLOCK);
        say!("the rest -> {}", show(rest));
        cx.peer(&format!("recvn 0 {}", 4096 * count));
    }
}

fn splice_in(cx: &mut Cx) {
    let p = cx.warm();
    sys::wait_once();
    let (r, w) = sys::pipe(0);
    cx.peer("send 0 abcdefgh");
    until_queued(p.fd, 8);
    say!("splice 5 -> {}", show(sys::splice(p.fd, w, 5, 0)));
    let mut buf = [0u8; 20];
    let k = sys::read(r, &mut buf);
    say!("pipe -> {}", got(k, &buf));
    say!("splice rest -> {}", show(sys::splice(p.fd, w, 100, 0)));
    let k = sys::read(r, &mut buf);
    say!("pipe -> {}", got(k, &buf));
    sys::nonblocking(p.fd, true);
    say!("splice empty -> {}", show(sys::splice(p.fd, w, 100, SPLICE_F_NONBLOCK)));
    sys::nonblocking(p.fd, false);
    cx.ask("later 60 send 0 later");
    say!("splice blocks for data -> {}", show(sys::splice(p.fd, w, 100, 0)));
    cx.peer("shut 0 1");
    say!("splice at end -> {}", show(sys::splice(p.fd, w, 100, 0)));
}

fn splice_large(cx: &mut Cx) {
    let p = cx.warm();
    let (r, w) = sys::pipe(0);
    cx.tell("echo 0 1000000");
    let feeder = std::thread::spawn(move || crate::context::write_all(w, &pattern(1_000_000)));
    let reader = std::thread::spawn(move || read_all(p.fd, 1_000_000));
    let mut moved = 0;
    while moved < 1_000_000 {
        match sys::splice(r, p.fd, 1_000_000 - moved, 0) {
            Ok(n) if n > 0 => moved += n,
            other => {
                say!("unexpected {}", show(other));
                break;
            }
        }
    }
    say!("moved {moved}, fed {}", feeder.join().expect("feeder"));
    say!("back {} want {}", reader.join().expect("reader"), digest(&pattern(1_000_000)));
    cx.answer();
}

/// What is wrong with the call comes before what there is to move.
fn splice_is_refused(cx: &mut Cx) {
    const SPLICE: i64 = libc::SYS_splice;
    let p = cx.warm();
    let (r, w) = sys::pipe(0);
    cx.ask("send 0 hello");
    until_queued(p.fd, 5);
    let position = 0i64;
    let at = std::ptr::from_ref(&position).addr();
    let [fd, r, w] = [p.fd, r, w].map(|fd| fd as usize);
    let flags = SPLICE_F_NONBLOCK as usize;
    for len in [usize::MAX, 1 << 63, isize::MAX as usize + 5] {
        say!("out {len:#x} -> {}", show(sys::call(SPLICE, [fd, 0, w, 0, len, flags])));
        say!("in {len:#x} -> {}", show(sys::call(SPLICE, [r, 0, fd, 0, len, flags])));
    }
    say!("out at a position -> {}", show(sys::call(SPLICE, [fd, 0, w, at, 9, flags])));
    say!("in from a position -> {}", show(sys::call(SPLICE, [r, at, fd, 0, 9, flags])));
    say!("out into the end that reads -> {}", show(sys::call(SPLICE, [fd, 0, r, 0, 9, flags])));
    say!("in from the end that writes -> {}", show(sys::call(SPLICE, [w, 0, fd, 0, 9, flags])));
    say!("out -> {}", show(sys::call(SPLICE, [fd, 0, w, 0, 9, flags])));
    say!("in -> {}", show(sys::call(SPLICE, [r, 0, fd, 0, 9, flags])));
    cx.peer("recv 0 9");
}

fn splice_errors(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    say!("socket to socket -> {}", show(sys::splice(p.fd, q.fd, 10, 0)));
    let (r, w) = sys::pipe(0);
    say!("to nothing -> {}", show(sys::splice(r, 4000, 10, 0)));
    say!("zero -> {}", show(sys::splice(p.fd, w, 0, 0)));
    sys::nonblocking(p.fd, true);
    // TCP's buffers still grow while they are filled: what went in once more is no answer.
    let mut full = (0..20).map(|_| {
        fill(p.fd);
        sys::write(w, b"abc").expect("pipe");
        sys::splice(r, p.fd, 3, SPLICE_F_NONBLOCK)
    });
    let r = full.find(Result::is_err).unwrap_or(Ok(3));
    say!("when full -> {}", show(r));
    cx.peer("send 1 x");
    say!("read -> {}", show(sys::read(q.fd, &mut [0; 9])));
}

/// A pipe with O_NONBLOCK is waited for no more than with the flag, be it full or empty.
fn splice_waits_for_nobody(cx: &mut Cx) {
    let p = cx.warm();
    let (r, w) = sys::pipe(0);
    sys::nonblocking(w, true);
    while sys::write(w, &[b'f'; 4096]).is_ok() {}
    say!("a full pipe, nothing to read -> {}", show(sys::splice(p.fd, w, 10, 0)));
    cx.peer("send 0 abcdefgh");
    until_queued(p.fd, 8);
    say!("a full pipe -> {}", show(sys::splice(p.fd, w, 10, 0)));
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 20])));
    sys::nonblocking(r, true);
    while sys::read(r, &mut [0; 4096]).is_ok() {}
    say!("an empty pipe -> {}", show(sys::splice(r, p.fd, 10, SPLICE_F_NONBLOCK)));
}

/// What waits for room does so for the time that the socket allows.
fn splice_in_its_time(cx: &mut Cx) {
    let p = cx.warm();
    let (r, w) = sys::pipe(0);
    sys::nonblocking(p.fd, true);
    // TCP's buffers still grow while they are filled.
    for _ in 0..20 {
        fill(p.fd);
    }
    sys::nonblocking(p.fd, false);
    say!("SO_SNDTIMEO -> {}", show(sys::set_timeout(p.fd, libc::SO_SNDTIMEO, 60)));
    sys::write(w, &pattern(60_000)).expect("pipe");
    let mut splices = (0..500).map(|_| sys::splice(r, p.fd, 60_000, 0));
    say!("when full -> {}", show(splices.find(Result::is_err).unwrap_or(Ok(0))));
    cx.peer("send 0 x");
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
}

/// Arguments that no descriptor makes right.
fn refused_by_the_kernel(cx: &mut Cx) {
    let p = cx.warm();
    let (r, w) = sys::pipe(0);
    sys::write(w, b"abc").expect("pipe");
    cx.peer("send 0 abcdefgh");
    until_queued(p.fd, 8);
    say!("flags, out of the socket -> {}", show(sys::splice(p.fd, w, 10, 0xff)));
    say!("flags, into it -> {}", show(sys::splice(r, p.fd, 10, 0xff)));
    let file = sys::memfile(&pattern(500));
    say!("a length below zero -> {}", show(sys::sendfile(p.fd, file, None, usize::MAX).0));
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 20])));
}

fn tee(cx: &mut Cx) {
    let p = cx.warm();
    let ((r, w), (r2, w2)) = (sys::pipe(0), sys::pipe(0));
    cx.peer("send 0 abcdefgh");
    until_queued(p.fd, 8);
    say!("splice -> {}", show(sys::splice(p.fd, w, 8, 0)));
    say!("tee -> {}", show(sys::tee(r, w2, 8)));
    say!("splice copy -> {}", show(sys::splice(r2, p.fd, 8, 0)));
    cx.peer("recvn 0 8");
    say!("tee from a socket -> {}", show(sys::tee(p.fd, w2, 8)));
}

fn urgent(cx: &mut Cx) {
    let p = cx.warm();
    cx.peer("send 0 abc");
    cx.peer("oob 0 U");
    cx.peer("send 0 def");
    until_ready(p.fd, POLLPRI);
    settle();
    say!("poll {}", poll1(p.fd, POLLIN | POLLPRI, 0));
    let mut buf = [0u8; 9];
    let r = sys::recv(p.fd, &mut buf, 0);
    say!("up to the mark {}", got(r, &buf));
    say!("at mark {:?}", sys::ioctl_int(p.fd, 0x8905, -1));
    let r = sys::recv(p.fd, &mut buf, MSG_OOB);
    say!("urgent {}", got(r, &buf));
    say!("urgent again {}", show(sys::recv(p.fd, &mut buf, MSG_OOB)));
    let r = sys::recv(p.fd, &mut buf, 0);
    say!("after the mark {}", got(r, &buf));
    say!("at mark {:?}", sys::ioctl_int(p.fd, 0x8905, -1));
    say!("poll {}", poll1(p.fd, POLLIN | POLLPRI, 0));
}

fn urgent_inline(cx: &mut Cx) {
    let p = cx.warm();
    say!("set -> {}", show(sys::setopt(p.fd, libc::SOL_SOCKET, libc::SO_OOBINLINE, 1)));
    cx.peer("send 0 abc");
    cx.peer("oob 0 U");
    until_queued(p.fd, 4);
    settle();
    let mut buf = [0u8; 9];
    let r = sys::recv(p.fd, &mut buf, 0);
    say!("up to the mark {}", got(r, &buf));
    say!("at mark {:?}", sys::ioctl_int(p.fd, 0x8905, -1));
    say!("recv OOB -> {}", show(sys::recv(p.fd, &mut buf, MSG_OOB)));
    let r = sys::recv(p.fd, &mut buf, MSG_DONTWAIT);
    say!("inline {}", got(r, &buf));
}

fn urgent_sent(cx: &mut Cx) {
    let p = cx.warm();
    say!("send -> {}", show(sys::send(p.fd, b"abc", 0)));
    say!("urgent -> {}", show(sys::send(p.fd, b"xyU", MSG_OOB)));
    say!("send -> {}", show(sys::send(p.fd, b"def", 0)));
    until_peer_has_priority(cx);
    cx.peer("recvn 0 5");
    cx.peer("recvn 0 3");
    say!("recv OOB with none -> {}", show(sys::recv(p.fd, &mut [0; 1], MSG_OOB)));
}

fn until_peer_has_priority(cx: &mut Cx) {
    settle();
    cx.peer("poll 0 3 1000");
}

/// A call that waits for more than lies before the mark ends there, wherever the bytes came from.
fn urgent_within_a_read_for_all(cx: &mut Cx) {
    for (at_least, flags) in [(1, libc::MSG_WAITALL), (5, 0)] {
        let p = cx.warm();
        let set = sys::setopt(p.fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, at_least);
        say!("at least {at_least} -> {}", show(set));
        cx.ask(&format!("send {} aa", p.id));
        cx.ask(&format!("oob {} !", p.id));
        cx.ask(&format!("send {} bbbbbbbbbb", p.id));
        until_ready(p.fd, POLLPRI);
        settle();
        let mut buf = [0u8; 5];
        for _ in 0..2 {
            let r = sys::recv(p.fd, &mut buf, flags);
            say!("read {}, at mark {:?}", got(r, &buf), sys::ioctl_int(p.fd, 0x8905, -1));
        }
    }
}
