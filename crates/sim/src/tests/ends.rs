//! Ends of processes: what the peer sees of a kill, a fork, an exec is what it sees over TCP.

use super::harness::{as_over_tcp, greet, hear, read_all, read_some, say, write_until_it_fails};
use super::{connect, listen};
use crate::program::{Program, simulate, spawn};
use os::epoll::{Event, Op, bits};
use os::net::msg;

const ORDERS: u64 = 24;

fn kill_self(program: &Program) {
    program.kill(program.here.pid);
    program.nap(1);
}

#[test]
fn a_killed_process_ends_in_order_if_it_has_read_everything() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            say(&program, fd, "last words");
            kill_self(&program);
        },
        |program, fd, seen| {
            greet(program, fd);
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_killed_process_that_had_bytes_unread_resets() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            say(&program, fd, "last words");
            program.nap(50_000_000);
            kill_self(&program);
        },
        |program, fd, seen| {
            greet(program, fd);
            seen.push(read_some(program, fd));
            say(program, fd, "nobody reads this");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn who_writes_to_a_killed_process_is_told() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            program.nap(20_000_000);
            kill_self(&program);
        },
        |program, fd, seen| {
            greet(program, fd);
            write_until_it_fails(program, fd, seen);
        },
    );
}

#[test]
fn who_writes_to_a_killed_process_that_had_half_closed_is_told() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            program.shutdown(fd, 1).unwrap();
            program.nap(20_000_000);
            kill_self(&program);
        },
        |program, fd, seen| {
            greet(program, fd);
            seen.push(read_some(program, fd));
            write_until_it_fails(program, fd, seen);
        },
    );
}

