//! Children that no fork handler is told of: clone(2) by its names and by number. What they inherit goes on,
//! whoever of the two lets go first.

use crate::context::{Case, Cx, Pair, got, read_all, say, settle, until_queued};
use isthmus_tests::sys::{self, Cloned, Fd, show};

pub(crate) const CASES: &[Case] = &[
    Case { name: "clone.parent_closes", shm: false, run: parent_closes },
    Case { name: "clone.parent_ends", shm: false, run: parent_ends },
    Case { name: "clone.child_closes", shm: true, run: child_closes },
    Case { name: "clone.both_write", shm: true, run: both_write },
    Case { name: "clone.child_waits_in_a_set", shm: true, run: child_waits_in_a_set },
    Case { name: "clone.child_connects", shm: true, run: child_connects },
    Case { name: "clone.unseen_child", shm: true, run: unseen_child },
    Case { name: "clone.failed", shm: true, run: failed },
    Case { name: "clone.descriptors_alone", shm: false, run: descriptors_alone },
    Case { name: "clone.memory_alone", shm: false, run: memory_alone },
    Case { name: "clone.closes_its_parents", shm: false, run: |cx| each_sharer(cx, closes_its_parents) },
    Case { name: "clone.replaces_its_parents", shm: false, run: |cx| each_sharer(cx, replaces_its_parents) },
];

fn serve(fd: Fd) -> u8 {
    let mut buf = [0u8; 9];
    let good = sys::read(fd, &mut buf) == Ok(4) && &buf[..4] == b"ping" && sys::write(fd, b"pong") == Ok(4);
    (!good).into()
}

fn ping(cx: &mut Cx, id: u32) {
    cx.peer(&format!("send {id} ping"));
    cx.peer(&format!("recv {id} 9"));
}

/// The parent lets go at once: the connection is the child's.
fn parent_closes(cx: &mut Cx) {
    for how in Cloned::SEEN {
        let p = cx.warm();
        let pid = sys::cloned(how, || serve(p.fd) + serve(p.fd));
        say!("{how:?}: close -> {}", show(sys::close(p.fd)));
        cx.peer(&format!("poll {} 1 60", p.id));
        ping(cx, p.id);
        ping(cx, p.id);
        say!("child {}", sys::wait(pid));
        cx.peer(&format!("drain {}", p.id));
    }
}

/// The parent ends, and its child is nobody's.
fn parent_ends(cx: &mut Cx) {
    for how in Cloned::SEEN {
        let p = cx.warm();
        let parent = sys::fork(|| {
            sys::cloned(how, || serve(p.fd) + serve(p.fd));
            0
        });
        say!("{how:?}: close -> {}", show(sys::close(p.fd)));
        say!("parent {}", sys::wait(parent));
        ping(cx, p.id);
        ping(cx, p.id);
        cx.peer(&format!("drain {}", p.id));
    }
}

/// The child lets go, by a close or by its end: the connection is the parent's.
fn child_closes(cx: &mut Cx) {
    let p = cx.warm();
    for how in Cloned::SEEN {
        say!("{how:?}: {}", sys::wait(sys::cloned(how, || sys::close(p.fd).is_err().into())));
        say!("{how:?}: {}", sys::wait(sys::cloned(how, || 0)));
        let swept = || sys::close_range(3, u32::MAX, 0).is_err().into();
        say!("{how:?}: {}", sys::wait(sys::cloned(how, swept)));
        cx.peer(&format!("poll {} 1 30", p.id));
        cx.peer(&format!("send {} ping", p.id));
        say!("served {}", serve(p.fd));
        cx.peer(&format!("recv {} 9", p.id));
    }
}

/// Calls of the two are not torn.
fn both_write(cx: &mut Cx) {
    for how in Cloned::SEEN {
        let p = cx.warm();
        cx.tell(&format!("echo {} 200000", p.id));
        let write = |byte: u8| (0..100).filter(|_| sys::write(p.fd, &[byte; 1000]) == Ok(1000)).count();
        let pid = sys::cloned(how, || (write(b'c') != 100).into());
        let writer = std::thread::spawn(move || {
            (0..100).filter(|_| sys::write(p.fd, &[b'p'; 1000]) == Ok(1000)).count()
        });
        let mut all = vec![0u8; 200_000];
        let got = sys::recv(p.fd, &mut all, libc::MSG_WAITALL);
        let torn = all.chunks(1000).filter(|c| c.iter().any(|b| *b != c[0])).count();
        say!("{how:?}: read {} torn {torn} wrote {}", show(got), writer.join().expect("writer"));
        say!("child {}", sys::wait(pid));
        cx.answer();
    }
}

