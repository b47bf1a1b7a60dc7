//! Pointers that point to nothing: EFAULT from every call, as from the kernel, and nothing sent, received or
//! lost. And what calls by number write where a pointer says.

use crate::context::{Case, Cx, got, say, until_queued, until_ready};
use isthmus_tests::sys::{self, Fd, call, show};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

pub(crate) const CASES: &[Case] = &[
    case("pointers.buffers", buffers),
    case("pointers.thrown_away", thrown_away),
    case("pointers.after_our_end", after_our_end),
    case("pointers.messages", messages),
    case("pointers.addresses", addresses),
    case("pointers.sets", sets),
    case("pointers.epoll", epoll),
    case("pointers.limits", limits),
    case("pointers.time_that_is_left", time_that_is_left),
    case("pointers.options", options),
    case("pointers.credentials", credentials),
    case("pointers.fast_opening", fast_opening),
    case("pointers.read_only", read_only),
    case("pointers.longer_than_the_address_space", longer_than_all),
];

/// Every bad address with its name; `buffer` leaves out those that only a look at the page tells.
fn each(buffer: bool, mut act: impl FnMut(&str, usize)) {
    for (name, at, is_told) in sys::nowhere() {
        if is_told || !buffer {
            act(name, at);
        }
    }
}

fn at<T>(value: &T) -> usize {
    std::ptr::from_ref(value).addr()
}

/// A connection with five bytes waiting.
fn loaded(cx: &mut Cx) -> Fd {
    let fd = cx.warm().fd;
    cx.peer("send 0 hello");
    until_queued(fd, 5);
    fd
}

/// The five bytes are still there, and the other end got nothing but what is sent now.
fn unhurt(cx: &mut Cx, fd: Fd) {
    let mut buf = [0u8; 9];
    let r = sys::recv(fd, &mut buf, libc::MSG_DONTWAIT);
    say!("read -> {}", got(r, &buf));
    say!("write -> {}", show(sys::write(fd, b"after")));
    cx.peer("recv 0 9");
}

fn buffers(cx: &mut Cx) {
    let fd = loaded(cx);
    let f = fd as usize;
    each(true, |name, bad| {
        for (what, number) in [("read", libc::SYS_read), ("write", libc::SYS_write)] {
            say!("{what} {name} -> {}", show(call(number, [f, bad, 4, 0, 0, 0])));
            // (Of an address beyond the user's half the file layer says so, whatever the length.)
            say!("{what} nothing {name} -> {}", show(call(number, [f, bad, 0, 0, 0, 0])));
        }
        say!("recv {name} -> {}", show(call(libc::SYS_recvfrom, [f, bad, 4, 0, 0, 0])));
        say!("peek {name} -> {}", show(call(libc::SYS_recvfrom, [f, bad, 4, libc::MSG_PEEK as usize, 0, 0])));
        say!("send {name} -> {}", show(call(libc::SYS_sendto, [f, bad, 4, 0, 0, 0])));
        say!("send nothing {name} -> {}", show(call(libc::SYS_sendto, [f, bad, 0, 0, 0, 0])));
        let nothing = [[bad, 0]];
        say!("readv nothing {name} -> {}", show(call(libc::SYS_readv, [f, at(&nothing), 1, 0, 0, 0])));
        say!("writev nothing {name} -> {}", show(call(libc::SYS_writev, [f, at(&nothing), 1, 0, 0, 0])));
        let room = [0u8; 2];
        let parts = [[at(&room), 2], [bad, 4]];
        say!("readv {name} -> {}", show(call(libc::SYS_readv, [f, at(&parts), 2, 0, 0, 0])));
        say!("writev {name} -> {}", show(call(libc::SYS_writev, [f, at(&parts), 2, 0, 0, 0])));
        let parts = [[bad, 0], [bad, 4]];
        say!("readv at once {name} -> {}", show(call(libc::SYS_readv, [f, at(&parts), 2, 0, 0, 0])));
    });
    unhurt(cx, fd);
    each(true, |name, bad| {
        let flags = libc::MSG_DONTWAIT as usize;
        say!("empty {name} -> {}", show(call(libc::SYS_recvfrom, [fd as usize, bad, 4, flags, 0, 0])));
    });
    cx.peer("close 0");
    let end = show(sys::read(fd, &mut [0; 4]));
    each(true, |name, bad| {
        say!(
            "after the end ({end}) {name} -> {}",
            show(call(libc::SYS_read, [fd as usize, bad, 4, 0, 0, 0]))
        );
    });
}