#[test]
fn a_writer_is_told_of_a_peer_that_half_closed_and_ended_though_its_own_set_has_bytes_to_tell() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            say(&program, fd, "unread");
            program.shutdown(fd, 1).unwrap();
        },
        |program, fd, seen| {
            greet(program, fd);
            let set = program.epoll_create().unwrap();
            program.epoll_ctl(set, Op::Add, fd, bits::IN, 1).unwrap();
            let mut events = [Event { events: 0, data: 0 }; 2];
            assert_eq!(program.epoll_wait(set, &mut events, None), Ok(1));
            program.nap(20_000_000);
            write_until_it_fails(program, fd, seen);
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_process_that_ends_by_itself_ends_in_order() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            say(&program, fd, "last words");
        },
        |program, fd, seen| {
            greet(program, fd);
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_reset_at_close_is_told_once() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            program.reset_on_close(fd).unwrap();
            program.close(fd).unwrap();
        },
        |program, fd, seen| {
            greet(program, fd);
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_child_goes_on_where_its_parent_closes() {
    as_over_tcp(
        |program, fd| {
            say(&program, fd, "from the parent, ");
            let child = program.fork(move |child| {
                child.nap(5_000_000);
                say(&child, fd, "from the child, ");
                hear(&child, fd, "to the child");
                say(&child, fd, "and no more");
            });
            program.close(fd).unwrap();
            program.await_end(child);
        },
        |program, fd, seen| {
            let mut text = String::new();
            while !text.contains("child") {
                text += &read_some(program, fd);
            }
            seen.push(text);
            say(program, fd, "to the child");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_child_uses_what_its_parent_has_never_touched() {
    as_over_tcp(
        |program, fd| {
            let child = program.fork(move |child| {
                say(&child, fd, "hello");
                hear(&child, fd, "hello");
            });
            program.close(fd).unwrap();
            program.await_end(child);
        },
        |program, fd, seen| {
            say(program, fd, "hello");
            hear(program, fd, "hello");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_parent_goes_on_where_its_child_is_killed() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            let child = program.fork(move |child| {
                say(&child, fd, "from the child, ");
                kill_self(&child);
            });
            program.await_end(child);
            say(&program, fd, "from the parent");
        },
        |program, fd, seen| {
            greet(program, fd);
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn the_last_of_parent_and_child_ends_a_connection_though_both_are_killed() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            let child = program.fork(move |child| {
                child.nap(30_000_000);
                say(&child, fd, "last words");
                kill_self(&child);
            });
            let _ = child;
            kill_self(&program);
        },
        |program, fd, seen| {
            greet(program, fd);
            seen.push(format!("{:?}", program.recv(fd, &mut [0; 8], msg::DONTWAIT)));
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_child_goes_on_alone_though_its_parent_had_two_numbers_and_bytes_unread() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            program.nap(30_000_000);
            let second = program.dup(fd).unwrap();
            program.fork(move |child| {
                child.nap(30_000_000);
                hear(&child, second, "unread");
                say(&child, fd, "read");
            });
        },
        |program, fd, seen| {
            greet(program, fd);
            say(program, fd, "unread");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_program_with_the_library_goes_on_after_exec() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            say(&program, fd, "before, ");
            program.exec(program.is_enabled, move |next| {
                say(&next, fd, "after");
                hear(&next, fd, "to the next");
                say(&next, fd, ", and no more");
            });
        },
        |program, fd, seen| {
            greet(program, fd);
            let mut text = String::new();
            while !text.contains("after") {
                text += &read_some(program, fd);
            }
            seen.push(text);
            say(program, fd, "to the next");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_program_after_exec_reads_what_was_sent_though_both_ends_have_ended() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            program.shutdown(fd, 1).unwrap();
            program.nap(20_000_000);
            program.exec(program.is_enabled, move |next| {
                hear(&next, fd, "an answer to the next");
                assert_eq!(read_some(&next, fd), "");
            });
        },
        |program, fd, seen| {
            greet(program, fd);
            seen.push(read_some(program, fd));
            say(program, fd, "an answer to the next");
            program.shutdown(fd, 1).unwrap();
            program.nap(60_000_000);
        },
    );
}

#[test]
fn a_program_that_is_started_reads_what_was_sent_though_the_peer_is_gone() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            program.shutdown(fd, 1).unwrap();
            program.nap(20_000_000);
            let child = program.start(program.is_enabled, move |next| {
                hear(&next, fd, "an answer ");
                assert_eq!(next.readable_bytes(fd), Ok("to the next".len()));
                hear(&next, fd, "to the next");
                assert_eq!(read_some(&next, fd), "");
            });
            program.await_end(child);
            assert_eq!(read_some(&program, fd), "");
        },
        |program, fd, seen| {
            greet(program, fd);
            seen.push(read_some(program, fd));
            say(program, fd, "an answer to the next");
        },
    );
}

#[test]
fn a_program_after_exec_finds_nothing_of_a_connection_that_was_dissolved() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            program.nap(20_000_000);
            program.dissolve(fd).unwrap();
            let _ = program.take_error(fd);
            program.exec(program.is_enabled, move |next| {
                assert!(!next.is_shared(fd));
                assert_eq!(read_some(&next, fd), "Errno(107)");
            });
        },
        |program, fd, seen| {
            greet(program, fd);
            say(program, fd, "unread");
            program.nap(40_000_000);
            seen.push(format!("{:?}", program.take_error(fd)));
        },
    );
}

#[test]
fn a_socket_that_was_dissolved_and_connected_again_is_its_new_connection_after_exec() {
    for seed in 0..ORDERS {
        simulate(seed, move |machine| {
            machine.world().once_in = [0, 2, 7, 30][seed as usize % 4];
            spawn(machine, true, |program| {
                let listener = listen(&program);
                let first = program.accept(listener, false).unwrap();
                greet(&program, first);
                say(&program, first, "of the first");
                let second = program.accept(listener, false).unwrap();
                say(&program, second, "of the second");
                hear(&program, second, "after exec");
            });
            spawn(machine, true, |program| {
                let fd = connect(&program);
                greet(&program, fd);
                program.nap(20_000_000);
                program.dissolve(fd).unwrap();
                let _ = program.take_error(fd);
                program.connect(fd, super::PORT).unwrap();
                program.exec(true, move |next| {
                    hear(&next, fd, "of the second");
                    say(&next, fd, "after exec");
                    assert_eq!(read_some(&next, fd), "");
                });
            });
        });
    }
}

