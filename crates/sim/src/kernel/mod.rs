//! The simulated kernel: one thread of the simulation runs at a time, and who is next is drawn from the seed.
//! Owns: the points at which another thread may run (every system call, every look at the counter), virtual
//! time, and the deaths of processes.
//!
//! A thread whose process was killed unwinds at its next point. What it shared with others is made its own
//! before, so that no destructor on the way changes anything; its calls fail.

mod diag;
mod epoll;
mod files;
mod memory;
pub(crate) mod signals;
pub(crate) mod tcp;
pub(crate) mod world;

use os::sim::{Call, Kernel};
use os::{Errno, Result};
use std::panic::resume_unwind;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use world::{Kind, Life, Pid, Stand, Thread, Wait, World};

/// What a call takes, and a look at the counter.
const CALL_NS: u64 = 250;
const LOOK_NS: u64 = 20;
/// Who has run for so many calls lets others run.
const LONGEST_TURN: u32 = 2_000;

/// Without a call of a program that ended for so long, nothing moves.
const PATIENCE_NS: u64 = 20_000_000_000;

/// What a thread of a killed process unwinds with.
pub(crate) struct Killed;

/// Decides what happens when everybody waits: Ok if somebody may run now.
pub(crate) type OnStuck = Box<dyn FnMut(&mut World) -> core::result::Result<(), String> + Send>;

pub(crate) struct Machine {
    world: Mutex<World>,
    over: Condvar,
    on_stuck: Mutex<Option<OnStuck>>,
}

/// A thread's view of the kernel.
#[derive(Clone, Copy)]
pub(crate) struct Here {
    pub(crate) machine: &'static Machine,
    pub(crate) thread: usize,
    pub(crate) pid: Pid,
}

pub(crate) type Locked = MutexGuard<'static, World>;

impl Machine {
    pub(crate) fn new(seed: u64) -> &'static Machine {
        let world = Mutex::new(World::new(seed));
        Box::leak(Box::new(Machine { world, over: Condvar::new(), on_stuck: Mutex::new(None) }))
    }

    pub(crate) fn world(&'static self) -> Locked {
        self.world.lock().expect("no thread panics with it")
    }

    pub(crate) fn on_stuck(&self, act: OnStuck) {
        *self.on_stuck.lock().expect("no thread panics with it") = Some(act);
    }

    /// Adds a thread, which runs when its turn comes.
    pub(crate) fn add_thread(world: &mut World, pid: Pid) -> usize {
        world.threads.push(Thread {
            pid,
            stand: Stand::Ready,
            turn: Arc::new(Condvar::new()),
            doing: "starts",
            is_killed: false,
            is_unwinding: false,
        });
        world.threads.len() - 1
    }

    /// Lets threads run until all are done.
    pub(crate) fn run(&'static self) {
        let mut world = self.world();
        self.pass_on(&mut world);
        while !world.threads.iter().all(|thread| matches!(thread.stand, Stand::Done)) {
            world = self.over.wait(world).expect("no thread panics with it");
        }
    }

    /// Who runs next, by lot; time goes on if nobody can.
    fn pass_on(&self, world: &mut World) {
        loop {
            let ready: Vec<usize> =
                (0..world.threads.len()).filter(|thread| world.may_run(*thread)).collect();
            if !ready.is_empty() {
                let next = ready[world.random.below(ready.len())];
                world.current = next;
                world.since_switch = 0;
                world.threads[next].turn.notify_one();
                return;
            }
            let waiting = world.threads.iter().any(|thread| matches!(thread.stand, Stand::Waiting(..)));
            if !waiting {
                world.current = usize::MAX;
                self.over.notify_all();
                return;
            }
            let next = world.next_deadline();
            if let Some(next) = next {
                world.now = world.now.max(next);
            }
            if next.is_none() || world.now > world.progress + PATIENCE_NS {
                let judged = match &mut *self.on_stuck.lock().expect("no thread panics with it") {
                    Some(act) => act(world),
                    None => Err("everybody waits, and in vain".into()),
                };
                world.progress = world.now;
                if let Err(why) = judged {
                    world.fail(why);
                }
            }
        }
    }
}