/// A list of one buffer is cut to what one call moves before the kernel looks where it ends; of longer lists
/// every entry is looked at first.
fn longer_than_all(cx: &mut Cx) {
    let fd = loaded(cx);
    let (f, room) = (fd as usize, vec![0u8; 16]);
    for len in [1usize << 46, 1 << 62, usize::MAX] {
        let parts = [[at(&room[0]), len], [at(&room[0]), 1]];
        let told = |number, count| show(call(number, [f, at(&parts), count, 0, 0, 0]));
        say!("readv two of {len:#x} -> {}", told(libc::SYS_readv, 2));
        say!("readv one of {len:#x} -> {}", told(libc::SYS_readv, 1));
        cx.ask("send 0 hello");
        until_queued(fd, 5);
    }
    say!("bytes {:?}", &room[..6]);
    // (On the stack, with less than one call's bytes behind it.)
    let stack = [0u8; 16];
    for len in [1usize << 46, usize::MAX] {
        let parts = [[at(&stack[0]), len]];
        say!("writev of {len:#x} -> {}", show(call(libc::SYS_writev, [f, at(&parts), 1, 0, 0, 0])));
        say!("write of {len:#x} -> {}", show(call(libc::SYS_write, [f, at(&stack[0]), len, 0, 0, 0])));
    }
    unhurt(cx, fd);
}

/// With MSG_TRUNC nothing is copied, so only an address is looked at that cannot be anybody's.
fn thrown_away(cx: &mut Cx) {
    let fd = cx.warm().fd;
    each(true, |name, bad| {
        cx.ask("send 0 hello");
        until_queued(fd, 5);
        let flags = (libc::MSG_TRUNC | libc::MSG_DONTWAIT) as usize;
        say!("recv {name} -> {}", show(call(libc::SYS_recvfrom, [fd as usize, bad, 4, flags, 0, 0])));
        say!("left {}", show(sys::recv(fd, &mut [0; 9], libc::MSG_DONTWAIT)));
    });
}

/// Such an address comes before what has become of the connection.
fn after_our_end(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::shutdown(fd, libc::SHUT_WR).expect("shutdown");
    let parts = |bad| [[bad, 4usize]];
    each(true, |name, bad| {
        let flags = libc::MSG_NOSIGNAL as usize;
        say!("send {name} -> {}", show(call(libc::SYS_sendto, [fd as usize, bad, 4, flags, 0, 0])));
        let list = parts(bad);
        let flags = 0x100;
        let written = call(libc::SYS_pwritev2, [fd as usize, at(&list), 1, usize::MAX, usize::MAX, flags]);
        say!("pwritev2 {name} -> {}", show(written));
    });
}

fn messages(cx: &mut Cx) {
    let fd = loaded(cx);
    let f = fd as usize;
    each(false, |name, bad| {
        for (what, number) in [("recvmsg", libc::SYS_recvmsg), ("sendmsg", libc::SYS_sendmsg)] {
            say!("{what} {name} -> {}", show(call(number, [f, bad, 0, 0, 0, 0])));
            let header = [0, 0, bad, 1, 0, 0, 0];
            say!("{what} parts {name} -> {}", show(call(number, [f, at(&header), 0, 0, 0, 0])));
        }
        for (what, number) in [("readv", libc::SYS_readv), ("writev", libc::SYS_writev)] {
            say!("{what} {name} -> {}", show(call(number, [f, bad, 1, 0, 0, 0])));
        }
        say!("recvmmsg {name} -> {}", show(call(libc::SYS_recvmmsg, [f, bad, 1, 0, 0, 0])));
        say!("sendmmsg {name} -> {}", show(call(libc::SYS_sendmmsg, [f, bad, 1, 0, 0, 0])));
    });
    unhurt(cx, fd);
}

