//! A thread is in a blocked call while another closes its number, and has the number again for something
//! else: the call goes on where it began, and is told what becomes of that connection.

use crate::cases_operator::{send_home, undisturbed};
use crate::context::{Case, Cx, Pair, fill, got, say, settle};
use isthmus_tests::sys::{self, Fd, Select, show};
use libc::MSG_NOSIGNAL;
use std::thread::JoinHandle;

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

pub(crate) const CASES: &[Case] = &[
    case("kept.reader_hears_the_end", reader_hears_the_end),
    case("kept.reader_hears_the_end_with_no_other_there", reader_alone),
    case("kept.reader_gets_bytes_and_the_end", reader_gets_bytes),
    case("kept.reader_hears_of_a_reset", reader_hears_of_a_reset),
    case("kept.reader_hears_of_a_killed_peer", reader_hears_of_a_killed_peer),
    case("kept.two_readers", two_readers),
    case("kept.reader_replaced_by_dup2", replaced),
    case("kept.reader_beside_a_duplicate", beside_a_duplicate),
    case("kept.peer_hears_the_end_of_the_call", peer_hears_the_end),
    case("kept.writer_gets_on", writer_gets_on),
    case("kept.writer_hears_of_the_end", writer_hears_of_the_end),
    case("kept.reader_after_a_shutdown", reader_after_a_shutdown),
    case("kept.reader_leaves_bytes", reader_leaves_bytes),
    case("kept.set_hears_of_a_duplicate", set_hears),
    case("kept.select_goes_on", select_goes_on),
    case("kept.polls_leave_bytes", polls_leave_bytes),
    case("kept.poll_over_in_time", poll_over_in_time),
    case("kept.splice_out", splice_out),
    case("kept.splice_out_before_the_pipe_has_room", splice_out_late),
    case("kept.splice_in", splice_in),
    case("kept.child_keeps_nothing", child_keeps_nothing),
    case("kept.again_and_again", again_and_again),
    case("kept.writer_in_the_middle_of_a_copy", writer_in_the_middle),
    case("kept.reader_in_the_middle_of_a_copy", reader_in_the_middle),
    case("kept.a_hundred_at_once", a_hundred_at_once),
    case("kept.more_than_there_are_numbers", more_than_numbers),
    Case { name: "kept.reader_goes_home", shm: false, run: reader_goes_home },
    Case { name: "kept.writer_goes_home", shm: false, run: writer_goes_home },
    Case { name: "kept.reader_nobody_has_looked_at", shm: false, run: reader_not_looked_at },
];

/// A call in a thread of its own, of which the kernel says that it is asleep.
fn asleep<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let (say, said) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let me = std::fs::read_link("/proc/thread-self").expect("thread");
        say.send(me).expect("listener");
        call()
    });
    let stat = std::path::Path::new("/proc").join(said.recv().expect("thread")).join("stat");
    let is_asleep = || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S "));
    for _ in 0..3 {
        while !is_asleep() {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(3));
    }
    thread
}

fn reader(fd: Fd) -> JoinHandle<String> {
    asleep(move || {
        let mut buf = [0; 64];
        let told = sys::recv(fd, &mut buf, 0);
        format!("read {}", got(told, &buf))
    })
}

/// A client that its server has not accepted yet.
fn reader_not_looked_at(cx: &mut Cx) {
    let port = cx.listening_peer();
    for (id, text) in [(0, "late"), (1, "")] {
        let fd = sys::tcp(libc::SOCK_CLOEXEC);
        sys::connect(fd, port).expect("connect");
        let reader = reader(fd);
        say!("close -> {}", show(sys::close(fd)));
        std::thread::sleep(std::time::Duration::from_millis(30));
        cx.ask(&format!("accept {id}"));
        if text.is_empty() {
            cx.peer(&format!("shut {id} 1"));
        } else {
            cx.peer(&format!("send {id} {text}"));
        }
        say!("{}", reader.join().expect("reader"));
        cx.peer(&format!("recv {id} 9"));
    }
}

/// Closes the number and has it again, for another connection.
fn taken_over(cx: &mut Cx, fd: Fd) -> Pair {
    say!("close -> {}", show(sys::close(fd)));
    let other = cx.warm();
    say!("the number again: {}", other.fd == fd);
    other
}

