//! An operator takes connections off shared memory (`smc_run -p PID --tcp`) while the program is in any call.
//! Over TCP he changes nothing; so nobody notices, and afterwards the bytes are TCP's.

use crate::context::{Case, Cx, Pair, digest, fill, got, pattern, read_all, say, settle, until, write_all};
use isthmus_tests::sys::{self, Fd, poll1, show};
use libc::{EPOLLET, EPOLLIN, EPOLLOUT, MSG_DONTWAIT, POLLIN, POLLOUT};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("operator.while_reading", while_reading),
    case("operator.while_writing", while_writing),
    case("operator.while_in_sets", while_in_sets),
    case("operator.before_a_wait_for_room", before_a_wait_for_room),
    case("operator.while_polling", while_polling),
    case("operator.while_stopped", while_stopped),
    case("operator.while_streaming", while_streaming),
    case("operator.shared_by_fork", shared_by_fork),
    case("operator.one_of_two", one_of_two),
    case("operator.new_ones", new_ones),
    case("operator.asked_for_nothing", asked_for_nothing),
    case("operator.put_into_a_set_with_a_rest", put_into_a_set_with_a_rest),
    case("operator.passed_on_afterwards", passed_on_afterwards),
    case("operator.time_left_to_a_receive", time_left_to_a_receive),
    case("operator.time_left_to_a_send", time_left_to_a_send),
    case("operator.told_not_to_wait_while_waiting", told_not_to_wait_while_waiting),
];

/// The end of the tool interrupts no call of another thread: the kernel wakes one for SIGCHLD.
pub(crate) fn undisturbed() {
    sys::block(libc::SIGCHLD, true);
}

/// What `smc_run -p PID` answers; 0 where there is no such tool.
fn ask(pid: i32, words: &[&str]) -> i32 {
    let Some(tool) = std::env::var_os("PARITY_SMC_RUN") else { return 0 };
    let mut command = Command::new(tool);
    command.env_remove("LD_PRELOAD").args(["-p", &pid.to_string()]).args(words);
    let said = command.output().expect("smc_run");
    print!(
        "{}",
        String::from_utf8_lossy(&said.stdout).lines().map(|l| format!("#{l}\n")).collect::<String>()
    );
    said.status.code().unwrap_or(-1)
}

/// Everything that process `pid` has goes home. (Where it has nothing in shared memory there is nothing to
/// do, and without the library nobody to ask.)
pub(crate) fn send_home(pid: i32) {
    let answer = ask(pid, &["--tcp", "-c", "all"]);
    if ![0, 4, 5].contains(&answer) {
        say!("smc_run answers {answer}");
    }
}

/// Each end in turns: by the case's role.
fn somebody(cx: &Cx) -> i32 {
    if cx.role == crate::context::Role::Client { me() } else { cx.peer_pid() }
}

fn me() -> i32 {
    std::process::id() as i32
}

/// Both directions work, and are TCP's.
pub(crate) fn is_on_tcp(cx: &mut Cx, p: Pair) {
    const COUNT: usize = 3000;
    let (received, acked) = sys::tcp_bytes(p.fd).expect("TCP_INFO");
    cx.tell(&format!("recvn {} {COUNT}", p.id));
    say!("{}", write_all(p.fd, &pattern(COUNT)));
    say!("peer {}", cx.answer());
    cx.tell(&format!("sendn {} {COUNT}", p.id));
    say!("{}", read_all(p.fd, COUNT));
    cx.answer();
    until("acknowledgement", || sys::tcp_bytes(p.fd).is_some_and(|(_, now)| now >= acked + COUNT as u64));
    let now = sys::tcp_bytes(p.fd).expect("TCP_INFO");
    say!("by TCP {} {}", now.0 >= received + COUNT as u64, now.1 >= acked + COUNT as u64);
}

fn end(cx: &mut Cx, p: Pair) {
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer(&format!("drain {}", p.id));
}

fn while_reading(cx: &mut Cx) {
    undisturbed();
    let p = cx.warm();
    for pid in [me(), cx.peer_pid()] {
        let reader = thread::spawn(move || {
            let mut bytes = [0; 5];
            format!("read -> {} {}", show(sys::recv(p.fd, &mut bytes, libc::MSG_WAITALL)), digest(&bytes))
        });
        settle();
        cx.peer("send 0 ab");
        settle();
        send_home(pid);
        cx.peer("send 0 cde");
        say!("{}", reader.join().expect("a reader"));
        is_on_tcp(cx, p);
    }
    end(cx, p);
}

