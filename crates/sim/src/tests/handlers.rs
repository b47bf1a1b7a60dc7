//! Signal handlers that run in the middle of a call, and use the connection that it is about.

use super::harness::{as_over_tcp, greet, hear, read_all, say};
use super::{connect, listen};
use crate::kernel::signals::{interrupt_after, withdraw};
use crate::program::{simulate, spawn};
use os::net::msg;

#[test]
fn what_a_handler_sends_in_the_middle_of_a_send_is_in_the_stream_once() {
    const LEN: usize = 400_000;
    for points in 1..60 {
        simulate(u64::from(points), move |machine| {
            machine.world().once_in = [0, 5, 40][points as usize % 3];
            spawn(machine, true, |program| {
                let listener = listen(&program);
                let fd = program.accept(listener, false).unwrap();
                let (mut total, mut marks, mut bytes) = (0, 0, vec![0; 30_000]);
                while let Ok(count @ 1..) = program.recv(fd, &mut bytes, 0) {
                    total += count;
                    marks += bytes[..count].iter().filter(|byte| **byte == b'!').count();
                }
                assert_eq!((total - marks, marks % 3), (LEN, 0), "of the handler {marks}");
                assert_eq!(program.send(fd, &[b'0' + marks as u8], 0), Ok(1));
            });
            spawn(machine, true, move |program| {
                let fd = connect(&program);
                let sent = std::rc::Rc::new(std::cell::Cell::new(0));
                let told = sent.clone();
                interrupt_after(points, move || told.set(program.send(fd, b"!!!", 0).unwrap_or(0)));
                assert_eq!(program.send(fd, &vec![b'x'; LEN], 0), Ok(LEN));
                withdraw();
                program.shutdown(fd, 1).unwrap();
                hear(&program, fd, &sent.get().to_string());
            });
        });
    }
}

#[test]
fn what_a_handler_sends_in_the_middle_of_the_first_use_is_in_the_stream_once() {
    const LEN: usize = 1000;
    for points in 1..70 {
        simulate(u64::from(points), move |machine| {
            spawn(machine, true, move |program| {
                let listener = listen(&program);
                let fd = program.accept(listener, false).unwrap();
                let sent = std::rc::Rc::new(std::cell::Cell::new(0));
                let told = sent.clone();
                interrupt_after(points, move || told.set(program.send(fd, b"!!!", 0).unwrap_or(0)));
                assert_eq!(program.send(fd, &[b'x'; LEN], 0), Ok(LEN));
                withdraw();
                program.shutdown(fd, 1).unwrap();
                hear(&program, fd, &sent.get().to_string());
            });
            spawn(machine, true, move |program| {
                let fd = connect(&program);
                let (mut total, mut marks, mut bytes) = (0, 0, vec![0; 3000]);
                loop {
                    match program.recv(fd, &mut bytes, 0) {
                        Ok(0) => break,
                        told => total += told.unwrap_or_else(|errno| panic!("after {points}: {errno:?}")),
                    }
                    marks += bytes.iter().filter(|byte| **byte == b'!').count();
                    bytes.fill(0);
                }
                assert_eq!((total - marks, marks % 3), (LEN, 0), "of the handler {marks}, after {points}");
                assert_eq!(program.send(fd, &[b'0' + marks as u8], 0), Ok(1));
            });
        });
    }
}

#[test]
fn a_handler_may_read_close_and_ask_in_the_middle_of_a_read() {
    as_over_tcp(
        |program, fd| {
            greet(&program, fd);
            for points in 1..12 {
                interrupt_after(points, move || {
                    let _ = program.recv(fd, &mut [0; 4], msg::PEEK | msg::DONTWAIT);
                    let _ = program.readable_bytes(fd);
                });
                hear(&program, fd, "bytes");
                withdraw();
                say(&program, fd, "next");
            }
            interrupt_after(3, move || _ = program.close(fd));
            let _ = program.recv(fd, &mut [0; 4], 0);
        },
        |program, fd, seen| {
            greet(program, fd);
            for _ in 1..12 {
                say(program, fd, "bytes");
                hear(program, fd, "next");
            }
            program.shutdown(fd, 1).unwrap();
            read_all(program, fd, seen);
        },
    );
}
