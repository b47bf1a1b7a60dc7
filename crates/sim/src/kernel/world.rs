//! All that a simulated kernel knows, in one value: processes, open files, names, sockets, time. Owns: the
//! numbers by which these refer to each other; nothing here waits.

use super::epoll::EpollSet;
use super::tcp::Socket;
use os::sim::{Backing, Ground};
use os::{Errno, Result};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar};
use testkit::Random;

pub(crate) type Pid = u32;

/// What a thread waits for.
#[derive(Clone, Debug)]
pub(crate) enum Wait {
    /// Events of open files (poll's bits), by number.
    Polled(Vec<(usize, u32)>),
    /// Anything that a set reports.
    Set(usize),
    /// A wake of the word in memory (file, offset); whether it has come.
    Futex((u64, u64), bool),
    /// The end of a process.
    End(Pid),
    /// The end of a thread.
    Thread(usize),
    /// Time alone.
    Nothing,
}

/// Where a thread stands.
#[derive(Debug)]
pub(crate) enum Stand {
    Ready,
    Waiting(Wait, Option<u64>),
    Done,
}

pub(crate) struct Thread {
    pub(crate) pid: Pid,
    pub(crate) stand: Stand,
    pub(crate) turn: Arc<Condvar>,
    /// What it does, for reports.
    pub(crate) doing: &'static str,
    /// Its process was killed, and it does not know.
    pub(crate) is_killed: bool,
    /// It has found out.
    pub(crate) is_unwinding: bool,
}

/// A number of a process.
#[derive(Clone, Copy)]
pub(crate) struct Fd {
    pub(crate) file: usize,
    pub(crate) is_cloexec: bool,
}

/// A range of a process's memory.
#[derive(Clone, Copy)]
pub(crate) struct Mapping {
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) offset: usize,
    pub(crate) inode: Option<u64>,
    pub(crate) is_wiped_on_fork: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    Running,
    /// On its way out: it loses its descriptors.
    Ending,
    Zombie,
    Gone,
}

pub(crate) struct Process {
    pub(crate) parent: Pid,
    pub(crate) life: Life,
    pub(crate) is_stopped: bool,
    pub(crate) started: u64,
    pub(crate) uid: u32,
    pub(crate) limit: [u64; 2],
    pub(crate) fds: BTreeMap<i32, Fd>,
    pub(crate) maps: Vec<Mapping>,
    pub(crate) sigpipes: u32,
    /// How many calls the library has made of the kernel.
    pub(crate) calls: u64,
}

/// What an open file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Socket(usize),
    Pipe(usize),
    File(u64),
    Epoll(usize),
    Diag,
    /// A name in /proc/PID/fd itself: its permission bits.
    Link(u32),
    /// Text, or the names in a folder.
    Text,
}

pub(crate) struct File {
    pub(crate) kind: Kind,
    pub(crate) refs: u32,
    pub(crate) flags: u32,
    /// Opened with O_PATH: a name only.
    pub(crate) is_name: bool,
    pub(crate) answer: VecDeque<u8>,
}

#[derive(Clone, Copy)]
pub(crate) struct Held {
    pub(crate) file: usize,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) is_exclusive: bool,
}

pub(crate) struct Inode {
    pub(crate) backing: Backing,
    pub(crate) len: u64,
    pub(crate) seals: u32,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) locks: Vec<Held>,
}

