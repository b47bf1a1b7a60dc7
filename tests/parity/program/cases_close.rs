//! Points 17-25: shutdown halves, close, resets, and the death of the other end.

use crate::context::{
    Case, Cx, fill, got, pattern, read_all, say, settle, until, until_queued, until_ready, write_all,
};
use isthmus_tests::sys::{self, poll1, show, so_error};
use libc::{MSG_DONTWAIT, MSG_NOSIGNAL, SHUT_RD, SHUT_RDWR, SHUT_WR};
use std::time::Duration;

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("close.shut_wr", shut_wr),
    case("close.peer_shut_wr", peer_shut_wr),
    case("close.shut_wr_long_answer", shut_wr_long_answer),
    case("close.shut_rd_queued", shut_rd_queued),
    case("close.shut_rd_wakes_reader", shut_rd_wakes_reader),
    case("close.shut_both", shut_both),
    any("close.shut_twice", shut_twice),
    any("close.shut_before_data", shut_before_data),
    any("close.unread_data", unread_data),
    any("close.unread_data_here", unread_data_here),
    any("close.clean", clean),
    any("close.clean_here", clean_here),
    any("close.write_and_close", write_and_close),
    any("close.early_write_and_close", early_write_and_close),
    any("close.unused", unused),
    any("close.linger_zero", linger_zero),
    any("close.linger_zero_here", linger_zero_here),
    any("close.linger_waits", linger_waits),
    any("close.while_reading", while_reading),
    any("close.dup2_while_reading", dup2_while_reading),
    any("close.peer_killed", peer_killed),
    any("close.peer_killed_while_reading", peer_killed_while_reading),
    any("close.peer_killed_while_writing", peer_killed_while_writing),
    any("close.peer_killed_unread", peer_killed_unread),
    any("close.peer_exits", peer_exits),
    Case { name: "close.peer_stopped", shm: false, run: peer_stopped },
    any("close.keepalive_of_a_stopped_peer", keepalive_of_a_stopped_peer),
    any("close.sigpipe", sigpipe),
    any("close.reset_once", reset_once),
    any("close.blocked_writer_sees_close", blocked_writer_sees_close),
    any("close.listener_closed", listener_closed),
    any("close.refused", refused),
];

fn read_say(what: &str, fd: i32) {
    let mut buf = [0u8; 64];
    let r = sys::recv(fd, &mut buf, 0);
    say!("{what}: recv -> {}", got(r, &buf));
}

fn write_say(what: &str, fd: i32) {
    say!("{what}: send -> {}", show(sys::send(fd, b"late", MSG_NOSIGNAL)));
}

fn shut_wr(cx: &mut Cx) {
    let p = cx.warm();
    say!("write -> {}", show(sys::write(p.fd, b"last words")));
    say!("shutdown -> {}", show(sys::shutdown(p.fd, SHUT_WR)));
    write_say("after SHUT_WR", p.fd);
    cx.peer("drain 0");
    cx.peer("send 0 reply");
    read_say("other half", p.fd);
    cx.peer("close 0");
    read_say("peer closed", p.fd);
}

fn peer_shut_wr(cx: &mut Cx) {
    let p = cx.warm();
    cx.peer("send 0 bye");
    cx.peer("shut 0 1");
    until_ready(p.fd, libc::POLLRDHUP);
    say!("poll {}", poll1(p.fd, libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP, 0));
    read_say("data", p.fd);
    read_say("EOF", p.fd);
    read_say("EOF again", p.fd);
    write_say("still", p.fd);
    cx.peer("recv 0 9");
}

fn shut_wr_long_answer(cx: &mut Cx) {
    let p = cx.warm();
    say!("shutdown -> {}", show(sys::shutdown(p.fd, SHUT_WR)));
    cx.peer("drain 0");
    cx.tell("sendn 0 1500000");
    say!("read {}", read_all(p.fd, 1_500_000));
    say!("peer {}", cx.answer());
    cx.peer("close 0");
    read_say("end", p.fd);
}

fn shut_rd_queued(cx: &mut Cx) {
    let p = cx.warm();
    cx.peer("send 0 abcd");
    until_queued(p.fd, 4);
    say!("shutdown -> {}", show(sys::shutdown(p.fd, SHUT_RD)));
    read_say("queued", p.fd);
    read_say("after", p.fd);
    cx.peer("send 0 more");
    until_queued(p.fd, 4);
    read_say("sent after SHUT_RD", p.fd);
    read_say("after", p.fd);
    write_say("other half", p.fd);
    cx.peer("recv 0 9");
}

