//! Points 26-29: timeouts, interrupted calls, cancellation, and calls made inside a signal handler.

use crate::context::{Case, Cx, Pair, fill, got, say, settle, until};
use isthmus_tests::sys::{self, Blocking, ThreadId, poll1, show};
use libc::{MSG_NOSIGNAL, SIGUSR1};
use std::time::Duration;

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

pub(crate) const CASES: &[Case] = &[
    case("signal.receive_timeout", receive_timeout),
    Case { name: "signal.send_timeout", shm: false, run: send_timeout },
    case("signal.interrupted_read", interrupted_read),
    case("signal.restarted_read", restarted_read),
    case("signal.nothing_in_its_time", nothing_in_its_time),
    case("signal.look_at_what_came", look_at_what_came),
    case("signal.restarted_read_beside_another_handler", |cx| {
        let p = cx.warm();
        restarted_beside_another(cx, p);
    }),
    case("signal.restarted_read_of_what_nobody_looks_at", |cx| {
        let p = cx.pair();
        restarted_beside_another(cx, p);
    }),
    case("signal.read_beside_two_handlers_with_one_descriptor", read_with_one_descriptor),
    Case { name: "signal.interrupted_write", shm: false, run: interrupted_write },
    case("signal.interrupted_waits", interrupted_waits),
    case("signal.waitall_interrupted", waitall_interrupted),
    case("signal.after_a_dup_over_a_read", |cx| after_a_dup(cx, Sleeper::Read)),
    case("signal.after_a_dup_over_a_recvmsg", |cx| after_a_dup(cx, Sleeper::Recvmsg)),
    case("signal.after_a_dup_over_a_poll", |cx| after_a_dup(cx, Sleeper::Poll)),
    case("signal.after_a_dup_over_a_select", |cx| after_a_dup(cx, Sleeper::Select)),
    case("signal.after_a_dup_over_a_write", |cx| after_a_dup(cx, Sleeper::Write)),
    case("signal.after_a_dup_beside_a_set", |cx| after_a_dup(cx, Sleeper::Epoll)),
    case("signal.mask_during_wait", mask_during_wait),
    case("signal.mask_and_something_ready", mask_and_something_ready),
    Case { name: "signal.cancel", shm: false, run: cancel },
    case("signal.cancel_foreign", cancel_foreign),
    case("signal.write_in_handler", write_in_handler),
];

/// Signals the calling thread again and again until told to stop.
pub(crate) struct Nagger(std::sync::mpsc::Sender<()>, std::thread::JoinHandle<()>);

impl Nagger {
    fn start(target: ThreadId) -> Nagger {
        Nagger::every(Duration::from_millis(60), target)
    }

    pub(crate) fn every(pause: Duration, target: ThreadId) -> Nagger {
        let (tx, rx) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            sys::block(SIGUSR1, true);
            while rx.recv_timeout(pause) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                sys::signal_thread(target, SIGUSR1);
            }
        });
        Nagger(tx, thread)
    }

    pub(crate) fn stop(self) {
        let _ = self.0.send(());
        self.1.join().expect("nagger");
    }
}

fn receive_timeout(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let mut buf = [0u8; 9];
    say!("set -> {}", show(sys::set_timeout(fd, libc::SO_RCVTIMEO, 60)));
    say!("read -> {}", show(sys::read(fd, &mut buf)));
    say!("recv -> {}", show(sys::recv(fd, &mut buf, 0)));
    say!("recvmsg -> {:?}", sys::recvmsg(fd, &mut [&mut buf], 0).0);
    say!("poll ignores it {}", poll1(fd, libc::POLLIN, 10));
    cx.peer("send 0 abc");
    let r = sys::read(fd, &mut buf);
    say!("read -> {}", got(r, &buf));
    say!("set 0 -> {}", show(sys::set_timeout(fd, libc::SO_RCVTIMEO, 0)));
    cx.ask("later 200 send 0 late");
    let r = sys::read(fd, &mut buf);
    say!("read without timeout -> {}", got(r, &buf));
    let d = sys::dup(fd).expect("dup") as i32;
    say!("set on dup -> {}", show(sys::set_timeout(d, libc::SO_RCVTIMEO, 30)));
    say!("read -> {}", show(sys::read(fd, &mut buf)));
}

