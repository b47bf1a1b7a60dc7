//! exec: which connections go on into the next program, under whatever number, and that one which fails
//! changes nothing.

use crate::context::{Case, Cx, Role, got, say, settle};
use isthmus_tests::sys::{self, Exec, Fd, show};
use std::time::Duration;

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    any("exec.as_standard_files", as_standard_files),
    any("exec.as_standard_files_late", as_standard_files_late),
    any("exec.as_another_number", as_another_number),
    any("exec.by_number", by_number),
    any("exec.duplicate_behind_our_back", duplicate_behind_our_back),
    any("exec.high_number", high_number),
    any("exec.unused_as_standard_files", unused_as_standard_files),
    any("exec.through_a_shell", through_a_shell),
    any("exec.peer_ended_before_the_first_look", |cx| peer_gone_before_the_first_look(cx, "exit")),
    any("exec.peer_killed_before_the_first_look", |cx| peer_gone_before_the_first_look(cx, "die")),
    any("exec.alone_when_the_peer_ends", |cx| alone_when_the_peer_goes(cx, "exit")),
    any("exec.alone_when_the_peer_is_killed", |cx| alone_when_the_peer_goes(cx, "die")),
    any("exec.both_have_ended_before", |cx| {
        both_have_ended_before(cx, |cx, id| drop(cx.peer(&format!("shut {id} 1"))))
    }),
    any("exec.peer_is_gone_before", |cx| both_have_ended_before(cx, |cx, _| cx.end_by("exit"))),
    case("exec.all_closed_on_exec", all_closed_on_exec),
    case("exec.failed", failed),
    case("exec.failed_then_peer_closes", failed_then_peer_closes),
    case("exec.failed_in_child", failed_in_child),
    case("exec.failed_in_vfork_child", failed_in_vfork_child),
    case("exec.failed_in_thread", failed_in_thread),
];

/// Reads "ping" after a pause and answers "pong", by the standard files.
const SHELL: &str = "sleep 0.2; read line; echo \"pong $line\"; sleep 0.1; echo bye";

fn exec_shell(text: &str) -> u8 {
    sys::exec(Exec::Execve, "/bin/sh", &["sh", "-c", text]);
    9
}

/// The conversation with such a shell; then the connection must end, for nobody else has it.
fn talk(cx: &mut Cx, id: u32) {
    cx.peer(&format!("sendline {id} ping"));
    cx.peer(&format!("recvn {id} 10"));
    cx.peer(&format!("recvn {id} 4"));
    cx.peer(&format!("recv {id} 9"));
}

fn start(fd: Fd, prepare: impl FnOnce(), text: &str) -> i32 {
    let pid = sys::fork(|| {
        sys::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC).expect("close on exec");
        prepare();
        exec_shell(text)
    });
    // The child has left its own number when this copy goes.
    settle();
    sys::close(fd).expect("close");
    pid
}

fn standard_files(fd: Fd) {
    let _ = (sys::dup2(fd, 0), sys::dup2(fd, 1));
}

fn as_standard_files(cx: &mut Cx) {
    for _ in 0..3 {
        let p = cx.warm();
        let pid = start(p.fd, || standard_files(p.fd), SHELL);
        talk(cx, p.id);
        say!("child {}", sys::wait(pid));
    }
}

/// The parent's copy is long gone, and the peer's bytes wait, when the program looks at its first.
fn as_standard_files_late(cx: &mut Cx) {
    let p = cx.warm();
    let pid = start(p.fd, || standard_files(p.fd), "sleep 1; read line; echo \"pong $line\"; echo bye");
    settle();
    talk(cx, p.id);
    say!("child {}", sys::wait(pid));
}

fn as_another_number(cx: &mut Cx) {
    let p = cx.warm();
    let move_up = || {
        let _ = (sys::dup2(p.fd, 9), sys::close(p.fd));
    };
    let pid =
        start(p.fd, move_up, "exec 0<&9 1>&9 9>&-; sleep 0.1; read line; echo \"pong $line\"; echo bye");
    talk(cx, p.id);
    say!("child {}", sys::wait(pid));
}

