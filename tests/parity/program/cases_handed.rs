//! A process that shares nothing with others any more, for it has changed its user or is short of
//! descriptors, becomes another program with bytes left in memory: that one reads them, and what comes later,
//! whether the other end is there still or not.

use crate::context::{Case, Cx, pattern, read_all, say, settle, until_queued, until_ready};
use isthmus_tests::sys::{self, Change, Exec, Fd, show};

pub(crate) const CASES: &[Case] = &[
    Case { name: "handed.into_another_mount", shm: true, run: |cx| handed(cx, "mount", Peer::Lives) },
    Case { name: "handed.without_capabilities", shm: true, run: |cx| handed(cx, "weak", Peer::Lives) },
    Case { name: "handed.by_both_by_vfork", shm: true, run: |cx| by_both(cx, true) },
    Case { name: "handed.by_both_by_spawn", shm: true, run: |cx| by_both(cx, false) },
    Case { name: "handed.to_a_fork_child", shm: true, run: |cx| handed(cx, "user forked", Peer::Lives) },
    Case { name: "handed.to_a_fork_child_alone", shm: true, run: |cx| handed(cx, "user forked", Peer::Ends) },
    Case { name: "handed.to_a_vfork_child", shm: true, run: |cx| handed(cx, "user vfork", Peer::Lives) },
    Case { name: "handed.to_a_vfork_child_alone", shm: true, run: |cx| handed(cx, "user vfork", Peer::Ends) },
    Case { name: "handed.after_a_failed_exec", shm: true, run: |cx| handed(cx, "user again", Peer::Lives) },
    Case { name: "handed.after_a_failed_execl", shm: true, run: |cx| handed(cx, "user list", Peer::Lives) },
    Case { name: "handed.beside_a_reader", shm: true, run: |cx| handed(cx, "user beside", Peer::Lives) },
    Case { name: "handed.beside_a_poller", shm: true, run: |cx| handed(cx, "user polled", Peer::Lives) },
    Case {
        name: "handed.by_execl_beside_its_parent",
        shm: true,
        run: |cx| handed(cx, "user held list", Peer::Lives),
    },
    Case { name: "handed.twice", shm: true, run: |cx| handed(cx, "user twice", Peer::Ends) },
    Case { name: "handed.to_an_edge", shm: true, run: |cx| handed(cx, "user edge", Peer::Lives) },
    Case { name: "handed.to_an_edge_short", shm: true, run: |cx| handed(cx, "short edge", Peer::Lives) },
    Case { name: "handed.to_a_level_alone", shm: true, run: |cx| handed(cx, "user level", Peer::Ends) },
    Case { name: "handed.and_forked", shm: true, run: |cx| handed(cx, "group fork", Peer::Lives) },
    Case { name: "handed.with_nothing_left", shm: true, run: |cx| handed(cx, "group drained", Peer::Lives) },
    Case {
        name: "handed.with_nothing_left_alone",
        shm: true,
        run: |cx| handed(cx, "group drained", Peer::Ends),
    },
    Case { name: "handed.beside_its_parent", shm: true, run: |cx| handed(cx, "user held", Peer::Lives) },
    Case { name: "handed.to_a_shell", shm: true, run: |cx| handed(cx, "user shell", Peer::Lives) },
    Case { name: "handed.to_a_shell_short", shm: true, run: |cx| handed(cx, "short shell", Peer::Lives) },
    Case { name: "handed.and_closed_unread", shm: true, run: |cx| handed(cx, "user close", Peer::Lives) },
    Case { name: "handed.by_another_user", shm: true, run: |cx| handed(cx, "user", Peer::Lives) },
    Case { name: "handed.by_another_user_alone", shm: true, run: |cx| handed(cx, "user", Peer::Ends) },
    Case { name: "handed.by_another_group", shm: true, run: |cx| handed(cx, "group", Peer::Lives) },
    Case { name: "handed.by_another_group_alone", shm: true, run: |cx| handed(cx, "group", Peer::Ends) },
    Case { name: "handed.short_of_numbers", shm: true, run: |cx| handed(cx, "short", Peer::Lives) },
    Case { name: "handed.short_of_numbers_alone", shm: true, run: |cx| handed(cx, "short", Peer::Ends) },
    Case { name: "handed.with_few_numbers", shm: true, run: |cx| handed(cx, "few", Peer::Lives) },
    Case { name: "handed.with_few_numbers_alone", shm: true, run: |cx| handed(cx, "few", Peer::Ends) },
    Case { name: "handed.through_another", shm: true, run: |cx| handed(cx, "through nothing", Peer::Lives) },
    Case {
        name: "handed.through_another_short",
        shm: true,
        run: |cx| handed(cx, "through short", Peer::Lives),
    },
    Case {
        name: "handed.through_another_short_alone",
        shm: true,
        run: |cx| handed(cx, "through short", Peer::Ends),
    },
    Case {
        name: "handed.through_another_to_a_shell",
        shm: true,
        run: |cx| handed(cx, "through short shell", Peer::Lives),
    },
    Case {
        name: "handed.through_another_to_a_vfork_child",
        shm: true,
        run: |cx| handed(cx, "through short vfork", Peer::Lives),
    },
    Case {
        name: "handed.through_another_beside_its_parent",
        shm: true,
        run: |cx| handed(cx, "through short held", Peer::Lives),
    },
    Case {
        name: "handed.through_a_spawned_one",
        shm: true,
        run: |cx| handed(cx, "spawned short shell", Peer::Lives),
    },
    Case {
        name: "handed.through_another_user",
        shm: true,
        run: |cx| handed(cx, "through user", Peer::Lives),
    },
    Case {
        name: "handed.through_another_mount",
        shm: true,
        run: |cx| handed(cx, "through mount", Peer::Lives),
    },
    Case {
        name: "handed.through_another_without_capabilities",
        shm: true,
        run: |cx| handed(cx, "through weak", Peer::Lives),
    },
    Case {
        name: "handed.through_another_namespace",
        shm: true,
        run: |cx| handed(cx, "through users", Peer::Lives),
    },
    Case { name: "handed.each_number_taken", shm: true, run: |cx| handed(cx, "numbers", Peer::Lives) },
    Case { name: "handed.each_number_taken_alone", shm: true, run: |cx| handed(cx, "numbers", Peer::Ends) },
];