fn works_still(cx: &mut Cx, other: Pair) {
    cx.peer(&format!("send {} fine", other.id));
    let mut buf = [0; 9];
    let told = sys::recv(other.fd, &mut buf, 0);
    say!("the other's: {}", got(told, &buf));
}

fn reader_hears_the_end(cx: &mut Cx) {
    let p = cx.warm();
    let reader = reader(p.fd);
    let other = taken_over(cx, p.fd);
    cx.peer("close 0");
    say!("{}", reader.join().expect("reader"));
    works_still(cx, other);
}

fn reader_alone(cx: &mut Cx) {
    let p = cx.warm();
    let reader = reader(p.fd);
    say!("close -> {}", show(sys::close(p.fd)));
    settle();
    cx.peer("close 0");
    say!("{}", reader.join().expect("reader"));
    cx.warm();
}

fn reader_gets_bytes(cx: &mut Cx) {
    let p = cx.warm();
    let reader = reader(p.fd);
    let other = taken_over(cx, p.fd);
    cx.peer("send 0 twelve-bytes");
    say!("{}", reader.join().expect("reader"));
    cx.peer("recv 0 9");
    works_still(cx, other);
}

/// A number that was open when select began counts as ready once it is closed; only one that was not is
/// EBADF.
fn select_goes_on(cx: &mut Cx) {
    for (kind, is_reading) in [(Select::Plain, true), (Select::Precise, false)] {
        let (p, other) = (cx.warm(), cx.warm());
        let (fd, also) = (p.fd, other.fd);
        let writing = if is_reading {
            vec![]
        } else {
            crate::context::fill(fd);
            vec![fd]
        };
        let selecting = asleep(move || sys::select(kind, &[fd, also], &writing, &[], 5000));
        say!("close -> {}", show(sys::close(fd)));
        cx.peer(&format!("close {}", p.id));
        cx.peer(&format!("send {} x", other.id));
        let told = selecting.join().expect("select");
        say!("it went on: {}", !told.contains("EBADF"));
        say!("closed: {}", sys::select(kind, &[fd], &[], &[], 0));
    }
}

/// Nobody reads what comes while the socket is open for a poll alone: that ends, and it is closed.
fn polls_leave_bytes(cx: &mut Cx) {
    let idle = sys::pipe(0).0;
    let polls: [fn(Fd, Fd); 4] = [
        |fd, _| drop(sys::poll1(fd, libc::POLLIN, 5000)),
        |fd, _| drop(sys::select(Select::Precise, &[fd], &[], &[], 5000)),
        // (Of its own accord, after the close.)
        |fd, _| drop(sys::poll1(fd, libc::POLLPRI, 1000)),
        |fd, idle| {
            let mut many = [(idle, libc::POLLIN); 9];
            many[8].0 = fd;
            drop(sys::poll(&many, 5000));
        },
    ];
    for (nth, poll) in polls.into_iter().enumerate() {
        let p = cx.warm();
        let polling = asleep(move || poll(p.fd, idle));
        // (Were it another's then, the poll would go on with that one.)
        say!("close -> {}", show(sys::close(p.fd)));
        cx.peer(&format!("send {} nobody-reads-this", p.id));
        polling.join().expect("poll");
        settle();
        say!("poll {nth}");
        cx.peer(&format!("recv {} 9", p.id));
    }
    cx.warm();
}

/// Nothing has come: the end of the poll is the close.
fn poll_over_in_time(cx: &mut Cx) {
    let p = cx.warm();
    let polling = asleep(move || drop(sys::poll1(p.fd, libc::POLLIN, 1500)));
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer("poll 0 1 20");
    polling.join().expect("poll");
    cx.peer("recv 0 9");
    cx.warm();
}

/// What is spliced was read, and it is an end.
fn splice_out(cx: &mut Cx) {
    for replaces in [false, true] {
        let (p, pipe) = (cx.warm(), sys::pipe(0));
        say!("answer -> {}", show(sys::write(p.fd, b"answer")));
        let splicing = asleep(move || show(sys::splice(p.fd, pipe.1, 99, 0)));
        let other = match replaces {
            false => taken_over(cx, p.fd),
            true => {
                let other = cx.warm();
                say!("dup2 -> {}", sys::dup2(other.fd, p.fd) == Ok(p.fd as usize));
                Pair { fd: p.fd, id: other.id }
            }
        };
        cx.peer(&format!("send {} last", p.id));
        say!("splice {}", splicing.join().expect("splice"));
        let mut buf = [0; 9];
        let read = sys::read(pipe.0, &mut buf);
        say!("pipe {}", got(read, &buf));
        cx.peer(&format!("drain {}", p.id));
        works_still(cx, other);
    }
}