fn addresses(cx: &mut Cx) {
    let fd = loaded(cx);
    let (f, byte) = (fd as usize, [7u8; 2]);
    each(false, |name, bad| {
        let c = sys::tcp(0);
        say!("connect {name} -> {}", show(call(libc::SYS_connect, [c as usize, bad, 16, 0, 0, 0])));
        say!("connect again {name} -> {}", show(call(libc::SYS_connect, [f, bad, 16, 0, 0, 0])));
        sys::close(c).expect("close");
        if bad != 0 {
            say!("sendto {name} -> {}", show(call(libc::SYS_sendto, [f, at(&byte), 1, 0, bad, 16])));
        }
        say!("sendto long {name} -> {}", show(call(libc::SYS_sendto, [f, at(&byte), 0, 0, bad | 1, 129])));
    });
    unhurt(cx, fd);
    let room = [0u8; 128];
    each(false, |name, bad| {
        cx.peer("send 0 x");
        until_queued(fd, 1);
        // Taken by the time the kernel sees where the length should go.
        let args = [f, at(&byte), 1, 0, at(&room), bad];
        say!("recvfrom {name} -> {}", show(call(libc::SYS_recvfrom, args)));
        say!("queued {}", sys::queued(fd));
    });
}

fn sets(cx: &mut Cx) {
    let fd = loaded(cx);
    let entry = [0x1_0000_0000u64 | fd as u64];
    let bits = [1u64 << fd; 16];
    each(false, |name, bad| {
        say!("poll {name} -> {}", show(call(libc::SYS_ppoll, [bad, 1, 0, 0, 8, 0])));
        if bad != 0 {
            say!("time {name} -> {}", show(call(libc::SYS_ppoll, [at(&entry), 1, bad, 0, 8, 0])));
            say!("mask {name} -> {}", show(call(libc::SYS_ppoll, [at(&entry), 1, 0, bad, 8, 0])));
            let set = [fd as usize + 1, bad, 0, 0, 0, 0];
            say!("select {name} -> {}", show(call(libc::SYS_pselect6, set)));
            let time = [fd as usize + 1, at(&bits), 0, 0, bad, 0];
            say!("its time {name} -> {}", show(call(libc::SYS_pselect6, time)));
            let pair = [bad, 8];
            let mask = [fd as usize + 1, at(&bits), 0, 0, 0, at(&pair)];
            say!("its mask {name} -> {}", show(call(libc::SYS_pselect6, mask)));
            let mask = [fd as usize + 1, at(&bits), 0, 0, 0, bad];
            say!("where its mask is {name} -> {}", show(call(libc::SYS_pselect6, mask)));
        }
    });
    unhurt(cx, fd);
}

fn epoll(cx: &mut Cx) {
    let fd = loaded(cx);
    let ep = sys::epoll();
    let (e, f) = (ep as usize, fd as usize);
    let room = [0u8; 48];
    each(false, |name, bad| {
        say!("add {name} -> {}", show(call(libc::SYS_epoll_ctl, [e, 1, f, bad, 0, 0])));
    });
    say!("add -> {}", show(sys::ep_add(ep, fd, libc::EPOLLIN, 1)));
    each(false, |name, bad| {
        say!("change {name} -> {}", show(call(libc::SYS_epoll_ctl, [e, 3, f, bad, 0, 0])));
        say!("wait {name} -> {}", show(call(libc::SYS_epoll_pwait, [e, bad, 1, 100, 0, 8])));
        if bad != 0 {
            say!("mask {name} -> {}", show(call(libc::SYS_epoll_pwait, [e, at(&room), 1, 100, bad, 8])));
            say!("time {name} -> {}", show(call(libc::SYS_epoll_pwait2, [e, at(&room), 1, bad, 0, 8])));
        }
    });
    say!("wait -> {}", sys::ep_show(ep, 100));
    unhurt(cx, fd);
}

