//! Points 32-36: connections across fork, exec, descriptor passing and process-wide close ranges.

use crate::context::{Case, Cx, got, pattern, read_all, say, settle, until_queued, write_all};
use isthmus_tests::sys::{self, Fd, Way, show};
use std::os::unix::process::CommandExt;
use std::process::Command;

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("fork.both_use", both_use),
    any("fork.before_use", before_use),
    any("fork.child_closes", child_closes),
    any("fork.parent_closes", parent_closes),
    any("fork.accept_then_fork", accept_then_fork),
    any("fork.prefork_accept", prefork_accept),
    any("fork.child_listens_inherited", child_connects),
    any("fork.writers_in_two_processes", writers_in_two_processes),
    any("fork.reader_and_writer_apart", reader_and_writer_apart),
    any("fork.poller_and_writer_apart", poller_and_writer_apart),
    case("fork.spawn_with_live_connection", spawn_with_live_connection),
    case("fork.child_close_range", child_close_range),
    case("fork.in_threads", in_threads),
    case("fork.beside_one_who_duplicates", beside_one_who_duplicates),
    any("fork.exec_inherits_unused", exec_inherits_unused),
    any("fork.exec_inherits_used", exec_inherits_used),
    any("fork.execl", execl),
    case("fork.pass_used_then_close", pass_used_then_close),
    case("fork.child_exits_without_close", child_exits_without_close),
    case("fork.spawn_then_close", spawn_then_close),
    any("fork.spawn_unused_then_close", |cx| spawn_unused_then_close(cx, false)),
    any("fork.vfork_unused_then_close", |cx| spawn_unused_then_close(cx, true)),
    any("fork.vfork_high_up_then_close", vfork_high_up_then_close),
    any("fork.pass_unused", pass_unused),
    any("fork.pass_used", pass_used),
    any("fork.passed_and_looked_at_late", looked_at_late),
    any("fork.killed_child", killed_child),
    any("fork.double", double),
    case("fork.daemon_by__exit", |cx| daemon(cx, Way::Immediately)),
    case("fork.daemon_by_exit_group", |cx| daemon(cx, Way::Syscall)),
    case("fork.daemon_by_quick_exit", |cx| daemon(cx, Way::Quickly)),
    case("fork.daemon_after_a_failed_execl", daemon_after_a_failed_execl),
];

fn exchange(cx: &mut Cx, fd: Fd, id: u32) {
    cx.peer(&format!("send {id} ping"));
    let mut buf = [0u8; 9];
    let r = sys::read(fd, &mut buf);
    say!("read -> {}", got(r, &buf));
    say!("write -> {}", show(sys::write(fd, b"pong")));
    cx.peer(&format!("recv {id} 9"));
}

/// Answers "ping" with "pong" once; 0 when all went well.
fn serve_once(fd: Fd) -> u8 {
    let mut buf = [0u8; 9];
    let good = sys::read(fd, &mut buf) == Ok(4) && &buf[..4] == b"ping" && sys::write(fd, b"pong") == Ok(4);
    (!good).into()
}

/// The peer sends "ping" to whoever reads and shows the answer.
fn ping(cx: &mut Cx, id: u32) {
    cx.peer(&format!("send {id} ping"));
    cx.peer(&format!("recv {id} 9"));
}

fn both_use(cx: &mut Cx) {
    let p = cx.pair();
    exchange(cx, p.fd, 0);
    let pid = sys::fork(|| serve_once(p.fd));
    ping(cx, 0);
    say!("child {}", sys::wait(pid));
    exchange(cx, p.fd, 0);
    let pid = sys::fork(|| serve_once(p.fd));
    ping(cx, 0);
    say!("child {}", sys::wait(pid));
    exchange(cx, p.fd, 0);
}