/// Whether the call ended at the end of its time, and not later by the part that it had waited before.
fn in_its_time(begun: Instant, whole: Duration) -> bool {
    (whole..whole + whole / 2).contains(&begun.elapsed())
}

const WHOLE: Duration = Duration::from_millis(1200);

/// The time limit of a call that waits goes on where the connection is TCP's.
fn time_left_to_a_receive(cx: &mut Cx) {
    undisturbed();
    for flags in [0, libc::MSG_PEEK, libc::MSG_WAITALL] {
        let p = cx.warm();
        sys::set_timeout(p.fd, libc::SO_RCVTIMEO, WHOLE.as_millis() as i64).expect("a time limit");
        let reader = thread::spawn(move || {
            let begun = Instant::now();
            let mut bytes = [0; 9];
            let read = sys::recv(p.fd, &mut bytes, flags);
            format!("recv -> {} in its time {}", got(read, &bytes), in_its_time(begun, WHOLE))
        });
        if flags == libc::MSG_WAITALL {
            settle();
            cx.peer(&format!("send {} abc", p.id));
        }
        thread::sleep(WHOLE * 2 / 3);
        send_home(somebody(cx));
        say!("{}", reader.join().expect("a reader"));
        is_on_tcp(cx, p);
        end(cx, p);
    }
}

fn time_left_to_a_send(cx: &mut Cx) {
    undisturbed();
    let p = cx.warm();
    let filled = fill(p.fd);
    sys::nonblocking(p.fd, false);
    sys::set_timeout(p.fd, libc::SO_SNDTIMEO, WHOLE.as_millis() as i64).expect("a time limit");
    let writer = thread::spawn(move || {
        let begun = Instant::now();
        // (What TCP takes of it once it is asked ends no wait for the rest.)
        let sent = sys::write(p.fd, &vec![1; 32 << 20]);
        (sent.map_or(0, |sent| sent), in_its_time(begun, WHOLE))
    });
    thread::sleep(WHOLE * 2 / 3);
    send_home(somebody(cx));
    let (sent, is_in_time) = writer.join().expect("a writer");
    say!("in its time {is_in_time}");
    let read = cx.ask(&format!("recvn {} {}", p.id, filled + sent));
    say!("all of it {}", read.starts_with(&(filled + sent).to_string()));
    end(cx, p);
}

/// O_NONBLOCK that is set while a call waits is for the next one, or for what a handler with SA_RESTART makes
/// of this one.
fn told_not_to_wait_while_waiting(cx: &mut Cx) {
    undisturbed();
    const ALL: i32 = libc::MSG_WAITALL;
    for (flags, restarts, goes_home) in
        [(0, false, true), (0, true, true), (0, true, false), (ALL, false, true), (ALL, false, false)]
    {
        let p = cx.warm();
        sys::catch(libc::SIGUSR1, restarts);
        let (told, itself) = mpsc::channel();
        let reader = thread::spawn(move || {
            let _ = told.send(sys::this_thread());
            let mut bytes = [0; 5];
            let read = sys::recv(p.fd, &mut bytes, flags);
            format!("recv -> {}", got(read, &bytes))
        });
        settle();
        sys::nonblocking(p.fd, true);
        if goes_home {
            send_home(somebody(cx));
        }
        settle();
        if restarts {
            sys::signal_thread(itself.recv().expect("a reader"), libc::SIGUSR1);
            settle();
        }
        cx.peer(&format!("send {} ab", p.id));
        settle();
        if flags == ALL {
            cx.peer(&format!("send {} cde", p.id));
        }
        say!("{}", reader.join().expect("a reader"));
        if restarts {
            say!("{}", read_all(p.fd, 2));
        }
        end(cx, p);
    }
}

/// A call that wants nothing finds nothing: 0 would be the end of the stream.
fn asked_for_nothing(cx: &mut Cx) {
    undisturbed();
    let p = cx.warm();
    send_home(somebody(cx));
    settle();
    for flags in [MSG_DONTWAIT, MSG_DONTWAIT | libc::MSG_PEEK] {
        say!("recv -> {}", show(sys::recv(p.fd, &mut [], flags)));
    }
    is_on_tcp(cx, p);
    end(cx, p);
}

