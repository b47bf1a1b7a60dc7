//! Two processes of one test: they connect, become SMC, and exchange bytes.

use super::{Pattern, connect, listen};
use crate::program::{Program, simulate, spawn};

#[test]
fn two_processes_of_one_test_become_smc() {
    for seed in 0..4 {
        simulate(seed, |machine| {
            machine.world().once_in = 5;
            spawn(machine, true, |program| {
                let listener = listen(&program);
                let fd = program.accept(listener, false).unwrap();
                let mut bytes = [0; 16];
                assert_eq!(program.recv(fd, &mut bytes, 0), Ok(4));
                assert!(program.is_shared(fd), "a server with the library and a client with it share memory");
                assert_eq!(program.send(fd, b"pong!", 0), Ok(5));
                assert_eq!(program.recv(fd, &mut bytes, 0), Ok(0));
            });
            spawn(machine, true, |program| {
                let fd = connect(&program);
                assert_eq!(program.send(fd, b"ping", 0), Ok(4));
                let mut bytes = [0; 16];
                assert_eq!(program.recv(fd, &mut bytes, 0), Ok(5));
                assert!(program.is_shared(fd));
                assert_eq!(program.close(fd), Ok(0));
            });
        });
    }
}

#[test]
fn without_the_library_at_one_end_a_connection_stays_on_tcp() {
    for (server, client) in [(true, false), (false, true), (false, false)] {
        simulate(1, move |machine| {
            spawn(machine, server, |program| {
                let listener = listen(&program);
                let fd = program.accept(listener, false).unwrap();
                let mut bytes = [0; 16];
                assert_eq!(program.recv(fd, &mut bytes, 0), Ok(4));
                assert!(!program.is_shared(fd));
            });
            spawn(machine, client, |program| {
                let fd = connect(&program);
                assert_eq!(program.send(fd, b"ping", 0), Ok(4));
                assert!(!program.is_shared(fd));
                assert_eq!(program.recv(fd, &mut [0; 16], 0), Ok(0));
            });
        });
    }
}

const HALF: u64 = 512 << 20;
const LONGEST: usize = 192 * 1024;

fn send_half(program: &Program, fd: i32) {
    let pattern = Pattern::get();
    let (mut at, mut len) = (0, 1);
    while at < HALF {
        len = (len * 7 + 4_001) % LONGEST;
        let now = len.min((HALF - at) as usize);
        assert_eq!(program.send(fd, pattern.at(at, now), 0), Ok(now));
        at += now as u64;
    }
}

fn receive_half(program: &Program, fd: i32) {
    let pattern = Pattern::get();
    let (mut at, mut bytes) = (0, vec![0; LONGEST]);
    while at < HALF {
        let got = program.recv(fd, &mut bytes, 0).unwrap();
        assert!(got > 0, "an end after {at} bytes");
        assert!(bytes[..got] == *pattern.at(at, got), "wrong bytes at {at}");
        at += got as u64;
    }
}

#[test]
fn two_processes_of_one_test_exchange_a_gigabyte() {
    simulate(1, |machine| {
        spawn(machine, true, |program| {
            let listener = listen(&program);
            let fd = program.accept(listener, false).unwrap();
            receive_half(&program, fd);
            assert!(program.is_shared(fd));
            send_half(&program, fd);
            assert_eq!(program.recv(fd, &mut [0], 0), Ok(0));
        });
        spawn(machine, true, |program| {
            let fd = connect(&program);
            send_half(&program, fd);
            assert!(program.is_shared(fd));
            receive_half(&program, fd);
        });
    });
}