fn by_number(cx: &mut Cx) {
    for how in [Exec::Execve, Exec::Execv, Exec::Execvp, Exec::Fexecve, Exec::Syscall, Exec::SyscallAt] {
        let p = cx.warm();
        let pid = sys::fork(|| {
            standard_files(p.fd);
            sys::exec(how, "/bin/sh", &["sh", "-c", SHELL]);
            9
        });
        say!("{how:?} close {}", show(sys::close(p.fd)));
        talk(cx, p.id);
        say!("child {}", sys::wait(pid));
    }
}

/// Beyond the first thousand numbers, where a program with many connections has the one that it hands on.
fn high_number(cx: &mut Cx) {
    for number in [1023, 1024, 1500] {
        let p = cx.warm();
        let pid = sys::fork(|| {
            sys::limit_fds(u64::MAX);
            let high = sys::fcntl(p.fd, libc::F_DUPFD, number).map_or(-1, |fd| fd as Fd);
            let _ = sys::close(p.fd);
            let text = format!("exec 0<&{high} 1>&{high} {high}<&-; {SHELL}");
            sys::exec(Exec::Execve, "/bin/bash", &["bash", "-c", &text]);
            9
        });
        settle();
        say!("{number}: close {}", show(sys::close(p.fd)));
        talk(cx, p.id);
        say!("child {}", sys::wait(pid));
    }
}

fn duplicate_behind_our_back(cx: &mut Cx) {
    let p = cx.warm();
    let unseen = || {
        sys::dup2_unseen(p.fd, 0);
        sys::dup2_unseen(p.fd, 1);
    };
    let pid = start(p.fd, unseen, SHELL);
    talk(cx, p.id);
    say!("child {}", sys::wait(pid));
}

fn unused_as_standard_files(cx: &mut Cx) {
    let p = cx.pair();
    let pid = start(p.fd, || standard_files(p.fd), SHELL);
    talk(cx, p.id);
    say!("child {}", sys::wait(pid));
}

/// The shell hands it on to a child of its own, and ends later.
fn through_a_shell(cx: &mut Cx) {
    let p = cx.warm();
    let text = "sleep 0.1; /bin/sh -c 'read line; echo \"pong $line\"'; sleep 0.1; /bin/echo bye";
    let pid = start(p.fd, || standard_files(p.fd), text);
    talk(cx, p.id);
    say!("child {}", sys::wait(pid));
}

/// What the peer sent is there although neither its process nor any that had the connection before still is.
fn peer_gone_before_the_first_look(cx: &mut Cx, end: &str) {
    let p = cx.warm();
    let pid = start(p.fd, || standard_files(p.fd), READ_LATE);
    end_after_two_lines(cx, p.id, end);
    say!("child {}", sys::wait(pid));
}

/// Reads two lines and an end.
const READ_LATE: &str =
    "sleep 1; read one; read two; read three && exit 8; [ \"$one $two\" = 'ping pong' ] && exit 7; exit 9";

fn end_after_two_lines(cx: &mut Cx, id: u32, end: &str) {
    cx.peer(&format!("sendline {id} ping"));
    cx.peer(&format!("sendline {id} pong"));
    cx.end_by(end);
}

/// The same where no other process has ever had the connection: nobody but the next program can have what
/// memory this one hands on.
fn alone_when_the_peer_goes(cx: &mut Cx, end: &str) {
    match cx.role {
        Role::Client => drop(cx.listening_peer()),
        Role::Server => drop(cx.listen()),
    }
    let (told, tell) = sys::pipe(libc::O_CLOEXEC);
    let pid = sys::fork(|| {
        let p = cx.warm();
        standard_files(p.fd);
        let _ = sys::write(tell, b"x");
        exec_shell(READ_LATE)
    });
    let _ = sys::read(told, &mut [0; 1]);
    settle();
    end_after_two_lines(cx, 0, end);
    say!("child {}", sys::wait(pid));
}

/// What the peer sent is there though both have ended the connection before the next program begins: the
/// kernel then tells no peer.
fn both_have_ended_before(cx: &mut Cx, end: fn(&mut Cx, u32)) {
    let p = cx.warm();
    say!("shut -> {}", show(sys::shutdown(p.fd, libc::SHUT_WR)));
    cx.peer(&format!("sendline {} ping", p.id));
    cx.peer(&format!("sendline {} pong", p.id));
    end(cx, p.id);
    settle();
    let pid = start(p.fd, || standard_files(p.fd), READ_LATE);
    say!("child {}", sys::wait(pid));
}

