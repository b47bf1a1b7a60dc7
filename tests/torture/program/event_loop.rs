//! One thread for all connections, by poll, select, epoll level or epoll edge. Invariant: it waits without a
//! limit.

use crate::machine::Machine;
use crate::style::{Want, modify_or_add};
use isthmus_tests::sys::{self, Fd};
use std::collections::HashMap;

/// Events of a listener carry this.
const LISTENER: u64 = u64::MAX;

struct Entry {
    machine: Machine,
    want: Want,
    armed: Option<Want>,
}

struct Loop {
    listener: Fd,
    entries: HashMap<Fd, Entry>,
    set: Fd,
    edge: bool,
}

/// Serves for ever; the variant chooses the call.
pub(crate) fn serve(listener: Fd, variant: usize) {
    sys::nonblocking(listener, true);
    let mut event_loop = Loop { listener, entries: HashMap::new(), set: -1, edge: variant == 3 };
    if variant >= 2 {
        event_loop.set = sys::epoll();
        sys::ep_add(event_loop.set, listener, libc::EPOLLIN, LISTENER).expect("add the listener");
    }
    loop {
        let ready = match variant {
            0 => event_loop.by_poll(false),
            1 => event_loop.by_poll(true),
            _ => event_loop.by_epoll(),
        };
        ready.into_iter().for_each(|fd| event_loop.handle(fd));
    }
}

impl Loop {
    /// poll and ppoll: the whole list each time.
    fn by_poll(&self, precise: bool) -> Vec<Fd> {
        let mut list = vec![(self.listener, libc::POLLIN)];
        list.extend(self.entries.iter().map(|(fd, e)| (*fd, e.want.poll())));
        let (_, events) = if precise { sys::ppoll(&list, None) } else { sys::poll(&list, -1) };
        list.iter().zip(events).filter(|(_, e)| *e != 0).map(|((fd, _), _)| *fd).collect()
    }

    fn by_epoll(&mut self) -> Vec<Fd> {
        for (fd, entry) in &mut self.entries {
            if self.edge || entry.armed == Some(entry.want) {
                continue;
            }
            modify_or_add(self.set, *fd, entry.want.epoll(), *fd as u64).expect("name the interest");
            entry.armed = Some(entry.want);
        }
        let events = sys::ep_wait(self.set, -1).unwrap_or_default();
        events.iter().map(|(data, _)| if *data == LISTENER { self.listener } else { *data as Fd }).collect()
    }

    fn handle(&mut self, fd: Fd) {
        if fd == self.listener {
            return self.accept();
        }
        let Some(entry) = self.entries.get_mut(&fd) else { return };
        match entry.machine.advance() {
            Some(want) => entry.want = want,
            None => _ = self.entries.remove(&fd),
        }
    }

    fn accept(&mut self) {
        while let Ok(fd) = sys::accept4(self.listener, libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) {
            let machine = Machine::new(fd as Fd);
            if self.edge {
                let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
                sys::ep_add(self.set, machine.fd(), events, fd as u64).expect("add the connection");
            }
            self.entries.insert(fd as Fd, Entry { machine, want: Want::READ, armed: None });
        }
    }
}