/// The number is closed while the call waits for the pipe, and has not looked at the socket.
fn splice_out_late(cx: &mut Cx) {
    let (p, pipe) = (cx.warm(), sys::pipe(0));
    sys::fcntl(pipe.1, libc::F_SETPIPE_SZ, 4096).expect("size");
    say!("fill -> {}", show(sys::write(pipe.1, &[b'f'; 4096])));
    let splicing = asleep(move || show(sys::splice(p.fd, pipe.1, 99, 0)));
    let other = taken_over(cx, p.fd);
    cx.peer("send 0 last");
    say!("read -> {}", show(sys::read(pipe.0, &mut [0; 4096])));
    say!("splice {}", splicing.join().expect("splice"));
    cx.peer("recv 0 9");
    works_still(cx, other);
}

/// What comes out of the pipe goes to the socket that the call began with, and to no other.
fn splice_in(cx: &mut Cx) {
    let (p, pipe) = (cx.warm(), sys::pipe(0));
    let splicing = asleep(move || show(sys::splice(pipe.0, p.fd, 99, 0)));
    let other = taken_over(cx, p.fd);
    say!("pipe -> {}", show(sys::write(pipe.1, b"from the pipe")));
    say!("splice {}", splicing.join().expect("splice"));
    cx.peer("drain 0");
    works_still(cx, other);
    say!("send -> {}", show(sys::send(other.fd, b"mine", MSG_NOSIGNAL)));
    cx.peer(&format!("recv {} 99", other.id));
}

fn reader_hears_of_a_reset(cx: &mut Cx) {
    let p = cx.warm();
    let reader = reader(p.fd);
    let other = taken_over(cx, p.fd);
    cx.peer("linger 0 1 0");
    cx.peer("close 0");
    say!("{}", reader.join().expect("reader"));
    works_still(cx, other);
}

fn reader_hears_of_a_killed_peer(cx: &mut Cx) {
    let p = cx.warm();
    let reader = reader(p.fd);
    let other = taken_over(cx, p.fd);
    cx.tell("die");
    say!("{}", reader.join().expect("reader"));
    let mut buf = [0; 9];
    let told = sys::recv(other.fd, &mut buf, 0);
    say!("the other's: {}", got(told, &buf));
}

fn two_readers(cx: &mut Cx) {
    let p = cx.warm();
    let readers = [reader(p.fd), reader(p.fd)];
    let other = taken_over(cx, p.fd);
    cx.peer("close 0");
    readers.into_iter().for_each(|reader| say!("{}", reader.join().expect("reader")));
    works_still(cx, other);
}

fn replaced(cx: &mut Cx) {
    let p = cx.warm();
    let other = cx.warm();
    let reader = reader(p.fd);
    say!("dup2 -> {}", sys::dup2(other.fd, p.fd) == Ok(p.fd as usize));
    settle();
    cx.peer("close 0");
    say!("{}", reader.join().expect("reader"));
    works_still(cx, Pair { fd: p.fd, id: other.id });
}

fn beside_a_duplicate(cx: &mut Cx) {
    let p = cx.warm();
    let copy = sys::dup(p.fd).expect("dup") as Fd;
    let reader = reader(p.fd);
    let other = taken_over(cx, p.fd);
    cx.peer("send 0 one");
    say!("{}", reader.join().expect("reader"));
    say!("send -> {}", show(sys::send(copy, b"back", MSG_NOSIGNAL)));
    cx.peer("recvn 0 4");
    let again = self::reader(copy);
    cx.peer("close 0");
    say!("{}", again.join().expect("reader"));
    works_still(cx, other);
}