fn send_timeout(cx: &mut Cx) {
    let fd = cx.warm().fd;
    say!("set -> {}", show(sys::set_timeout(fd, libc::SO_SNDTIMEO, 60)));
    let block = vec![3u8; 64 << 20];
    let first = sys::send(fd, &block, MSG_NOSIGNAL);
    say!("first send is partial: {}", first.is_ok_and(|n| n > 0 && n < block.len()));
    fill(fd);
    say!("send when full -> {}", show(sys::send(fd, &block, MSG_NOSIGNAL)));
    say!("writev when full -> {}", show(sys::writev(fd, &[b"ab", b"c"])));
}

fn interrupted_read(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::catch(SIGUSR1, false);
    let n = Nagger::start(sys::this_thread());
    let mut buf = [0u8; 9];
    say!("read -> {}", show(sys::read(fd, &mut buf)));
    say!("recv -> {}", show(sys::recv(fd, &mut buf, 0)));
    say!("recvmsg -> {:?}", sys::recvmsg(fd, &mut [&mut buf], 0).0);
    say!("readv -> {}", show(sys::readv(fd, &mut [&mut buf])));
    n.stop();
    say!("handler ran: {}", sys::hits() >= 4);
    cx.peer("send 0 abc");
    let r = sys::read(fd, &mut buf);
    say!("read -> {}", got(r, &buf));
}

/// A look that waits for all, and is interrupted or out of time, shows what has come meanwhile.
fn look_at_what_came(cx: &mut Cx) {
    let (fd, mut buf) = (cx.warm().fd, [0; 64]);
    let flags = libc::MSG_PEEK | libc::MSG_WAITALL;
    sys::catch(libc::SIGALRM, false);
    cx.ask("later 30 send 0 first");
    sys::alarm_in(600);
    let seen = sys::recv(fd, &mut buf, flags);
    say!("interrupted {}", got(seen, &buf));
    say!("set -> {}", show(sys::set_timeout(fd, libc::SO_RCVTIMEO, 600)));
    cx.ask("later 30 send 0 -more");
    let seen = sys::recv(fd, &mut buf, flags);
    say!("in its time {}", got(seen, &buf));
    let all = sys::recv(fd, &mut buf, 0);
    say!("there {}", got(all, &buf));
}

/// Who asks for no bytes waits once, for bytes or for time, and is told nothing of how that ended.
fn nothing_in_its_time(cx: &mut Cx) {
    let fd = cx.warm().fd;
    say!("set -> {}", show(sys::set_timeout(fd, libc::SO_RCVTIMEO, 60)));
    say!("recv -> {}", show(sys::recv(fd, &mut [], 0)));
    say!("recvmsg -> {:?}", sys::recvmsg(fd, &mut [&mut []], 0).0);
    say!("peek -> {}", show(sys::recv(fd, &mut [], libc::MSG_PEEK)));
    say!("at once -> {}", show(sys::recv(fd, &mut [], libc::MSG_DONTWAIT)));
    say!("read -> {}", show(sys::read(fd, &mut [])));
    say!("one -> {}", show(sys::recv(fd, &mut [0], 0)));
    say!("set -> {}", show(sys::set_timeout(fd, libc::SO_RCVTIMEO, 0)));
    sys::catch(SIGUSR1, false);
    let n = Nagger::start(sys::this_thread());
    say!("interrupted -> {}", show(sys::recv(fd, &mut [], 0)));
    n.stop();
    cx.peer("send 0 abc");
    say!("there -> {}", show(sys::recv(fd, &mut [], 0)));
}

