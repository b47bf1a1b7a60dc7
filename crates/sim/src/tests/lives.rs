//! Lives of processes: children of every making, programs that are started, descriptors that are passed on,
//! users that are given up, filters of system calls.

use super::harness::{as_over_tcp, greet, hear, read_all, say};
use super::{connect, listen};
use crate::program::{Program, simulate, spawn};
use os::confined::Calls;
use os::net::msg;

const A_WHILE_NS: u64 = 20_000_000;

#[test]
fn a_child_that_nobody_counted_counts_itself() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            let child = program.fork_unseen(move |child| {
                say(&child, fd, "from the child, ");
                child.nap(A_WHILE_NS);
                say(&child, fd, "and again");
            });
            program.nap(A_WHILE_NS / 2);
            program.close(fd).unwrap();
            program.await_end(child);
        },
        |program, fd, seen| {
            greet(program, fd);
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn forks_and_execs_that_fail_change_nothing() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            program.fork_in_vain();
            program.exec_in_vain();
            program.exec_in_vain();
            say(&program, fd, "as before, ");
            program.set_cloexec(fd, true).unwrap();
            program.exec_in_vain();
            program.fork_in_vain();
            say(&program, fd, "and after");
            hear(&program, fd, "heard");
            assert_eq!(program.is_shared(fd), program.is_enabled);
        },
        |program, fd, seen| {
            greet(program, fd);
            hear(program, fd, "as before, and after");
            say(program, fd, "heard");
            read_all(program, fd, seen);
        },
    );
}

/// The program that is started speaks, and then who started it.
fn starts_another(program: &Program, fd: i32, start: fn(&Program, i32) -> u32) {
    greet(program, fd);
    say(program, fd, "before, ");
    let child = start(program, fd);
    program.await_end(child);
    say(program, fd, "after");
}

#[test]
fn a_program_that_is_started_shares_what_is_not_closed_on_exec() {
    let sees = |program: &Program, fd: i32, seen: &mut Vec<String>| {
        greet(program, fd);
        read_all(program, fd, seen);
    };
    as_over_tcp(
        |program, fd| {
            starts_another(&program, fd, |program, fd| {
                program.start(program.is_enabled, move |next| say(&next, fd, "meanwhile, "))
            });
        },
        sees,
    );
    as_over_tcp(
        |program, fd| {
            starts_another(&program, fd, |program, fd| {
                program.borrow_and_start(program.is_enabled, move |next| say(&next, fd, "meanwhile, "))
            });
        },
        sees,
    );
}

#[test]
fn a_program_that_is_started_without_a_descriptor_ends_nothing() {
    as_over_tcp(
        |program, fd| {
            program.set_cloexec(fd, true).unwrap();
            starts_another(&program, fd, |program, fd| {
                program.borrow_and_start(program.is_enabled, move |next| {
                    assert!(next.recv(fd, &mut [0], msg::DONTWAIT).is_err());
                })
            });
        },
        |program, fd, seen| {
            greet(program, fd);
            read_all(program, fd, seen);
        },
    );
}

/// A descriptor goes to a process that waits for it, and is closed here.
fn hands_on(program: &Program, fd: i32, is_enabled: bool) {
    let machine = program.here.machine;
    let number = std::sync::Arc::new(std::sync::atomic::AtomicI32::new(-1));
    let told = number.clone();
    let other = spawn(machine, is_enabled, move |program| {
        while number.load(std::sync::atomic::Ordering::SeqCst) < 0 {
            program.nap(1_000_000);
        }
        let fd = number.load(std::sync::atomic::Ordering::SeqCst);
        program.has_got(fd);
        hear(&program, fd, "to the other");
        say(&program, fd, "from the other");
    });
    let passed = program.pass(fd, other).unwrap();
    program.close(fd).unwrap();
    told.store(passed, std::sync::atomic::Ordering::SeqCst);
    program.nap(5 * A_WHILE_NS);
}

