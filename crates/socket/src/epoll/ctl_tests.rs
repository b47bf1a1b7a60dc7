//! What is asked by a number while the number goes, over sockets and sets of the kernel.

use super::ctl::ctl;
use crate::Outcome;
use crate::close::before_close;
use crate::enter::enter;
use crate::held::Held;
use crate::interest::registration::of_conn;
use crate::phase::Event;
use crate::table::{self, Entry};
use os::epoll::{Op, bits};
use rustix::event::epoll;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use sync::{AtomicU32, Ordering};

/// A connected socket, which stands for a number of this process, and what keeps it so.
fn connected() -> (TcpStream, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (TcpStream::connect(listener.local_addr().unwrap()).unwrap(), listener)
}

fn until(what: impl Fn() -> bool) {
    while !what() {
        std::thread::yield_now();
    }
}

fn forget(held: &Held) {
    held.drop_fd();
}

#[test]
fn who_waits_for_his_turn_while_the_number_goes_asks_its_next_socket() {
    let (socket, _listener) = connected();
    let kernels = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let set = kernels.as_raw_fd();
    let number = socket.as_raw_fd();
    let first = enter(number, Event::Watched).unwrap();
    let turn = first.interest.turn.take();
    let asker = std::thread::spawn(move || ctl(set, Op::Add, number, bits::IN, 7));
    until(|| first.is_in_other_calls());
    assert_eq!(table::clear(number), Entry::Conn(first.index()));
    let second = enter(number, Event::Watched).unwrap();
    drop(turn);
    assert_eq!(asker.join().unwrap(), Outcome::Done(0));
    assert_eq!([&first, &second].map(|held| of_conn(held).count()), [0, 1]);
    [&first, &second].into_iter().for_each(forget);
    before_close(set);
    table::clear(number);
}

#[test]
fn a_number_goes_once_whoever_asks_by_it_has_done() {
    let (socket, _listener) = connected();
    let number = socket.as_raw_fd();
    let held = enter(number, Event::Watched).unwrap();
    let (turn, has_asked) = (held.interest.turn.take(), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let closer = scope.spawn(|| {
            before_close(number);
            assert!(has_asked.load(Ordering::SeqCst) == 1, "the kernel may give the number away by now");
        });
        until(|| table::get(number) == Entry::Empty);
        (0..1000).for_each(|_| std::thread::yield_now());
        has_asked.store(1, Ordering::SeqCst);
        drop(turn);
        closer.join().unwrap();
    });
}
