//! The hooks by their other names: what fortified programs, older libcs and rarer callers say for the same
//! thing. Each is called under exactly that name (`tests/parity/hooks.txt` says where every hook is).

use crate::context::{Case, Cx, Pair, got, say, until_queued};
use isthmus_tests::sys::{self, Fd, Ret, int_by_name, long_by_name, show, strings};
use std::ffi::CString;

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("names.receiving", receiving),
    case("names.sending", sending),
    case("names.vectors", vectors),
    case("names.waiting", waiting),
    case("names.descriptors", descriptors),
    case("names.closefrom", closefrom),
    case("names.pidfd_getfd", pidfd_getfd),
    case("names.connect", connect),
    case("names.sendfile", sendfile),
    case("names.limits", limits),
    case("names.groups", groups),
    any("names.forking", forking),
    any("names.exec", exec),
    any("names.spawn", spawn),
    case("names.commands", commands),
    any("names.printing", printing),
];

fn number(fd: Fd) -> usize {
    fd as usize
}

fn at<T: ?Sized>(place: &T) -> usize {
    std::ptr::from_ref(place).expose_provenance()
}

/// The same of what the call writes to.
fn out<T: ?Sized>(place: &mut T) -> usize {
    std::ptr::from_mut(place).expose_provenance()
}

/// The connection still carries bytes both ways.
fn exchange(cx: &mut Cx, p: Pair) {
    cx.peer(&format!("send {} ping", p.id));
    let mut buf = [0u8; 9];
    let r = sys::read(p.fd, &mut buf);
    say!("read -> {}, write -> {}", got(r, &buf), show(sys::write(p.fd, b"pong")));
    cx.peer(&format!("recv {} 9", p.id));
}

fn receiving(cx: &mut Cx) {
    let p = cx.warm();
    for name in ["__read", "__read_chk", "__recv_chk", "__recvfrom_chk"] {
        cx.peer(&format!("send {} ping", p.id));
        let mut buf = [0u8; 16];
        // The size of the buffer follows the length, then flags and no address.
        let args = [number(p.fd), out(&mut buf), 9, buf.len(), 0, 0, 0];
        let r = long_by_name(name, if name == "__read" { &args[..3] } else { &args });
        say!("{name} -> {}", got(r, &buf));
    }
    cx.ask(&format!("shut {} 1", p.id));
    say!("end -> {}", show(long_by_name("__read", &[number(p.fd), out(&mut [0u8; 9]), 9])));
}

fn sending(cx: &mut Cx) {
    let p = cx.warm();
    for name in ["__write", "__send"] {
        let r = long_by_name(name, &[number(p.fd), at(b"ping"), 4, libc::MSG_NOSIGNAL as usize]);
        say!("{name} -> {}", show(r));
        cx.peer(&format!("recv {} 9", p.id));
    }
}

fn vectors(cx: &mut Cx) {
    let p = cx.warm();
    let no_offset = -1isize as usize;
    cx.peer(&format!("send {} ping", p.id));
    let mut buf = [0u8; 9];
    let r = long_by_name("preadv64v2", &[number(p.fd), at(&[out(&mut buf), 9]), 1, no_offset, 0, 0]);
    say!("preadv64v2 -> {}", got(r, &buf));
    let r = long_by_name("pwritev64v2", &[number(p.fd), at(&[at(b"pong"), 4]), 1, no_offset, 0, 0]);
    say!("pwritev64v2 -> {}", show(r));
    cx.peer(&format!("recv {} 9", p.id));
    let r = long_by_name("preadv64v2", &[number(p.fd), at(&[out(&mut buf), 9]), 1, 7, 0, 0]);
    say!("preadv64v2 at an offset -> {}", show(r));
}

fn waiting(cx: &mut Cx) {
    let p = cx.warm();
    say!("idle");
    waits(p.fd);
    cx.peer(&format!("send {} ping", p.id));
    until_queued(p.fd, 4);
    waits(p.fd);
    let ep = int_by_name("epoll_create", &[1]).expect("a set") as Fd;
    say!("add {}", show(sys::ep_add(ep, p.fd, libc::EPOLLIN | libc::EPOLLRDHUP, 7)));
    say!("epoll {}", sys::ep_show(ep, 1000));
    say!("epoll_create of nothing -> {}", show(int_by_name("epoll_create", &[0])));
}

/// What each wait says at once.
fn waits(fd: Fd) {
    for name in ["__poll", "__poll_chk", "__ppoll_chk"] {
        let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let limit = sys::timespec(0);
        let args = match name {
            "__ppoll_chk" => [out(&mut entry), 1, at(&limit), 0, size_of::<libc::pollfd>()],
            _ => [out(&mut entry), 1, 0, size_of::<libc::pollfd>(), 0],
        };
        let r = int_by_name(name, &args);
        say!("{name} -> {} {:#x}", show(r), entry.revents);
    }
    let (mut set, mut limit) = ([0u64; 16], [0u64; 2]);
    set[number(fd) / 64] |= 1 << (fd % 64);
    let r = int_by_name("__select", &[number(fd) + 1, out(&mut set), 0, 0, out(&mut limit)]);
    say!("__select -> {} {}", show(r), set.iter().any(|word| *word != 0));
}