fn reader_after_a_shutdown(cx: &mut Cx) {
    for how in [libc::SHUT_RD, libc::SHUT_RDWR] {
        let p = cx.warm();
        let reader = reader(p.fd);
        say!("shutdown -> {}", show(sys::shutdown(p.fd, how)));
        say!("close -> {}", show(sys::close(p.fd)));
        say!("{}", reader.join().expect("reader"));
        cx.peer(&format!("close {}", p.id));
    }
    cx.warm();
}

fn reader_leaves_bytes(cx: &mut Cx) {
    let p = cx.warm();
    let reader = asleep(move || show(sys::recv(p.fd, &mut [0; 3], 0)));
    let other = taken_over(cx, p.fd);
    cx.peer("send 0 more-than-three");
    say!("{}", reader.join().expect("reader"));
    settle();
    cx.peer("recv 0 9");
    works_still(cx, other);
}

/// The number by which a socket was put into a set is closed while a thread sleeps on a duplicate.
fn set_hears(cx: &mut Cx) {
    let p = cx.warm();
    let copy = sys::dup(p.fd).expect("dup") as Fd;
    let set = sys::epoll();
    sys::ep_add(set, p.fd, libc::EPOLLIN | libc::EPOLLRDHUP, 7).expect("add");
    let reader = reader(copy);
    let other = taken_over(cx, p.fd);
    cx.peer("send 0 byte");
    say!("{}", reader.join().expect("reader"));
    cx.peer("close 0");
    settle();
    say!("set {}", sys::ep_show(set, 3000));
    say!("close -> {}", show(sys::close(copy)));
    works_still(cx, other);
}

/// While the call lasts the socket is open; with it, it is closed.
fn peer_hears_the_end(cx: &mut Cx) {
    let p = cx.warm();
    let reader = reader(p.fd);
    let other = taken_over(cx, p.fd);
    cx.peer("poll 0 1 300");
    cx.peer("send 0 last");
    say!("{}", reader.join().expect("reader"));
    cx.peer("recv 0 9");
    works_still(cx, other);
}

fn writer(fd: Fd) -> JoinHandle<String> {
    asleep(move || {
        // (More than both kernels' buffers.)
        let told = sys::send(fd, &vec![b'w'; 8 << 20], MSG_NOSIGNAL);
        told.map_or_else(|e| e.to_string(), |n| if n == 8 << 20 { "all".to_string() } else { "some".into() })
    })
}

fn writer_gets_on(cx: &mut Cx) {
    let p = cx.warm();
    let writer = writer(p.fd);
    let other = taken_over(cx, p.fd);
    cx.tell("discard 0");
    say!("{}", writer.join().expect("writer"));
    cx.answer();
    works_still(cx, other);
}

fn writer_hears_of_the_end(cx: &mut Cx) {
    let p = cx.warm();
    let writer = writer(p.fd);
    let other = taken_over(cx, p.fd);
    cx.peer("close 0");
    say!("ends: {}", matches!(writer.join().expect("writer").as_str(), "some" | "EPIPE" | "ECONNRESET"));
    works_still(cx, other);
}

/// A fork meanwhile: what is kept for the parent's thread, the child does not hold open.
fn child_keeps_nothing(cx: &mut Cx) {
    let p = cx.warm();
    let reader = reader(p.fd);
    say!("close -> {}", show(sys::close(p.fd)));
    settle();
    let hold = sys::pipe(0);
    let child = sys::fork(|| {
        let _ = sys::close(hold.1);
        let _ = sys::read(hold.0, &mut [0]);
        0
    });
    cx.peer("send 0 x");
    say!("{}", reader.join().expect("reader"));
    cx.peer("recv 0 9");
    let _ = sys::close(hold.1);
    say!("child {}", sys::wait(child));
    cx.warm();
}

/// Nothing is used up by it.
fn again_and_again(cx: &mut Cx) {
    let count = || std::fs::read_dir("/proc/self/fd").expect("descriptors").count();
    let before = count();
    let mut wrong = 0;
    for _ in 0..66 {
        let p = cx.warm();
        let reader = asleep(move || show(sys::recv(p.fd, &mut [0; 9], 0)));
        let _ = sys::close(p.fd);
        cx.ask(&format!("close {}", p.id));
        wrong += u32::from(reader.join().expect("reader") != "0");
    }
    say!("wrong {wrong} more {}", count() > before + 8);
    cx.warm();
}