/// Time limits that there cannot be.
fn limits(cx: &mut Cx) {
    let fd = loaded(cx);
    let ep = sys::epoll();
    say!("add -> {}", show(sys::ep_add(ep, fd, libc::EPOLLIN, 1)));
    let (entry, bits, room) = ([0x1_0000_0000u64 | fd as u64], [1u64 << fd; 16], [0u8; 48]);
    for time in [[-1i64, 0], [0, -1], [0, 1_000_000_000], [i64::MIN, i64::MAX]] {
        let t = at(&time);
        say!("ppoll {time:?} -> {}", show(call(libc::SYS_ppoll, [at(&entry), 1, t, 0, 8, 0])));
        let set = [fd as usize + 1, at(&bits), 0, 0, t, 0];
        say!("pselect {time:?} -> {}", show(call(libc::SYS_pselect6, set)));
        let args = [ep as usize, at(&room), 1, t, 0, 8];
        say!("epoll_pwait2 {time:?} -> {}", show(call(libc::SYS_epoll_pwait2, args)));
        say!("recvmmsg {time:?} -> {}", show(call(libc::SYS_recvmmsg, [fd as usize, 0, 0, 0, t, 0])));
    }
    for time in [[-1i64, 0], [0, -1]] {
        let set = [fd as usize + 1, at(&bits), 0, 0, at(&time), 0];
        say!("select {time:?} -> {}", show(call(libc::SYS_select, set)));
    }
    unhurt(cx, fd);
}

/// By number the kernel tells what it has not slept, which libc's functions keep to themselves; and looks how
/// long a mask is.
fn time_that_is_left(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let (r, w) = sys::pipe(0);
    let no_mask = [0usize, 8];
    let wait = |what: &str, fd: i32, ms: i64| {
        let select = |number, per_unit: i64, mask: usize| {
            let (mut time, mut bits) = ([ms / 1000, ms % 1000 * per_unit], [0u64; 16]);
            bits[fd as usize / 64] = 1 << (fd % 64);
            let (t, b) = ((&raw mut time).expose_provenance(), (&raw mut bits).expose_provenance());
            let told = show(call(number, [fd as usize + 1, b, 0, 0, t, mask]));
            format!("{told} some is left {}", time != [0, 0])
        };
        let (mut time, mut entry) = ([ms / 1000, ms % 1000 * 1_000_000], [0x1_0000_0000u64 | fd as u64]);
        let (t, e) = ((&raw mut time).expose_provenance(), (&raw mut entry).expose_provenance());
        let told = show(call(libc::SYS_ppoll, [e, 1, t, 0, 8, 0]));
        say!("{what}: ppoll {told} some is left {}", time != [0, 0]);
        say!("{what}: pselect6 {}", select(libc::SYS_pselect6, 1_000_000, at(&no_mask)));
        say!("{what}: select {}", select(libc::SYS_select, 1000, 0));
    };
    wait("nothing there", fd, 30);
    wait("nothing in the pipe", r, 30);
    cx.peer("send 0 x");
    until_ready(fd, libc::POLLIN);
    wait("a byte", fd, 3000);
    say!("into the pipe -> {}", show(sys::write(w, b"x")));
    wait("a byte in the pipe", r, 3000);
    let (mask, entry, room) = ([0u64; 16], [0x1_0000_0000u64 | fd as u64], [0u8; 48]);
    let (m, ep) = (at(&mask), sys::epoll() as usize);
    for micros in [2_147_483_648i64, 3_000_000_000, -1] {
        say!("select for {micros} us {}", show(sys::select_for_micros(micros)));
    }
    for len in [0, 4, 16, 128] {
        let with_len = [m, len];
        let set = [fd as usize + 1, 0, 0, 0, 0, at(&with_len)];
        say!("a mask of {len}: ppoll {}", show(call(libc::SYS_ppoll, [at(&entry), 1, 0, m, len, 0])));
        say!("a mask of {len}: pselect6 {}", show(call(libc::SYS_pselect6, set)));
        say!("a mask of {len}: pwait {}", show(call(libc::SYS_epoll_pwait, [ep, at(&room), 1, 0, m, len])));
    }
}