/// What is left in memory is told of by a wait that has no time, too: by the first one.
fn put_into_a_set_with_a_rest(cx: &mut Cx) {
    undisturbed();
    for events in [EPOLLIN, EPOLLIN | libc::EPOLLONESHOT, EPOLLIN | EPOLLET] {
        let p = cx.warm();
        let set = sys::epoll();
        say!("epoll -> {}", sys::ep_show(set, 0));
        cx.peer(&format!("send {} ab", p.id));
        settle();
        send_home(me());
        cx.peer(&format!("send {} cd", p.id));
        settle();
        let other = sys::dup(p.fd).expect("another number") as i32;
        sys::ep_add(set, other, events, 7).expect("add");
        settle();
        say!("epoll -> {}", sys::ep_show(set, 0));
        say!("{}", read_all(p.fd, 4));
        say!("close -> {}", show(sys::close(other)));
        is_on_tcp(cx, p);
        end(cx, p);
    }
}

fn while_writing(cx: &mut Cx) {
    undisturbed();
    const COUNT: usize = 4_000_000;
    let p = cx.warm();
    let writer = thread::spawn(move || write_all(p.fd, &pattern(COUNT)));
    settle();
    send_home(somebody(cx));
    cx.peer(&format!("recvn 0 {COUNT}"));
    say!("{}", writer.join().expect("a writer"));
    is_on_tcp(cx, p);
    end(cx, p);
}

fn while_in_sets(cx: &mut Cx) {
    undisturbed();
    for events in [EPOLLIN, EPOLLIN | EPOLLET] {
        let p = cx.warm();
        let set = sys::epoll();
        sys::ep_add(set, p.fd, events, 7).expect("add");
        let sleeper = thread::spawn(move || sys::ep_show(set, 5000));
        settle();
        send_home(somebody(cx));
        settle();
        say!("nothing yet {}", !sleeper.is_finished());
        cx.peer(&format!("send {} hello", p.id));
        say!("epoll -> {}", sleeper.join().expect("a sleeper"));
        say!("{}", read_all(p.fd, 5));
        is_on_tcp(cx, p);
        cx.peer(&format!("send {} again", p.id));
        say!("epoll -> {}", sys::ep_show(set, 5000));
        say!("{}", read_all(p.fd, 5));
        say!("epoll -> {}", sys::ep_show(set, 0));
        let _ = sys::close(set);
        end(cx, p);
    }
}

/// Between the write that found no room and the wait for it there is no call in which that could be found
/// out.
fn before_a_wait_for_room(cx: &mut Cx) {
    undisturbed();
    for events in [EPOLLOUT, EPOLLOUT | EPOLLET] {
        let p = cx.warm();
        let set = sys::epoll();
        sys::ep_add(set, p.fd, events, 7).expect("add");
        say!("epoll -> {}", sys::ep_show(set, 0));
        let bytes = [7; 10_000];
        let mut count = 0;
        while let Ok(sent) = sys::send(p.fd, &bytes, MSG_DONTWAIT) {
            count += sent;
        }
        send_home(somebody(cx));
        cx.tell(&format!("recvn {} {count}", p.id));
        let _ = cx.answer();
        say!("epoll -> {}", sys::ep_show(set, 5000));
        say!("send -> {}", show(sys::send(p.fd, b"more", MSG_DONTWAIT)));
        cx.peer(&format!("recvn {} 4", p.id));
        is_on_tcp(cx, p);
        let _ = sys::close(set);
        end(cx, p);
    }
}

fn while_polling(cx: &mut Cx) {
    undisturbed();
    let p = cx.warm();
    let poller = thread::spawn(move || {
        let (mut all, mut bytes) = (Vec::new(), [0; 100]);
        while all.len() < 5 {
            match sys::recv(p.fd, &mut bytes, MSG_DONTWAIT) {
                Ok(n) => all.extend_from_slice(&bytes[..n]),
                Err(_) => _ = poll1(p.fd, POLLIN, 0),
            }
        }
        digest(&all)
    });
    settle();
    send_home(somebody(cx));
    cx.peer("send 0 hello");
    say!("{}", poller.join().expect("a poller"));
    let sleeper = thread::spawn(move || poll1(p.fd, POLLIN, 5000));
    settle();
    cx.peer("send 0 again");
    say!("poll -> {}", sleeper.join().expect("a sleeper"));
    say!("{}", read_all(p.fd, 5));
    say!("poll -> {}", poll1(p.fd, POLLIN | POLLOUT, 0));
    is_on_tcp(cx, p);
    end(cx, p);
}