/// A set that was made before, in which the child waits while the parent sleeps in a read.
fn child_waits_in_a_set(cx: &mut Cx) {
    for how in Cloned::SEEN {
        let (p, q) = (cx.warm(), cx.warm());
        let ep = sys::epoll();
        sys::ep_add(ep, p.fd, libc::EPOLLIN, 7).expect("add");
        let pid = sys::cloned(how, || {
            let told = sys::ep_wait(ep, 5000).is_ok_and(|events| events.len() == 1);
            serve(p.fd) + u8::from(!told)
        });
        cx.ask(&format!("later 50 send {} ping", p.id));
        cx.ask(&format!("later 50 send {} ping", q.id));
        say!("{how:?}: {}", serve(q.fd));
        cx.peer(&format!("recv {} 9", q.id));
        cx.peer(&format!("recv {} 9", p.id));
        say!("child {}", sys::wait(pid));
        say!("close -> {} {}", show(sys::close(ep)), show(sys::close(p.fd)));
    }
}

/// A child makes connections of its own, beside its parent's.
fn child_connects(cx: &mut Cx) {
    let p = cx.warm();
    let (listener, port) = sys::listener();
    for how in Cloned::SEEN {
        let pid = sys::cloned(how, || {
            let fd = sys::tcp(0);
            let good = sys::connect(fd, port).is_ok() && sys::write(fd, b"ping") == Ok(4);
            let mut buf = [0u8; 9];
            (!(good && sys::read(fd, &mut buf) == Ok(4))).into()
        });
        let accepted = sys::accept(listener).expect("accept") as Fd;
        say!("{how:?}: {}", serve(accepted));
        say!("child {} and then {}", sys::wait(pid), read_all(accepted, usize::MAX));
        say!("close -> {}", show(sys::close(accepted)));
        cx.peer(&format!("send {} ping", p.id));
        say!("served {}", serve(p.fd));
        cx.peer(&format!("recv {} 9", p.id));
    }
}

/// A child that was made behind every library's back takes a turn, while its parent waits for it.
fn unseen_child(cx: &mut Cx) {
    let p = cx.warm();
    for _ in 0..3 {
        let pid = sys::cloned(Cloned::Unseen, || serve(p.fd));
        ping(cx, p.id);
        say!("child {}", sys::wait(pid));
        let pid = sys::cloned(Cloned::Unseen, || sys::close(p.fd).is_err().into());
        say!("child {}", sys::wait(pid));
        settle();
        cx.peer(&format!("send {} ping", p.id));
        say!("served {}", serve(p.fd));
        cx.peer(&format!("recv {} 9", p.id));
    }
}

/// Calls that make no child change nothing.
fn failed(cx: &mut Cx) {
    let p = cx.warm();
    let bad = libc::CLONE_SIGHAND as usize;
    say!("clone -> {}", show(sys::int_by_name("clone", &[0, 0, 0, 0])));
    say!("clone -> {}", show(sys::long_by_name("syscall", &[libc::SYS_clone as usize, bad, 0, 0, 0, 0])));
    say!("clone3 -> {}", show(sys::long_by_name("syscall", &[libc::SYS_clone3 as usize, 16, 64])));
    cx.peer(&format!("send {} ping", p.id));
    say!("served {}", serve(p.fd));
    cx.peer(&format!("recv {} 9", p.id));
    say!("shutdown -> {}", show(sys::shutdown(p.fd, libc::SHUT_WR)));
    cx.peer(&format!("recv {} 9", p.id));
    let (other, fd) = (cx.warm(), p.fd);
    say!("close -> {}", show(sys::close(fd)));
    cx.peer(&format!("drain {}", p.id));
    cx.watch(other.fd);
}

