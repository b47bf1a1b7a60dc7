//! An operator takes connections off shared memory (`smc_run -p PID --tcp`) while the program is in any call.
//! Over TCP he changes nothing; so nobody notices, and afterwards the bytes are TCP's.

use crate::context::{Case, Cx, Pair, digest, pattern, read_all, say, settle, until, write_all};
use isthmus_tests::sys::{self, Fd, poll1, show};
use libc::{EPOLLET, EPOLLIN, EPOLLOUT, MSG_DONTWAIT, POLLIN, POLLOUT};
use std::process::Command;
use std::thread;

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
