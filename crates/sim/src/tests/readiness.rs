//! Readiness: what poll and epoll report of a peer's steps is what they report over TCP, and nobody who
//! sleeps is forgotten.

use super::harness::{as_over_tcp, greet, hear, say};
use super::{PORT, Pattern, connect, listen};
use crate::program::{Program, simulate, spawn};
use os::Errno;
use os::epoll::{Event, Op, bits as watch};
use os::net::msg;
use os::poll::{PollFd, bits};

/// Sleeps until `events` are there; what is, without the differences of time.
fn poll_for(program: &Program, fd: i32, events: i16) -> i16 {
    let mut fds = [PollFd { fd, events, revents: 0 }];
    assert_eq!(program.poll(&mut fds, None), Ok(1));
    fds[0].revents
}

#[test]
fn poll_tells_bytes_an_end_and_a_reset() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            program.nap(10_000_000);
            say(&program, fd, "bytes");
            program.nap(10_000_000);
            program.shutdown(fd, 1).unwrap();
            hear(&program, fd, "answer");
            program.nap(10_000_000);
            program.reset_on_close(fd).unwrap();
            program.close(fd).unwrap();
        },
        |program, fd, seen| {
            greet(program, fd);
            seen.push(format!("{:x}", poll_for(program, fd, bits::IN | bits::RDHUP)));
            hear(program, fd, "bytes");
            seen.push(format!("{:x}", poll_for(program, fd, bits::IN | bits::RDHUP)));
            assert_eq!(program.recv(fd, &mut [0], 0), Ok(0));
            say(program, fd, "answer");
            seen.push(format!("{:x}", poll_for(program, fd, bits::PRI)));
            seen.push(format!("{:?}", program.send(fd, b"x", 0)));
            seen.push(format!("{:?}", program.send(fd, b"x", 0)));
        },
    );
}

#[test]
fn a_copy_of_a_number_keeps_a_connection() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            let copy = program.dup(fd).unwrap();
            program.close(fd).unwrap();
            say(&program, copy, "still ");
            program.dup2(copy, 40).unwrap();
            program.close(copy).unwrap();
            say(&program, 40, "there");
            program.set_nonblocking(40, true).unwrap();
            program.nap(10_000_000);
            hear(&program, 40, "answer");
            assert_eq!(program.recv(40, &mut [0], 0), Err(Errno::EAGAIN));
        },
        |program, fd, seen| {
            greet(program, fd);
            hear(program, fd, "still there");
            say(program, fd, "answer");
            seen.push(format!("{:?}", program.recv(fd, &mut [0; 9], 0)));
        },
    );
}

const TOTAL: u64 = 3 << 20;

/// Echoes what comes, without ever waiting but in epoll.
fn echo(program: &Program, fd: i32, flags: u32) {
    let set = program.epoll_create().unwrap();
    let wanted = watch::IN | watch::OUT | watch::RDHUP | flags;
    program.epoll_ctl(set, Op::Add, fd, wanted, 7).unwrap();
    let (mut kept, mut bytes) = (Vec::new(), vec![0; 50_000]);
    loop {
        let mut events = [Event { events: 0, data: 0 }; 4];
        assert_eq!(program.epoll_wait(set, &mut events, None), Ok(1));
        assert_eq!({ events[0].data }, 7);
        loop {
            let got = if kept.len() < 100_000 { program.recv(fd, &mut bytes, msg::DONTWAIT) } else { Ok(0) };
            if let Ok(got) = got {
                kept.extend(&bytes[..got]);
            }
            let sent = if kept.is_empty() { Ok(0) } else { program.send(fd, &kept, msg::DONTWAIT) };
            kept.drain(..sent.unwrap_or(0));
            if got == Ok(0) && kept.is_empty() {
                return;
            }
            if got.is_err() && (sent.is_err() || kept.is_empty()) || got == Ok(0) && sent.is_err() {
                break;
            }
        }
        let wanted = if kept.is_empty() { wanted & !watch::OUT } else { wanted };
        program.epoll_ctl(set, Op::Mod, fd, wanted, 7).unwrap();
    }
}

/// Sends and reads at once, by poll.
fn exchange(program: &Program, fd: i32) {
    let pattern = Pattern::get();
    let (mut sent, mut got, mut bytes) = (0, 0, vec![0; 70_000]);
    while got < TOTAL {
        let events = if sent < TOTAL { bits::IN | bits::OUT } else { bits::IN };
        let ready = poll_for(program, fd, events);
        if ready & bits::IN != 0 {
            let count = program.recv(fd, &mut bytes, 0).unwrap();
            assert!(count > 0 && bytes[..count] == *pattern.at(got, count), "wrong after {got}");
            got += count as u64;
        }
        if ready & bits::OUT != 0 {
            let len = 60_000.min(TOTAL - sent) as usize;
            sent += program.send(fd, pattern.at(sent, len), msg::DONTWAIT).unwrap_or(0) as u64;
        }
    }
    program.shutdown(fd, 1).unwrap();
    assert_eq!(program.recv(fd, &mut bytes, 0), Ok(0));
}

/// The kernel says of a socket that is not connected what it says of one that is over.
#[test]
fn what_was_said_before_a_connect_is_not_believed_after_it() {
    simulate(1, |machine| {
        spawn(machine, true, |program| {
            program.nap(20_000_000);
            let (fd, set) = (program.socket().unwrap(), program.epoll_create().unwrap());
            program.epoll_ctl(set, Op::Add, fd, watch::IN | watch::OUT, 7).unwrap();
            let mut events = [Event { events: 0, data: 0 }; 4];
            let mut is_connected = false;
            program.epoll_wait_and_meanwhile(set, &mut events, || {
                if !core::mem::replace(&mut is_connected, true) {
                    program.connect(fd, PORT).unwrap();
                    greet(&program, fd);
                }
            });
            assert!(is_connected);
            say(&program, fd, "more");
            hear(&program, fd, "and more");
            assert!(program.is_shared(fd));
        });
        spawn(machine, true, |program| {
            let listener = listen(&program);
            let fd = program.accept(listener, false).unwrap();
            greet(&program, fd);
            hear(&program, fd, "more");
            program.nap(20_000_000);
            say(&program, fd, "and more");
        });
    });
}

#[test]
fn an_echo_by_epoll_forgets_nobody() {
    for seed in 0..24 {
        let flags = [0, watch::ET, watch::ONESHOT, watch::ET | watch::ONESHOT][seed as usize % 4];
        simulate(seed, move |machine| {
            machine.world().once_in = [2, 9, 60][seed as usize % 3];
            spawn(machine, true, move |program| {
                let listener = listen(&program);
                let fd = program.accept(listener, true).unwrap();
                echo(&program, fd, flags);
            });
            spawn(machine, true, |program| exchange(&program, connect(&program)));
        });
    }
}