fn shut_rd_wakes_reader(cx: &mut Cx) {
    let p = cx.warm();
    let reader = std::thread::spawn(move || show(sys::read(p.fd, &mut [0; 9])));
    settle();
    say!("shutdown -> {}", show(sys::shutdown(p.fd, SHUT_RD)));
    say!("reader {}", reader.join().expect("reader"));
}

fn shut_both(cx: &mut Cx) {
    let p = cx.warm();
    say!("shutdown -> {}", show(sys::shutdown(p.fd, SHUT_RDWR)));
    read_say("after", p.fd);
    write_say("after", p.fd);
    cx.peer("drain 0");
    say!("poll {}", poll1(p.fd, libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP, 0));
    cx.peer("poll 0 8197 100");
}

fn shut_twice(cx: &mut Cx) {
    let p = cx.warm();
    say!("shutdown -> {}", show(sys::shutdown(p.fd, SHUT_WR)));
    say!("again -> {}", show(sys::shutdown(p.fd, SHUT_WR)));
    cx.peer("drain 0");
    cx.peer("close 0");
    read_say("end", p.fd);
    settle();
    say!("after both ends closed -> {}", show(sys::shutdown(p.fd, SHUT_WR)));
    say!("bad how -> {}", show(sys::shutdown(p.fd, 9)));
}

fn shut_before_data(cx: &mut Cx) {
    let p = cx.pair();
    say!("shutdown -> {}", show(sys::shutdown(p.fd, SHUT_WR)));
    cx.peer("drain 0");
    cx.peer("send 0 hello");
    read_say("half", p.fd);
    cx.peer("close 0");
    read_say("end", p.fd);
}

fn unread_data(cx: &mut Cx) {
    let p = cx.warm();
    say!("write -> {}", show(sys::write(p.fd, b"never read")));
    cx.peer("poll 0 1 3000");
    cx.peer("close 0");
    until_ready(p.fd, libc::POLLHUP);
    say!("poll {}", poll1(p.fd, libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP, 0));
    read_say("first", p.fd);
    read_say("second", p.fd);
    write_say("then", p.fd);
}

fn unread_data_here(cx: &mut Cx) {
    let p = cx.warm();
    cx.peer("send 0 ignored");
    until_queued(p.fd, 7);
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer("poll 0 8197 3000");
    cx.peer("recv 0 9");
    cx.peer("recv 0 9");
    cx.peer("send 0 x");
}

fn clean(cx: &mut Cx) {
    let p = cx.warm();
    cx.peer("close 0");
    until_ready(p.fd, libc::POLLRDHUP);
    say!("poll {}", poll1(p.fd, libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP, 0));
    read_say("EOF", p.fd);
    write_say("first", p.fd);
    until_ready(p.fd, libc::POLLERR);
    write_say("second", p.fd);
    read_say("then", p.fd);
}

fn clean_here(cx: &mut Cx) {
    let p = cx.warm();
    say!("close -> {}", show(sys::close(p.fd)));
    say!("close again -> {}", show(sys::close(p.fd)));
    cx.peer("recv 0 9");
    cx.peer("send 0 first");
    settle();
    cx.peer("send 0 second");
    cx.peer("recv 0 9");
}

fn write_and_close(cx: &mut Cx) {
    let p = cx.warm();
    cx.tell("drain 0");
    say!("{}", write_all(p.fd, &pattern(400_000)));
    say!("close -> {}", show(sys::close(p.fd)));
    say!("peer {}", cx.answer());
}

fn early_write_and_close(cx: &mut Cx) {
    let p = cx.pair();
    say!("{}", write_all(p.fd, b"hello"));
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer("drain 0");
    let q = cx.pair();
    say!("{}", write_all(q.fd, &pattern(3000)));
    say!("shutdown -> {}", show(sys::shutdown(q.fd, SHUT_WR)));
    cx.peer(&format!("drain {}", q.id));
    say!("close -> {}", show(sys::close(q.fd)));
}

fn unused(cx: &mut Cx) {
    let p = cx.pair();
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer("recv 0 9");
    let q = cx.pair();
    cx.peer("close 1");
    read_say("peer closed unused", q.fd);
}

fn linger_zero(cx: &mut Cx) {
    let p = cx.warm();
    cx.peer("linger 0 1 0");
    cx.peer("close 0");
    until_ready(p.fd, libc::POLLERR);
    say!("poll {}", poll1(p.fd, libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP, 0));
    read_say("first", p.fd);
    read_say("second", p.fd);
    say!("peer name {}", show(sys::peer_port(p.fd)));
}