fn descriptors(cx: &mut Cx) {
    let p = cx.warm();
    let copy = int_by_name("fcntl64", &[number(p.fd), libc::F_DUPFD_CLOEXEC as usize, 200]);
    say!("fcntl64 -> {}", show(copy));
    exchange(cx, Pair { fd: 200, ..p });
    say!("__dup2 -> {}", show(int_by_name("__dup2", &[200, 201])));
    exchange(cx, Pair { fd: 201, ..p });
    say!("__close -> {} {}", show(int_by_name("__close", &[200])), show(int_by_name("__close", &[201])));
    say!("gone -> {}", show(sys::read(200, &mut [0; 1])));
    let flags = int_by_name("__fcntl", &[number(p.fd), libc::F_GETFL as usize]).expect("flags");
    let set = [number(p.fd), libc::F_SETFL as usize, flags | libc::O_NONBLOCK as usize];
    say!("__fcntl -> {}", show(int_by_name("__fcntl", &set)));
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 1])));
    sys::nonblocking(p.fd, false);
    exchange(cx, p);
    say!("__close -> {}", show(int_by_name("__close", &[number(p.fd)])));
    cx.peer(&format!("drain {}", p.id));
    let next = cx.pair();
    exchange(cx, next);
}

/// A child closes all it has; then the parent does the same to its connections, above the numbers it needs.
fn closefrom(cx: &mut Cx) {
    let p = cx.warm();
    let child = sys::fork(|| {
        let _ = long_by_name("closefrom", &[3]);
        u8::from(sys::read(p.fd, &mut [0; 1]).is_ok())
    });
    say!("child {}", sys::wait(child));
    exchange(cx, p);
    sys::dup2(p.fd, 300).expect("a high number");
    sys::close(p.fd).expect("close");
    let _ = long_by_name("closefrom", &[250]);
    say!("gone -> {}", show(sys::write(300, b"x")));
    cx.peer(&format!("drain {}", p.id));
    let next = cx.pair();
    exchange(cx, next);
}

