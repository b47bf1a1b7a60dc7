//! Readiness: what open files report, and the sets that watch them. Owns: level, edge and one-shot reports as
//! ep_poll_callback and ep_send_events give them.

use super::world::{Kind, Pid, World};
use os::epoll::{Event, bits};
use os::{Errno, Result};

pub(crate) struct Item {
    pub(crate) file: usize,
    fd: i32,
    events: u32,
    data: u64,
    /// The version that was reported last; 0: none.
    seen: u64,
    is_spent: bool,
}

#[derive(Default)]
pub(crate) struct EpollSet {
    pub(crate) items: Vec<Item>,
}

const ALWAYS: u32 = bits::ERR | bits::HUP;

impl World {
    /// What poll(2) says of an open file, all events.
    pub(crate) fn level(&self, file: usize) -> u32 {
        match self.file(file).kind {
            Kind::Socket(socket) => self.socket(socket).level(),
            Kind::Pipe(pipe) => self.pipe_level(pipe, self.file(file).flags),
            Kind::Epoll(set) if self.is_set_ready(set) => bits::IN | bits::RDNORM,
            Kind::Epoll(_) => 0,
            _ => bits::IN | bits::OUT | bits::RDNORM | bits::WRNORM,
        }
    }

    fn version(&self, file: usize) -> u64 {
        1 + match self.file(file).kind {
            Kind::Socket(socket) => self.socket(socket).version,
            Kind::Pipe(pipe) => self.pipes[pipe].version,
            _ => 0,
        }
    }

    pub(crate) fn open_set(&mut self, pid: Pid, flags: u32) -> Result<usize> {
        self.sets.push(EpollSet::default());
        let set = self.sets.len() - 1;
        self.open_as(pid, Kind::Epoll(set), flags | os::raw::nr::O_RDWR)
    }

    pub(crate) fn set_of(&self, pid: Pid, fd: i32) -> Result<usize> {
        match self.kind_of(pid, fd)? {
            Kind::Epoll(set) => Ok(set),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(crate) fn control(
        &mut self,
        pid: Pid,
        (set, operation, fd): (i32, u32, i32),
        (events, data): (u32, u64),
    ) -> Result<usize> {
        let file = self.file_of(pid, fd)?;
        let set = self.set_of(pid, set)?;
        if matches!(self.file(file).kind, Kind::File(_) | Kind::Text | Kind::Link(_)) {
            return Err(Errno::EPERM);
        }
        let items = &mut self.sets[set].items;
        let known = items.iter().position(|item| item.file == file && item.fd == fd);
        match (operation, known) {
            (1, Some(_)) => return Err(Errno::EEXIST),
            (1, None) => items.push(Item { file, fd, events, data, seen: 0, is_spent: false }),
            (_, None) => return Err(Errno::ENOENT),
            (2, Some(at)) => _ = items.remove(at),
            (_, Some(at)) => items[at] = Item { file, fd, events, data, seen: 0, is_spent: false },
        }
        Ok(0)
    }

    fn report_of(&self, item: &Item) -> u32 {
        let is_old = item.events & bits::ET != 0 && item.seen == self.version(item.file);
        if item.is_spent || is_old { 0 } else { self.level(item.file) & (item.events | ALWAYS) }
    }

    pub(crate) fn is_set_ready(&self, set: usize) -> bool {
        self.sets[set].items.iter().any(|item| self.report_of(item) != 0)
    }

    /// Up to as many events as fit; who was reported goes behind the others.
    pub(crate) fn collect(&mut self, set: usize, into: &mut [Event]) -> usize {
        let mut count = 0;
        let mut at = 0;
        for _ in 0..self.sets[set].items.len() {
            if count == into.len() {
                break;
            }
            let item = &self.sets[set].items[at];
            let (report, version) = (self.report_of(item), self.version(item.file));
            if report == 0 {
                at += 1;
                continue;
            }
            let mut item = self.sets[set].items.remove(at);
            into[count] = Event { events: report, data: item.data };
            count += 1;
            item.seen = version;
            item.is_spent = item.events & bits::ONESHOT != 0;
            self.sets[set].items.push(item);
        }
        count
    }
}