/// What the other end does once its bytes are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Peer {
    Lives,
    /// It closes in order, and its process ends, before the next program starts.
    Ends,
}

/// Bytes that the next program finds in memory.
const LEFT: usize = 20_000;
/// Bytes that come when it runs already, where somebody is left to send them.
const LATER: usize = 30_000;

/// `how` this process leaves what it shares, and what happens after that. Or another program does that,
/// which has the connection over exec ("through"), or is started with it ("spawned"), and never touches it.
fn handed(cx: &mut Cx, how: &str, peer: Peer) {
    let (hop, how) = match how.split_once(' ') {
        Some((hop @ ("through" | "spawned"), how)) => (hop, how),
        _ => ("", how),
    };
    let (how, after) = how.split_once(' ').unwrap_or((how, ""));
    let p = cx.warm();
    cx.peer("send 0 head");
    say!("head {}", read_all(p.fd, 4));
    cx.peer(&format!("sendn 0 {LEFT}"));
    until_queued(p.fd, LEFT as i32);
    let (own, childs) = sys::socketpair();
    let pid = sys::fork(|| {
        let _ = sys::close(own);
        // (The parent has let go of its copy by then.)
        let _ = sys::read(childs, &mut [0; 1]);
        let wanted = if peer == Peer::Lives { LEFT + LATER } else { usize::MAX };
        match hop {
            "" => leave_and_become(how, after, [p.fd, childs], wanted),
            _ => by_an_heir(hop == "spawned", &format!("{how} {after}"), [p.fd, childs], wanted),
        }
    });
    let _ = sys::close(childs);
    if !after.starts_with("held") {
        say!("close -> {}", show(sys::close(p.fd)));
    }
    let _ = (sys::write(own, b"g"), sys::read(own, &mut [0; 1]));
    match peer {
        Peer::Lives => _ = cx.peer(&format!("later 80 sendn 0 {LATER}")),
        Peer::Ends => cx.end_by("exit"),
    }
    settle();
    let _ = sys::write(own, b"g");
    if peer == Peer::Lives {
        cx.peer("recvn 0 4");
        if after.starts_with("held") {
            settle();
            say!("close -> {}", show(sys::close(p.fd)));
        }
        cx.peer("recv 0 9");
    }
    say!("child {}", sys::wait(pid));
}