/// A child with memory of its own opens and closes what its parent has, too.
fn descriptors_alone(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    let (r, w) = sys::pipe(0);
    let pid = sys::cloned_apart(libc::CLONE_FILES, || {
        serve(p.fd) + u8::from(sys::dup2(w, q.fd).is_err()) + u8::from(sys::write(q.fd, b"pipe") != Ok(4))
    });
    ping(cx, p.id);
    say!("child {}", sys::wait(pid));
    cx.peer(&format!("drain {}", q.id));
    let mut buf = [0; 8];
    say!("again -> {}", show(sys::write(q.fd, b"pipe")));
    say!("the pipe -> {} {:?}", show(sys::read(r, &mut buf)), buf);
    cx.peer(&format!("send {} ping", p.id));
    say!("served {}", serve(p.fd));
    cx.peer(&format!("recv {} 9", p.id));
}

/// A child in the same memory has other things under its parent's numbers.
fn memory_alone(cx: &mut Cx) {
    let p = cx.warm();
    let (r, w) = sys::pipe(0);
    let pid = sys::cloned_apart(libc::CLONE_VM, || {
        serve(p.fd) + u8::from(sys::dup2(w, p.fd).is_err()) + u8::from(sys::write(p.fd, b"pipe") != Ok(4))
    });
    ping(cx, p.id);
    say!("child {}", sys::wait(pid));
    let mut buf = [0; 8];
    say!("the pipe -> {} {:?}", show(sys::read(r, &mut buf)), buf);
    cx.peer(&format!("send {} ping", p.id));
    say!("served {}", serve(p.fd));
    cx.peer(&format!("recv {} 9", p.id));
}

/// Children that share their parent's table of descriptors, and are no threads.
fn each_sharer(cx: &mut Cx, run: fn(&mut Cx, i32)) {
    let memory = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_SIGHAND;
    for more in [0, memory, libc::CLONE_VM | libc::CLONE_VFORK] {
        // (What one of them has brought about, no connection of this process gets over.)
        let pid = sys::fork(|| {
            run(cx, libc::CLONE_FILES | more);
            0
        });
        say!("{more:x}: {}", sys::wait(pid));
    }
}

/// A connection with bytes unread at this end.
fn loaded(cx: &mut Cx) -> Pair {
    let p = cx.warm();
    cx.peer(&format!("send {} old-bytes", p.id));
    until_queued(p.fd, 9);
    p
}

/// What comes under the number next has nothing of the old one.
fn closes_its_parents(cx: &mut Cx, flags: i32) {
    let p = loaded(cx);
    let pid = sys::cloned_apart(flags, || sys::close(p.fd).is_err().into());
    say!("child {}", sys::wait(pid));
    let mut buf = [0; 20];
    say!("read -> {}", show(sys::recv(p.fd, &mut buf, libc::MSG_DONTWAIT)));
    say!("write -> {}", show(sys::write(p.fd, b"x")));
    let port = cx.listening_peer();
    let fd = sys::tcp(0);
    say!("the same number: {}", fd == p.fd);
    say!("connect -> {}", show(sys::connect(fd, port)));
    cx.ask("accept 800");
    cx.peer("send 800 new-bytes");
    until_queued(fd, 9);
    let r = sys::recv(fd, &mut buf, libc::MSG_DONTWAIT);
    say!("read -> {}", got(r, &buf));
    say!("write -> {}", show(sys::write(fd, b"after")));
    cx.peer("recv 800 9");
    cx.ask("close 800");
    cx.ask(&format!("close {}", p.id));
}

/// The child puts a file there.
fn replaces_its_parents(cx: &mut Cx, flags: i32) {
    let (p, file) = (loaded(cx), sys::memfile(b"of the file"));
    let pid = sys::cloned_apart(flags, || sys::dup2(file, p.fd).is_err().into());
    say!("child {}", sys::wait(pid));
    sys::seek(p.fd, 0);
    let mut buf = [0; 20];
    let r = sys::read(p.fd, &mut buf);
    say!("read -> {} {}", show(r), String::from_utf8_lossy(&buf));
    say!("close -> {} {}", show(sys::close(p.fd)), show(sys::close(file)));
    cx.ask(&format!("close {}", p.id));
}
