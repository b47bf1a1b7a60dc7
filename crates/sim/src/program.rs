//! What a program sees: the calls of libc, as the hooks of the preload library make them where the library
//! there, and as the kernel has them where it is not. Owns: the order of looks that the hooks have (`preload`
//! itself is a library for whole processes, and cannot be linked here).

mod lives;
mod settings;

use crate::kernel::world::{Life, Pid, Wait};
use crate::kernel::{Here, Killed, Machine};
use os::net::{Endpoint, msg, opt};
use os::poll::{PollFd, bits};
use os::sim::{Seat, place, sit};
use os::{Errno, State};
use socket::buffer::{Sink, Source};
use socket::epoll as sets;
use socket::process::Process;
use socket::stream::{receive, transmit};
use socket::table::{self, Entry};
use socket::{Outcome, client, close as closing, server};
use std::iter::once;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

const EINPROGRESS: Errno = Errno::EINPROGRESS;
/// Debug builds put what they place on the stack first.
const STACK: usize = 16 << 20;

/// All private memory of a process.
pub(crate) struct Image {
    library: Process,
    os: State,
}

/// One thread of a process.
#[derive(Clone, Copy)]
pub(crate) struct Program {
    pub(crate) here: Here,
    image: &'static Image,
    /// Whether the library is loaded.
    pub(crate) is_enabled: bool,
}

pub(crate) type Result<T> = core::result::Result<T, Errno>;