/// This process leaves what it shares, says so to its parent, and becomes another program when that lets it.
fn leave_and_become(how: &str, after: &str, [fd, parent]: [Fd; 2], wanted: usize) -> u8 {
    leave(how, fd);
    let _ = (sys::write(parent, b"l"), sys::read(parent, &mut [0; 1]));
    become_another(after, fd, wanted)
}

/// The same by a program that this one becomes, or starts and waits for.
fn by_an_heir(is_spawned: bool, how: &str, [fd, parent]: [Fd; 2], wanted: usize) -> u8 {
    let _ = (sys::fcntl(fd, libc::F_SETFD, 0), sys::fcntl(parent, libc::F_SETFD, 0));
    let [fd, parent, wanted] = [fd.to_string(), parent.to_string(), wanted.to_string()];
    let args = ["--heir", how, &fd, &parent, &wanted];
    if is_spawned {
        let mut program = std::process::Command::new("/proc/self/exe");
        let program = std::os::unix::process::CommandExt::arg0(&mut program, "parity-case");
        return u8::from(!program.args(args).status().is_ok_and(|status| status.success()));
    }
    let [a, b, c, d, e] = args;
    sys::exec(Exec::Execve, "/proc/self/exe", &["parity-case", a, b, c, d, e]);
    9
}

/// What such a program does.
pub(crate) fn inherits(how: &str, fds: [Fd; 2], wanted: usize) {
    let (how, after) = how.split_once(' ').expect("two words");
    std::process::exit(leave_and_become(how, after, fds, wanted).into());
}

/// This process, or a child of it that borrows its memory, becomes the next program.
fn become_another(after: &str, fd: Fd, wanted: usize) -> u8 {
    if after == "vfork" {
        let wanted = std::ffi::CString::new(wanted.to_string()).expect("a number");
        let args = [c"parity-case", c"--handed", c"", c"0", &wanted];
        return u8::from(sys::wait(sys::vfork_exec_reading(fd, c"/proc/self/exe", &args)) != "exit 0");
    }
    if after == "forked" {
        // (It goes on without another program, and its parent lets go at once.)
        let pid = sys::fork(|| {
            say!("read {}", read_all(fd, wanted));
            u8::from(sys::send(fd, b"done", libc::MSG_NOSIGNAL) == Ok(0))
        });
        let _ = sys::close(fd);
        return u8::from(sys::wait(pid) != "exit 0");
    }
    if matches!(after, "beside" | "polled") {
        return beside_execs_that_fail(fd, after == "polled");
    }
    let mut wanted = wanted;
    if after == "drained" {
        let mut all = vec![0; LEFT];
        if sys::recv(fd, &mut all, libc::MSG_WAITALL) != Ok(LEFT) {
            return 7;
        }
        wanted = if wanted == usize::MAX { wanted } else { wanted - LEFT };
    }
    if matches!(after, "held" | "held list" | "shell") {
        let _ = sys::dup2(fd, 0);
        // (A shell that goes on behind the program, or becomes it.)
        let then = if after == "shell" { "; true" } else { "" };
        let own = std::env::current_exe().expect("a path");
        let script = format!("{} --handed '' 0 {wanted}{then}", own.display());
        if after == "held list" {
            by_a_list(c"/bin/sh", &script);
        }
        sys::exec(Exec::Execve, "/bin/sh", &["sh", "-c", &script]);
        return 9;
    }
    let _ = sys::fcntl(fd, libc::F_SETFD, 0);
    if after == "list" {
        // (Nobody is told of the failure, and all is read here.)
        by_a_list(c"/nowhere/at/all", "none");
        let mut all = vec![0; LEFT];
        if sys::recv(fd, &mut all, libc::MSG_WAITALL) != Ok(LEFT) || all != pattern(LEFT) {
            return 7;
        }
        wanted -= LEFT;
    }
    if after == "again" {
        // A part is read here, and is not to be read again.
        let _ = sys::exec(Exec::Execve, "/nowhere/at/all", &["none"]);
        let mut part = [0; 5_000];
        if sys::recv(fd, &mut part, libc::MSG_WAITALL) != Ok(5_000) {
            return 7;
        }
    }
    sys::exec(
        Exec::Execve,
        "/proc/self/exe",
        &["parity-case", "--handed", after, &fd.to_string(), &wanted.to_string()],
    );
    9
}