#[test]
fn an_exec_closes_what_is_to_be_closed() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            say(&program, fd, "before");
            program.set_cloexec(fd, true).unwrap();
            program.exec(program.is_enabled, |next| next.nap(100_000_000));
        },
        |program, fd, seen| {
            greet(program, fd);
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn another_program_goes_on_with_a_child_of_a_client_that_has_ended() {
    for seed in 0..ORDERS {
        simulate(seed, move |machine| {
            machine.world().once_in = [2, 7, 30][seed as usize % 3];
            spawn(machine, true, |program| {
                let listener = listen(&program);
                let fd = program.accept(listener, false).unwrap();
                greet(&program, fd);
                program.nap(20_000_000);
                program.exec(true, move |next| {
                    hear(&next, fd, "from the child");
                    assert!(next.is_shared(fd));
                    say(&next, fd, "to the child");
                    assert_eq!(read_some(&next, fd), "");
                });
            });
            spawn(machine, true, |program| {
                let fd = connect(&program);
                greet(&program, fd);
                program.fork(move |child| {
                    child.nap(40_000_000);
                    say(&child, fd, "from the child");
                    hear(&child, fd, "to the child");
                });
            });
        });
    }
}

#[test]
fn a_program_reads_on_after_exec_though_the_kernel_misses_the_client_that_has_closed() {
    for seed in 0..ORDERS {
        simulate(seed, move |machine| {
            machine.world().once_in = [2, 7, 30][seed as usize % 3];
            machine.world().misses_once_in = 1;
            spawn(machine, true, |program| {
                let listener = listen(&program);
                let fd = program.accept(listener, false).unwrap();
                greet(&program, fd);
                program.nap(40_000_000);
                program.exec(true, move |next| {
                    hear(&next, fd, "last words");
                    assert_eq!(read_some(&next, fd), "");
                });
            });
            spawn(machine, true, |program| {
                let fd = connect(&program);
                greet(&program, fd);
                say(&program, fd, "last words");
                program.close(fd).unwrap();
            });
        });
    }
}

/// A child that has nothing to do with the connection keeps its parent's place in the registry.
#[test]
fn another_program_reads_what_a_child_of_a_client_that_has_ended_left_behind() {
    for seed in 0..2 * ORDERS {
        simulate(seed, move |machine| {
            machine.world().once_in = [2, 7, 30][seed as usize % 3];
            spawn(machine, true, |program| {
                let listener = listen(&program);
                let fd = program.accept(listener, false).unwrap();
                greet(&program, fd);
                program.nap(60_000_000);
                program.exec(true, move |next| {
                    hear(&next, fd, "last words");
                    assert_eq!(read_some(&next, fd), "");
                });
            });
            spawn(machine, true, move |program| {
                let fd = connect(&program);
                program.fork(move |idle| {
                    idle.close(fd).unwrap();
                    idle.nap(200_000_000);
                });
                greet(&program, fd);
                program.fork(move |child| {
                    child.nap(20_000_000);
                    say(&child, fd, "last words");
                    if seed % 2 == 0 {
                        kill_self(&child);
                    }
                    child.close(fd).unwrap();
                    child.nap(200_000_000);
                });
            });
        });
    }
}

#[test]
fn a_program_reads_after_exec_what_its_former_self_sent_to_itself() {
    for seed in 0..ORDERS {
        simulate(seed, move |machine| {
            machine.world().once_in = [2, 7, 30][seed as usize % 3];
            spawn(machine, true, |program| {
                let listener = listen(&program);
                program.fork(|child| child.nap(200_000_000));
                let client = connect(&program);
                let server = program.accept(listener, false).unwrap();
                say(&program, client, "hello");
                hear(&program, server, "hello");
                say(&program, client, "last words");
                program.close(client).unwrap();
                program.exec(true, move |next| {
                    hear(&next, server, "last words");
                    assert_eq!(read_some(&next, server), "");
                });
            });
        });
    }
}
