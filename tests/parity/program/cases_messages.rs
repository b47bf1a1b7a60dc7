//! What TCP makes of messages: ancillary data, headers on return, several at once, flags of preadv2.

use crate::context::{Case, Cx, digest, got, say, until_queued};
use isthmus_tests::sys::{self, Fd, show};
use libc::{MSG_CMSG_CLOEXEC, MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, SOL_SOCKET};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

pub(crate) const CASES: &[Case] = &[
    case("messages.ancillary_data", ancillary_data),
    case("messages.header_on_return", header_on_return),
    case("messages.what_is_left", what_is_left),
    case("messages.time_limit_of_several", time_limit_of_several),
    Case { name: "messages.cut_short", shm: false, run: cut_short },
    case("messages.reset_behind_the_first", reset_behind_the_first),
    Case { name: "messages.flags_of_preadv2", shm: false, run: flags_of_preadv2 },
    case("messages.of_a_32_bit_program", of_a_32_bit_program),
    case("messages.gathered_come_whole", gathered_come_whole),
];

fn ancillary_data(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let kinds = [
        (SOL_SOCKET, libc::SCM_RIGHTS, 4),
        (SOL_SOCKET, libc::SCM_CREDENTIALS, 12),
        (SOL_SOCKET, 77, 4),
        (SOL_SOCKET, libc::SO_TIMESTAMPING, 4),
        (SOL_SOCKET, libc::SO_TIMESTAMPING, 8),
        (SOL_SOCKET, libc::SCM_TXTIME, 8),
        (libc::IPPROTO_TCP, 5, 4),
        (libc::IPPROTO_IP, libc::IP_TTL, 4),
    ];
    for kind in kinds {
        say!("{kind:?} -> {}", show(sys::sendmsg_with(fd, b"abc", kind)));
    }
    for (len, is_there) in [(64, true), (7, true), (1 << 40, true), (32, false)] {
        say!("zeros {len} {is_there} -> {}", show(sys::sendmsg_with_zeros(fd, b"de", len, is_there)));
    }
    for len in [-1, 16, 200] {
        say!("address of {len} -> {}", show(sys::sendmsg_to(fd, b"f", len)));
    }
    cx.peer("shut 0 2");
    say!("end of stream -> {}", show(sys::recv(fd, &mut [0; 9], 0)));
    say!("shutdown -> {}", show(sys::shutdown(fd, libc::SHUT_WR)));
    say!("refused before EPIPE -> {}", show(sys::sendmsg_with(fd, b"abc", kinds[2])));
    say!("taken, and EPIPE -> {}", show(sys::sendmsg_with(fd, b"abc", kinds[0])));
}

fn header_on_return(cx: &mut Cx) {
    let fd = cx.warm().fd;
    cx.peer("send 0 0123456789abcdefghijklmnop");
    until_queued(fd, 26);
    let mut buf = [0u8; 2];
    let flags = [0, MSG_CMSG_CLOEXEC, MSG_PEEK, MSG_TRUNC, MSG_PEEK | MSG_TRUNC, MSG_DONTWAIT];
    for flags in flags {
        let (r, out) = sys::recvmsg_from(fd, &mut buf, true, 128, flags);
        say!("flags {flags:x} -> {} {out:?}", show(r));
    }
    for (has_name, len) in [(false, 77), (false, -1), (true, 0), (true, 300), (true, -1)] {
        let (r, out) = sys::recvmsg_from(fd, &mut buf, has_name, len, 0);
        say!("address {has_name} of {len} -> {} {out:?}", show(r));
    }
    say!("left {}", sys::queued(fd));
}

/// TCP_INQ: each message tells how much is left.
fn what_is_left(cx: &mut Cx) {
    let fd = cx.warm().fd;
    cx.ask("send 0 0123456789");
    until_queued(fd, 10);
    say!("off -> {}", sys::recvmsg_left(fd, 2, 64, 0));
    say!("set -> {}", show(sys::setopt(fd, libc::IPPROTO_TCP, libc::TCP_INQ, 1)));
    for (len, room, flags) in [(2, 64, 0), (2, 64, MSG_PEEK), (1, 20, 0), (1, 18, 0), (1, 16, 0), (1, 4, 0)] {
        say!("{len} into {room} -> {}", sys::recvmsg_left(fd, len, room, flags));
    }
    cx.peer("shut 0 1");
    crate::context::until_ready(fd, libc::POLLRDHUP);
    (0..4).for_each(|_| say!("behind a FIN -> {}", sys::recvmsg_left(fd, 1, 64, 0)));
    say!("set -> {}", show(sys::setopt(fd, libc::IPPROTO_TCP, libc::TCP_INQ, 0)));
    say!("off -> {}", sys::recvmsg_left(fd, 1, 64, 0));
}

fn time_limit_of_several(cx: &mut Cx) {
    let fd = cx.warm().fd;
    for time in [[0, 0], [5, 0], [0, -1], [-1, 0]] {
        cx.ask("send 0 01234567");
        until_queued(fd, 8);
        let (r, lens, left) = sys::recvmmsg_within(fd, MSG_DONTWAIT, time);
        say!("{time:?} -> {} {lens:?} some time passed {}", show(r), left < time);
        let mut rest = [0; 9];
        let r = sys::recv(fd, &mut rest, MSG_DONTWAIT);
        say!("rest -> {}", got(r, &rest));
    }
    let (r, _, left) = sys::recvmmsg_within(fd, MSG_DONTWAIT, [5, 0]);
    say!("nothing there -> {} left {left:?}", show(r));
    // The limit is over when the second message is there, and ends nothing before.
    cx.ask("send 0 012");
    until_queued(fd, 3);
    cx.ask("later 150 send 0 345");
    let (r, lens, left) = sys::recvmmsg_within(fd, 0, [0, 50_000_000]);
    say!("over in between -> {} {lens:?} left {left:?}", show(r));
}