#[test]
fn a_descriptor_that_is_passed_on_is_the_same_connection_in_another_process() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            hands_on(&program, fd, program.is_enabled);
        },
        |program, fd, seen| {
            greet(program, fd);
            program.nap(A_WHILE_NS);
            say(program, fd, "to the other");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_descriptor_that_is_passed_on_before_its_first_use_works_without_the_library() {
    as_over_tcp(
        |program, fd| hands_on(&program, fd, false),
        |program, fd, seen| {
            say(program, fd, "to the other");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn who_becomes_another_user_keeps_its_connections() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            program.become_user(2000);
            say(&program, fd, "another user");
            hear(&program, fd, "answer");
            assert_eq!(program.is_shared(fd), program.is_enabled);
            let listener = program.socket().unwrap();
            program.bind(listener, 4300).unwrap();
            program.listen(listener, 4).unwrap();
        },
        |program, fd, seen| {
            greet(program, fd);
            hear(program, fd, "another user");
            say(program, fd, "answer");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn who_becomes_another_user_before_the_first_use_stays_on_tcp() {
    as_over_tcp(
        |program, fd| {
            program.become_user(2000);
            say(&program, fd, "another user");
            hear(&program, fd, "answer");
            assert!(!program.is_shared(fd));
        },
        |program, fd, seen| {
            hear(program, fd, "another user");
            say(program, fd, "answer");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_server_that_gave_its_user_up_serves_over_tcp() {
    simulate(3, |machine| {
        spawn(machine, true, |program| {
            let listener = listen(&program);
            program.become_user(2000);
            let fd = program.accept(listener, false).unwrap();
            hear(&program, fd, "hello");
            assert!(!program.is_shared(fd));
        });
        spawn(machine, true, |program| {
            program.nap(A_WHILE_NS);
            let fd = connect(&program);
            say(&program, fd, "hello");
            assert_eq!(program.recv(fd, &mut [0], 0), Ok(0));
            assert!(!program.is_shared(fd));
        });
    });
}

#[test]
fn what_is_shared_goes_on_behind_a_filter_of_calls() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            program.confine_in_vain();
            program.confine(Calls::Filtered);
            say(&program, fd, "confined");
            hear(&program, fd, "answer");
            assert_eq!(program.is_shared(fd), program.is_enabled);
            program.nap(A_WHILE_NS);
            program.close(fd).unwrap();
        },
        |program, fd, seen| {
            greet(program, fd);
            hear(program, fd, "confined");
            program.nap(A_WHILE_NS);
            say(program, fd, "answer");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn behind_the_strictest_filter_a_plain_write_is_enough() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            say(&program, fd, "before, ");
            program.confine(Calls::Fewest);
            program.print(fd, "behind").unwrap();
        },
        |program, fd, seen| {
            greet(program, fd);
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn what_is_undecided_behind_a_filter_is_tcps() {
    as_over_tcp(
        |program, fd| {
            program.confine(Calls::Filtered);
            say(&program, fd, "confined");
            hear(&program, fd, "answer");
            assert!(!program.is_shared(fd));
        },
        |program, fd, seen| {
            hear(program, fd, "confined");
            say(program, fd, "answer");
            read_all(program, fd, seen);
        },
    );
}

/// How many connections to itself a process can have, with so few descriptors.
fn most_connections(is_enabled: bool, limit: u64) -> usize {
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let told = count.clone();
    simulate(1, move |machine| {
        spawn(machine, is_enabled, move |program| {
            program.limit_descriptors(limit);
            let listener = listen(&program);
            while let Ok(client) = program.socket() {
                if program.connect(client, super::PORT).is_err() {
                    break;
                }
                let Ok(server) = program.accept(listener, false) else { break };
                say(&program, client, "hello");
                hear(&program, server, "hello");
                count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
        });
    });
    told.load(std::sync::atomic::Ordering::SeqCst)
}

#[test]
fn a_program_with_few_descriptors_has_as_many_connections_as_over_tcp() {
    for limit in [16, 32, 64, 128] {
        assert_eq!(most_connections(true, limit), most_connections(false, limit), "limit {limit}");
    }
}
