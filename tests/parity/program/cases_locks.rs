//! Threads that take turns on one socket, and what telling the time costs: nobody waits by burning the core
//! that the other needs.

use crate::cases_signal::Nagger;
use crate::context::{Case, Cx, say};
use isthmus_tests::sys::{self, Denied, poll1, show};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    Case { name: "locks.first_in_first_out", shm: true, run: first_in_first_out },
    Case { name: "locks.handler_within_a_write", shm: true, run: handler_within_a_write },
    Case { name: "locks.clock_without_a_call", shm: false, run: clock_without_a_call },
];

/// A thread that is never preempted by the other of its core writes where that one was interrupted in the
/// middle of it.
fn first_in_first_out(cx: &mut Cx) {
    let fd = cx.warm().fd;
    cx.tell("discard 0");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            sys::on_one_cpu(None).expect("one CPU");
            let block = vec![1u8; 60_000];
            while !is_over.load(Ordering::Relaxed) {
                sys::write(fd, &block).expect("write");
            }
        });
        let urgent = scope.spawn(|| {
            // (An ordinary user gets no such priority: then the two are alike.)
            let _ = sys::on_one_cpu(Some(1));
            for _ in 0..300 {
                sys::write(fd, b"urgent").expect("write");
                std::thread::sleep(Duration::from_micros(700));
            }
            sys::thread_cpu_ms()
        });
        let spent = urgent.join().expect("urgent");
        is_over.store(true, Ordering::Relaxed);
        writer.join().expect("writer");
        say!("the urgent one took the core for less than a second: {}", spent < 1000);
        if spent >= 1000 {
            say!("{spent} ms");
        }
    });
    say!("close -> {}", show(sys::shutdown(fd, libc::SHUT_WR)));
    say!("the other end: {}", cx.answer());
}

/// Time limits hold where the system call of the clock is refused: the kernel's own code needs none.
fn clock_without_a_call(cx: &mut Cx) {
    let fd = cx.warm().fd;
    sys::deny(&[Denied::Call(libc::SYS_clock_gettime)]).expect("seccomp");
    if !sys::has_clock() {
        return;
    }
    say!("poll -> {}", poll1(fd, libc::POLLIN, 30));
    say!("select -> {}", sys::select(sys::Select::Plain, &[fd], &[], &[], 30));
    say!("timeout -> {}", show(sys::set_timeout(fd, libc::SO_RCVTIMEO, 30)));
    say!("read -> {}", show(sys::read(fd, &mut [0; 4])));
    cx.peer("send 0 x");
    say!("select -> {}", sys::select(sys::Select::Plain, &[fd], &[], &[], 3000));
}

/// A handler writes on the blocking socket on which its thread is writing: never refused, and nothing lost or
/// doubled.
fn handler_within_a_write(cx: &mut Cx) {
    const BLOCKS: usize = 2000;
    let fd = cx.warm().fd;
    sys::catch(libc::SIGUSR1, true);
    sys::write_in_handler(fd);
    cx.tell("tally 0");
    let nagger = Nagger::every(Duration::from_micros(300), sys::this_thread());
    let block = vec![b'a'; 40_000];
    let mut sent = 0;
    for _ in 0..BLOCKS {
        let mut at = 0;
        while at < block.len() {
            at += sys::write(fd, &block[at..]).expect("write");
        }
        sent += at;
    }
    nagger.stop();
    sys::write_in_handler(-1);
    say!("refused {}", sys::refused());
    say!("interrupted often: {}", sys::hits() > 50);
    say!("shutdown -> {}", show(sys::shutdown(fd, libc::SHUT_WR)));
    let answer = cx.answer();
    say!(
        "all arrived: {}",
        answer == format!("{sent} of 'a', {} of '!', 0 others", sys::hits() - sys::refused())
    );
    println!("# {answer} {} {}", sys::hits(), sys::refused());
}