impl World {
    fn may_run(&self, thread: usize) -> bool {
        let thread = &self.threads[thread];
        let is_stopped = self.process(thread.pid).is_stopped;
        match &thread.stand {
            Stand::Done => false,
            _ if thread.is_killed => true,
            _ if is_stopped => false,
            Stand::Ready => true,
            Stand::Waiting(wait, deadline) => {
                deadline.is_some_and(|deadline| deadline <= self.now) || self.is_over(wait)
            }
        }
    }

    fn is_over(&self, wait: &Wait) -> bool {
        match wait {
            Wait::Polled(files) => files.iter().any(|(file, events)| {
                self.files[*file].is_none() || self.level(*file) & (events | 0x18) != 0
            }),
            Wait::Set(set) => self.is_set_ready(*set),
            Wait::Futex(_, is_woken) => *is_woken,
            Wait::End(pid) => self.processes.get(pid).is_none_or(|process| process.life == Life::Zombie),
            Wait::Thread(thread) => matches!(self.threads[*thread].stand, Stand::Done),
            Wait::Nothing => false,
        }
    }

    fn next_deadline(&self) -> Option<u64> {
        let deadlines = self.threads.iter().filter_map(|thread| match thread.stand {
            Stand::Waiting(_, deadline) if !self.process(thread.pid).is_stopped => deadline,
            _ => None,
        });
        deadlines.min()
    }

    /// The simulation has failed: everybody ends.
    pub(crate) fn fail(&mut self, why: String) {
        if self.failure.is_none() {
            self.failure = Some(format!("{why}\n{}", self.describe()));
        }
        self.threads.iter_mut().for_each(|thread| thread.is_killed = true);
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self, pid: Pid) {
        let threads = self.threads.iter_mut().filter(|thread| thread.pid == pid);
        threads.for_each(|thread| thread.is_killed = true);
    }

    fn wake(&mut self, word: (u64, u64)) -> usize {
        let mut count = 0;
        for thread in &mut self.threads {
            if let Stand::Waiting(Wait::Futex(at, is_woken), _) = &mut thread.stand
                && *at == word
                && !*is_woken
            {
                *is_woken = true;
                count += 1;
            }
        }
        count
    }
}

/// An open file in use by a call.
struct Used {
    machine: &'static Machine,
    file: usize,
}

impl Drop for Used {
    fn drop(&mut self) {
        self.machine.world().release(self.file);
    }
}

/// What ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Woken {
    Ready,
    Late,
}

impl Here {
    /// The kernel, after a point at which others may have run.
    pub(crate) fn enter(&self) -> Locked {
        let world = self.machine.world();
        self.point(world, CALL_NS, 1)
    }

    fn point(&self, mut world: Locked, ns: u64, weight: usize) -> Locked {
        if world.threads[self.thread].is_unwinding {
            return world;
        }
        if let Some(handler) = signals::due() {
            drop(world);
            signals::handle(handler);
            world = self.machine.world();
        }
        world.now += ns;
        world.since_switch += 1;
        let rate = world.once_in * weight;
        let gives_way = world.since_switch > LONGEST_TURN || (rate > 0 && world.random.once_in(rate));
        if gives_way || world.threads[self.thread].is_killed || world.process(self.pid).is_stopped {
            return self.give_way(world);
        }
        world
    }

    /// Somebody else's turn, perhaps.
    pub(crate) fn give_way(&self, mut world: Locked) -> Locked {
        self.machine.pass_on(&mut world);
        self.await_turn(world)
    }

    /// Returns when it is this thread's turn.
    pub(crate) fn await_turn(&self, mut world: Locked) -> Locked {
        let turn = world.threads[self.thread].turn.clone();
        while world.current != self.thread {
            world = turn.wait(world).expect("no thread panics with it");
        }
        let this = &mut world.threads[self.thread];
        this.stand = Stand::Ready;
        if this.is_killed && !this.is_unwinding {
            this.is_unwinding = true;
            world.process_mut(self.pid).life = Life::Ending;
            os::sim::part_from_others(&world.ranges(self.pid));
            drop(world);
            resume_unwind(Box::new(Killed));
        }
        world
    }