fn linger_zero_here(cx: &mut Cx) {
    let p = cx.warm();
    say!("linger -> {}", show(sys::set_linger(p.fd, true, 0)));
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer("poll 0 8197 3000");
    cx.peer("recv 0 9");
    cx.peer("recv 0 9");
    cx.peer("send 0 x");
}

fn linger_waits(cx: &mut Cx) {
    let p = cx.warm();
    say!("linger -> {}", show(sys::set_linger(p.fd, true, 10)));
    say!("{}", write_all(p.fd, &pattern(9000)));
    cx.tell("drain 0");
    say!("close -> {}", show(sys::close(p.fd)));
    say!("peer {}", cx.answer());
}

fn while_reading(cx: &mut Cx) {
    let p = cx.warm();
    let reader = std::thread::spawn(move || show(sys::read(p.fd, &mut [0; 9])));
    settle();
    say!("close -> {}", show(sys::close(p.fd)));
    settle();
    say!("reader still blocked: {}", !reader.is_finished());
    cx.peer("send 0 hi");
    say!("reader {}", reader.join().expect("reader"));
}

fn dup2_while_reading(cx: &mut Cx) {
    let p = cx.warm();
    let reader = std::thread::spawn(move || show(sys::read(p.fd, &mut [0; 9])));
    let (r, w) = sys::pipe(0);
    settle();
    say!("dup2 worked: {}", sys::dup2(r, p.fd) == Ok(p.fd as usize));
    settle();
    say!("reader still blocked: {}", !reader.is_finished());
    cx.peer("send 0 hi");
    say!("reader {}", reader.join().expect("reader"));
    say!("pipe write -> {}", show(sys::write(w, b"xyz")));
    say!("read of the new owner -> {}", show(sys::read(p.fd, &mut [0; 9])));
}

fn peer_killed(cx: &mut Cx) {
    let p = cx.warm();
    cx.peer("sendn 0 5000");
    cx.tell("die");
    say!("read {}", read_all(p.fd, usize::MAX));
    write_say("first", p.fd);
    settle();
    write_say("second", p.fd);
}

fn peer_killed_while_reading(cx: &mut Cx) {
    let p = cx.warm();
    let pid = cx.peer_pid();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(60));
        sys::kill(pid, libc::SIGKILL)
    });
    read_say("blocked", p.fd);
    killer.join().expect("killer").expect("kill");
    read_say("again", p.fd);
}

fn peer_killed_while_writing(cx: &mut Cx) {
    let p = cx.warm();
    let pid = cx.peer_pid();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(150));
        sys::kill(pid, libc::SIGKILL)
    });
    let block = vec![1u8; 1 << 20];
    let mut last = Ok(0);
    for _ in 0..200 {
        last = sys::send(p.fd, &block, MSG_NOSIGNAL);
        if last.is_err() {
            break;
        }
    }
    killer.join().expect("killer").expect("kill");
    say!("writer ends with reset or EPIPE: {}", matches!(show(last).as_str(), "ECONNRESET" | "EPIPE"));
}

fn peer_killed_unread(cx: &mut Cx) {
    let p = cx.warm();
    say!("write -> {}", show(sys::write(p.fd, b"never read")));
    settle();
    cx.tell("die");
    until_ready(p.fd, libc::POLLHUP);
    read_say("first", p.fd);
    read_say("second", p.fd);
}

fn peer_exits(cx: &mut Cx) {
    let p = cx.warm();
    cx.peer("sendn 0 30000");
    cx.tell("exit");
    say!("read {}", read_all(p.fd, usize::MAX));
}

fn peer_stopped(cx: &mut Cx) {
    let p = cx.warm();
    cx.ask("later 20 echo 0 2000000");
    settle();
    sys::kill(cx.peer_pid(), libc::SIGSTOP).expect("stop");
    let data = pattern(2_000_000);
    let writer = std::thread::spawn(move || write_all(p.fd, &data));
    let reader = std::thread::spawn(move || read_all(p.fd, 2_000_000));
    std::thread::sleep(Duration::from_millis(150));
    say!("finished while stopped: {}", writer.is_finished() && reader.is_finished());
    sys::kill(cx.peer_pid(), libc::SIGCONT).expect("continue");
    say!("{} / {}", writer.join().expect("writer"), reader.join().expect("reader"));
}