/// Opens pipes where another thread of the parent may have had numbers, and uses them; 0 when all went well.
fn pipes_are_pipes() -> u8 {
    let is_whole = |at: usize| {
        let (r, w) = sys::pipe(0);
        let (bytes, mut buf) = ([at as u8; 3], [0u8; 9]);
        sys::write(w, &bytes) == Ok(3) && sys::read(r, &mut buf) == Ok(3) && buf[..3] == bytes
    };
    (!(0..8).all(is_whole)).into()
}

/// The kernel copies descriptors before memory: what a thread duplicates meanwhile is in one of them only.
fn beside_one_who_duplicates(cx: &mut Cx) {
    let p = cx.pair();
    exchange(cx, p.fd, 0);
    let end = std::sync::atomic::AtomicBool::new(false);
    let failed = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !end.load(std::sync::atomic::Ordering::Relaxed) {
                let copies = [(); 3].map(|()| sys::dup(p.fd).expect("dup") as Fd);
                copies.iter().for_each(|copy| assert_eq!(sys::close(*copy), Ok(0)));
            }
        });
        let failed = (0..200).filter(|_| sys::wait(sys::fork(pipes_are_pipes)) != "exit 0").count();
        end.store(true, std::sync::atomic::Ordering::Relaxed);
        failed
    });
    say!("{failed} children had something else in their pipes");
    exchange(cx, p.fd, 0);
    sys::close(p.fd).expect("close");
    cx.peer("recv 0 9");
}

fn before_use(cx: &mut Cx) {
    let p = cx.pair();
    let pid = sys::fork(|| serve_once(p.fd));
    ping(cx, 0);
    say!("child {}", sys::wait(pid));
    exchange(cx, p.fd, 0);
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer("drain 0");
}

fn child_closes(cx: &mut Cx) {
    let p = cx.pair();
    exchange(cx, p.fd, 0);
    let pid = sys::fork(|| sys::close(p.fd).is_err().into());
    say!("child {}", sys::wait(pid));
    cx.peer("poll 0 1 60");
    exchange(cx, p.fd, 0);
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer("poll 0 1 3000");
    cx.peer("drain 0");
}

fn parent_closes(cx: &mut Cx) {
    let p = cx.pair();
    exchange(cx, p.fd, 0);
    let pid = sys::fork(|| serve_once(p.fd) + serve_once(p.fd));
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer("poll 0 1 60");
    ping(cx, 0);
    ping(cx, 0);
    say!("child {}", sys::wait(pid));
    cx.peer("drain 0");
}

fn accept_then_fork(cx: &mut Cx) {
    let (l, port) = sys::listener();
    for id in 0..3 {
        cx.ask(&format!("connect {id} {port}"));
        let fd = sys::accept(l).expect("accept") as Fd;
        let pid = sys::fork(|| {
            let _ = sys::close(l);
            serve_once(fd)
        });
        say!("close in parent -> {}", show(sys::close(fd)));
        ping(cx, id);
        say!("child {}", sys::wait(pid));
        cx.peer(&format!("drain {id}"));
    }
}

fn prefork_accept(cx: &mut Cx) {
    let (l, port) = sys::listener();
    let worker = || {
        sys::fork(|| {
            (0..2)
                .map(|_| {
                    sys::accept(l).map_or(1, |fd| serve_once(fd as Fd) + sys::close(fd as Fd).is_err() as u8)
                })
                .sum()
        })
    };
    let workers = [worker(), worker(), worker()];
    for id in 0..6 {
        cx.ask(&format!("connect {id} {port}"));
        ping(cx, id);
        cx.peer(&format!("drain {id}"));
    }
    for pid in workers {
        say!("worker {}", sys::wait(pid));
    }
}

fn child_connects(cx: &mut Cx) {
    let (l, port) = sys::listener();
    let pid = sys::fork(|| {
        let c = sys::tcp(0);
        let good = sys::connect(c, port).is_ok() && sys::write(c, b"ping") == Ok(4);
        let mut buf = [0u8; 9];
        (!(good && sys::read(c, &mut buf) == Ok(4))).into()
    });
    let s = sys::accept(l).expect("accept") as Fd;
    say!("server {}", serve_once(s));
    say!("child {}", sys::wait(pid));
    say!("server at end {}", read_all(s, usize::MAX));
    let _ = cx;
}