fn options(cx: &mut Cx) {
    let fd = loaded(cx);
    let (l, _) = sys::listener();
    let file = sys::memfile(b"bytes of a file");
    let (tcp, deferral) = (libc::IPPROTO_TCP as usize, libc::TCP_DEFER_ACCEPT as usize);
    let len = 4u32;
    each(false, |name, bad| {
        for (what, request) in
            [("FIONREAD", libc::FIONREAD), ("SIOCOUTQ", libc::TIOCOUTQ), ("FIONBIO", libc::FIONBIO)]
        {
            let args = [fd as usize, request as usize, bad, 0, 0, 0];
            say!("{what} {name} -> {}", show(call(libc::SYS_ioctl, args)));
        }
        let args = [l as usize, tcp, deferral, bad, 4, 0];
        say!("setsockopt {name} -> {}", show(call(libc::SYS_setsockopt, args)));
        let args = [l as usize, tcp, deferral, bad, at(&len), 0];
        say!("getsockopt {name} -> {}", show(call(libc::SYS_getsockopt, args)));
        if bad != 0 {
            let args = [fd as usize, file as usize, bad, 4, 0, 0];
            say!("sendfile {name} -> {}", show(call(libc::SYS_sendfile, args)));
        }
    });
    unhurt(cx, fd);
}

/// What a process is to be from now on lies nowhere: it stays what it is.
fn credentials(cx: &mut Cx) {
    let fd = loaded(cx);
    // Version 3 of linux/capability.h, of this process.
    let header = [0x2008_0522u32, 0];
    each(false, |name, bad| {
        let calls = [
            ("capset", libc::SYS_capset, [at(&header), bad]),
            ("capset of whom", libc::SYS_capset, [bad, at(&header)]),
            ("setgroups", libc::SYS_setgroups, [2, bad]),
        ];
        for (what, number, [a, b]) in calls {
            say!("{what} {name} by number -> {}", show(call(number, [a, b, 0, 0, 0, 0])));
            let by_name = what.split(' ').next().expect("a name");
            say!("{what} {name} -> {}", show(sys::int_by_name(by_name, &[a, b])));
        }
    });
    say!("too many groups -> {}", show(sys::int_by_name("setgroups", &[1 << 40, at(&header)])));
    unhurt(cx, fd);
}

fn fast_opening(cx: &mut Cx) {
    let fd = loaded(cx);
    let (fresh, open) = (sys::tcp(0) as usize, libc::MSG_FASTOPEN as usize);
    let part = [at(b"data"), 4];
    each(false, |name, bad| {
        say!("sendmsg {name} -> {}", show(call(libc::SYS_sendmsg, [fresh, bad, open, 0, 0, 0])));
        let message = [bad, 16, at(&part), 1, 0, 0, 0];
        say!("to {name} -> {}", show(call(libc::SYS_sendmsg, [fresh, at(&message), open, 0, 0, 0])));
        say!("sendto {name} -> {}", show(call(libc::SYS_sendto, [fresh, part[0], 4, open, bad, 16])));
    });
    unhurt(cx, fd);
}

/// What the call would write to may only be read.
fn read_only(cx: &mut Cx) {
    let fd = loaded(cx);
    let (f, page) = (fd as usize, sys::read_only());
    let ep = sys::epoll();
    say!("add -> {}", show(sys::ep_add(ep, fd, libc::EPOLLIN, 1)));
    say!("FIONREAD -> {}", show(call(libc::SYS_ioctl, [f, libc::FIONREAD as usize, page, 0, 0, 0])));
    say!("epoll_wait -> {}", show(call(libc::SYS_epoll_pwait, [ep as usize, page, 1, 100, 0, 8])));
    let time = [0i64; 2];
    say!("set -> {}", show(call(libc::SYS_pselect6, [1, page, 0, 0, at(&time), 0])));
    unhurt(cx, fd);
}