fn all_closed_on_exec(cx: &mut Cx) {
    let p = cx.warm();
    let pid = sys::fork(|| {
        let _ = sys::fcntl(p.fd, libc::F_DUPFD_CLOEXEC, 20);
        exec_shell("exit 3")
    });
    say!("child {}", sys::wait(pid));
    exchange(cx, p.fd, p.id);
    say!("close {}", show(sys::close(p.fd)));
    cx.peer(&format!("recv {} 9", p.id));
    let other = cx.warm();
    cx.watch(other.fd);
}

fn exchange(cx: &mut Cx, fd: Fd, id: u32) {
    cx.ask(&format!("later 20 send {id} ping"));
    let mut buf = [0; 9];
    let r = sys::read(fd, &mut buf);
    say!("read {}", got(r, &buf));
    say!("write {}", show(sys::write(fd, b"pong")));
    cx.peer(&format!("recvn {id} 4"));
}

const ALL: [Exec; 6] =
    [Exec::Execve, Exec::Execv, Exec::Execvp, Exec::Fexecve, Exec::Syscall, Exec::SyscallAt];

fn fail(how: Exec) -> String {
    sys::exec(how, "/nonexistent/program", &["program"])
}

fn failed(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    sys::fcntl(q.fd, libc::F_SETFD, 0).expect("goes on");
    let open = sys::inheritable();
    for how in ALL {
        say!("{how:?} -> {}", fail(how));
    }
    say!("the same descriptors go on: {}", sys::inheritable() == open);
    for p in [p, q] {
        exchange(cx, p.fd, p.id);
    }
    let ep = sys::epoll();
    sys::ep_add(ep, p.fd, libc::EPOLLIN, 7).expect("add");
    say!("again -> {}", fail(Exec::Execve));
    cx.ask("later 20 send 0 ping");
    say!("epoll {}", sys::ep_show(ep, 5000));
    cx.watch(p.fd);
}

/// Unread bytes at the close are answered by a reset: the process still knows that it is the last.
fn failed_then_peer_closes(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    let pid = sys::fork(|| {
        std::thread::sleep(Duration::from_millis(300));
        0
    });
    say!("exec -> {}", fail(Exec::Execve));
    say!("child {}", sys::wait(pid));
    exchange(cx, p.fd, p.id);
    cx.peer("send 0 unread");
    say!("close {}", show(sys::close(p.fd)));
    cx.peer("poll 0 1 3000");
    cx.peer("recv 0 9");
    cx.watch(q.fd);
}

/// A child that cannot become what it wanted goes on as itself, alone.
fn failed_in_child(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    let pid = sys::fork(|| {
        let error = fail(Exec::Execvp);
        std::thread::sleep(Duration::from_millis(150));
        let mut buf = [0; 9];
        let good = sys::read(p.fd, &mut buf) == Ok(4) && sys::write(p.fd, b"pong") == Ok(4);
        std::thread::sleep(Duration::from_millis(100));
        u8::from(!good || error != "ENOENT" || sys::write(p.fd, b"late") != Ok(4))
    });
    say!("close {}", show(sys::close(p.fd)));
    settle();
    cx.peer("send 0 ping");
    cx.peer("recvn 0 8");
    cx.peer("recv 0 9");
    say!("child {}", sys::wait(pid));
    cx.watch(q.fd);
}

/// posix_spawn, Python and many others try from a child that borrows this process's memory.
fn failed_in_vfork_child(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    sys::fcntl(p.fd, libc::F_SETFD, 0).expect("goes on");
    let status = sys::vfork_exec(c"/nonexistent/program");
    say!("child {}", sys::wait(status));
    exchange(cx, p.fd, p.id);
    cx.peer("send 0 unread");
    say!("close {}", show(sys::close(p.fd)));
    cx.peer("recv 0 9");
    cx.watch(q.fd);
}

fn failed_in_thread(cx: &mut Cx) {
    let p = cx.warm();
    let tries = std::thread::spawn(|| (0..200).filter(|_| fail(Exec::Execve) == "ENOENT").count());
    for _ in 0..20 {
        exchange(cx, p.fd, p.id);
    }
    say!("{} failed", tries.join().expect("thread"));
    exchange(cx, p.fd, p.id);
}