/// TCP writes of one call are not mixed with another process's.
fn writers_in_two_processes(cx: &mut Cx) {
    let p = cx.pair();
    cx.tell("echo 0 200000");
    let write = |byte: u8| (0..100).filter(|_| sys::write(p.fd, &[byte; 1000]) == Ok(1000)).count();
    let pid = sys::fork(|| (write(b'c') != 100).into());
    let writer =
        std::thread::spawn(move || (0..100).filter(|_| sys::write(p.fd, &[b'p'; 1000]) == Ok(1000)).count());
    let mut all = vec![0u8; 200_000];
    let r = sys::recv(p.fd, &mut all, libc::MSG_WAITALL);
    let torn = all.chunks(1000).filter(|c| c.iter().any(|b| *b != c[0])).count();
    say!("read {} torn {torn} parent wrote {}", show(r), writer.join().expect("writer"));
    say!("child {}", sys::wait(pid));
    cx.answer();
}

/// One process reads what the other process wrote and the peer sent back: each sleeps for something else.
fn reader_and_writer_apart(cx: &mut Cx) {
    const BYTES: usize = 4 << 20;
    let p = cx.pair();
    exchange(cx, p.fd, 0);
    cx.ask(&format!("later 0 echo 0 {BYTES}"));
    let pid = sys::fork(|| (!write_all(p.fd, &pattern(BYTES)).contains(&BYTES.to_string())).into());
    say!("back: {}", read_all(p.fd, BYTES));
    say!("child {}", sys::wait(pid));
    exchange(cx, p.fd, 0);
}

/// The same with a reader that waits in epoll.
fn poller_and_writer_apart(cx: &mut Cx) {
    const BYTES: usize = 4 << 20;
    let p = cx.pair();
    exchange(cx, p.fd, 0);
    let ep = sys::epoll();
    sys::ep_add(ep, p.fd, libc::EPOLLIN, 7).expect("add");
    cx.ask(&format!("later 0 echo 0 {BYTES}"));
    let pid = sys::fork(|| (!write_all(p.fd, &pattern(BYTES)).contains(&BYTES.to_string())).into());
    let (mut left, mut buf) = (BYTES, vec![0; 65536]);
    while left > 0 && sys::ep_wait(ep, 10_000).is_ok_and(|events| !events.is_empty()) {
        left -= sys::read(p.fd, &mut buf).expect("read");
    }
    say!("{left} bytes missing");
    say!("child {}", sys::wait(pid));
}

fn spawn_with_live_connection(cx: &mut Cx) {
    let p = cx.pair();
    exchange(cx, p.fd, 0);
    for _ in 0..5 {
        let out = Command::new("/bin/sh").args(["-c", "echo from a child"]).output().expect("sh");
        say!("child said {}", String::from_utf8_lossy(&out.stdout).trim());
        exchange(cx, p.fd, 0);
    }
}

fn child_close_range(cx: &mut Cx) {
    let p = cx.pair();
    exchange(cx, p.fd, 0);
    for flags in [0, libc::CLOSE_RANGE_CLOEXEC as i32] {
        let mut c = Command::new("/bin/sh");
        c.args(["-c", "echo closed"]);
        // The child of a fork closes everything above stderr before exec, as daemons and Python do.
        let out = isthmus_tests::sys::run_in_child(c, move || {
            let _ = sys::close_range(3, u32::MAX, flags);
        });
        say!("child said {out}");
        exchange(cx, p.fd, 0);
    }
    let pid = sys::fork(|| u8::from((3..1024).filter(|fd| sys::close(*fd).is_ok()).count() == 0));
    say!("child {}", sys::wait(pid));
    exchange(cx, p.fd, 0);
}

