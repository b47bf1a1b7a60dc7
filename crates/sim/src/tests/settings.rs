//! Options and requests: what is set at a socket works on what goes through memory as it does over TCP.

use super::harness::{as_over_tcp, greet, hear, read_all, say};
use super::{PORT, connect, listen};
use crate::program::{Program, simulate, spawn};
use os::Errno;
use os::net::{msg, opt};
use os::poll::{PollFd, bits};

fn peek(program: &Program, fd: i32, len: usize, flags: i32) -> String {
    let mut bytes = vec![0; len];
    match program.recv(fd, &mut bytes, msg::PEEK | flags) {
        Ok(count) => String::from_utf8_lossy(&bytes[..count]).into_owned(),
        Err(errno) => format!("{errno:?}"),
    }
}

#[test]
fn a_peek_leaves_what_it_shows_and_one_with_an_offset_goes_on() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            say(&program, fd, "0123456789");
            hear(&program, fd, "read");
            say(&program, fd, "abc");
        },
        |program, fd, seen| {
            greet(program, fd);
            seen.push(peek(program, fd, 10, msg::WAITALL));
            seen.push(peek(program, fd, 4, 0));
            program.set_option(fd, opt::SOL_SOCKET, opt::SO_PEEK_OFF, 0).unwrap();
            seen.push(peek(program, fd, 4, 0));
            seen.push(peek(program, fd, 4, 0));
            hear(program, fd, "012");
            seen.push(peek(program, fd, 4, 0));
            seen.push(peek(program, fd, 4, msg::DONTWAIT));
            program.set_option(fd, opt::SOL_SOCKET, opt::SO_PEEK_OFF, -1).unwrap();
            hear(program, fd, "3456789");
            say(program, fd, "read");
            hear(program, fd, "abc");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn who_wants_many_bytes_is_not_told_of_fewer() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            say(&program, fd, "1234");
            program.nap(10_000_000);
            say(&program, fd, "5678");
        },
        |program, fd, seen| {
            greet(program, fd);
            program.set_option(fd, opt::SOL_SOCKET, opt::SO_RCVLOWAT, 8).unwrap();
            let mut fds = [PollFd { fd, events: bits::IN, revents: 0 }];
            assert_eq!(program.poll(&mut fds, None), Ok(1));
            seen.push(format!("{:?}", program.readable_bytes(fd)));
            hear(program, fd, "12345678");
            program.set_option(fd, opt::SOL_SOCKET, opt::SO_RCVLOWAT, 1).unwrap();
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn what_is_printed_past_all_hooks_comes_behind_what_was_sent() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            say(&program, fd, "by send, ");
            program.print(fd, "by dprintf, ").unwrap();
            say(&program, fd, "by send again");
            hear(&program, fd, "an answer, and another");
        },
        |program, fd, seen| {
            greet(program, fd);
            hear(program, fd, "by send, ");
            hear(program, fd, "by dprintf, by send again");
            say(program, fd, "an answer");
            say(program, fd, ", and another");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn bytes_in_memory_and_bytes_on_tcp_are_counted_and_shown_together() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            say(&program, fd, "in memory ");
            program.print(fd, "on tcp").unwrap();
            hear(&program, fd, "seen");
        },
        |program, fd, seen| {
            greet(program, fd);
            program.nap(10_000_000);
            seen.push(format!("{:?}", program.readable_bytes(fd)));
            let mut fds = [PollFd { fd, events: bits::IN, revents: 0 }];
            assert_eq!(program.poll(&mut fds, None), Ok(1));
            hear(program, fd, "in memory ");
            assert_eq!(program.poll(&mut fds, None), Ok(1));
            seen.push(peek(program, fd, 6, 0));
            hear(program, fd, "on tcp");
            assert_eq!(program.recv(fd, &mut [0], msg::DONTWAIT), Err(Errno::EAGAIN));
            say(program, fd, "seen");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_send_with_nothing_and_a_read_without_room_do_nothing() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            assert_eq!(program.send(fd, &[], 0), Ok(0));
            say(&program, fd, "x");
            program.shutdown(fd, 1).unwrap();
            assert_eq!(program.send(fd, b"y", msg::NOSIGNAL), Err(Errno::EPIPE));
            assert_eq!(program.recv(fd, &mut [0], 0), Ok(0));
        },
        |program, fd, seen| {
            greet(program, fd);
            program.nap(10_000_000);
            assert_eq!(program.recv(fd, &mut [], 0), Ok(0));
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn signals_at_every_arrival_may_be_switched_on_and_off() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            program.set_signal_driven(fd, false).unwrap();
            program.set_signal_driven(fd, true).unwrap();
            program.nap(10_000_000);
            hear(&program, fd, "bytes");
            program.set_signal_driven(fd, true).unwrap();
            program.set_signal_driven(fd, false).unwrap();
            program.set_signal_driven(fd, true).unwrap();
        },
        |program, fd, seen| {
            greet(program, fd);
            say(program, fd, "bytes");
            read_all(program, fd, seen);
        },
    );
}

