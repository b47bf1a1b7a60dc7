//! Numbers of sockets: what is closed, copied or taken over by another while somebody is in a call on it.

use super::harness::{as_over_tcp, greet, hear, read_all, read_some, say, write_until_it_fails};
use crate::program::Program;
use os::Errno;
use os::net::{msg, opt};
use os::poll::{PollFd, bits};

/// Long enough for whoever else is to be asleep by then.
const A_WHILE_NS: u64 = 20_000_000;

#[test]
fn a_reader_keeps_the_socket_that_another_thread_closes_under_it() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            let reader = program.thread(move |program| hear(&program, fd, "for the reader"));
            program.nap(A_WHILE_NS);
            program.close(fd).unwrap();
            program.join(reader);
            assert_eq!(program.recv(fd, &mut [0], 0), Err(Errno::EBADF));
        },
        |program, fd, seen| {
            greet(program, fd);
            program.nap(3 * A_WHILE_NS);
            say(program, fd, "for the reader");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_reader_keeps_its_socket_though_another_one_has_its_number() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            let reader = program.thread(move |program| hear(&program, fd, "for the reader"));
            program.nap(A_WHILE_NS);
            let other = program.socket().unwrap();
            program.dup2(other, fd).unwrap();
            program.join(reader);
            assert_eq!(program.recv(fd, &mut [0], 0), Err(Errno(107)));
        },
        |program, fd, seen| {
            greet(program, fd);
            program.nap(3 * A_WHILE_NS);
            say(program, fd, "for the reader");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_writer_keeps_the_socket_that_another_thread_closes_under_it() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            let writer = program.thread(move |program| {
                let bytes = vec![b'x'; 2 << 20];
                assert_eq!(program.send(fd, &bytes, 0), Ok(bytes.len()));
            });
            program.nap(A_WHILE_NS);
            program.close(fd).unwrap();
            program.join(writer);
        },
        |program, fd, seen| {
            greet(program, fd);
            program.nap(3 * A_WHILE_NS);
            let (mut total, mut bytes) = (0, vec![0; 100_000]);
            while let Ok(count @ 1..) = program.recv(fd, &mut bytes, 0) {
                total += count;
            }
            seen.push(format!("{total}"));
        },
    );
}

#[test]
fn a_thread_that_shuts_down_wakes_the_one_that_reads() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            let reader = program.thread(move |program| assert_eq!(read_some(&program, fd), ""));
            program.nap(A_WHILE_NS);
            program.shutdown(fd, 2).unwrap();
            program.join(reader);
        },
        |program, fd, seen| {
            greet(program, fd);
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn the_last_of_several_copies_ends_a_connection() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            for number in 50..58 {
                program.dup2(fd, number).unwrap();
            }
            program.close(fd).unwrap();
            for number in 50..57 {
                say(&program, number, "once more ");
                program.close(number).unwrap();
            }
            program.nap(A_WHILE_NS);
            say(&program, 57, "and no more");
        },
        |program, fd, seen| {
            greet(program, fd);
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_number_taken_over_by_a_copy_of_another_connection_ends_its_own() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            say(&program, fd, "last words");
            let other = program.socket().unwrap();
            program.dup2(other, fd).unwrap();
            program.nap(A_WHILE_NS);
        },
        |program, fd, seen| {
            greet(program, fd);
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_connection_that_is_dissolved_is_reset_and_its_socket_free_for_another() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            say(&program, fd, "last words");
            program.dissolve(fd).unwrap();
            assert!(program.send(fd, b"x", 0).is_err());
            program.nap(A_WHILE_NS);
        },
        |program, fd, seen| {
            greet(program, fd);
            program.nap(A_WHILE_NS / 2);
            seen.push(format!("{:?}", program.take_error(fd)));
            seen.push(format!("{:?}", program.take_error(fd)));
            write_until_it_fails(program, fd, seen);
        },
    );
}

#[test]
fn a_poll_of_many_tells_of_the_one_that_is_ready() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            let listener = program.socket().unwrap();
            program.bind(listener, 4100).unwrap();
            program.listen(listener, 4).unwrap();
            let mut fds = vec![PollFd { fd: listener, events: bits::IN, revents: 0 }; 100];
            fds[70].fd = fd;
            fds[80].fd = -1;
            assert_eq!(program.poll(&mut fds, Some(1_000_000)), Ok(0));
            say(&program, fd, "go on");
            assert_eq!(program.poll(&mut fds, None), Ok(1));
            assert_eq!(fds[70].revents, bits::IN);
            hear(&program, fd, "answer");
        },
        |program, fd, seen| {
            greet(program, fd);
            hear(program, fd, "go on");
            program.nap(A_WHILE_NS);
            say(program, fd, "answer");
            read_all(program, fd, seen);
        },
    );
}

#[test]
fn a_time_limit_ends_a_read_and_a_write_that_find_nothing() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            program.set_timeout(fd, opt::SO_RCVTIMEO, [0, 5_000]).unwrap();
            program.set_timeout(fd, opt::SO_SNDTIMEO, [0, 5_000]).unwrap();
            if program.is_enabled {
                // (The simulated TCP itself knows no limits.)
                assert_eq!(program.recv(fd, &mut [0], 0), Err(Errno::EAGAIN));
                let bytes = vec![0; 4 << 20];
                let sent = program.send(fd, &bytes, 0).unwrap();
                assert!(sent < bytes.len());
                assert_eq!(program.send(fd, &bytes, 0), Err(Errno::EAGAIN));
            }
            assert_eq!(program.send(fd, &[], msg::DONTWAIT), Ok(0));
        },
        |program, fd, seen| {
            greet(program, fd);
            program.nap(3 * A_WHILE_NS);
            let mut bytes = vec![0; 100_000];
            while let Ok(1..) = program.recv(fd, &mut bytes, 0) {}
            read_all(program, fd, seen);
        },
    );
}

fn all_that_is_queued(program: &Program, fd: i32) {
    let bytes = [1; 50_000];
    while program.send(fd, &bytes, msg::DONTWAIT).is_ok() {}
}

#[test]
fn a_few_unread_bytes_are_in_no_queue_and_a_full_buffer_has_one() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            say(&program, fd, "a few");
            assert_eq!(program.unacknowledged_bytes(fd), Ok(0));
            all_that_is_queued(&program, fd);
            assert!(program.unacknowledged_bytes(fd).unwrap() > 0);
            program.nap(2 * A_WHILE_NS);
        },
        |program, fd, seen| {
            greet(program, fd);
            program.nap(A_WHILE_NS);
            let mut bytes = vec![0; 5];
            seen.push(format!("{}", program.readable_bytes(fd).unwrap() > 5));
            program.recv(fd, &mut bytes, msg::WAITALL).unwrap();
            seen.push(String::from_utf8(bytes).unwrap());
        },
    );
}