/// A thread reads the stream in small pieces while another one fails to become a program, again and again.
fn beside_execs_that_fail(fd: Fd, polls: bool) -> u8 {
    let _ = sys::fcntl(fd, libc::F_SETFD, 0);
    let reader = std::thread::spawn(move || {
        let (mut all, mut piece) = (Vec::new(), [0; 77]);
        while all.len() < LEFT + LATER {
            let flags = if polls { libc::MSG_DONTWAIT } else { 0 };
            if polls {
                until_ready(fd, libc::POLLIN);
            }
            match sys::recv(fd, &mut piece, flags) {
                Ok(count @ 1..) => all.extend_from_slice(&piece[..count]),
                Err(errno) if errno == sys::Errno(libc::EAGAIN) => {}
                other => return Err(show(other)),
            }
        }
        Ok(all)
    });
    while !reader.is_finished() {
        let _ = sys::exec(Exec::Execve, "/nowhere/at/all", &["none"]);
    }
    let all = reader.join().expect("no panic");
    say!("right {:?}", all.map(|all| all == [pattern(LEFT), pattern(LATER)].concat()));
    u8::from(sys::send(fd, b"done", libc::MSG_NOSIGNAL) == Ok(0))
}

/// A shell, by execl.
fn by_a_list(path: &std::ffi::CStr, script: &str) {
    let script = std::ffi::CString::new(script).expect("a script");
    let [a, b, c, d, e, f, g] = [c"a", c"b", c"c", c"d", c"e", c"f", c"g"];
    sys::execl(path, [c"sh", c"-c", &script, a, b, c, d, e, f, g]);
}

/// What takes a process out of all that it shares.
fn leave(how: &str, fd: Fd) {
    match how {
        "user" => say!("user {}", show(sys::change(Change::Setuid, 65534))),
        "nothing" => {}
        "users" => _ = sys::own_users(),
        "few" => sys::limit_fds_for_good(144),
        "mount" => hide_what_is_shared(),
        "weak" => {
            let _ = sys::bound_capabilities();
            let lost = sys::change(Change::Capset, 0);
            say!("capabilities {}", show(lost));
        }
        "group" => say!("group {}", show(sys::change(Change::Setgid, 65534))),
        "short" => {
            sys::limit_fds_for_good(64);
            let mut made = Vec::new();
            while let Ok(number) = sys::dup(0) {
                made.push(number as Fd);
            }
            say!("{} more", made.len());
            made.into_iter().for_each(|number| _ = sys::close(number));
        }
        _ => {
            for number in fd + 3..1100 {
                let _ = sys::dup2(0, number).and_then(|_| sys::close(number));
            }
            for number in 9_990..10_020 {
                let _ = sys::dup2(0, number).and_then(|_| sys::close(number));
            }
        }
    }
}

/// In a mount namespace of its own this process has something else where programs meet.
fn hide_what_is_shared() {
    if let Ok(folder) = std::env::var("SMC_REGISTRY_DIR") {
        let folder = std::ffi::CString::new(folder).expect("a path");
        // (An ordinary user may not.)
        let _ = sys::mount_over(&folder);
    }
}

