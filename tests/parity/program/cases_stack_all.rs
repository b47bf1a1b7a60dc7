//! What each hook takes of the stack, called by its name with nothing around it: 2 KiB on the way of data and
//! of a small wait, 4 KiB anywhere else. What a call takes that sleeps, connects or answers a handshake is in
//! `cases_stack`.

use crate::context::{Case, Cx, say};
use isthmus_tests::sys::{self, Named};
use std::ffi::c_void;

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

pub(crate) const CASES: &[Case] = &[
    case("stack.data", data),
    case("stack.waits", waits),
    case("stack.waits_of_many", waits_of_many),
    case("stack.descriptors", descriptors),
];

const SMALL: usize = 2048;
const LARGE: usize = 4096;
/// What the caller here takes itself, and the painter.
const OWN: usize = 700;

type Calls<'a> = &'a [(&'a str, &'a [usize])];

/// Makes each call on a painted stack of its own.
fn all_within(bound: usize, calls: Calls<'_>) {
    for (name, args) in calls {
        let function = Named::find(name).expect("a hook");
        let mut result = 0;
        let taken = sys::depth_of(&mut || result = function.call(args));
        let verdict = if taken <= bound + OWN { "within bounds".into() } else { format!("{taken} bytes") };
        say!("{name}: {} {verdict}", result as i32);
    }
}

fn place<T: ?Sized>(of: &mut T) -> usize {
    std::ptr::from_mut(of).expose_provenance()
}

/// A buffer, an iovec of it, a message of that, and one in a row of messages.
struct Message {
    bytes: Box<[u8; 2]>,
    vector: Box<libc::iovec>,
    row: Box<libc::mmsghdr>,
}

impl Message {
    fn new() -> Message {
        let mut bytes = Box::new(*b"xy");
        let mut vector =
            Box::new(libc::iovec { iov_base: bytes.as_mut_ptr().cast::<c_void>(), iov_len: bytes.len() });
        let row = Box::new(sys::message_of(&mut vector));
        Message { bytes, vector, row }
    }

    fn addresses(&mut self) -> [usize; 3] {
        [place(&mut *self.bytes), place(&mut *self.vector), place(&mut *self.row)]
    }
}

/// 2 bytes there and back by each name.
fn data(cx: &mut Cx) {
    let p = cx.warm();
    let (fd, none, quiet) = (p.fd as usize, -1isize as usize, libc::MSG_NOSIGNAL as usize);
    let mut message = Message::new();
    let [bytes, vector, row] = message.addresses();
    cx.ask(&format!("send {} 0123456789012345678901234567890123456789", p.id));
    crate::context::until_queued(p.fd, 40);
    all_within(
        SMALL,
        &[
            ("read", &[fd, bytes, 2]),
            ("__read", &[fd, bytes, 2]),
            ("__read_chk", &[fd, bytes, 2, 2]),
            ("recv", &[fd, bytes, 2, 0]),
            ("__recv_chk", &[fd, bytes, 2, 2, 0]),
            ("recvfrom", &[fd, bytes, 2, 0, 0, 0]),
            ("__recvfrom_chk", &[fd, bytes, 2, 2, 0, 0, 0]),
            ("readv", &[fd, vector, 1]),
            ("preadv2", &[fd, vector, 1, none, 0]),
            ("preadv64v2", &[fd, vector, 1, none, 0]),
            ("recvmsg", &[fd, row, 0]),
        ],
    );
    let mut count = 0i32;
    all_within(SMALL, &[("ioctl", &[fd, libc::FIONREAD as usize, place(&mut count)])]);
    all_within(
        SMALL,
        &[
            ("write", &[fd, bytes, 2]),
            ("__write", &[fd, bytes, 2]),
            ("send", &[fd, bytes, 2, quiet]),
            ("__send", &[fd, bytes, 2, quiet]),
            ("sendto", &[fd, bytes, 2, quiet, 0, 0]),
            ("writev", &[fd, vector, 1]),
            ("pwritev2", &[fd, vector, 1, none, 0]),
            ("pwritev64v2", &[fd, vector, 1, none, 0]),
            ("sendmsg", &[fd, row, quiet]),
        ],
    );
    all_within(LARGE, &[("recvmmsg", &[fd, row, 1, 0, 0]), ("sendmmsg", &[fd, row, 1, quiet])]);
    cx.peer(&format!("recvn {} 20", p.id));
    say!("left {}", sys::queued(p.fd));
}

