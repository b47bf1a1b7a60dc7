//! Connections that go back to TCP, by either end and at any moment: whoever waits at the other end goes on,
//! and every byte arrives.

use super::harness::{as_over_tcp, greet, hear, read_all, say};
use crate::program::Program;
use os::Errno;
use os::epoll::{Event, Op, bits};
use os::net::msg;
use os::poll::{PollFd, bits as poll};

const EDGE: u32 = 1 << 31;
const ONESHOT: u32 = 1 << 30;
const A_WHILE_NS: u64 = 20_000_000;
/// More than a ring and TCP's buffers take.
const MUCH: usize = 1_200_000;

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// Sends all of it without ever waiting in a send, `wait`ing for room.
fn send_by(program: &Program, fd: i32, all: &[u8], mut wait: impl FnMut()) {
    let mut sent = 0;
    while sent < all.len() {
        match program.send(fd, &all[sent..], msg::DONTWAIT) {
            Ok(count) => sent += count,
            Err(Errno::EAGAIN) => wait(),
            Err(errno) => panic!("send gave {errno:?}"),
        }
    }
}

/// Goes home after a while, and reads on: how much, and whether it is what was sent.
fn reads_from_home(program: &Program, fd: i32, seen: &mut Vec<String>) {
    greet(program, fd);
    program.nap(A_WHILE_NS);
    program.go_home(fd);
    program.nap(A_WHILE_NS);
    let (mut all, mut piece) = (vec![], vec![0; 50_000]);
    while let Ok(count @ 1..) = program.recv(fd, &mut piece, 0) {
        all.extend_from_slice(&piece[..count]);
    }
    seen.push(format!("{} {}", all.len(), all == bytes(MUCH)));
}

fn writes_by_set(program: &Program, fd: i32, flags: u32) {
    greet(program, fd);
    let set = program.epoll_create().unwrap();
    program.epoll_ctl(set, Op::Add, fd, bits::OUT | flags, 1).unwrap();
    send_by(program, fd, &bytes(MUCH), || {
        if flags == ONESHOT {
            program.epoll_ctl(set, Op::Mod, fd, bits::OUT | flags, 1).unwrap();
        }
        let mut events = [Event { events: 0, data: 0 }; 2];
        assert_eq!(program.epoll_wait(set, &mut events, None), Ok(1));
    });
}

#[test]
fn who_waits_for_room_by_a_set_is_told_of_room_on_tcp() {
    as_over_tcp(|program, fd| writes_by_set(&program, fd, 0), reads_from_home);
    as_over_tcp(|program, fd| writes_by_set(&program, fd, EDGE), reads_from_home);
    as_over_tcp(|program, fd| writes_by_set(&program, fd, ONESHOT), reads_from_home);
}

#[test]
fn who_waits_for_room_by_poll_is_told_of_room_on_tcp() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            send_by(&program, fd, &bytes(MUCH), || {
                let mut fds = [PollFd { fd, events: poll::OUT, revents: 0 }];
                assert_eq!(program.poll(&mut fds, None), Ok(1));
            });
        },
        reads_from_home,
    );
}

#[test]
fn a_blocked_write_goes_on_over_tcp_whoever_sends_it_there() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            assert_eq!(program.send(fd, &bytes(MUCH), 0), Ok(MUCH));
        },
        reads_from_home,
    );
}

#[test]
fn a_read_of_all_gets_the_rest_from_tcp() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            say(&program, fd, "from the ring, ");
            program.nap(A_WHILE_NS);
            program.go_home(fd);
            say(&program, fd, "from TCP");
            hear(&program, fd, "heard");
        },
        |program, fd, seen| {
            greet(program, fd);
            let mut all = [0; 23];
            assert_eq!(program.recv(fd, &mut all, msg::WAITALL), Ok(23));
            assert_eq!(&all, b"from the ring, from TCP");
            say(program, fd, "heard");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn both_may_go_at_once_with_bytes_unread_at_both() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            say(&program, fd, "early");
            program.go_home(fd);
            say(&program, fd, " and late");
            hear(&program, fd, "the same");
        },
        |program, fd, seen| {
            greet(program, fd);
            say(program, fd, "the ");
            program.go_home(fd);
            say(program, fd, "same");
            read_all(program, fd, seen);
        },
    );
}

/// What its parent has asked of a set since the fork, the child does not know.
#[test]
fn a_child_that_goes_home_leaves_its_parents_question_standing() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            let set = program.epoll_create().unwrap();
            let mut events = [Event { events: 0, data: 0 }; 2];
            program.epoll_ctl(set, Op::Add, fd, bits::IN | ONESHOT, 1).unwrap();
            say(&program, fd, "first");
            assert_eq!(program.epoll_wait(set, &mut events, None), Ok(1));
            hear(&program, fd, "first");
            let child = program.fork(move |child| {
                child.nap(A_WHILE_NS / 100);
                child.go_home(fd);
                child.nap(A_WHILE_NS / 100);
                child.close(fd).unwrap();
            });
            program.epoll_ctl(set, Op::Mod, fd, bits::IN | ONESHOT, 2).unwrap();
            say(&program, fd, "again");
            assert_eq!(program.epoll_wait(set, &mut events, None), Ok(1));
            hear(&program, fd, "again");
            program.await_end(child);
        },
        |program, fd, seen| {
            greet(program, fd);
            hear(program, fd, "first");
            say(program, fd, "first");
            hear(program, fd, "again");
            program.nap(A_WHILE_NS);
            say(program, fd, "again");
            read_all(program, fd, seen);
        },
    );
}