    /// Sleeps until what is waited for is there, or `deadline` is over.
    pub(crate) fn sleep(&self, mut world: Locked, wait: Wait, deadline: Option<u64>) -> (Locked, Woken) {
        if world.threads[self.thread].is_unwinding {
            return (world, Woken::Late);
        }
        world.threads[self.thread].stand = Stand::Waiting(wait.clone(), deadline);
        self.machine.pass_on(&mut world);
        let turn = world.threads[self.thread].turn.clone();
        while world.current != self.thread {
            world = turn.wait(world).expect("no thread panics with it");
        }
        let is_woken = match &world.threads[self.thread].stand {
            Stand::Waiting(wait, _) => world.is_over(wait),
            _ => true,
        };
        let world = self.await_turn(world);
        (world, if is_woken { Woken::Ready } else { Woken::Late })
    }

    pub(crate) fn deadline(world: &World, timeout_ns: Option<u64>) -> Option<u64> {
        timeout_ns.map(|ns| world.now.saturating_add(ns))
    }

    /// poll(2).
    pub(crate) fn poll(&self, fds: &mut [os::poll::PollFd], timeout_ns: Option<u64>) -> Result<usize> {
        let mut world = self.enter();
        let deadline = Self::deadline(&world, timeout_ns);
        loop {
            let (mut ready, mut wanted) = (0, vec![]);
            for entry in &mut *fds {
                entry.revents = 0;
                if entry.fd < 0 {
                    continue;
                }
                let events = u32::from(entry.events as u16) | 0x18;
                match world.file_of(self.pid, entry.fd) {
                    Ok(file) => {
                        entry.revents = (world.level(file) & events) as i16;
                        wanted.push((file, events));
                    }
                    Err(_) => entry.revents = os::poll::bits::NVAL,
                }
                ready += usize::from(entry.revents != 0);
            }
            let is_over = deadline.is_some_and(|deadline| deadline <= world.now);
            if ready > 0 || is_over || world.threads[self.thread].is_unwinding {
                return Ok(ready);
            }
            (world, _) = self.sleep(world, Wait::Polled(wanted), deadline);
        }
    }

    /// epoll_wait(2).
    pub(crate) fn wait_for_set(
        &self,
        set: i32,
        events: &mut [os::epoll::Event],
        timeout_ns: Option<u64>,
    ) -> Result<usize> {
        let mut world = self.enter();
        let deadline = Self::deadline(&world, timeout_ns);
        loop {
            let set = world.set_of(self.pid, set)?;
            let count = world.collect(set, events);
            let is_over = deadline.is_some_and(|deadline| deadline <= world.now);
            if count > 0 || is_over || world.threads[self.thread].is_unwinding {
                return Ok(count);
            }
            (world, _) = self.sleep(world, Wait::Set(set), deadline);
        }
    }

    /// Tries `act` on the socket behind `fd` until it does not say EAGAIN, as a blocking call does; `wait`
    /// are poll's bits. The call keeps what it found at first open, whoever closes the number.
    pub(crate) fn blocking(
        &self,
        fd: i32,
        wait: u32,
        is_nonblocking: bool,
        mut act: impl FnMut(&mut World, usize) -> Result<usize>,
    ) -> Result<usize> {
        let mut world = self.enter();
        let (file, socket) = (world.file_of(self.pid, fd)?, world.tcp(self.pid, fd)?);
        world.file_mut(file).refs += 1;
        let _used = Used { machine: self.machine, file };
        loop {
            let done = act(&mut world, socket);
            let is_unwinding = world.threads[self.thread].is_unwinding;
            if done != Err(Errno::EAGAIN) || is_nonblocking || is_unwinding || world.is_nonblocking(file) {
                drop(world);
                return done;
            }
            (world, _) = self.sleep(world, Wait::Polled(vec![(file, wait)]), None);
        }
    }

