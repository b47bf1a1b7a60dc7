//! What is asked of a set by a number while that goes, and while others wait, over sockets and sets of the
//! kernel.

use super::ctl::{ctl, note_created};
use super::wait::{Kernel, wait};
use crate::Outcome;
use crate::close::before_close;
use crate::enter::enter;
use crate::held::{Held, peek_index};
use crate::interest::registration::{Source, of_conn};
use crate::phase;
use crate::table::{self, Entry};
use core::mem::MaybeUninit;
use os::Errno;
use os::epoll::{Event, Op, bits};
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
    let first = enter(number, phase::Event::Watched).unwrap();
    let turn = first.interest.turn.take();
    let asker = std::thread::spawn(move || ctl(set, Op::Add, number, bits::IN, 7));
    until(|| first.is_in_other_calls());
    assert_eq!(table::clear(number), Entry::Conn(first.index()));
    let second = enter(number, phase::Event::Watched).unwrap();
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
    // (Who has the turn does not hold the connection besides.)
    let conn = peek_index(enter(number, phase::Event::Watched).unwrap().index()).unwrap();
    let (turn, has_asked) = (conn.interest.turn.take(), AtomicU32::new(0));
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

/// The kernel's own wait.
struct Kernels(rustix::fd::OwnedFd);

impl Kernel for Kernels {
    fn wait(&mut self, events: &mut [Event], _: Option<u64>) -> Result<usize, Errno> {
        let mut told = [const { MaybeUninit::uninit() }; 4];
        let limit = rustix::event::Timespec { tv_sec: 2, tv_nsec: 0 };
        let (told, _) = epoll::wait(&self.0, &mut told, Some(&limit)).map_err(|_| Errno::EINTR)?;
        for (event, told) in events.iter_mut().zip(told.iter()) {
            *event = Event { events: { told.flags }.bits(), data: { told.data }.u64() };
        }
        Ok(told.len())
    }

    fn glance(&mut self, _: &mut [Event]) -> Result<usize, Errno> {
        Ok(0)
    }

    fn has_mask(&self) -> bool {
        true
    }
}

#[test]
fn what_the_kernel_tells_of_a_question_waits_until_it_is_written_down() {
    let (socket, _listener) = connected();
    let kernels = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let (set, number) = (kernels.as_raw_fd(), socket.as_raw_fd());
    note_created(set);
    crate::unseen::note_wait(
        crate::interest::set::Set::get(crate::interest::set::Set::index_of(set).unwrap()).unwrap(),
    );
    let held = enter(number, phase::Event::Watched).unwrap();
    assert_eq!(ctl(set, Op::Add, number, bits::ET, 1), Outcome::Done(0));
    let (index, registration) = of_conn(&held).next().unwrap();
    // As EPOLL_CTL_MOD does it, and stays in the middle.
    let turn = held.interest.turn.take();
    registration.interest.begin_asking();
    let sleeper = std::thread::spawn(move || {
        let mut events = [Event { events: 0, data: 0 }];
        let told = wait(set, &mut events, Some(2_000_000_000), &mut Kernels(kernels));
        (told, { events[0].data })
    });
    let wanted = bits::OUT | bits::ET;
    os::epoll::ctl(set, Op::Mod, number, wanted, registration.cookie(index, Source::Tcp)).unwrap();
    until(|| held.is_in_other_calls() || sleeper.is_finished());
    (0..1000).for_each(|_| std::thread::yield_now());
    registration.ask(wanted, 2);
    drop(turn);
    assert_eq!(sleeper.join().unwrap(), (Outcome::Done(1), 2));
    forget(&held);
    before_close(set);
    table::clear(number);
}