/// Both ends start programs with the connection, and end before either program has looked. (This process has
/// no part in it.)
fn by_both(cx: &mut Cx, by_vfork: bool) {
    let (own, childs) = sys::socketpair();
    let pid = sys::fork(|| {
        let _ = sys::close(own);
        let p = cx.warm();
        cx.peer(&format!("sendn 0 {LEFT}"));
        until_queued(p.fd, LEFT as i32);
        cx.tell(&format!("hand 0 {by_vfork}"));
        hand_on(p.fd, by_vfork, "late", LEFT + LATER)
    });
    let _ = sys::close(childs);
    let _ = sys::wait(pid);
    // (Until the program has ended.)
    let _ = sys::read(own, &mut [0; 1]);
    cx.until_ended();
}

/// Starts a program with `fd` as its standard input, and does not wait for it.
pub(crate) fn hand_on(fd: Fd, by_vfork: bool, after: &str, wanted: usize) -> u8 {
    let wanted = wanted.to_string();
    if by_vfork {
        let [after, wanted] = [after, &wanted].map(|text| std::ffi::CString::new(text).expect("a word"));
        sys::vfork_exec_reading(fd, c"/proc/self/exe", &[c"parity-case", c"--handed", &after, c"0", &wanted]);
        return 0;
    }
    let mut program = std::process::Command::new("/proc/self/exe");
    let input = std::process::Stdio::from(sys::owned(fd));
    std::os::unix::process::CommandExt::arg0(&mut program, "parity-case");
    let started = program.args(["--handed", after, "0", &wanted]).stdin(input).spawn();
    u8::from(started.is_err())
}

/// What the next program does: it waits, as one does that has other things to wait for, and reads all.
pub(crate) fn goes_on(after: &str, fd: Fd, wanted: usize) {
    match after {
        "twice" => {
            let mut part = [0; 7_000];
            assert_eq!(sys::recv(fd, &mut part, libc::MSG_WAITALL), Ok(7_000));
            std::process::exit(become_another("", fd, wanted).into());
        }
        "edge" | "level" => return by_a_set(fd, wanted, after == "edge"),
        "fork" => {
            let pid = sys::fork(|| u8::from(read_all(fd, 9_000) == "lost"));
            say!("child {}", sys::wait(pid));
            say!("read {}", read_all(fd, wanted - 9_000));
        }
        "close" => {
            say!("read {}", read_all(fd, 100));
            let _ = sys::close(fd);
            return;
        }
        "late" => {
            settle();
            say!("read {}", read_all(fd, wanted));
        }
        "other" => {
            settle();
            let _ = sys::send(fd, &pattern(LATER), libc::MSG_NOSIGNAL);
            let _ = read_all(fd, 4);
            return;
        }
        "again" => say!("read {}", read_all(fd, wanted - 5_000)),
        _ => {
            until_ready(fd, libc::POLLIN);
            say!("read {}", read_all(fd, wanted));
        }
    }
    let _ = sys::send(fd, b"done", libc::MSG_NOSIGNAL);
}

/// Reads what a set says that there is, in pieces that are smaller.
fn by_a_set(fd: Fd, wanted: usize, is_edge: bool) {
    sys::nonblocking(fd, true);
    let set = sys::epoll();
    let edge = if is_edge { libc::EPOLLET } else { 0 };
    sys::ep_add(set, fd, libc::EPOLLIN | libc::EPOLLRDHUP | edge, 1).expect("add");
    let (mut sum, mut count) = (0u64, 0);
    let end = loop {
        let told = sys::ep_show(set, 5000);
        if count >= wanted || told == "none" {
            break "no more";
        }
        let mut buf = [0; 700];
        let moved = loop {
            match sys::read(fd, &mut buf) {
                Ok(0) => break Some(0),
                Ok(n) => {
                    count += n;
                    sum = buf[..n].iter().fold(sum, |sum, byte| sum.rotate_left(5) ^ u64::from(*byte));
                    if !is_edge {
                        break None;
                    }
                }
                Err(_) => break None,
            }
        };
        if moved == Some(0) {
            break "end";
        }
        if count >= wanted {
            break "all";
        }
    };
    say!("{count} bytes {sum:x} then {end}");
    let _ = sys::send(fd, b"done", libc::MSG_NOSIGNAL);
}