    /// The last steps of a process: its descriptors go one by one, and others may run between them.
    pub(crate) fn end_process(&self) {
        let mut world = self.machine.world();
        world.threads[self.thread].is_unwinding = true;
        world.process_mut(self.pid).life = Life::Ending;
        loop {
            let first = world.process(self.pid).fds.keys().next().copied();
            let Some(fd) = first else { break };
            let _ = world.close_fd(self.pid, fd);
            if world.once_in > 0 && world.failure.is_none() {
                self.machine.pass_on(&mut world);
                let turn = world.threads[self.thread].turn.clone();
                while world.current != self.thread {
                    world = turn.wait(world).expect("no thread panics with it");
                }
            }
        }
        world.forget_memory(self.pid);
        let parent = world.process(self.pid).parent;
        let is_waited_for = world.is_alive(parent);
        world.process_mut(self.pid).life = if is_waited_for { Life::Zombie } else { Life::Gone };
        let orphans: Vec<Pid> = world
            .processes
            .iter()
            .filter(|(_, process)| process.parent == self.pid && process.life == Life::Zombie)
            .map(|(pid, _)| *pid)
            .collect();
        for orphan in orphans {
            world.process_mut(orphan).life = Life::Gone;
        }
    }

    /// The thread is done.
    pub(crate) fn leave(&self) {
        let mut world = self.machine.world();
        world.threads[self.thread].stand = Stand::Done;
        self.machine.pass_on(&mut world);
    }
}

impl Kernel for Here {
    fn call(&self, call: Call<'_>) -> Result<usize> {
        let pid = self.pid;
        self.machine.world().process_mut(pid).calls += 1;
        match call {
            Call::Poll { fds, timeout_ns } => return self.poll(fds, timeout_ns),
            Call::FutexWait { word, seen, timeout_ns } => return self.wait_for_word(word, seen, timeout_ns),
            _ => {}
        }
        let mut world = self.enter();
        match call {
            Call::Yield => {
                world.now += CALL_NS;
                drop(self.give_way(world));
                Ok(0)
            }
            Call::ExitGroup(_) => {
                world.kill(pid);
                drop(self.give_way(world));
                Ok(0)
            }
            Call::ThreadId => Ok(pid as usize + self.thread),
            call => world.call_of_files(pid, call),
        }
    }

    fn cycles(&self) -> u64 {
        let world = self.machine.world();
        let world = self.point(world, LOOK_NS, 8);
        world.now * 3
    }

    fn is_in_a_handler(&self) -> bool {
        signals::is_in_a_handler()
    }
}

impl Here {
    fn wait_for_word(
        &self,
        word: &core::sync::atomic::AtomicU32,
        seen: u32,
        timeout_ns: Option<u64>,
    ) -> Result<usize> {
        let world = self.enter();
        let at = world.word_at(self.pid, word.as_ptr().addr());
        if word.load(core::sync::atomic::Ordering::SeqCst) != seen {
            return Err(Errno::EAGAIN);
        }
        let deadline = Self::deadline(&world, timeout_ns);
        match self.sleep(world, Wait::Futex(at, false), deadline).1 {
            Woken::Ready => Ok(0),
            Woken::Late => Err(Errno::ETIMEDOUT),
        }
    }
}

/// The calls that never wait, by what they are about; each passes on what it does not know.
impl World {
    fn call_of_files(&mut self, pid: Pid, call: Call<'_>) -> Result<usize> {
        match call {
            Call::Close(fd) => self.close_fd(pid, fd),
            Call::CloseRange { first, last, flags } => self.close_range(pid, first, last, flags),
            Call::Fcntl { fd, command, argument } => self.fcntl(pid, fd, command, argument),
            Call::LockBytes { fd, lock } => self.lock(pid, fd, lock),
            Call::AskLock { fd, lock } => self.ask_lock(pid, fd, lock),
            Call::Stat { fd, into } => {
                *into = self.stat(pid, fd)?;
                Ok(0)
            }
            Call::FileSystem(fd) => self.file_system(pid, fd),
            Call::Open { path, flags, .. } => self.open(pid, path.to_bytes(), flags),
            Call::Unlink(path) => self.names.remove(path.to_bytes()).map(|_| 0).ok_or(Errno::ENOENT),
            Call::Rename { from, to } => self.rename(from.to_bytes(), to.to_bytes()),
            Call::MayWrite(_) => Ok(0),
            Call::Names { fd, into } => self.names(pid, fd, into),
            Call::Read { fd, into } => self.read(pid, fd, into),
            Call::Write { fd, from } => self.write(pid, fd, from),
            Call::Pipe(ends) => self.pipe(pid, ends),
            call => self.call_of_sockets(pid, call),
        }
    }