fn connect(cx: &mut Cx) {
    let port = cx.listening_peer();
    let fd = sys::tcp(libc::SOCK_CLOEXEC);
    // `struct sockaddr_in`: family, port, 127.0.0.1.
    let mut address = [0u8; 16];
    address[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    address[2..4].copy_from_slice(&port.to_be_bytes());
    address[4..8].copy_from_slice(&[127, 0, 0, 1]);
    let args = [number(fd), at(&address), address.len()];
    say!("__connect -> {}", show(int_by_name("__connect", &args)));
    cx.peer("accept 0");
    exchange(cx, Pair { fd, id: 0 });
    say!("again -> {}", show(int_by_name("__connect", &args)));
    cx.watch(fd);
}

fn sendfile(cx: &mut Cx) {
    let p = cx.warm();
    let (file, mut offset) = (sys::memfile(b"bytes of a file"), 9i64);
    let r = long_by_name("sendfile64", &[number(p.fd), number(file), out(&mut offset), 100]);
    say!("sendfile64 -> {}, then at {}", show(r), offset);
    cx.peer(&format!("recv {} 99", p.id));
}

/// A limit that leaves poll one descriptor, and back.
fn limits(cx: &mut Cx) {
    let p = cx.warm();
    let kind = libc::RLIMIT_NOFILE as usize;
    for name in ["setrlimit64", "prlimit", "prlimit64"] {
        let mut before = [0u64; 2];
        int_by_name("prlimit64", &[0, kind, 0, out(&mut before)]).expect("the limit");
        let [soft, hard] = before;
        let set = |limit: [u64; 2]| match name {
            "setrlimit64" => int_by_name(name, &[kind, at(&limit)]),
            _ => int_by_name(name, &[0, kind, at(&limit), 0]),
        };
        say!("{name} -> {}", show(set([1, hard])));
        cx.peer(&format!("send {} ping", p.id));
        say!("poll {}", sys::poll1(p.fd, libc::POLLIN, 1000));
        let mut buf = [0u8; 9];
        let r = sys::read(p.fd, &mut buf);
        say!("read -> {}", got(r, &buf));
        say!("{name} back -> {}", show(set([soft, hard])));
        exchange(cx, p);
    }
}

/// Groups that this process has already: nothing is given up, and everything goes on.
fn groups(cx: &mut Cx) {
    let p = cx.warm();
    let group = int_by_name("getegid", &[]).expect("a group");
    let calls: [(&str, &[usize]); 3] =
        [("setegid", &[group]), ("setregid", &[usize::MAX, group]), ("setresgid", &[group, group, group])];
    for (name, args) in calls {
        say!("{name} -> {}", show(int_by_name(name, args)));
        exchange(cx, p);
        let next = cx.pair();
        exchange(cx, next);
    }
}

fn forking(cx: &mut Cx) {
    let p = cx.warm();
    let child = int_by_name("_Fork", &[]).expect("a child");
    if child == 0 {
        let _ = sys::write(p.fd, b"child");
        let _ = long_by_name("_Exit", &[7]);
    }
    say!("child {}", sys::wait(child as i32));
    cx.peer(&format!("recv {} 9", p.id));
    exchange(cx, p);
    let child = sys::fork(|| {
        let _ = sys::write(p.fd, b"again");
        let _ = long_by_name("_Exit", &[8]);
        0
    });
    say!("close -> {}", show(sys::close(p.fd)));
    say!("child {}", sys::wait(child));
    cx.peer(&format!("drain {}", p.id));
}

/// Reads "ping" and answers, by the standard files.
const SHELL: &str = "read line; echo \"pong $line\"; echo bye";

/// The conversation with such a shell; then the connection ends, for nobody else has it.
fn talk(cx: &mut Cx, p: Pair, child: i32) {
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer(&format!("sendline {} ping", p.id));
    cx.peer(&format!("recvn {} 14", p.id));
    cx.peer(&format!("recv {} 9", p.id));
    say!("child {}", sys::wait(child));
}

fn exec(cx: &mut Cx) {
    for name in ["execvpe", "execveat", "execle", "execlp"] {
        let p = cx.warm();
        let child = sys::fork(|| {
            let _ = (sys::dup2(p.fd, 0), sys::dup2(p.fd, 1));
            let _ = become_shell(name);
            9
        });
        say!("{name}");
        talk(cx, p, child);
    }
}

/// Does not return but with what went wrong.
fn become_shell(name: &str) -> Ret {
    let text = CString::new(SHELL).expect("no NUL");
    let args = strings(&[c"sh", c"-c", &text]);
    let [full, short, option] = [c"/bin/sh", c"sh", c"-c"].map(|text| text.as_ptr().addr());
    let (list, env) = (args.as_ptr().addr(), sys::environment());
    match name {
        "execvpe" => int_by_name(name, &[short, list, env]),
        "execveat" => int_by_name(name, &[libc::AT_FDCWD as usize, full, list, env, 0]),
        "execle" => int_by_name(name, &[full, short, option, text.as_ptr().addr(), 0, env]),
        _ => int_by_name(name, &[short, short, option, text.as_ptr().addr(), 0]),
    }
}

/// `posix_spawnp` with `posix_spawn_file_actions_adddup2`.
fn spawn(cx: &mut Cx) {
    let p = cx.warm();
    let child = sys::spawn_shell(SHELL, p.fd).expect("a shell");
    talk(cx, p, child as i32);
}

/// Other programs come and go; they have nothing of the connection, and it has nothing of them.
fn commands(cx: &mut Cx) {
    let p = cx.warm();
    say!("system -> {}", show(int_by_name("system", &[c"exit 3".as_ptr().addr()])));
    exchange(cx, p);
    let [command, mode] = [c"exit 4", c"r"].map(|text| text.as_ptr().addr());
    let stream = long_by_name("popen", &[command, mode]).expect("a stream");
    exchange(cx, p);
    say!("pclose -> {}", show(int_by_name("pclose", &[stream])));
    exchange(cx, p);
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer(&format!("drain {}", p.id));
    let next = cx.pair();
    exchange(cx, next);
}

fn printing(cx: &mut Cx) {
    let p = cx.warm();
    // No conversions: nothing is taken out of the list of arguments, whose place must be one.
    let (text, list) = (c"printed".as_ptr().addr(), [0u64; 4]);
    let calls: [(&str, &[usize]); 3] = [
        ("vdprintf", &[number(p.fd), text, at(&list)]),
        ("__dprintf_chk", &[number(p.fd), 1, text]),
        ("__vdprintf_chk", &[number(p.fd), 1, text, at(&list)]),
    ];
    for (name, args) in calls {
        say!("{name} -> {}", show(int_by_name(name, args)));
        cx.peer(&format!("recvn {} 7", p.id));
        exchange(cx, p);
    }
}

/// A copy of one's own connection, by name (of a libc that has it) and by number.
fn pidfd_getfd(cx: &mut Cx) {
    let p = cx.warm();
    let by_number = |number: i64, args: [usize; 3]| {
        long_by_name("syscall", &[number as usize, args[0], args[1], args[2]])
    };
    let own = by_number(libc::SYS_pidfd_open, [std::process::id() as usize, 0, 0]).expect("a pidfd");
    let args = [own, number(p.fd), 0];
    let named = int_by_name("pidfd_getfd", &args).or_else(|_| by_number(libc::SYS_pidfd_getfd, args));
    for copy in [named, by_number(libc::SYS_pidfd_getfd, args)] {
        let copy = copy.expect("a copy") as Fd;
        cx.peer(&format!("send {} ping", p.id));
        let mut buf = [0u8; 9];
        let r = sys::read(copy, &mut buf);
        say!("read -> {}", got(r, &buf));
        say!("write -> {}", show(sys::write(copy, b"pong")));
        cx.peer(&format!("recv {} 9", p.id));
        say!("close -> {}", show(sys::close(copy)));
        exchange(cx, p);
    }
    say!("of nothing -> {}", show(by_number(libc::SYS_pidfd_getfd, [own, 4000, 0])));
}