/// Fork while other threads are inside socket calls: the child can use and close its copies.
fn in_threads(cx: &mut Cx) {
    let (p, q) = (cx.pair(), cx.pair());
    exchange(cx, p.fd, 0);
    exchange(cx, q.fd, 1);
    cx.ask("later 0 echo 1 100000000");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let good = std::thread::scope(|s| {
        s.spawn(|| {
            let mut buf = [5u8; 500];
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = sys::write(q.fd, &buf).and_then(|_| sys::recv(q.fd, &mut buf, libc::MSG_WAITALL));
            }
        });
        let child = || {
            sys::fork(|| u8::from(sys::close(q.fd).is_err() || sys::fcntl(p.fd, libc::F_GETFL, 0).is_err()))
        };
        let good = (0..100).filter(|_| sys::wait(child()) == "exit 0").count();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        good
    });
    say!("{good} of 100 children ended well");
    exchange(cx, p.fd, 0);
    cx.watch(q.fd);
}

/// What an exec'ed program does with the connection it inherited.
pub(crate) fn inherited(fd: Fd) {
    let code = serve_once(fd);
    let end = write_all(fd, &pattern(2000));
    std::process::exit(if end == "2000 written" { code.into() } else { 9 });
}

pub(crate) fn exec_self(fd: Fd) -> String {
    sys::fcntl(fd, libc::F_SETFD, 0).expect("inheritable");
    let status =
        Command::new("/proc/self/exe").arg0("parity-case").args(["--inherited", &fd.to_string()]).spawn();
    let mut child = status.expect("start");
    sys::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC).expect("private");
    child.wait().map_or("lost".into(), |s| s.to_string())
}

fn exec_inherits_unused(cx: &mut Cx) {
    let p = cx.pair();
    cx.tell("later 0 send 0 ping");
    cx.answer();
    say!("child {}", exec_self(p.fd));
    cx.peer("recvn 0 2004");
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer("drain 0");
}

fn exec_inherits_used(cx: &mut Cx) {
    let p = cx.pair();
    exchange(cx, p.fd, 0);
    cx.peer("send 0 ping");
    say!("child {}", exec_self(p.fd));
    cx.peer("recvn 0 2004");
    exchange(cx, p.fd, 0);
}

/// Handed over as a mail server does it: the sender closes its copy before the receiver has looked at his.
fn pass_used_then_close(cx: &mut Cx) {
    let (a, b) = sys::socketpair();
    let pid = sys::fork(|| {
        let Ok(fd) = sys::recv_fd(b) else { return 7 };
        std::thread::sleep(std::time::Duration::from_millis(100));
        serve_once(fd as Fd)
    });
    let (p, q) = (cx.warm(), cx.warm());
    cx.peer("send 0 ping");
    say!("pass -> {}", show(sys::send_fd(a, p.fd)));
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer("recvn 0 4");
    say!("child {}", sys::wait(pid));
    cx.peer("recv 0 9");
    cx.watch(q.fd);
}

/// As inetd does it, by posix_spawn: the connection is the program's standard input, and the parent lets go
/// of it at once.
fn spawn_then_close(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    let input = std::process::Stdio::from(sys::owned(p.fd));
    let started =
        Command::new("/proc/self/exe").arg0("parity-case").args(["--inherited", "0"]).stdin(input).spawn();
    settle();
    cx.peer("send 0 ping");
    say!("child {}", started.expect("start").wait().map_or("lost".into(), |status| status.to_string()));
    cx.peer("recvn 0 2004");
    cx.peer("recv 0 9");
    cx.watch(q.fd);
}

