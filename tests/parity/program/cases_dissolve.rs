//! connect() to AF_UNSPEC ends a connection by a reset and leaves the socket, with all its descriptors and
//! its places in epoll sets, for another.

use crate::context::{Case, Cx, got, say, settle, until};
use isthmus_tests::sys::{self, Fd, poll1, show};
use libc::{MSG_DONTWAIT, MSG_NOSIGNAL};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("dissolve.told_to_both", told_to_both),
    case("dissolve.unread_here", unread_here),
    case("dissolve.unread_there", unread_there),
    case("dissolve.another_descriptor", another_descriptor),
    case("dissolve.in_a_set", in_a_set),
    case("dissolve.before_connecting", before_connecting),
    case("dissolve.by_another_process", by_another_process),
    case("dissolve.while_another_reads", while_another_reads),
    case("dissolve.while_another_reads_for_the_first_time", while_another_reads_first),
    case("dissolve.by_another_process_and_room", by_another_and_room),
    case("dissolve.not_by_what_fails", not_by_what_fails),
    case("dissolve.not_by_what_a_filter_refuses", not_by_what_a_filter_refuses),
];

const ALL: i16 = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP;

fn told(fd: Fd) {
    let mut buf = [0; 9];
    say!("poll {}", poll1(fd, ALL, 100));
    say!("send -> {}", show(sys::send(fd, b"x", MSG_NOSIGNAL)));
    say!("send -> {}", show(sys::send(fd, b"x", MSG_NOSIGNAL)));
    let r = sys::recv(fd, &mut buf, MSG_DONTWAIT);
    say!("recv -> {}", got(r, &buf));
    say!("poll {}", poll1(fd, ALL, 100));
}

/// Connects the socket anew, and moves bytes both ways.
fn again(cx: &mut Cx, fd: Fd) {
    let port = cx.listening_peer();
    say!("connect -> {}", show(sys::connect(fd, port)));
    cx.peer("accept 7");
    say!("send -> {}", show(sys::send(fd, b"again", 0)));
    cx.peer("recvn 7 5");
    cx.peer("send 7 AGAIN");
    let mut buf = [0; 9];
    let r = sys::recv(fd, &mut buf, 0);
    say!("recv -> {}", got(r, &buf));
}

fn told_to_both(cx: &mut Cx) {
    let fd = cx.warm().fd;
    say!("dissolve -> {}", show(sys::disconnect(fd)));
    told(fd);
    cx.peer("recv 0 9");
    cx.peer("recv 0 9");
    cx.peer("send 0 x");
    again(cx, fd);
}

fn unread_here(cx: &mut Cx) {
    let fd = cx.warm().fd;
    cx.peer("send 0 unread");
    settle();
    say!("dissolve -> {}", show(sys::disconnect(fd)));
    told(fd);
    cx.peer("recv 0 9");
    again(cx, fd);
    say!("close -> {}", show(sys::close(fd)));
    cx.peer("recv 7 9");
}

fn unread_there(cx: &mut Cx) {
    let fd = cx.warm().fd;
    say!("send -> {}", show(sys::send(fd, b"tail", 0)));
    settle();
    say!("dissolve -> {}", show(sys::disconnect(fd)));
    cx.peer("recv 0 9");
    cx.peer("recv 0 9");
    again(cx, fd);
}

fn another_descriptor(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let copy = sys::dup(fd).expect("dup") as Fd;
    say!("dissolve -> {}", show(sys::disconnect(fd)));
    told(copy);
    again(cx, copy);
    again(cx, {
        sys::disconnect(fd).expect("again");
        fd
    });
}

fn in_a_set(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let ep = sys::epoll();
    sys::ep_add(ep, fd, libc::EPOLLIN | libc::EPOLLRDHUP, 7).expect("add");
    say!("dissolve -> {}", show(sys::disconnect(fd)));
    say!("set {}", sys::ep_show(ep, 100));
    say!("error {}", sys::so_error(fd));
    again(cx, fd);
    cx.peer("send 7 in");
    say!("set {}", sys::ep_show(ep, 3000));
    say!("modify -> {}", show(sys::ep_mod(ep, fd, libc::EPOLLOUT, 8)));
    say!("set {}", sys::ep_show(ep, 100));
    say!("take out -> {}", show(sys::ep_del(ep, fd)));
}

/// A socket in a set that never was connected is none the wiser.
fn before_connecting(cx: &mut Cx) {
    let fd = sys::tcp(libc::SOCK_CLOEXEC);
    let ep = sys::epoll();
    sys::ep_add(ep, fd, libc::EPOLLIN, 7).expect("add");
    say!("dissolve -> {}", show(sys::disconnect(fd)));
    again(cx, fd);
    cx.peer("send 7 in");
    say!("set {}", sys::ep_show(ep, 3000));
}

fn by_another_process(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let child = sys::fork(|| u8::from(sys::disconnect(fd).is_err()));
    say!("child {}", sys::wait(child));
    told(fd);
    cx.peer("recv 0 9");
    cx.peer("recv 0 9");
}

