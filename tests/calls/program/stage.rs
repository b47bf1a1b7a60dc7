//! What one process has of a script: descriptors, its kept set, its child. Invariant: a step is done by the
//! process that it names, and says what the call returned.

use crate::bytes::Bytes;
use crate::remote::Remote;
use crate::script::{Arrival, Awaited, Call, Member, Step};
use crate::{give, look, take};
use isthmus_tests::sys::{self, Fd, show};
use libc::{EPOLLET, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLRDHUP, POLLERR, POLLHUP, POLLRDHUP};
use std::time::{Duration, Instant};

/// What has not arrived by then does not come.
const PATIENCE: Duration = Duration::from_secs(4);

pub(crate) struct Stage {
    pub(crate) seed: u64,
    pub(crate) fds: Vec<[Fd; 2]>,
    listener: (Fd, u16),
    pub(crate) their_port: u16,
    set: Option<Fd>,
    pub(crate) child: Option<Remote>,
}

impl Stage {
    pub(crate) fn new() -> Stage {
        Stage { seed: 0, fds: vec![], listener: sys::listener(), their_port: 0, set: None, child: None }
    }

    pub(crate) fn port(&self) -> u16 {
        self.listener.1
    }

    /// Nothing of the last script is left. (One that went otherwise than thought may leave something.)
    pub(crate) fn begin(&mut self, seed: u64, links: usize) {
        drop(self.child.take());
        for fd in self.fds.drain(..).flatten().chain(self.set.take()).filter(|fd| *fd >= 0) {
            let _ = sys::close(fd);
        }
        self.seed = seed;
        self.fds = vec![[-1; 2]; links];
    }

    /// What a child of this process begins with: all but the set.
    pub(crate) fn of_a_child(&self) -> Stage {
        let Stage { seed, listener, their_port, .. } = *self;
        Stage { seed, fds: self.fds.clone(), listener, their_port, set: None, child: None }
    }

    /// Does a step here, and says how it went.
    pub(crate) fn act(&mut self, step: &Step) -> String {
        let late: String = step.first.iter().filter_map(|awaited| self.missing(awaited)).collect();
        late + &self.call(step)
    }

    /// Waits for what must have arrived. What then has not is told.
    fn missing(&self, Awaited { link, copy, what }: &Awaited) -> Option<String> {
        let fd = self.fds[*link][*copy];
        let has = |bits: i16| sys::poll(&[(fd, POLLRDHUP)], 0).1[0] & bits != 0;
        let is_there = || match what {
            Arrival::Bytes(count) => sys::queued(fd) >= *count as i32 || has(POLLERR),
            Arrival::Ended => has(POLLRDHUP | POLLHUP | POLLERR),
            Arrival::Reset => has(POLLERR),
        };
        let begun = Instant::now();
        while !is_there() {
            if begun.elapsed() > PATIENCE {
                return Some(format!("(no {what:?}) "));
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        None
    }

    fn call(&mut self, step: &Step) -> String {
        let [fd, other] = self.fds[step.link];
        let at = if step.copy == 0 { fd } else { other };
        let bytes = |from, offset| Bytes::new(self.seed, step.link, from, offset);
        let (own, peer) = (step.by.end, step.by.end.other());
        match step.call {
            Call::Connect => self.connect(step.link),
            Call::Accept => self.accept(step.link),
            Call::Give(way, count, offset) => give::give(way, at, &bytes(own, offset).next(count)),
            Call::Take(way, count, offset) => take::take(way, at, count, &bytes(peer, offset)),
            Call::Look(look) => look::look(look, at, 0),
            Call::Await(look) => look::look(look, at, PATIENCE.as_millis() as i32),
            Call::Join(how, is_there) => self.join(fd, step.link, how, is_there),
            Call::Leave => show(sys::ep_del(self.set(), fd)),
            Call::WaitSet => sys::ep_show(self.set(), 0),
            Call::NonBlocking(on) => {
                sys::nonblocking(at, on);
                String::new()
            }
            Call::Shut(how) => show(sys::shutdown(at, how)),
            Call::Duplicate => self.duplicate(step.link),
            Call::Close => self.close(step),
            Call::Abort => format!("{}, {}", show(sys::set_linger(at, true, 0)), self.close(step)),
            Call::Fork | Call::ChildExits => "no call of a connection".into(),
        }
    }

    fn connect(&mut self, link: usize) -> String {
        let fd = sys::tcp(libc::SOCK_CLOEXEC);
        self.fds[link][0] = fd;
        show(sys::connect(fd, self.their_port))
    }

    fn accept(&mut self, link: usize) -> String {
        match sys::accept4(self.listener.0, libc::SOCK_CLOEXEC) {
            Ok(fd) => self.fds[link][0] = fd as Fd,
            Err(errno) => return errno.to_string(),
        }
        "accepted".into()
    }

    fn set(&mut self) -> Fd {
        *self.set.get_or_insert_with(sys::epoll)
    }

    fn join(&mut self, fd: Fd, link: usize, how: Member, is_there: bool) -> String {
        let events = match how {
            Member::Level => EPOLLIN,
            Member::LevelBoth => EPOLLIN | EPOLLOUT | EPOLLRDHUP,
            Member::Edge => EPOLLIN | EPOLLRDHUP | EPOLLET,
            Member::Once => EPOLLIN | EPOLLRDHUP | EPOLLONESHOT,
        };
        let set = self.set();
        show(if is_there {
            sys::ep_mod(set, fd, events, link as u64)
        } else {
            sys::ep_add(set, fd, events, link as u64)
        })
    }

    fn duplicate(&mut self, link: usize) -> String {
        match sys::dup(self.fds[link][0]) {
            Ok(fd) => self.fds[link][1] = fd as Fd,
            Err(errno) => return errno.to_string(),
        }
        "another".into()
    }

    fn close(&mut self, step: &Step) -> String {
        let fd = std::mem::replace(&mut self.fds[step.link][step.copy], -1);
        show(sys::close(fd))
    }
}