/// A call that moves bytes just then, or looks for some, and has slept before: as often as it takes to find
/// it there.
fn in_the_middle(cx: &mut Cx, what: &str, call: fn(Fd, usize) -> String, peer: fn(u32, usize) -> String) {
    const ALL: usize = 8 << 20;
    let mut told = std::collections::BTreeMap::new();
    for at in 0..30 {
        let p = cx.warm();
        let thread = asleep(move || call(p.fd, ALL));
        cx.tell(&peer(p.id, ALL));
        std::thread::sleep(std::time::Duration::from_micros(200 * at));
        let _ = sys::close(p.fd);
        *told.entry(thread.join().expect(what)).or_insert(0) += 1;
        cx.answer();
        cx.ask(&format!("close {}", p.id));
    }
    say!("{what} {told:?}");
    cx.warm();
}

fn writer_in_the_middle(cx: &mut Cx) {
    let call = |fd, all| {
        let told = sys::send(fd, &vec![b'w'; all], MSG_NOSIGNAL);
        told.map_or_else(|e| e.to_string(), |n| if n == all { "all".into() } else { "some".into() })
    };
    in_the_middle(cx, "writer", call, |id, _| format!("discard {id}"));
}

fn reader_in_the_middle(cx: &mut Cx) {
    let call = |fd, all: usize| {
        let told = sys::recv(fd, &mut vec![0; all], libc::MSG_WAITALL);
        told.map_or_else(|e| e.to_string(), |n| if n == all { "all".into() } else { "some".into() })
    };
    in_the_middle(cx, "reader", call, |id, all| format!("zeros {id} {all}"));
}

fn a_hundred_at_once(cx: &mut Cx) {
    let pairs: Vec<_> = (0..100).map(|_| cx.warm()).collect();
    let readers: Vec<_> = pairs.iter().map(|p| (p.id, reader(p.fd))).collect();
    let closed = pairs.iter().filter(|p| sys::close(p.fd).is_ok()).count();
    say!("closed {closed}");
    settle();
    let mut told = std::collections::BTreeMap::new();
    for (id, reader) in readers {
        cx.ask(&format!("send {id} fine"));
        *told.entry(reader.join().expect("reader")).or_insert(0) += 1;
    }
    say!("readers {told:?}");
    cx.warm();
}

/// A process has no number to spare for most of them: over TCP each reads what came, here some are told that
/// their number is gone; each returns, and the rest goes on.
fn more_than_numbers(cx: &mut Cx) {
    sys::limit_fds_for_good(256);
    let pairs: Vec<_> = (0..12).map(|_| cx.warm()).collect();
    let readers: Vec<_> = pairs.iter().map(|p| (p.id, reader(p.fd))).collect();
    let closed = pairs.iter().filter(|p| sys::close(p.fd).is_ok()).count();
    say!("closed {closed}");
    settle();
    for (id, reader) in readers {
        cx.ask(&format!("send {id} fine"));
        let told = reader.join().expect("reader");
        say!("returned {}", matches!(told.as_str(), "read 4 'fine'" | "read EBADF"));
        cx.ask(&format!("close {id}"));
    }
    cx.warm();
}

/// An operator takes the connection off shared memory, at either end: the call goes on over TCP.
fn reader_goes_home(cx: &mut Cx) {
    undisturbed();
    for pid in [std::process::id() as i32, cx.peer_pid()] {
        let p = cx.warm();
        let reading = asleep(move || {
            let mut buf = [0; 9];
            show(sys::read(p.fd, &mut buf))
        });
        say!("close -> {}", show(sys::close(p.fd)));
        send_home(pid);
        settle();
        cx.peer(&format!("send {} late", p.id));
        say!("read -> {}", reading.join().expect("reader"));
        cx.peer(&format!("recv {} 9", p.id));
    }
    cx.warm();
}

fn writer_goes_home(cx: &mut Cx) {
    undisturbed();
    for pid in [std::process::id() as i32, cx.peer_pid()] {
        let p = cx.warm();
        fill(p.fd);
        let writing = asleep(move || show(sys::write(p.fd, &[7; 300_000])));
        say!("close -> {}", show(sys::close(p.fd)));
        send_home(pid);
        settle();
        cx.ask(&format!("discard {}", p.id));
        say!("write -> {}", writing.join().expect("writer"));
    }
    cx.warm();
}