/// A whole simulation that has to succeed: `start` makes its first processes.
pub(crate) fn simulate(seed: u64, start: impl FnOnce(&'static Machine) + Send + 'static) {
    if let Err(failure) = try_to_simulate(seed, start) {
        panic!("seed {seed}: {failure}");
    }
}

/// The same; the error says what went wrong.
pub(crate) fn try_to_simulate(
    seed: u64,
    start: impl FnOnce(&'static Machine) + Send + 'static,
) -> core::result::Result<(), String> {
    let machine = Machine::new(seed);
    let body = move || {
        start(machine);
        machine.run();
    };
    let ended = std::thread::Builder::new().stack_size(STACK).spawn(body).expect("a thread").join();
    let mut world = machine.world();
    let failure = world.failure.take();
    world.clear();
    drop(world);
    ended.expect("the simulation itself does not panic");
    failure.map_or(Ok(()), Err)
}

/// A new process, whose parent is nobody.
pub(crate) fn spawn(
    machine: &'static Machine,
    is_enabled: bool,
    body: impl FnOnce(Program) + Send + 'static,
) -> Pid {
    let pid = machine.world().add_process(0);
    let image = new_image(machine);
    Program::begin(machine, pid, image, is_enabled, move |program| {
        program.construct();
        body(program);
    });
    pid
}

fn new_image(machine: &'static Machine) -> &'static Image {
    let image = place(Image { library: Process::new(), os: State::new() });
    machine.world().ground.add_value(image);
    image
}

impl Program {
    fn begin(
        machine: &'static Machine,
        pid: Pid,
        image: &'static Image,
        is_enabled: bool,
        body: impl FnOnce(Program) + Send + 'static,
    ) {
        let thread = Machine::add_thread(&mut machine.world(), pid);
        let program = Program { here: Here { machine, thread, pid }, image, is_enabled };
        let run = move || program.live(body);
        std::thread::Builder::new().stack_size(STACK).spawn(run).expect("a thread");
    }

    fn sit(&self) {
        let kernel: &'static Here = Box::leak(Box::new(self.here));
        sit(Some(Box::leak(Box::new(Seat { kernel, state: &self.image.os }))));
        self.image.library.enter();
    }

    fn live(self, body: impl FnOnce(Program)) {
        self.sit();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            drop(self.here.await_turn(self.here.machine.world()));
            body(self);
            if self.is_enabled {
                socket::exit::at_exit();
            }
        }));
        self.report(ended);
        self.here.end_process();
        sit(None);
        self.here.leave();
    }

    /// As the library's constructor.
    fn construct(&self) {
        if !self.is_enabled {
            return;
        }
        os::process::refresh_pid();
        os::poll::note_descriptor_limit(os::limits::descriptor_limit() as u64);
        let fds: Vec<i32> = self.here.machine.world().process(self.here.pid).fds.keys().copied().collect();
        fds.into_iter().for_each(server::adopt);
    }

    /// What the call in progress is, for reports; and that one has ended.
    fn note(&self, doing: &'static str) {
        let mut world = self.here.machine.world();
        world.threads[self.here.thread].doing = doing;
        world.progress = world.now;
    }

    /// How many calls of the kernel the library has made in this process.
    pub(crate) fn calls(&self) -> u64 {
        self.here.machine.world().process_mut(self.here.pid).calls
    }

    pub(crate) fn nap(&self, ns: u64) {
        self.note("sleeps");
        let world = self.here.enter();
        let deadline = Here::deadline(&world, Some(ns));
        drop(self.here.sleep(world, Wait::Nothing, deadline));
    }

    pub(crate) fn socket(&self) -> Result<i32> {
        self.here.enter().open_socket(self.here.pid, 0).map(|fd| fd as i32)
    }

    pub(crate) fn bind(&self, fd: i32, port: u16) -> Result<usize> {
        self.here.enter().bind(self.here.pid, fd, port)
    }

    pub(crate) fn listen(&self, fd: i32, backlog: usize) -> Result<usize> {
        self.note("listen");
        let is_new = self.is_enabled && (table::get(fd) == Entry::Empty || sets::is_fresh(fd));
        let announced = if is_new { server::before_listen(fd) } else { None };
        let result = self.here.enter().listen(self.here.pid, fd, backlog);
        if result.is_err() {
            server::after_failed_listen(fd, announced);
        } else if self.is_enabled {
            self.leave_fresh(fd);
            if table::get(fd) == Entry::Empty {
                server::after_listen(fd, announced);
            }
        }
        result
    }

    fn leave_fresh(&self, fd: i32) {
        if sets::is_fresh(fd) {
            sets::release_fresh(fd);
            closing::before_close(fd).run();
        }
    }

    pub(crate) fn accept(&self, listener: i32, is_nonblocking: bool) -> Result<i32> {
        self.note("accept");
        let flags = if is_nonblocking { os::raw::nr::O_NONBLOCK } else { 0 };
        let pid = self.here.pid;
        let readable = u32::from(bits::IN as u16);
        let fd =
            self.here.blocking(listener, readable, false, |world, socket| world.accept(pid, socket, flags))?
                as i32;
        if self.is_enabled {
            match table::get(listener) {
                Entry::Empty => {
                    if let Err(reason) = server::adopt_listener(listener) {
                        table::refuse(listener, reason);
                    }
                }
                Entry::Foreign => {}
                _ => server::announce_again(listener),
            }
            match server::why_refused(listener) {
                Some(reason) => server::refuse_unseen(listener, fd, reason),
                None if table::get(listener) == Entry::Foreign => {}
                None => server::accepted(listener, fd, is_nonblocking),
            }
        }
        self.note("accepted");
        Ok(fd)
    }

    /// The kernel's connect(2): a full queue makes it wait, or try again a second later.
    fn bare_connect(&self, fd: i32, to: Endpoint) -> Result<()> {
        loop {
            let mut world = self.here.enter();
            let file = world.file_of(self.here.pid, fd)?;
            let is_nonblocking = world.is_nonblocking(file);
            match world.connect(self.here.pid, fd, to) {
                Err(Errno::EAGAIN) => {
                    let deadline = Here::deadline(&world, Some(1_000_000_000));
                    drop(self.here.sleep(world, Wait::Nothing, deadline));
                }
                Ok(_) if is_nonblocking => return Err(EINPROGRESS),
                done => return done.map(drop),
            }
        }
    }

    pub(crate) fn connect(&self, fd: i32, port: u16) -> Result<()> {
        self.note("connect");
        let to = crate::kernel::tcp::loopback(port);
        let is_new = || table::get(fd) == Entry::Empty || sets::is_fresh(fd) || table::refusal(fd).is_some();
        if !self.is_enabled || !is_new() {
            return self.bare_connect(fd, to);
        }
        let offered = client::offer(fd, to);
        if offered.is_err() {
            self.leave_fresh(fd);
        }
        let outcome = self.bare_connect(fd, to);
        match offered {
            Ok(held) => client::after_connect(&held, fd, outcome),
            Err(bare) => bare.after_connect(fd, outcome),
        }
        outcome
    }

    fn is_known(&self, fd: i32) -> bool {
        self.is_enabled && table::get(fd) != Entry::Empty
    }

    fn or_kernel(outcome: Outcome, kernel: impl FnOnce() -> Result<usize>) -> Result<usize> {
        match outcome {
            Outcome::Done(count) => Ok(count),
            Outcome::Fail(errno) => Err(errno),
            Outcome::Forward => kernel(),
        }
    }

    pub(crate) fn send(&self, fd: i32, from: &[u8], flags: i32) -> Result<usize> {
        self.note("send");
        let outcome = match self.is_known(fd) {
            true => transmit(fd, once(Source::from(from)), from.len(), flags | msg::NOSIGNAL),
            false => Outcome::Forward,
        };
        let sent = Self::or_kernel(outcome, || self.send_by_tcp(fd, from, flags));
        self.note("sent");
        sent
    }

    fn send_by_tcp(&self, fd: i32, from: &[u8], flags: i32) -> Result<usize> {
        let mut sent = 0;
        let writable = u32::from(bits::OUT as u16);
        let done = self.here.blocking(fd, writable, flags & msg::DONTWAIT != 0, |world, socket| {
            sent += world.send_tcp(socket, &from[sent..])?;
            if sent < from.len() { Err(Errno::EAGAIN) } else { Ok(sent) }
        });
        if sent > 0 { Ok(sent) } else { done }
    }

    pub(crate) fn recv(&self, fd: i32, into: &mut [u8], flags: i32) -> Result<usize> {
        self.note("recv");
        let len = into.len();
        let outcome = match self.is_known(fd) {
            true => receive(fd, once(Sink::from(&mut *into)), len, flags),
            false => Outcome::Forward,
        };
        let readable = u32::from((bits::IN | bits::RDHUP) as u16);
        let mut got = 0;
        let got = Self::or_kernel(outcome, || {
            let is_all_wanted = flags & msg::WAITALL != 0;
            let done = self.here.blocking(fd, readable, flags & msg::DONTWAIT != 0, |world, socket| {
                let step = world.receive_tcp(socket, &mut into[got..], flags)?;
                got += step;
                if is_all_wanted && step > 0 && got < len { Err(Errno::EAGAIN) } else { Ok(got) }
            });
            if got > 0 { Ok(got) } else { done }
        });
        self.note("received");
        got
    }

    pub(crate) fn poll(&self, fds: &mut [PollFd], timeout_ns: Option<u64>) -> Result<usize> {
        self.note("poll");
        if self.is_enabled {
            socket::poll::note_wait(fds.iter().map(|entry| entry.fd));
        }
        let ready = if self.is_enabled && socket::poll::concerns_us(fds) {
            socket::poll::poll(fds, timeout_ns, &mut Libc(self.here))
        } else {
            self.here.poll(fds, timeout_ns)
        };
        self.note("polled");
        ready
    }

    pub(crate) fn epoll_create(&self) -> Result<i32> {
        let fd = self.here.enter().open_set(self.here.pid, 0)? as i32;
        if self.is_enabled {
            sets::note_created(fd);
        }
        Ok(fd)
    }

    pub(crate) fn epoll_ctl(
        &self,
        set: i32,
        op: os::epoll::Op,
        fd: i32,
        events: u32,
        data: u64,
    ) -> Result<usize> {
        self.note("epoll_ctl");
        let mut outcome = Outcome::Forward;
        if self.is_enabled {
            if op == os::epoll::Op::Add {
                sets::prepare_to_be_nested(fd, set);
                if table::get(fd) == Entry::Empty {
                    sets::note_early(fd);
                }
            }
            if table::get(fd) != Entry::Empty {
                outcome = sets::ctl(set, op, fd, events, data);
            }
        }
        Self::or_kernel(outcome, || {
            self.here.enter().control(self.here.pid, (set, op as u32, fd), (events, data))
        })
    }

    pub(crate) fn epoll_wait(
        &self,
        set: i32,
        events: &mut [os::epoll::Event],
        timeout_ns: Option<u64>,
    ) -> Result<usize> {
        self.note("epoll_wait");
        let outcome = match self.is_enabled && sets::is_ours(set) {
            true => sets::wait(set, events, timeout_ns, &mut LibcSet(self.here, set)),
            false => Outcome::Forward,
        };
        let got = Self::or_kernel(outcome, || self.here.wait_for_set(set, events, timeout_ns));
        self.note("epoll_waited");
        got
    }

    /// The same with something else that the process does between the kernel's answer and its own.
    pub(crate) fn epoll_wait_and_meanwhile(
        &self,
        set: i32,
        events: &mut [os::epoll::Event],
        meanwhile: impl FnMut(),
    ) -> Outcome {
        sets::wait(set, events, Some(0), &mut Slow(LibcSet(self.here, set), meanwhile))
    }

    pub(crate) fn shutdown(&self, fd: i32, how: i32) -> Result<usize> {
        self.note("shutdown");
        if !self.is_known(fd) {
            return self.here.enter().shutdown(self.here.pid, fd, how);
        }
        let after = closing::before_shutdown(fd, how);
        let result = self.here.enter().shutdown(self.here.pid, fd, how);
        after.run();
        result
    }

    pub(crate) fn close(&self, fd: i32) -> Result<usize> {
        self.note("close");
        if !self.is_known(fd) {
            return self.here.enter().close_fd(self.here.pid, fd);
        }
        let after = closing::before_close(fd);
        let result = self.here.enter().close_fd(self.here.pid, fd);
        after.run();
        result
    }

    pub(crate) fn dup(&self, old: i32) -> Result<i32> {
        let pid = self.here.pid;
        let file = self.here.enter().file_of(pid, old)?;
        let new = self.here.enter().add_fd(pid, file, 0, false)?;
        if self.is_known(old) {
            closing::after_dup(old, new);
        }
        Ok(new)
    }

    pub(crate) fn dup2(&self, old: i32, new: i32) -> Result<usize> {
        let is_ours = self.is_known(old) || self.is_known(new);
        if !is_ours || old == new || os::fd::identity(old).is_err() {
            return self.here.enter().replace(self.here.pid, old, new, false);
        }
        let after = closing::before_close(new);
        let result = self.here.enter().replace(self.here.pid, old, new, false);
        after.run();
        if result.is_ok() {
            closing::after_dup(old, new);
        }
        result
    }

    pub(crate) fn set_nonblocking(&self, fd: i32, on: bool) -> Result<usize> {
        let flags = if on { os::raw::nr::O_NONBLOCK } else { 0 };
        let result = self.here.enter().fcntl(self.here.pid, fd, os::raw::nr::F_SETFL, flags as usize);
        if self.is_known(fd) {
            socket::stream::note_nonblocking(fd, on);
        }
        result
    }

    pub(crate) fn set_cloexec(&self, fd: i32, on: bool) -> Result<usize> {
        self.here.enter().fcntl(self.here.pid, fd, os::raw::nr::F_SETFD, usize::from(on))
    }

    /// SO_LINGER of no time: the next close is a reset.
    pub(crate) fn reset_on_close(&self, fd: i32) -> Result<usize> {
        let value = [1i32.to_ne_bytes(), 0i32.to_ne_bytes()].concat();
        self.here.enter().set_option(self.here.pid, (fd, opt::SOL_SOCKET, opt::SO_LINGER), &value)
    }

    /// fork(2): the child runs `body`.
    pub(crate) fn fork(&self, body: impl FnOnce(Program) + Send + 'static) -> Pid {
        self.note("fork");
        if self.is_enabled {
            socket::fork::before_fork();
        }
        let (child, image) = self.copy();
        let is_enabled = self.is_enabled;
        Program::begin(self.here.machine, child, image, is_enabled, move |program| {
            if is_enabled {
                socket::fork::after_fork_in_child();
            }
            body(program);
        });
        if self.is_enabled {
            socket::fork::after_fork_in_parent();
        }
        child
    }

    fn copy(&self) -> (Pid, &'static Image) {
        let mut world = self.here.enter();
        let parent = self.here.pid;
        let child = world.add_process(parent);
        let fds = world.process(parent).fds.clone();
        fds.values().for_each(|fd| world.file_mut(fd.file).refs += 1);
        let limit = world.process(parent).limit;
        {
            let child = world.process_mut(child);
            (child.fds, child.limit) = (fds, limit);
        }
        let (image, twins) = os::sim::fork(self.image, &world.ranges(parent));
        world.ground.add_value(image);
        world.take_over(parent, child, &twins[1..]);
        (child, image)
    }

    /// execve(2) of a program with the library, or without.
    pub(crate) fn exec(&self, is_enabled: bool, body: impl FnOnce(Program)) {
        self.note("exec");
        if self.is_enabled {
            socket::exec::before_exec(true);
        }
        let image = new_image(self.here.machine);
        {
            let mut world = self.here.enter();
            world.forget_memory(self.here.pid);
            let fds = world.process(self.here.pid).fds.clone();
            for (fd, _) in fds.iter().filter(|(_, number)| number.is_cloexec) {
                let _ = world.close_fd(self.here.pid, *fd);
            }
        }
        let program = Program { image, is_enabled, ..*self };
        program.sit();
        program.construct();
        body(program);
        if is_enabled {
            socket::exit::at_exit();
        }
        self.vanish();
    }

    /// The process ends without a word to its library.
    pub(crate) fn vanish(&self) -> ! {
        let mut world = self.here.machine.world();
        world.threads[self.here.thread].is_unwinding = true;
        os::sim::part_from_others(&world.ranges(self.here.pid));
        drop(world);
        resume_unwind(Box::new(Killed))
    }

    /// SIGSTOP or SIGCONT.
    pub(crate) fn stop(&self, pid: Pid, on: bool) {
        let mut world = self.here.enter();
        if world.processes.contains_key(&pid) {
            world.process_mut(pid).is_stopped = on;
        }
    }

    /// SMC_SPIN of the environment.
    pub(crate) fn set_spin(&self, rounds: u64) {
        if self.is_enabled {
            socket::config::set(b"SMC_SPIN", rounds.to_string().as_bytes());
        }
    }

    /// What accept(2) says of the peer, connected still or not.
    pub(crate) fn peer_port(&self, fd: i32) -> u16 {
        let world = self.here.enter();
        world.tcp(self.here.pid, fd).map_or(0, |socket| world.socket(socket).remote.port)
    }

    /// SIGKILL.
    pub(crate) fn kill(&self, pid: Pid) {
        self.here.enter().kill(pid);
    }

    /// waitpid(2).
    pub(crate) fn await_end(&self, pid: Pid) {
        self.note("waitpid");
        let mut world = self.here.enter();
        while world
            .processes
            .get(&pid)
            .is_some_and(|process| matches!(process.life, Life::Running | Life::Ending))
        {
            (world, _) = self.here.sleep(world, Wait::End(pid), None);
        }
        if let Some(process) = world.processes.get_mut(&pid) {
            process.life = Life::Gone;
        }
    }

    /// Whether bytes take the way through memory.
    pub(crate) fn is_shared(&self, fd: i32) -> bool {
        self.is_known(fd) && socket::stream::is_shared(fd)
    }
}