fn restarted_read(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::catch(SIGUSR1, true);
    let n = Nagger::start(sys::this_thread());
    cx.ask("later 250 send 0 abc");
    let mut buf = [0u8; 9];
    sys::set_errno(libc::EDOM);
    let r = sys::read(fd, &mut buf);
    say!("read -> {}, errno untouched: {}", got(r, &buf), sys::errno().0 == libc::EDOM);
    say!("set -> {}", show(sys::set_timeout(fd, libc::SO_RCVTIMEO, 400)));
    say!("with SO_RCVTIMEO read -> {}", show(sys::read(fd, &mut buf)));
    n.stop();
    say!("handler ran: {}", sys::hits() >= 1);
}

/// Which handlers a process has beside the one that runs says nothing, and each runs when its signal comes;
/// one whose signal is blocked runs when that is let through.
fn restarted_beside_another(cx: &mut Cx, p: Pair) {
    let fd = p.fd;
    let read_under_fire = |cx: &mut Cx| {
        let mut buf = [0u8; 9];
        let nagger = Nagger::every(Duration::from_millis(150), sys::this_thread());
        cx.ask("later 500 send 0 abc");
        let read = sys::read(fd, &mut buf);
        nagger.stop();
        // (Three come before the bytes.)
        let least = if read == Ok(3) { 2 } else { 1 };
        say!("read -> {}, handler ran: {}", show(read), sys::hits() >= least);
        if read != Ok(3) {
            say!("again -> {}", show(sys::read(fd, &mut buf)));
        }
    };
    sys::catch(libc::SIGUSR2, false);
    sys::catch(SIGUSR1, true);
    read_under_fire(cx);
    sys::block(libc::SIGALRM, true);
    sys::catch(libc::SIGALRM, true);
    sys::signal_thread(sys::this_thread(), libc::SIGALRM);
    read_under_fire(cx);
    sys::catch(SIGUSR1, false);
    read_under_fire(cx);
    sys::catch(SIGUSR1, true);
    sys::block(libc::SIGALRM, false);
    say!("the blocked one ran: {}", sys::hits() >= 1);
}

/// A sandbox that lets the process make no descriptor lets it poll hardly any, too.
fn read_with_one_descriptor(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let mut buf = [0u8; 9];
    sys::catch(libc::SIGUSR2, false);
    sys::catch(SIGUSR1, true);
    cx.ask("later 200 send 0 abc");
    say!("read -> {}", show(sys::read(fd, &mut buf)));
    sys::limit_fds_for_good(1);
    cx.ask("later 200 send 0 abc");
    say!("read -> {}", show(sys::read(fd, &mut buf)));
}

fn interrupted_write(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::catch(SIGUSR1, false);
    let block = vec![3u8; 64 << 20];
    let n = Nagger::start(sys::this_thread());
    let first = sys::send(fd, &block, 0);
    say!("first send is partial: {}", first.is_ok_and(|k| k > 0 && k < block.len()));
    fill(fd);
    say!("send when full -> {}", show(sys::send(fd, &block, 0)));
    n.stop();
    let (pid_alive, dump) = (cx.peer_pid() > 0, cx.ask("later 1 discard 0"));
    say!("peer reads on: {pid_alive} {dump}");
    say!("send -> {}", show(sys::send(fd, b"tail", 0)));
}

fn interrupted_waits(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::catch(SIGUSR1, true);
    let n = Nagger::start(sys::this_thread());
    let ep = sys::epoll();
    sys::ep_add(ep, fd, libc::EPOLLIN, 1).expect("add");
    say!("poll -> {}", poll1(fd, libc::POLLIN, 3000));
    say!("ppoll -> {}", show(sys::ppoll(&[(fd, libc::POLLIN)], Some(3000)).0));
    say!("select -> {}", sys::select(sys::Select::Plain, &[fd], &[], &[], 3000));
    say!("pselect -> {}", sys::select(sys::Select::Precise, &[fd], &[], &[], 3000));
    say!("epoll_wait -> {}", sys::ep_show(ep, 3000));
    say!("epoll_wait forever -> {}", sys::ep_show(ep, -1));
    for kind in [sys::Wait::Mask, sys::Wait::Nano] {
        say!("{kind:?} -> {}", sys::show_events(sys::ep_wait_by(kind, ep, 4, 3000)));
    }
    n.stop();
    cx.peer("send 0 x");
    say!("epoll_wait -> {}", sys::ep_show(ep, 3000));
}