fn while_stopped(cx: &mut Cx) {
    undisturbed();
    let p = cx.warm();
    say!("{}", write_all(p.fd, b"before"));
    say!("stop -> {}", show(sys::kill(cx.peer_pid(), libc::SIGSTOP)));
    settle();
    send_home(somebody(cx));
    say!("{}", write_all(p.fd, &pattern(10_000)));
    say!("go on -> {}", show(sys::kill(cx.peer_pid(), libc::SIGCONT)));
    cx.peer("recvn 0 6");
    cx.peer("recvn 0 10000");
    is_on_tcp(cx, p);
    end(cx, p);
}

/// Both directions at once, as fast as they go.
fn while_streaming(cx: &mut Cx) {
    undisturbed();
    const COUNT: usize = 4_000_000;
    let p = cx.warm();
    cx.tell(&format!("later 0 sendn {} {COUNT}", p.id));
    cx.answer();
    cx.tell(&format!("recvn {} {COUNT}", p.id));
    let reader = thread::spawn(move || read_all(p.fd, COUNT));
    let writer = thread::spawn(move || write_all(p.fd, &pattern(COUNT)));
    thread::sleep(std::time::Duration::from_millis(5));
    send_home(somebody(cx));
    say!("{}", writer.join().expect("a writer"));
    say!("{}", reader.join().expect("a reader"));
    say!("peer {}", cx.answer());
    is_on_tcp(cx, p);
    end(cx, p);
}

fn shared_by_fork(cx: &mut Cx) {
    undisturbed();
    let p = cx.warm();
    let (from, to) = sys::pipe(libc::O_CLOEXEC);
    let child = sys::fork(|| {
        let mut byte = [0];
        let _ = sys::read(from, &mut byte);
        u8::from(write_all(p.fd, b"of the child") != "12 written")
    });
    settle();
    send_home(me());
    say!("{}", write_all(p.fd, b"of the parent"));
    cx.peer("recvn 0 13");
    let _ = sys::write(to, b"x");
    cx.peer("recvn 0 12");
    say!("child ends with {:?}", sys::reap(child, 0).map(|(_, status)| status));
    is_on_tcp(cx, p);
    let _ = (sys::close(from), sys::close(to));
    end(cx, p);
}

fn inode(fd: Fd) -> String {
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).expect("open");
    link.to_string_lossy().chars().filter(char::is_ascii_digit).collect()
}

/// By its inode; the other one stays as it is.
fn one_of_two(cx: &mut Cx) {
    undisturbed();
    let (p, q) = (cx.warm(), cx.warm());
    let before = sys::tcp_bytes(q.fd).expect("TCP_INFO");
    let answer = ask(me(), &["--tcp", "-c", &inode(p.fd)]);
    if ![0, 4, 5].contains(&answer) {
        say!("smc_run answers {answer}");
    }
    is_on_tcp(cx, p);
    cx.peer(&format!("send {} hello", q.id));
    say!("{}", read_all(q.fd, 5));
    let stays = sys::tcp_bytes(q.fd).expect("TCP_INFO") == before;
    if answer == 0 && std::env::var_os("PARITY_SMC_RUN").is_some() && !stays {
        say!("the other one went home, too");
    }
    end(cx, p);
    end(cx, q);
}

/// New connections stay TCP until the operator lets them.
fn new_ones(cx: &mut Cx) {
    undisturbed();
    let p = cx.warm();
    let answers = [ask(me(), &["--tcp"]), ask(me(), &["--tcp"])];
    is_on_tcp(cx, p);
    let q = cx.warm();
    is_on_tcp(cx, q);
    let undone = ask(me(), &["--smc"]);
    let answers = [answers[0], answers[1], undone];
    if ![[0, 0, 0], [0, 5, 0], [4, 4, 4], [5, 5, 5]].contains(&answers) {
        say!("smc_run answers {answers:?}");
    }
    for pair in [p, q] {
        end(cx, pair);
    }
}

/// Who gets the descriptor of a connection that is back on TCP has to do with TCP only, whoever had it before
/// and closes it now.
fn passed_on_afterwards(cx: &mut Cx) {
    undisturbed();
    let (a, b) = sys::socketpair();
    let pid = sys::fork(|| {
        let Ok(fd) = sys::recv_fd(b) else { return 7 };
        thread::sleep(std::time::Duration::from_millis(100));
        u8::from(sys::write(fd as Fd, b"done") != Ok(4))
    });
    let (p, q) = (cx.warm(), cx.warm());
    send_home(me());
    is_on_tcp(cx, p);
    say!("pass -> {}", show(sys::send_fd(a, p.fd)));
    say!("close -> {}", show(sys::close(p.fd)));
    say!("child {}", sys::wait(pid));
    cx.peer("recvn 0 4");
    cx.peer("recv 0 9");
    end(cx, q);
}