    fn call_of_sockets(&mut self, pid: Pid, call: Call<'_>) -> Result<usize> {
        match call {
            Call::Receive { fd, into, flags } => {
                let file = self.file_of(pid, fd)?;
                match self.file(file).kind {
                    Kind::Socket(socket) => self.receive_tcp(socket, into, flags),
                    Kind::Diag => self.take_answer(file, into),
                    _ => Err(Errno::ENOTSOCK),
                }
            }
            Call::Send { fd, from, .. } => match self.kind_of(pid, fd)? {
                Kind::Socket(socket) => self.send_tcp(socket, from),
                Kind::Diag => self.ask_diag(pid, fd, from),
                _ => Err(Errno::ENOTSOCK),
            },
            Call::EpollControl { set, operation, fd, events, data } => {
                self.control(pid, (set, operation, fd), (events, data))
            }
            Call::GetOption { fd, level, name, into } => self.get_option(pid, (fd, level, name), into),
            Call::SetOption { fd, level, name, value } => self.set_option(pid, (fd, level, name), value),
            Call::Name { fd, is_peer, into } => {
                *into = self.name(pid, fd, is_peer)?;
                Ok(0)
            }
            Call::Dissolve(fd) => self.dissolve(pid, fd),
            Call::Readable(fd) => {
                let socket = self.tcp(pid, fd)?;
                Ok(self.socket(socket).received.len())
            }
            Call::Socket { .. } => self.open_as(pid, Kind::Diag, os::raw::nr::O_CLOEXEC),
            call => self.call_of_memory(pid, call),
        }
    }

    fn call_of_memory(&mut self, pid: Pid, call: Call<'_>) -> Result<usize> {
        match call {
            Call::FutexWake(at) => {
                let word = self.word_at(pid, at);
                Ok(self.wake(word))
            }
            Call::Memfd => self.memfd(pid),
            Call::Resize { fd, len } => self.resize(pid, fd, len),
            Call::Backing(fd) => self.backing(pid, fd),
            Call::Mapped { at, len, fd } => self.mapped(pid, (at, len), fd),
            Call::MappedAgain { from, at, len } => self.mapped_again(pid, from, (at, len)),
            Call::Unmapped { at, len } => {
                self.unmapped(pid, at, len);
                Ok(0)
            }
            Call::WipedOnFork { at, .. } => self.wiped_on_fork(pid, at),
            call => self.call_of_processes(pid, call),
        }
    }

    fn call_of_processes(&mut self, pid: Pid, call: Call<'_>) -> Result<usize> {
        match call {
            Call::ProcessId => Ok(pid as usize),
            Call::User => Ok(self.process(pid).uid as usize),
            Call::Exists(other) => {
                let is_there = self.processes.get(&other).is_some_and(|other| other.life != Life::Gone);
                if is_there { Ok(0) } else { Err(Errno::ESRCH) }
            }
            Call::RaiseOnSelf(_) => {
                self.process_mut(pid).sigpipes += 1;
                Ok(0)
            }
            Call::Random(into) => {
                into.iter_mut().for_each(|byte| *byte = self.random.bits() as u8);
                Ok(into.len())
            }
            Call::DescriptorLimit { new, old } => {
                let limit = &mut self.process_mut(pid).limit;
                *old = *limit;
                *limit = new.unwrap_or(*limit);
                Ok(0)
            }
            Call::Now => Ok(self.now as usize),
            _ => Err(Errno::ENOSYS),
        }
    }
}