/// The same, and by vfork, of a connection that nobody has used yet at this end.
fn spawn_unused_then_close(cx: &mut Cx, by_vfork: bool) {
    let (p, q) = (cx.pair(), cx.warm());
    // (The other end has used it.)
    cx.peer("send 0 ping");
    let program = if by_vfork {
        let args = [c"parity-case", c"--inherited", c"0"];
        sys::vfork_exec_reading(p.fd, c"/proc/self/exe", &args)
    } else {
        let input = std::process::Stdio::from(sys::owned(sys::dup(p.fd).expect("a copy") as Fd));
        let mut program = Command::new("/proc/self/exe");
        let started = program.arg0("parity-case").args(["--inherited", "0"]).stdin(input).spawn();
        started.expect("start").id() as i32
    };
    say!("close -> {}", show(sys::close(p.fd)));
    say!("child {}", sys::wait(program));
    cx.peer("recvn 0 2004");
    cx.peer("recv 0 9");
    cx.watch(q.fd);
}

/// The next program has it under a number where nobody looks, and under no other.
fn vfork_high_up_then_close(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    cx.peer("send 0 ping");
    let args = [c"parity-case", c"--inherited", c"100"];
    let program = sys::vfork_exec_at([p.fd, 100], p.fd, c"/proc/self/exe", &args);
    say!("close -> {}", show(sys::close(p.fd)));
    say!("child {}", sys::wait(program));
    cx.peer("recvn 0 2004");
    cx.peer("recv 0 9");
    cx.watch(q.fd);
}

/// What a server does that forks for each connection.
fn child_exits_without_close(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    let pid = sys::fork(|| u8::from(sys::write(p.fd, b"done") != Ok(4)));
    say!("close -> {}", show(sys::close(p.fd)));
    say!("child {}", sys::wait(pid));
    cx.peer("send 0 QUIT");
    settle();
    cx.peer("recvn 0 4");
    cx.peer("recv 0 9");
    cx.watch(q.fd);
}

/// A list of arguments reaches the next program as it is, and so does the connection: here its standard
/// output.
fn execl(cx: &mut Cx) {
    let p = cx.warm();
    let pid = sys::fork(|| {
        let _ = sys::dup2(p.fd, 1);
        let text = c"echo $# $1 $2 $3 $4 $5 $6";
        sys::execl(
            c"/bin/sh",
            [c"sh", c"-c", text, c"sh", c"one", c"two", c"three", c"four", c"five", c"six"],
        );
        9
    });
    say!("child {}", sys::wait(pid));
    cx.peer("recvn 0 30");
}

fn pass_unused(cx: &mut Cx) {
    let p = cx.pair();
    let (a, b) = sys::socketpair();
    let pid = sys::fork(|| sys::recv_fd(b).map_or(7, |fd| serve_once(fd as Fd)));
    say!("pass -> {}", show(sys::send_fd(a, p.fd)));
    say!("close -> {}", show(sys::close(p.fd)));
    ping(cx, 0);
    say!("child {}", sys::wait(pid));
    cx.peer("drain 0");
}

fn pass_used(cx: &mut Cx) {
    let (a, b) = sys::socketpair();
    let pid = sys::fork(|| sys::recv_fd(b).map_or(7, |fd| serve_once(fd as Fd)));
    let p = cx.pair();
    exchange(cx, p.fd, 0);
    say!("pass -> {}", show(sys::send_fd(a, p.fd)));
    ping(cx, 0);
    say!("child {}", sys::wait(pid));
    exchange(cx, p.fd, 0);
}

