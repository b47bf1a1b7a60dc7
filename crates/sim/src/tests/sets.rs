//! epoll sets: what they report of a connection in memory, in whichever way it came into them, is what they
//! report of one over TCP.

use super::harness::{as_over_tcp, greet, hear, read_all, read_some, say};
use super::{PORT, connect, listen};
use crate::program::{Program, simulate, spawn};
use os::Errno;
use os::epoll::{Event, Op, bits};
use os::net::msg;

const A_WHILE_NS: u64 = 20_000_000;
const EXCLUSIVE: u32 = 1 << 28;

/// The program's data and the events of what a set reports within a while.
fn reported(program: &Program, set: i32) -> Vec<(u64, u32)> {
    let mut events = [Event { events: 0, data: 0 }; 4];
    let count = program.epoll_wait(set, &mut events, Some(2 * A_WHILE_NS)).unwrap();
    events[..count].iter().map(|event| (event.data, event.events)).collect()
}

fn ctl(program: &Program, set: i32, op: Op, fd: i32, events: u32, data: u64) -> usize {
    program.epoll_ctl(set, op, fd, events, data).unwrap()
}

#[test]
fn what_is_taken_out_of_a_set_is_silent_until_it_is_put_in_again() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            let set = program.epoll_create().unwrap();
            ctl(&program, set, Op::Add, fd, bits::IN, 1);
            say(&program, fd, "one");
            assert_eq!(reported(&program, set), [(1, bits::IN)]);
            ctl(&program, set, Op::Del, fd, 0, 0);
            assert_eq!(program.epoll_ctl(set, Op::Del, fd, 0, 0), Err(Errno::ENOENT));
            assert_eq!(program.epoll_ctl(set, Op::Mod, fd, bits::IN, 1), Err(Errno::ENOENT));
            assert_eq!(reported(&program, set), []);
            ctl(&program, set, Op::Add, fd, bits::IN | bits::OUT, 2);
            assert_eq!(program.epoll_ctl(set, Op::Add, fd, bits::IN, 1), Err(Errno::EEXIST));
            assert_eq!(reported(&program, set), [(2, bits::IN | bits::OUT)]);
            hear(&program, fd, "answer");
            assert_eq!(reported(&program, set), [(2, bits::OUT)]);
            ctl(&program, set, Op::Mod, fd, bits::IN, 3);
            assert_eq!(reported(&program, set), []);
            say(&program, fd, "two");
            assert_eq!(reported(&program, set), [(3, bits::IN)]);
            ctl(&program, set, Op::Mod, fd, 0, 4);
            assert_eq!(reported(&program, set), []);
        },
        |program, fd, seen| {
            greet(program, fd);
            hear(program, fd, "one");
            say(program, fd, "answer");
            hear(program, fd, "two");
            say(program, fd, "more");
            program.nap(10 * A_WHILE_NS);
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_bad_set_is_refused_as_the_kernel_refuses_it() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            let errors = [99, fd].map(|set| program.epoll_ctl(set, Op::Add, fd, bits::IN, 1));
            assert_eq!(errors, [Err(Errno::EBADF), Err(Errno::EINVAL)]);
            let set = program.epoll_create().unwrap();
            assert_eq!(program.epoll_ctl(set, Op::Mod, fd, bits::IN, 1), Err(Errno::ENOENT));
            ctl(&program, set, Op::Add, fd, bits::IN, 1);
            hear(&program, fd, "answer");
        },
        |program, fd, seen| {
            greet(program, fd);
            say(program, fd, "answer");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_set_that_is_closed_and_made_anew_reports_what_is_put_in() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            for data in 0..4 {
                let set = program.epoll_create().unwrap();
                ctl(&program, set, Op::Add, fd, bits::IN | bits::RDHUP, data);
                say(&program, fd, "go on");
                assert_eq!(reported(&program, set), [(data, bits::IN)]);
                hear(&program, fd, "x");
                program.close(set).unwrap();
            }
        },
        |program, fd, seen| {
            greet(program, fd);
            for _ in 0..4 {
                hear(program, fd, "go on");
                say(program, fd, "x");
            }
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_set_within_a_set_and_a_copy_of_a_set_tell_the_same() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            let (inner, outer) = (program.epoll_create().unwrap(), program.epoll_create().unwrap());
            ctl(&program, outer, Op::Add, inner, bits::IN, 7);
            ctl(&program, inner, Op::Add, fd, bits::IN, 1);
            let copy = program.dup(inner).unwrap();
            say(&program, fd, "go on");
            assert_eq!(reported(&program, outer), [(7, bits::IN)]);
            assert_eq!(reported(&program, copy), [(1, bits::IN)]);
            program.close(inner).unwrap();
            hear(&program, fd, "first");
            say(&program, fd, "go on");
            assert_eq!(reported(&program, copy), [(1, bits::IN)]);
            hear(&program, fd, "second");
        },
        |program, fd, seen| {
            greet(program, fd);
            hear(program, fd, "go on");
            program.nap(A_WHILE_NS / 2);
            say(program, fd, "first");
            hear(program, fd, "go on");
            say(program, fd, "second");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn two_numbers_of_a_connection_in_a_set_are_told_both() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            let set = program.epoll_create().unwrap();
            ctl(&program, set, Op::Add, fd, bits::IN, 1);
            let copy = program.dup(fd).unwrap();
            ctl(&program, set, Op::Add, copy, bits::IN, 2);
            say(&program, fd, "go on");
            let mut told = reported(&program, set);
            told.extend(reported(&program, set));
            for data in [1, 2] {
                assert!(told.contains(&(data, bits::IN)), "{told:?}");
            }
            program.epoll_ctl(set, Op::Del, copy, 0, 0).unwrap();
            program.close(copy).unwrap();
            assert_eq!(reported(&program, set), [(1, bits::IN)]);
            hear(&program, fd, "bytes");
        },
        |program, fd, seen| {
            greet(program, fd);
            hear(program, fd, "go on");
            say(program, fd, "bytes");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn an_exclusive_registration_tells_bytes_and_the_end() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            let set = program.epoll_create().unwrap();
            ctl(&program, set, Op::Add, fd, bits::IN | EXCLUSIVE, 1);
            say(&program, fd, "go on");
            assert_eq!(reported(&program, set), [(1, bits::IN)]);
            hear(&program, fd, "bytes");
            say(&program, fd, "end");
            assert_eq!(reported(&program, set), [(1, bits::IN)]);
            assert_eq!(read_some(&program, fd), "");
        },
        |program, fd, seen| {
            greet(program, fd);
            hear(program, fd, "go on");
            say(program, fd, "bytes");
            hear(program, fd, "end");
            program.shutdown(fd, 1).unwrap();
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_child_serves_the_set_of_its_parent() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            let set = program.epoll_create().unwrap();
            ctl(&program, set, Op::Add, fd, bits::IN, 1);
            ctl(&program, set, Op::Mod, fd, bits::IN | bits::OUT, 2);
            ctl(&program, set, Op::Mod, fd, bits::IN, 3);
            let child = program.fork(move |child| {
                say(&child, fd, "go on");
                assert_eq!(reported(&child, set), [(3, bits::IN)]);
                hear(&child, fd, "bytes");
                child.close(fd).unwrap();
            });
            program.await_end(child);
            say(&program, fd, "go on");
            assert_eq!(reported(&program, set), [(3, bits::IN)]);
            hear(&program, fd, "bytes");
        },
        |program, fd, seen| {
            greet(program, fd);
            for _ in 0..2 {
                hear(program, fd, "go on");
                say(program, fd, "bytes");
            }
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn threads_that_take_turns_on_a_set_get_every_byte() {
    for seed in 0..24 {
        take_turns(seed, None);
    }
}

/// What one of them asks while another one makes the records the kernel's own stands.
#[test]
fn threads_that_take_turns_get_every_byte_of_a_connection_that_goes_home() {
    for seed in 0..400 {
        take_turns(seed, Some(seed * 7919 % 400_000));
    }
}

/// `home`: after so many nanoseconds another thread takes the connection back to TCP.
fn take_turns(seed: u64, home: Option<u64>) {
    let flags = [bits::ONESHOT, bits::ET | bits::ONESHOT][seed as usize % 2];
    simulate(seed, move |machine| {
        machine.world().once_in = [2, 9, 60][seed as usize % 3];
        spawn(machine, true, move |program| {
            let listener = listen(&program);
            let fd = program.accept(listener, true).unwrap();
            let set = program.epoll_create().unwrap();
            ctl(&program, set, Op::Add, fd, bits::IN | flags, 7);
            let serve = move |program: Program| serve_in_turn(&program, set, fd, flags);
            let others = [(); 2].map(|()| program.thread(serve));
            let disturber = home.map(|ns| {
                program.thread(move |program| {
                    program.nap(ns);
                    program.go_home(fd);
                })
            });
            serve(program);
            disturber.into_iter().for_each(|thread| program.join(thread));
            others.into_iter().for_each(|thread| program.join(thread));
        });
        spawn(machine, true, |program| {
            let fd = connect(&program);
            for round in 0..60 {
                let text = format!("request {round}");
                say(&program, fd, &text);
                hear(&program, fd, &text);
            }
            program.shutdown(fd, 1).unwrap();
            assert_eq!(read_some(&program, fd), "");
        });
    });
}

/// Waits, reads all, answers, and asks again; the end of the stream is passed on to the next thread.
fn serve_in_turn(program: &Program, set: i32, fd: i32, flags: u32) {
    loop {
        let mut events = [Event { events: 0, data: 0 }; 4];
        assert_eq!(program.epoll_wait(set, &mut events, None), Ok(1));
        let mut bytes = [0; 64];
        loop {
            match program.recv(fd, &mut bytes, msg::DONTWAIT) {
                Ok(0) => {
                    ctl(program, set, Op::Mod, fd, bits::IN | flags, 7);
                    let _ = program.shutdown(fd, 1);
                    return;
                }
                Ok(count) => assert_eq!(program.send(fd, &bytes[..count], 0), Ok(count)),
                Err(_) => break,
            }
        }
        ctl(program, set, Op::Mod, fd, bits::IN | flags, 7);
    }
}

#[test]
fn a_socket_in_a_set_before_it_is_connected_is_told_from_then_on() {
    for seed in 0..24 {
        simulate(seed, move |machine| {
            machine.world().once_in = [0, 2, 7, 30][seed as usize % 4];
            spawn(machine, true, |program| {
                let listener = listen(&program);
                let fd = program.accept(listener, false).unwrap();
                hear(&program, fd, "hello");
                program.nap(A_WHILE_NS);
                say(&program, fd, "hello");
            });
            spawn(machine, true, move |program| {
                program.nap(A_WHILE_NS);
                let (fd, set) = (program.socket().unwrap(), program.epoll_create().unwrap());
                let flags = [0, bits::ET][seed as usize % 2];
                ctl(&program, set, Op::Add, fd, bits::IN | bits::OUT | flags, 1);
                assert_eq!(reported(&program, set), [(1, bits::OUT | bits::HUP)]);
                program.set_nonblocking(fd, true).unwrap();
                let begun = program.connect(fd, PORT);
                assert_eq!(begun, Err(Errno::EINPROGRESS));
                assert_eq!(reported(&program, set), [(1, bits::OUT)]);
                assert_eq!(program.take_error(fd), Ok(Errno(0)));
                say(&program, fd, "hello");
                ctl(&program, set, Op::Mod, fd, bits::IN | flags, 2);
                assert_eq!(reported(&program, set), [(2, bits::IN)]);
                hear(&program, fd, "hello");
                assert!(program.is_shared(fd));
            });
        });
    }
}

#[test]
fn a_listener_and_a_socket_that_stays_on_tcp_are_told_of_by_a_set_that_had_them_before() {
    simulate(5, |machine| {
        spawn(machine, true, |program| {
            let (listener, set) = (program.socket().unwrap(), program.epoll_create().unwrap());
            program.bind(listener, PORT).unwrap();
            ctl(&program, set, Op::Add, listener, bits::IN, 1);
            program.listen(listener, 4).unwrap();
            assert_eq!(reported(&program, set), [(1, bits::IN)]);
            let fd = program.accept(listener, false).unwrap();
            ctl(&program, set, Op::Add, fd, bits::IN, 2);
            assert_eq!(reported(&program, set), [(2, bits::IN)]);
            hear(&program, fd, "hello");
        });
        spawn(machine, true, |program| {
            program.nap(A_WHILE_NS / 2);
            let (fd, set) = (program.socket().unwrap(), program.epoll_create().unwrap());
            ctl(&program, set, Op::Add, fd, bits::IN, 1);
            program.keep_plain(fd);
            program.connect(fd, PORT).unwrap();
            say(&program, fd, "hello");
            assert_eq!(reported(&program, set), [(1, bits::IN)]);
            assert!(!program.is_shared(fd));
        });
    });
}

/// An answer that was full owes the kernel the first place in the next one: what that tells of its own
/// descriptors stands there once.
#[test]
fn no_answer_tells_of_a_descriptor_twice() {
    simulate(0, |machine| {
        spawn(machine, true, |program| {
            let listener = listen(&program);
            let fd = program.accept(listener, true).unwrap();
            let set = program.epoll_create().unwrap();
            ctl(&program, set, Op::Add, fd, bits::IN, 1);
            greet(&program, fd);
            // The next connection waits, and is the kernel's to tell of.
            ctl(&program, set, Op::Add, listener, bits::IN, 2);
            let mut one = [Event { events: 0, data: 0 }; 1];
            for _ in 0..20 {
                program.nap(A_WHILE_NS);
                assert_eq!(program.epoll_wait(set, &mut one, None), Ok(1));
                let mut seen: Vec<_> = reported(&program, set).iter().map(|(data, _)| *data).collect();
                seen.sort_unstable();
                let told = seen.len();
                seen.dedup();
                assert_eq!(seen.len(), told, "{seen:?}");
            }
            program.close(fd).unwrap();
        });
        spawn(machine, true, |program| {
            let fd = connect(&program);
            greet(&program, fd);
            let waiting = connect(&program);
            say(&program, fd, "unread");
            program.nap(100 * A_WHILE_NS);
            program.close(waiting).unwrap();
        });
    });
}

/// A reader and a writer at each end, each with a set of its own, while one of the ends goes back to TCP: an
/// answer tells of a descriptor once, and nobody of what a one-shot question was answered with already.
#[test]
fn lanes_with_a_set_each_are_told_once_of_a_connection_that_goes_home() {
    for seed in 0..1000u64 {
        let flags = [bits::ONESHOT, bits::ET | bits::ONESHOT, bits::ET, 0][(seed / 2) as usize % 4];
        let ns = seed * 7919 % 300_000;
        simulate(seed, move |machine| {
            machine.world().once_in = [2, 9, 60][seed as usize % 3];
            let servers = seed.is_multiple_of(2);
            spawn(machine, true, move |program| {
                let listener = listen(&program);
                let fd = program.accept(listener, true).unwrap();
                lanes(&program, fd, flags, servers.then_some(ns));
            });
            spawn(machine, true, move |program| {
                let fd = connect(&program);
                lanes(&program, fd, flags, (!servers).then_some(ns));
            });
        });
    }
}

fn lanes(program: &Program, fd: i32, flags: u32, home: Option<u64>) {
    let disturber = home.map(|ns| {
        program.thread(move |program| {
            program.nap(ns);
            program.go_home(fd);
        })
    });
    let both = [true, false].map(|writes| program.thread(move |program| lane(&program, fd, flags, writes)));
    both.into_iter().chain(disturber).for_each(|thread| program.join(thread));
}

/// Moves its bytes one way, a few at a time.
fn lane(program: &Program, fd: i32, flags: u32, writes: bool) {
    const TOTAL: usize = 30_000;
    let set = program.epoll_create().unwrap();
    let wanted = flags | if writes { bits::OUT } else { bits::IN };
    ctl(program, set, Op::Add, fd, wanted, 7);
    let (mut moved, mut bytes) = (0, [7; 900]);
    loop {
        let mut events = [Event { events: 0, data: 0 }; 4];
        let told = program.epoll_wait(set, &mut events, None);
        assert!(told == Ok(1), "{told:?} {:?}", events.map(|event| ({ event.events }, { event.data })));
        loop {
            let done = match writes {
                true => program.send(fd, &bytes[..700], msg::DONTWAIT),
                false => program.recv(fd, &mut bytes, msg::DONTWAIT),
            };
            match done {
                Ok(0) => return assert!(moved >= TOTAL, "{moved}"),
                Ok(count) => moved += count,
                Err(_) => break,
            }
            if writes && moved >= TOTAL {
                program.shutdown(fd, 1).unwrap();
                return;
            }
            if flags & bits::ET == 0 && moved.is_multiple_of(3) {
                break;
            }
        }
        if flags & bits::ONESHOT != 0 {
            ctl(program, set, Op::Mod, fd, wanted, 7);
        }
    }
}