#[derive(Default)]
pub(crate) struct Pipe {
    pub(crate) bytes: VecDeque<u8>,
    pub(crate) room: usize,
    pub(crate) readers: u32,
    pub(crate) writers: u32,
    pub(crate) version: u64,
}

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) random: Random,
    /// Once in so many calls somebody else runs next; 0: only who waits or yields gives way.
    pub(crate) once_in: usize,
    /// Once in so many questions a socket without a descriptor is not found, since it is on its way to
    /// TIME_WAIT (so Linux up to 6.18: the new entry has no reference yet); 0: never.
    pub(crate) misses_once_in: usize,
    pub(crate) since_switch: u32,
    pub(crate) current: usize,
    pub(crate) threads: Vec<Thread>,
    pub(crate) processes: BTreeMap<Pid, Process>,
    pub(crate) files: Vec<Option<File>>,
    pub(crate) inodes: BTreeMap<u64, Inode>,
    pub(crate) names: BTreeMap<Vec<u8>, u64>,
    pub(crate) pipes: Vec<Pipe>,
    pub(crate) sockets: Vec<Option<Socket>>,
    pub(crate) lingering: Vec<super::tcp::Lingering>,
    pub(crate) sets: Vec<EpollSet>,
    pub(crate) ground: Ground,
    pub(crate) next: u64,
    pub(crate) next_port: u16,
    pub(crate) tcp_room: usize,
    pub(crate) failure: Option<String>,
    /// When a call of a program ended last.
    pub(crate) progress: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        World {
            now: 1_000_000_000,
            random: Random::new(seed),
            once_in: 0,
            misses_once_in: 0,
            since_switch: 0,
            current: usize::MAX,
            threads: vec![],
            processes: BTreeMap::new(),
            files: vec![],
            inodes: BTreeMap::new(),
            names: BTreeMap::new(),
            pipes: vec![],
            sockets: vec![],
            lingering: vec![],
            sets: vec![],
            ground: Ground::default(),
            next: 1000,
            next_port: 32_768,
            tcp_room: 128 * 1024,
            failure: None,
            progress: 1_000_000_000,
        }
    }

    /// A number that nothing else has: of inodes, cookies, processes, versions.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(crate) fn process(&self, pid: Pid) -> &Process {
        &self.processes[&pid]
    }

    pub(crate) fn process_mut(&mut self, pid: Pid) -> &mut Process {
        self.processes.get_mut(&pid).expect("who calls is a process")
    }

    pub(crate) fn is_alive(&self, pid: Pid) -> bool {
        self.processes.get(&pid).is_some_and(|process| process.life == Life::Running)
    }

    pub(crate) fn add_process(&mut self, parent: Pid) -> Pid {
        let pid = self.number() as Pid;
        let started = self.now / 10_000_000;
        let process = Process {
            parent,
            life: Life::Running,
            is_stopped: false,
            started,
            uid: 1000,
            limit: [1024, 4096],
            fds: BTreeMap::new(),
            maps: vec![],
            sigpipes: 0,
            calls: 0,
        };
        self.processes.insert(pid, process);
        pid
    }

    pub(crate) fn file_of(&self, pid: Pid, fd: i32) -> Result<usize> {
        self.process(pid).fds.get(&fd).map(|fd| fd.file).ok_or(Errno::EBADF)
    }

    pub(crate) fn kind_of(&self, pid: Pid, fd: i32) -> Result<Kind> {
        let file = self.file_of(pid, fd)?;
        Ok(self.file(file).kind)
    }

    pub(crate) fn file(&self, file: usize) -> &File {
        self.files[file].as_ref().expect("it is open")
    }

    pub(crate) fn file_mut(&mut self, file: usize) -> &mut File {
        self.files[file].as_mut().expect("it is open")
    }

    pub(crate) fn is_nonblocking(&self, file: usize) -> bool {
        self.file(file).flags & os::raw::nr::O_NONBLOCK != 0
    }

    /// Opens something; nobody has a number for it yet.
    pub(crate) fn add_file(&mut self, kind: Kind, flags: u32) -> usize {
        let file = File { kind, refs: 0, flags, is_name: false, answer: VecDeque::new() };
        match self.files.iter().position(Option::is_none) {
            Some(free) => {
                self.files[free] = Some(file);
                free
            }
            None => {
                self.files.push(Some(file));
                self.files.len() - 1
            }
        }
    }

    /// The lowest free number from `floor` on.
    pub(crate) fn add_fd(&mut self, pid: Pid, file: usize, floor: i32, is_cloexec: bool) -> Result<i32> {
        let process = self.process(pid);
        let free = (floor..).find(|fd| !process.fds.contains_key(fd)).expect("numbers are many");
        if free as u64 >= process.limit[0] {
            self.drop_unused(file);
            return Err(Errno::EMFILE);
        }
        self.file_mut(file).refs += 1;
        self.process_mut(pid).fds.insert(free, Fd { file, is_cloexec });
        Ok(free)
    }

    /// Opens something under a new number.
    pub(crate) fn open_as(&mut self, pid: Pid, kind: Kind, flags: u32) -> Result<usize> {
        let file = self.add_file(kind, flags);
        let is_cloexec = flags & os::raw::nr::O_CLOEXEC != 0;
        self.add_fd(pid, file, 0, is_cloexec).map(|fd| fd as usize)
    }

    fn drop_unused(&mut self, file: usize) {
        if self.file(file).refs == 0 {
            self.files[file] = None;
        }
    }

    pub(crate) fn close_fd(&mut self, pid: Pid, fd: i32) -> Result<usize> {
        let Fd { file, .. } = self.process_mut(pid).fds.remove(&fd).ok_or(Errno::EBADF)?;
        self.release(file);
        Ok(0)
    }

    /// A number of an open file is gone, or a call that used it.
    pub(crate) fn release(&mut self, file: usize) {
        self.file_mut(file).refs -= 1;
        if self.file(file).refs == 0 {
            self.last_close(file);
        }
    }

    fn last_close(&mut self, file: usize) {
        for set in &mut self.sets {
            set.items.retain(|item| item.file != file);
        }
        let File { kind, flags, is_name, .. } = self.files[file].take().expect("it was open");
        if is_name {
            return;
        }
        match kind {
            Kind::Socket(socket) => self.close_socket(socket),
            Kind::Pipe(pipe) => self.count_pipe(pipe, flags, false),
            Kind::File(inode) => {
                if let Some(inode) = self.inodes.get_mut(&inode) {
                    inode.locks.retain(|lock| lock.file != file);
                }
            }
            Kind::Epoll(set) => self.sets[set].items.clear(),
            Kind::Diag | Kind::Link(_) | Kind::Text => {}
        }
    }

    /// Gives back what the end of a simulation leaves.
    pub(crate) fn clear(&mut self) {
        let (mut ground, processes) =
            (core::mem::take(&mut self.ground), core::mem::take(&mut self.processes));
        for map in processes.values().flat_map(|process| &process.maps) {
            ground.add(map.at, map.len);
        }
        ground.clear();
        *self = World::new(0);
    }

    /// All that keeps a report short.
    pub(crate) fn describe(&self) -> String {
        let threads = self.threads.iter().enumerate().map(|(number, thread)| {
            format!("thread {number} of {}: {} ({:?})", thread.pid, thread.doing, thread.stand)
        });
        threads.collect::<Vec<_>>().join("\n")
    }
}