fn waitall_interrupted(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::catch(SIGUSR1, false);
    cx.peer("send 0 abc");
    let n = Nagger::start(sys::this_thread());
    let mut buf = [0u8; 8];
    let r = sys::recv(fd, &mut buf, libc::MSG_WAITALL);
    say!("waitall 8 -> {}", got(r, &buf));
    n.stop();
}

/// The call in which a thread sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sleeper {
    Read,
    Recvmsg,
    Poll,
    Select,
    Write,
    Epoll,
}

impl Sleeper {
    fn sleeps(self, fd: sys::Fd, set: sys::Fd) -> String {
        let mut buf = [0; 9];
        match self {
            Sleeper::Read => show(sys::read(fd, &mut buf)),
            Sleeper::Recvmsg => format!("{:?}", sys::recvmsg(fd, &mut [&mut buf], 0).0),
            Sleeper::Poll => poll1(fd, libc::POLLIN, 20_000),
            Sleeper::Select => sys::select(sys::Select::Plain, &[fd], &[], &[], 20_000),
            Sleeper::Write => show(sys::send(fd, &[7; 4096], MSG_NOSIGNAL)),
            Sleeper::Epoll => sys::ep_show(set, 20_000),
        }
    }
}

/// A runtime interrupts a thread: something else takes the number, so that it does not sleep there again, and
/// a signal ends its sleep, just as it may look after itself.
fn after_a_dup(cx: &mut Cx, sleeper: Sleeper) {
    const TIMES: u64 = 12;
    sys::catch(SIGUSR1, false);
    let (marker, _gone) = sys::socketpair();
    let mut told = std::collections::BTreeMap::new();
    for nth in 0..TIMES {
        let fd = cx.warm().fd;
        let set = sys::epoll();
        sys::ep_add(set, fd, libc::EPOLLIN, 1).expect("add");
        if sleeper == Sleeper::Write {
            fill(fd);
        }
        let (tx, rx) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tx.send(sys::this_thread()).expect("a listener");
            let told = sleeper.sleeps(fd, set);
            tx.send(sys::this_thread()).expect("a listener");
            told
        });
        let target = rx.recv().expect("a thread");
        std::thread::sleep(Duration::from_millis(10) + Duration::from_micros(700 * nth));
        let _ = sys::dup2(marker, fd);
        sys::signal_thread(target, SIGUSR1);
        let is_over = rx.recv_timeout(Duration::from_secs(3)).is_ok();
        if !is_over {
            sys::signal_thread(target, SIGUSR1);
        }
        let how = thread.join().expect("a thread");
        // (A queue that was full may have found room since.)
        let how = if sleeper == Sleeper::Write && how == "4096" { "EINTR".into() } else { how };
        *told.entry(if is_over { how } else { format!("{how}, at the second signal") }).or_insert(0) += 1;
        let _ = (sys::close(fd), sys::close(set));
    }
    say!("{told:?}");
}

fn mask_during_wait(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::catch(SIGUSR1, false);
    sys::block(SIGUSR1, true);
    let ep = sys::epoll();
    sys::ep_add(ep, fd, libc::EPOLLIN, 1).expect("add");
    let raise = || sys::signal_thread(sys::this_thread(), SIGUSR1);
    raise();
    say!("blocked: {} hits {}", sys::ep_show(ep, 20), sys::hits());
    say!("epoll_pwait -> {} hits {}", show(sys::ep_pwait_unblocking(ep, SIGUSR1, 3000)), sys::hits());
    raise();
    say!("ppoll -> {} hits {}", show(sys::ppoll_unblocking(fd, libc::POLLIN, SIGUSR1, 3000)), sys::hits());
    cx.peer("send 0 x");
    say!("poll {}", poll1(fd, libc::POLLIN, 3000));
    raise();
    let r = show(sys::ppoll_unblocking(fd, libc::POLLIN, SIGUSR1, 3000));
    say!("ready and pending: one of both: {}", r == "1" || r == "EINTR");
}