fn while_another_reads(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let reader = std::thread::spawn(move || show(sys::recv(fd, &mut [0; 9], 0)));
    settle();
    let end = sys::disconnect(fd);
    let told = reader.join().expect("reader");
    // Kernels before 6.8 tell the reader ECONNRESET, or refuse (EBUSY).
    say!("dissolve -> {} reader fails {}", show(end), told == "EPIPE" || told == "ECONNRESET");
    cx.peer("recv 0 9");
}

fn is_kernel_from(major: u32, minor: u32) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("release");
    let mut numbers = release.split(['.', '-']).map_while(|number| number.trim().parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(major), Some(minor))
}

/// At a server's end on which nothing has moved: the error is left for the next who asks.
fn while_another_reads_first(cx: &mut Cx) {
    let (l, port) = cx.listen();
    cx.ask(&format!("connect 0 {port}"));
    let fd = sys::accept(l).expect("accept") as Fd;
    let (tid, told_of) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let _ = tid.send(std::fs::read_link("/proc/thread-self").expect("this thread"));
        show(sys::recv(fd, &mut [0; 9], 0))
    });
    let stat = std::path::Path::new("/proc").join(told_of.recv().expect("a thread")).join("stat");
    until("it sleeps", || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S ")));
    settle();
    let end = sys::disconnect(fd);
    let told = reader.join().expect("reader");
    let left = sys::so_error(fd);
    // (Older kernels: as above.)
    let is_as_told = !is_kernel_from(6, 8) || told == "EPIPE" && left == "ECONNRESET";
    say!("dissolve -> {} as told by TCP {is_as_told}", show(end));
    cx.peer("recv 0 9");
}

fn by_another_and_room(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let child = sys::fork(|| u8::from(sys::disconnect(fd).is_err()));
    say!("child {}", sys::wait(child));
    let asked = libc::POLLRDNORM | libc::POLLWRNORM;
    say!("poll {} {}", poll1(fd, asked, 100), poll1(fd, asked | ALL, 100));
}

/// A connection that is over, with bytes left to be read: both ends have shut down, or the peer has reset it.
fn ended(cx: &mut Cx, by_reset: bool) -> Fd {
    let p = cx.warm();
    cx.ask(&format!("send {} unread", p.id));
    if by_reset {
        cx.ask(&format!("linger {} 1 0", p.id));
        cx.ask(&format!("close {}", p.id));
    } else {
        cx.ask(&format!("shut {} 1", p.id));
        until("its end", || sys::tcp_state(p.fd) != 1);
        say!("shutdown -> {}", show(sys::shutdown(p.fd, libc::SHUT_WR)));
    }
    until("the end", || sys::tcp_state(p.fd) == 7);
    p.fd
}

/// What is unread is there still, and then what there was to tell.
fn read_on(fd: Fd) {
    for _ in 0..3 {
        let mut buf = [0; 9];
        let r = sys::recv(fd, &mut buf, MSG_DONTWAIT);
        say!("recv -> {}", got(r, &buf));
    }
}

/// The kernel lets go of a connection that is over by no call that it refuses.
fn not_by_what_fails(cx: &mut Cx) {
    const NEVER: u16 = 99;
    let port = cx.listening_peer();
    type Call = (&'static str, fn(Fd, u16) -> sys::Ret);
    let calls: [Call; 12] = [
        ("no address", |fd, port| sys::connect_oddly(fd, port, None, 0)),
        ("half a family", |fd, port| sys::connect_oddly(fd, port, None, 1)),
        ("a family alone", |fd, port| sys::connect_oddly(fd, port, None, 2)),
        ("another family", |fd, port| sys::connect_oddly(fd, port, Some(NEVER), 16)),
        ("too long", |fd, port| sys::connect_oddly(fd, port, None, 200)),
        ("longer than anything", |fd, port| sys::connect_oddly(fd, port, None, u32::MAX)),
        ("half of no family", |fd, port| sys::connect_oddly(fd, port, Some(0), 1)),
        ("no family, too long", |fd, port| sys::connect_oddly(fd, port, Some(0), 200)),
        ("nowhere", |fd, _| sys::connect_to_nowhere(fd)),
        ("somebody", sys::connect),
        ("listen", |fd, _| sys::listen(fd, 5)),
        ("bind", |fd, _| sys::bind(fd, 0)),
    ];
    for by_reset in [false, true] {
        for (name, call) in calls {
            let fd = ended(cx, by_reset);
            say!("reset {by_reset}, {name} -> {}", show(call(fd, port)));
            read_on(fd);
        }
        let fd = ended(cx, by_reset);
        say!("dissolve -> {}", show(sys::disconnect(fd)));
        read_on(fd);
    }
}

fn not_by_what_a_filter_refuses(cx: &mut Cx) {
    let fd = ended(cx, false);
    let port = cx.listening_peer();
    say!("filter {}", show(sys::deny_with(&[sys::Denied::Call(libc::SYS_connect)], libc::EACCES)));
    say!("connect -> {}", show(sys::connect(fd, port)));
    say!("dissolve -> {}", show(sys::disconnect(fd)));
    read_on(fd);
}