/// What follows a message that went out in part does not go out before its rest.
fn cut_short(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::nonblocking(fd, true);
    let long = vec![b'a'; 64 << 20];
    let (r, lens) = sys::sendmmsg(fd, &[&long, b"!", b"!"], 0);
    say!("sendmmsg -> {} in part {} then {:?}", show(r), (lens[0] as usize) < long.len(), &lens[1..]);
    cx.ask("later 1 discard 0");
}

fn reset_behind_the_first(cx: &mut Cx) {
    let p = cx.warm();
    cx.peer("send 0 012345");
    until_queued(p.fd, 6);
    let one = |fd: Fd| {
        let (mut a, mut b, mut c) = ([0; 6], [0; 6], [0; 6]);
        let (r, lens) = sys::recvmmsg(fd, &mut [&mut a, &mut b, &mut c], MSG_DONTWAIT, None);
        format!("{} {lens:?} {}", show(r), digest(&a))
    };
    say!("all that is there -> {}", one(p.fd));
    say!("write -> {}", show(sys::write(p.fd, b"unread")));
    cx.peer("close 0");
    crate::context::until_ready(p.fd, libc::POLLERR);
    say!("reset -> {}", one(p.fd));
    say!("then -> {}", one(p.fd));
    say!("error {}", sys::so_error(p.fd));
}

fn flags_of_preadv2(cx: &mut Cx) {
    let fd = cx.warm().fd;
    let mut buf = [0u8; 4];
    for bit in [0, 1, 2, 3, 4, 5, 6, 7, 9, 30] {
        let flags = 1 << bit;
        cx.ask("send 0 abcd");
        until_queued(fd, 4);
        let read = sys::preadv2(fd, &mut [&mut buf], -1, flags);
        if read.is_err() {
            sys::recv(fd, &mut buf, 0).expect("what preadv2 did not take");
        }
        say!(
            "flag {bit}: preadv2 {} pwritev2 {}",
            show(read),
            show(sys::pwritev2(fd, &[b"abcd"], -1, flags))
        );
    }
    const RWF_NOWAIT: i32 = 8;
    say!("nothing there -> {}", show(sys::preadv2(fd, &mut [&mut buf], -1, RWF_NOWAIT)));
    say!("nothing wanted -> {}", show(sys::preadv2(fd, &mut [&mut []], -1, 1 << 30)));
    say!("at an offset -> {}", show(sys::preadv2(fd, &mut [&mut buf], 0, RWF_NOWAIT)));
    say!("at no offset -> {}", show(sys::preadv2(fd, &mut [&mut buf], -2, 0)));
    cx.peer("queued 0");
    let block = [0u8; 65536];
    let full = (0..10_000).find_map(|_| sys::pwritev2(fd, &[&block], -1, RWF_NOWAIT).err());
    say!("full -> {full:?}");
}

/// MSG_CMSG_COMPAT is the kernel's own: calls with a header refuse it, others know nothing of it.
fn of_a_32_bit_program(cx: &mut Cx) {
    let p = cx.warm();
    cx.ask("send 0 hello");
    until_queued(p.fd, 5);
    let mut bytes = *b"abcd";
    let parts = [bytes.as_mut_ptr().addr(), 4];
    // struct msghdr, and the length of struct mmsghdr.
    let mut header = [0, 0, std::ptr::from_ref(&parts).addr(), 1, 0, 0, 0, 0];
    let at = header.as_mut_ptr().addr();
    let compat = 1usize << 31 | MSG_DONTWAIT as usize;
    for (name, number, args) in [
        ("sendmsg", libc::SYS_sendmsg, [at, compat, 0, 0]),
        ("recvmsg", libc::SYS_recvmsg, [at, compat, 0, 0]),
        ("sendmmsg", libc::SYS_sendmmsg, [at, 1, compat, 0]),
        ("sendmmsg of none", libc::SYS_sendmmsg, [at, 0, compat, 0]),
        ("recvmmsg", libc::SYS_recvmmsg, [at, 1, compat, 0]),
        ("recvfrom", libc::SYS_recvfrom, [parts[0], 4, compat, 0]),
        ("sendto", libc::SYS_sendto, [parts[0], 4, compat, 0]),
    ] {
        let [first, second, third, fourth] = args;
        say!("{name} -> {}", show(sys::call(number, [p.fd as usize, first, second, third, fourth, 0])));
    }
    cx.peer("recv 0 9");
}

/// A reader that waits sees all of a write, whatever pieces the program has it in, or nothing yet.
fn gathered_come_whole(cx: &mut Cx) {
    let p = cx.warm();
    let (head, tail) = ([b'h'; 79], *b"tails");
    let pieces = (0..300).filter(|round| {
        cx.tell(&format!("recv {} 200", p.id));
        // (Now it sleeps, now it looks.)
        std::thread::sleep(std::time::Duration::from_micros(round % 3 * 300));
        assert_eq!(sys::writev(p.fd, &[&head, &tail]), Ok(84));
        let is_cut = !cx.answer().starts_with("84 ");
        if is_cut {
            cx.ask(&format!("recv {} 200", p.id));
        }
        is_cut
    });
    say!("{} of 300 came in pieces", pieces.count());
}