/// A call that has something to report lets no signal through.
fn mask_and_something_ready(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::catch(SIGUSR1, false);
    sys::block(SIGUSR1, true);
    let ep = sys::epoll();
    sys::ep_add(ep, fd, libc::EPOLLIN, 1).expect("add");
    for ms in [0, 20] {
        say!("idle {:?} hits {}", sys::masked_waits(fd, ep, SIGUSR1, ms), sys::hits());
        for _ in 0..4 {
            sys::signal_thread(sys::this_thread(), SIGUSR1);
            say!("pending {:?} hits {}", sys::masked_waits(fd, ep, SIGUSR1, ms), sys::hits());
        }
    }
    sys::signal_thread(sys::this_thread(), SIGUSR1);
    cx.peer("send 0 x");
    crate::context::until_queued(fd, 1);
    for ms in [0, 20, 3000] {
        (0..200).for_each(|_| _ = sys::masked_waits(fd, ep, SIGUSR1, ms));
        say!("ready {:?} hits {}", sys::masked_waits(fd, ep, SIGUSR1, ms), sys::hits());
    }
    say!("recv -> {}", show(sys::recv(fd, &mut [0; 9], 0)));
    say!("then {:?} hits {}", sys::ppoll_unblocking(fd, libc::POLLIN, SIGUSR1, 3000), sys::hits());
}

fn cancel(cx: &mut Cx) {
    let fd = cx.warm().fd;
    for what in [Blocking::Read, Blocking::Recv, Blocking::Poll] {
        say!("{what:?} {}", sys::cancel_in(what, fd, 60));
    }
    let ep = sys::epoll();
    sys::ep_add(ep, fd, libc::EPOLLIN, 1).expect("add");
    say!("EpollWait {}", sys::cancel_in(Blocking::EpollWait, ep, 60));
    cx.peer("send 0 abc");
    let mut buf = [0u8; 9];
    let r = sys::read(fd, &mut buf);
    say!("read -> {}", got(r, &buf));
    say!("write -> {}", show(sys::write(fd, b"hello")));
    cx.peer("recv 0 9");
    say!("Write {}", sys::cancel_in(Blocking::Write, fd, 300));
    say!("set -> {}", show(sys::set_timeout(fd, libc::SO_SNDTIMEO, 50)));
    fill(fd);
    say!("send when full -> {}", show(sys::send(fd, b"x", 0)));
}

fn cancel_foreign(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let (r, w) = sys::pipe(0);
    for what in [Blocking::Read, Blocking::Poll] {
        say!("pipe {what:?} {}", sys::cancel_in(what, r, 60));
    }
    let (a, _b) = sys::socketpair();
    say!("unix Recv {}", sys::cancel_in(Blocking::Recv, a, 60));
    say!("pipe write -> {}", show(sys::write(w, b"x")));
    cx.peer("send 0 y");
    say!("read -> {}", show(sys::read(fd, &mut [0; 9])));
}

fn write_in_handler(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::catch(SIGUSR1, true);
    sys::write_in_handler(fd);
    let n = Nagger::start(sys::this_thread());
    cx.ask("later 400 send 0 z");
    say!("read -> {}", show(sys::read(fd, &mut [0; 9])));
    n.stop();
    sys::write_in_handler(-1);
    settle();
    let marks = sys::hits();
    let mut seen = String::new();
    until("all marks", || {
        seen = cx.ask("queued 0");
        seen == marks.to_string()
    });
    say!("every handler write arrived: {} some: {}", seen == marks.to_string(), marks > 0);
}
