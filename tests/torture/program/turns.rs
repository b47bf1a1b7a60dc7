//! Threads that take turns in one epoll set, as asynchronous channels do: one waits, hands the turn on, works
//! until it would block, and arms again by EPOLL_CTL_MOD, by EPOLL_CTL_ADD on ENOENT. Everything is one-shot,
//! the listener too. Invariant: a fresh connection is tried before it is in the set for the first time.

use crate::machine::Machine;
use crate::style::{Want, modify_or_add};
use isthmus_tests::sys::{self, Fd};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

const THREADS: usize = 4;

struct Set {
    set: Fd,
    listener: Fd,
    /// Who holds it waits.
    turn: Mutex<()>,
    machines: Mutex<HashMap<Fd, Arc<Mutex<Machine>>>>,
}

/// Serves for ever.
pub(crate) fn serve(listener: Fd) {
    sys::nonblocking(listener, true);
    let set = Set { set: sys::epoll(), listener, turn: Mutex::default(), machines: Mutex::default() };
    set.arm(listener, Want::READ);
    std::thread::scope(|s| {
        for _ in 0..THREADS {
            s.spawn(|| set.take_turns());
        }
    });
}

impl Set {
    fn take_turns(&self) {
        loop {
            let events = {
                let _turn = self.turn.lock().expect("no panic");
                sys::ep_wait_by(sys::Wait::Plain, self.set, 1, -1).unwrap_or_default()
            };
            for (data, _) in events {
                let fd = data as Fd;
                if fd == self.listener { self.accept() } else { self.work(fd) }
            }
        }
    }

    fn arm(&self, fd: Fd, want: Want) {
        let events = want.epoll() | libc::EPOLLONESHOT;
        modify_or_add(self.set, fd, events, fd as u64).expect("arm");
    }

    fn accept(&self) {
        let accepted = sys::accept4(self.listener, libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
        self.arm(self.listener, Want::READ);
        let Ok(fd) = accepted else { return };
        let machine = Arc::new(Mutex::new(Machine::new(fd as Fd)));
        self.machines.lock().expect("no panic").insert(fd as Fd, machine);
        self.work(fd as Fd);
    }

    /// The machine leaves the table before its descriptor is closed: another thread may be given the number
    /// at once.
    fn work(&self, fd: Fd) {
        let Some(machine) = self.machines.lock().expect("no panic").remove(&fd) else { return };
        let mut locked = machine.lock().expect("no panic");
        if let Some(want) = locked.advance() {
            self.machines.lock().expect("no panic").insert(fd, Arc::clone(&machine));
            self.arm(fd, want);
        }
    }
}