/// A server and a client that talk, and whether they do it in memory.
fn talk(
    is_shared: bool,
    before_listen: fn(&Program, i32),
    after_accept: fn(&Program, i32),
    before_connect: fn(&Program, i32),
) {
    for seed in 0..4 {
        simulate(seed, move |machine| {
            machine.world().once_in = [0, 2, 7, 30][seed as usize % 4];
            spawn(machine, true, move |program| {
                let listener = program.socket().unwrap();
                program.bind(listener, PORT).unwrap();
                before_listen(&program, listener);
                program.listen(listener, 4).unwrap();
                program.listen(listener, 8).unwrap();
                let fd = program.accept(listener, false).unwrap();
                after_accept(&program, fd);
                hear(&program, fd, "hello");
                say(&program, fd, "hello");
                assert_eq!(program.is_shared(fd), is_shared);
            });
            spawn(machine, true, move |program| {
                let fd = loop {
                    let fd = program.socket().unwrap();
                    before_connect(&program, fd);
                    match program.connect(fd, PORT) {
                        Ok(()) => break fd,
                        Err(_) => _ = program.close(fd).unwrap(),
                    }
                    program.nap(1_000_000);
                };
                say(&program, fd, "hello");
                hear(&program, fd, "hello");
                assert_eq!(program.is_shared(fd), is_shared);
            });
        });
    }
}

fn nothing(_: &Program, _: i32) {}

#[test]
fn a_deferral_is_remembered_and_keeps_nobody_waiting() {
    let defer = |program: &Program, fd: i32| {
        program.set_option(fd, opt::IPPROTO_TCP, opt::TCP_DEFER_ACCEPT, 3).unwrap();
    };
    talk(true, defer, nothing, nothing);
    for seed in 0..4 {
        simulate(seed, |machine| {
            spawn(machine, true, |program| {
                let listener = program.socket().unwrap();
                program.bind(listener, PORT).unwrap();
                let set = |seconds| {
                    program.set_option(listener, opt::IPPROTO_TCP, opt::TCP_DEFER_ACCEPT, seconds).unwrap();
                    program.option(listener, opt::IPPROTO_TCP, opt::TCP_DEFER_ACCEPT).unwrap()
                };
                assert_eq!(set(5), 5);
                program.listen(listener, 4).unwrap();
                // What the kernel makes of it: so many retransmissions.
                assert_eq!([0, 1, 2, 5, 10].map(set), [0, 1, 3, 7, 15]);
            });
        });
    }
}

#[test]
fn what_is_refused_at_any_end_stays_on_tcp_and_loses_nothing() {
    let keep_plain = |program: &Program, fd: i32| program.keep_plain(fd);
    talk(false, keep_plain, nothing, nothing);
    talk(false, nothing, |program, fd| program.refuse(fd), nothing);
    talk(false, nothing, nothing, keep_plain);
}

#[test]
fn a_client_may_take_its_offer_back_before_the_answer() {
    for seed in 0..24 {
        simulate(seed, move |machine| {
            machine.world().once_in = [0, 2, 7, 30][seed as usize % 4];
            spawn(machine, true, |program| {
                let listener = listen(&program);
                let fd = program.accept(listener, false).unwrap();
                hear(&program, fd, "early, and late");
                say(&program, fd, "answer");
            });
            spawn(machine, true, |program| {
                let fd = connect(&program);
                say(&program, fd, "early, ");
                program.refuse(fd);
                say(&program, fd, "and late");
                hear(&program, fd, "answer");
            });
        });
    }
}

#[test]
fn a_listen_that_fails_announces_nothing() {
    simulate(1, |machine| {
        spawn(machine, true, |program| {
            let listener = listen(&program);
            let fd = program.accept(listener, false).unwrap();
            hear(&program, fd, "hello");
        });
        spawn(machine, true, |program| {
            let fd = connect(&program);
            assert_eq!(program.listen(fd, 4), Err(Errno::EINVAL));
            say(&program, fd, "hello");
            let bound = program.socket().unwrap();
            program.bind(bound, 4200).unwrap();
            let other = program.socket().unwrap();
            assert_eq!(program.connect(other, 4200), Err(Errno(111)));
        });
    });
}