fn waits(cx: &mut Cx) {
    let p = cx.warm();
    let mut entry = libc::pollfd { fd: p.fd, events: libc::POLLIN, revents: 0 };
    let (mut none, mut set) = ([0i64; 2], [0u64; 16]);
    set[p.fd as usize / 64] |= 1 << (p.fd % 64);
    let (entry, none, numbers) = (place(&mut entry), place(&mut none), p.fd as usize + 1);
    all_within(
        SMALL,
        &[
            ("poll", &[entry, 1, 0]),
            ("__poll", &[entry, 1, 0]),
            ("__poll_chk", &[entry, 1, 0, 8]),
            ("ppoll", &[entry, 1, none, 0]),
            ("__ppoll_chk", &[entry, 1, none, 0, 8]),
        ],
    );
    for name in ["select", "__select", "pselect"] {
        let mut wanted = set;
        all_within(SMALL, &[(name, &[numbers, place(&mut wanted), 0, 0, none, 0])]);
    }
    let mut event = [1u64; 4];
    let (event, fd) = (place(&mut event), p.fd as usize);
    let ep = sys::epoll() as usize;
    all_within(
        LARGE,
        &[
            ("epoll_ctl", &[ep, libc::EPOLL_CTL_ADD as usize, fd, event]),
            ("epoll_wait", &[ep, event, 1, 0]),
            ("epoll_pwait", &[ep, event, 1, 0, 0]),
            ("epoll_pwait2", &[ep, event, 1, none, 0]),
        ],
    );
}

/// Forty connections that have something, in one set and one poll: told all at once, a few at a time, and
/// slept for.
fn waits_of_many(cx: &mut Cx) {
    let set = sys::epoll();
    let all: Vec<_> = (0..40).map(|_| cx.warm()).collect();
    for p in &all {
        sys::ep_add(set, p.fd, libc::EPOLLIN, p.fd as u64).expect("add");
        cx.ask(&format!("send {} x", p.id));
        crate::context::until_queued(p.fd, 1);
    }
    let mut events = vec![[0u64; 2]; 64];
    let mut entries: Vec<_> =
        all.iter().map(|p| libc::pollfd { fd: p.fd, events: libc::POLLIN, revents: 0 }).collect();
    let (ep, room, entry) = (set as usize, place(&mut *events), place(&mut *entries));
    let waits: Calls<'_> = &[
        ("epoll_wait", &[ep, room, 64, 0]),
        ("epoll_wait", &[ep, room, 12, 0]),
        ("epoll_wait", &[ep, room, 12, 5]),
        ("epoll_pwait", &[ep, room, 30, 5, 0]),
        ("poll", &[entry, 40, 5]),
    ];
    all_within(LARGE, waits);
    for p in &all {
        let mut buf = [0; 2];
        assert_eq!(sys::read(p.fd, &mut buf), Ok(1));
    }
    all_within(LARGE, waits);
}

fn descriptors(cx: &mut Cx) {
    let p = cx.warm();
    let (fd, mut value, mut len) = (p.fd as usize, 1i32, 4u32);
    let (value, len) = (place(&mut value), place(&mut len));
    let (level, nodelay) = (libc::IPPROTO_TCP as usize, libc::TCP_NODELAY as usize);
    let mut limit = [0u64; 2];
    let (kind, limit) = (libc::RLIMIT_NOFILE as usize, place(&mut limit));
    all_within(
        LARGE,
        &[
            ("setsockopt", &[fd, level, nodelay, value, 4]),
            ("getsockopt", &[fd, level, nodelay, value, len]),
            ("fcntl", &[fd, libc::F_GETFD as usize]),
            ("fcntl64", &[fd, libc::F_DUPFD as usize, 210]),
            ("__fcntl", &[fd, libc::F_DUPFD_CLOEXEC as usize, 211]),
            ("dup2", &[fd, 212]),
            ("__dup2", &[fd, 213]),
            ("dup3", &[fd, 214, 0]),
            ("close", &[210]),
            ("__close", &[211]),
            ("close_range", &[212, 214, 0]),
            ("prlimit64", &[0, kind, 0, limit]),
            ("setrlimit64", &[kind, limit]),
            ("shutdown", &[fd, libc::SHUT_WR as usize]),
            ("close", &[fd]),
        ],
    );
    cx.peer(&format!("recv {} 9", p.id));
    // Another one under the same number.
    let next = cx.warm();
    say!("next {}", next.fd == p.fd);
}