/// The kernel answers for a process that is stopped: nobody is taken for dead.
fn keepalive_of_a_stopped_peer(cx: &mut Cx) {
    let p = cx.warm();
    say!("keepalive -> {}", show(sys::setopt(p.fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)));
    for option in [libc::TCP_KEEPIDLE, libc::TCP_KEEPINTVL, libc::TCP_KEEPCNT] {
        say!("option -> {}", show(sys::setopt(p.fd, libc::IPPROTO_TCP, option, 1)));
    }
    say!("limit -> {}", show(sys::setopt(p.fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 1000)));
    sys::kill(cx.peer_pid(), libc::SIGSTOP).expect("stop");
    say!("write -> {}", show(sys::write(p.fd, b"unread")));
    say!("poll {}", poll1(p.fd, libc::POLLIN | libc::POLLRDHUP, 2500));
    sys::kill(cx.peer_pid(), libc::SIGCONT).expect("continue");
    cx.peer("recvn 0 6");
    cx.peer("send 0 alive");
    read_say("then", p.fd);
}

fn sigpipe(cx: &mut Cx) {
    let p = cx.warm();
    say!("shutdown -> {}", show(sys::shutdown(p.fd, SHUT_WR)));
    sys::catch(libc::SIGPIPE, false);
    let after = |what: &str, r: sys::Ret| say!("{what} -> {} signals so far {}", show(r), sys::hits());
    after("write", sys::write(p.fd, b"x"));
    after("send", sys::send(p.fd, b"x", 0));
    after("send nosignal", sys::send(p.fd, b"x", MSG_NOSIGNAL));
    after("writev", sys::writev(p.fd, &[b"x", b"y"]));
    after("sendmsg", sys::sendmsg(p.fd, &[b"x"], 0));
    after("write 0", sys::write(p.fd, b""));
    sys::ignore(libc::SIGPIPE, true);
    after("write ignored", sys::write(p.fd, b"x"));
    sys::ignore(libc::SIGPIPE, false);
    say!("default: {}", sys::wait(sys::fork(|| sys::write(p.fd, b"x").is_ok().into())));
    cx.peer("drain 0");
}

fn reset_once(cx: &mut Cx) {
    let p = cx.warm();
    cx.peer("linger 0 1 0");
    cx.peer("close 0");
    until_ready(p.fd, libc::POLLERR);
    say!("error {}", so_error(p.fd));
    say!("error again {}", so_error(p.fd));
    read_say("read", p.fd);
    write_say("write", p.fd);
    say!("own name kept {}", sys::port_of(p.fd) > 0);
    say!("peer name {}", show(sys::peer_port(p.fd)));
}

fn blocked_writer_sees_close(cx: &mut Cx) {
    let p = cx.warm();
    sys::ignore(libc::SIGPIPE, true);
    fill(p.fd);
    let writer = std::thread::spawn(move || {
        let block = vec![1u8; 1 << 20];
        (0..100).map(|_| sys::write(p.fd, &block)).find(Result::is_err)
    });
    settle();
    say!("writer blocked: {}", !writer.is_finished());
    cx.peer("close 0");
    let end = writer.join().expect("writer").unwrap_or(Ok(0));
    say!("writer ends with reset or EPIPE: {}", matches!(show(end).as_str(), "ECONNRESET" | "EPIPE"));
}

fn listener_closed(cx: &mut Cx) {
    let (l, port) = sys::listener();
    let c = sys::tcp(0);
    say!("connect -> {}", show(sys::connect(c, port)));
    say!("close listener -> {}", show(sys::close(l)));
    until("reset", || poll1(c, libc::POLLIN, 50).contains("IN"));
    read_say("never accepted", c);
    let _ = sys::recv(c, &mut [0; 1], MSG_DONTWAIT);
    let _ = cx;
}

fn refused(cx: &mut Cx) {
    let (l, port) = sys::listener();
    sys::close(l).expect("close");
    let c = sys::tcp(0);
    say!("connect -> {}", show(sys::connect(c, port)));
    let d = sys::tcp(libc::SOCK_NONBLOCK);
    let r = show(sys::connect(d, port));
    say!("nonblocking connect refused or in progress: {}", r == "ECONNREFUSED" || r == "EINPROGRESS");
    say!("poll {}", poll1(d, libc::POLLOUT, 3000));
    say!("error {}", so_error(d));
    say!("read unconnected -> {}", show(sys::read(sys::tcp(0), &mut [0; 1])));
    say!("send unconnected -> {}", show(sys::send(sys::tcp(0), b"x", MSG_NOSIGNAL)));
    let _ = cx;
}