struct Libc(Here);

impl socket::poll::Sleep for Libc {
    fn sleep(&mut self, fds: &mut [PollFd], timeout_ns: Option<u64>) -> Result<usize> {
        self.0.poll(fds, timeout_ns)
    }

    fn glance(&mut self, fds: &mut [PollFd]) -> Result<usize> {
        self.sleep(fds, Some(0))
    }

    fn has_mask(&self) -> bool {
        false
    }

    fn may_be_refused(&self) -> bool {
        os::poll::may_be_refused()
    }

    fn is_closing_ready(&self) -> bool {
        false
    }
}

struct LibcSet(Here, i32);

impl sets::Kernel for LibcSet {
    fn wait(&mut self, events: &mut [os::epoll::Event], timeout_ns: Option<u64>) -> Result<usize> {
        self.0.wait_for_set(self.1, events, timeout_ns)
    }

    fn glance(&mut self, events: &mut [os::epoll::Event]) -> Result<usize> {
        self.wait(events, Some(0))
    }

    fn has_mask(&self) -> bool {
        false
    }
}

/// A thread that gets its core back late.
struct Slow<F: FnMut()>(LibcSet, F);

impl<F: FnMut()> sets::Kernel for Slow<F> {
    fn wait(&mut self, events: &mut [os::epoll::Event], timeout_ns: Option<u64>) -> Result<usize> {
        let told = self.0.wait(events, timeout_ns);
        self.1();
        told
    }

    fn glance(&mut self, events: &mut [os::epoll::Event]) -> Result<usize> {
        self.wait(events, Some(0))
    }

    fn has_mask(&self) -> bool {
        false
    }
}