/// What a client has sent that is gone is the receiver's to read, whatever the process that passed it to him
/// has done since.
fn looked_at_late(cx: &mut Cx) {
    let (a, b) = sys::socketpair();
    let receiver = sys::fork(|| {
        let Ok(fd) = sys::recv_fd(b) else { return 7 };
        let _ = sys::read(b, &mut [0; 1]);
        let mut rest = [0; 200];
        let is_read = sys::recv(fd as Fd, &mut rest, libc::MSG_WAITALL) == Ok(90) && rest[..90] == [7; 90];
        u8::from(!is_read || sys::read(fd as Fd, &mut rest) != Ok(0))
    });
    let (listener, port) = cx.listen();
    let client = || {
        sys::fork(|| {
            let fd = sys::tcp(libc::SOCK_CLOEXEC);
            let is_sent = sys::connect(fd, port).is_ok()
                && sys::send(fd, &[7; 10], 0) == Ok(10)
                && sys::read(fd, &mut [0; 1]) == Ok(1)
                && sys::send(fd, &[7; 90], 0) == Ok(90);
            u8::from(!is_sent)
        })
    };
    let serve = || {
        let fd = sys::accept(listener).expect("accept") as Fd;
        let is_read = sys::recv(fd, &mut [0; 10], libc::MSG_WAITALL) == Ok(10);
        say!("read all {is_read}, answered {}", show(sys::write(fd, b"x")));
        fd
    };
    let first = client();
    let fd = serve();
    say!("client {}", sys::wait(first));
    say!("pass -> {}", show(sys::send_fd(a, fd)));
    say!("close -> {}", show(sys::close(fd)));
    for _ in 0..3 {
        let next = client();
        let fd = serve();
        say!("next client {}", sys::wait(next));
        say!("close -> {}", show(sys::close(fd)));
    }
    let _ = sys::write(a, b"x");
    say!("receiver {}", sys::wait(receiver));
}

fn killed_child(cx: &mut Cx) {
    let p = cx.pair();
    exchange(cx, p.fd, 0);
    let pid = sys::fork(|| sys::read(p.fd, &mut [0; 9]).is_err().into());
    settle();
    say!("kill -> {}", show(sys::kill(pid, libc::SIGKILL)));
    say!("child {}", sys::wait(pid));
    exchange(cx, p.fd, 0);
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer("drain 0");
}

fn double(cx: &mut Cx) {
    let p = cx.pair();
    exchange(cx, p.fd, 0);
    let pid = sys::fork(|| {
        let grandchild = sys::fork(|| serve_once(p.fd));
        (sys::wait(grandchild) != "exit 0").into()
    });
    ping(cx, 0);
    say!("child {}", sys::wait(pid));
    exchange(cx, p.fd, 0);
}

/// A process that has the connection under two numbers leaves it to a child, with bytes unread, at once: the
/// child reads them, answers, and its end is an orderly one.
fn daemon(cx: &mut Cx, way: Way) {
    leaves_it_to_a_child(cx, way, |fd| _ = sys::dup(fd));
}

/// The same after it has given its share up to a program that was none. (Nobody is told how execl failed.)
fn daemon_after_a_failed_execl(cx: &mut Cx) {
    leaves_it_to_a_child(cx, Way::Immediately, |fd| {
        let _ = sys::fcntl(fd, libc::F_SETFD, 0);
        sys::execl(c"/nowhere/at/all", [c"none"; 10]);
    });
}

fn leaves_it_to_a_child(cx: &mut Cx, way: Way, before: impl Fn(Fd)) {
    for _ in 0..4 {
        let p = cx.warm();
        let id = p.id;
        cx.peer(&format!("send {id} unread"));
        until_queued(p.fd, 6);
        let (own, childs) = sys::socketpair();
        let pid = sys::fork(|| {
            before(p.fd);
            let _ = sys::close(own);
            // (Its parent has let go.)
            let _ = sys::read(childs, &mut [0; 1]);
            sys::fork(|| {
                settle();
                let mut bytes = [0; 6];
                let is_read = sys::recv(p.fd, &mut bytes, libc::MSG_WAITALL) == Ok(6) && bytes == *b"unread";
                u8::from(!is_read || sys::write(p.fd, b"read") != Ok(4))
            });
            sys::end(way)
        });
        say!("close -> {}", show(sys::close(p.fd)));
        let _ = (sys::write(own, b"g"), sys::close(own), sys::close(childs));
        say!("parent {}", sys::wait(pid));
        cx.peer(&format!("recvn {id} 4"));
        cx.peer(&format!("recv {id} 9"));
    }
}
