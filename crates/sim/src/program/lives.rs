//! Threads, children and other programs, and what a process gives up for good. Owns: the order in which the
//! hooks of the preload library tell the library of each.

use super::{Program, STACK, new_image};
use crate::kernel::world::{Pid, Wait};
use crate::kernel::{Here, Killed, Machine};
use os::confined::Calls;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Program {
    /// Another thread of this process, which has to wait for its end ([`Program::join`]).
    pub(crate) fn thread(&self, body: impl FnOnce(Program) + Send + 'static) -> usize {
        let thread = Machine::add_thread(&mut self.here.enter(), self.here.pid);
        let program = Program { here: Here { thread, ..self.here }, ..*self };
        let run = move || {
            program.sit();
            let ended = catch_unwind(AssertUnwindSafe(|| {
                drop(program.here.await_turn(program.here.machine.world()));
                body(program);
            }));
            program.report(ended);
            os::sim::sit(None);
            program.here.leave();
        };
        std::thread::Builder::new().stack_size(STACK).spawn(run).expect("a thread");
        thread
    }

    pub(crate) fn join(&self, thread: usize) {
        self.note("waits for a thread");
        let world = self.here.enter();
        drop(self.here.sleep(world, Wait::Thread(thread), None));
    }

    /// Tells of a panic that is the test's.
    pub(super) fn report(&self, ended: std::thread::Result<()>) {
        if let Err(why) = ended
            && !why.is::<Killed>()
        {
            let text = why.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| why.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            self.here.machine.world().fail(format!("process {}: {text}", self.here.pid));
        }
    }

    /// clone(2) by the system call instruction: the child finds out by itself, and its parent does not.
    pub(crate) fn fork_unseen(&self, body: impl FnOnce(Program) + Send + 'static) -> Pid {
        self.note("clone");
        let (child, image) = self.copy();
        Program::begin(self.here.machine, child, image, self.is_enabled, body);
        child
    }

    /// A fork(2) that the kernel refuses.
    pub(crate) fn fork_in_vain(&self) {
        self.note("fork");
        if self.is_enabled {
            socket::fork::before_fork();
            socket::fork::after_fork_in_parent();
            socket::fork::after_failed_fork();
        }
    }

    /// An execve(2) that fails.
    pub(crate) fn exec_in_vain(&self) {
        self.note("exec");
        if self.is_enabled {
            socket::exec::before_exec(true);
            drop(self.here.enter());
            socket::exec::after_failed_exec();
        }
    }

    /// posix_spawn(3): a program with the library or without, in a child.
    pub(crate) fn start(&self, is_enabled: bool, body: impl FnOnce(Program) + Send + 'static) -> Pid {
        self.note("posix_spawn");
        if self.is_enabled {
            socket::lend::before_spawn();
        }
        self.start_child(is_enabled, body)
    }

    /// vfork(2), and execve(2) in the child: once in vain, then not.
    pub(crate) fn borrow_and_start(
        &self,
        is_enabled: bool,
        body: impl FnOnce(Program) + Send + 'static,
    ) -> Pid {
        self.note("vfork");
        if self.is_enabled {
            socket::exec::before_borrower_execs();
            drop(self.here.enter());
            socket::exec::after_borrower_failed_to_exec();
            socket::exec::before_borrower_execs();
        }
        self.start_child(is_enabled, body)
    }

    fn start_child(&self, is_enabled: bool, body: impl FnOnce(Program) + Send + 'static) -> Pid {
        let machine = self.here.machine;
        let child = {
            let mut world = self.here.enter();
            let child = world.add_process(self.here.pid);
            let mut fds = world.process(self.here.pid).fds.clone();
            fds.retain(|_, fd| !fd.is_cloexec);
            fds.values().for_each(|fd| world.file_mut(fd.file).refs += 1);
            world.process_mut(child).fds = fds;
            child
        };
        Program::begin(machine, child, new_image(machine), is_enabled, move |program| {
            program.construct();
            body(program);
        });
        child
    }

    /// Sends a descriptor to another process (SCM_RIGHTS); its number there.
    pub(crate) fn pass(&self, fd: i32, to: Pid) -> super::Result<i32> {
        self.note("passes a descriptor");
        if self.is_enabled {
            socket::lend::before_passing(fd);
        }
        let mut world = self.here.enter();
        let file = world.file_of(self.here.pid, fd)?;
        world.add_fd(to, file, 0, false)
    }

    /// Has got a descriptor from another process.
    pub(crate) fn has_got(&self, fd: i32) {
        if self.is_enabled {
            socket::server::adopt(fd);
        }
    }

    /// Becomes another user for good.
    pub(crate) fn become_user(&self, uid: u32) {
        self.note("setuid");
        if self.is_enabled {
            socket::credentials::before(true);
        }
        let mut world = self.here.enter();
        world.process_mut(self.here.pid).uid = uid;
        drop(world);
        if self.is_enabled {
            socket::credentials::after();
        }
    }

    /// Installs a filter of system calls.
    pub(crate) fn confine(&self, calls: Calls) {
        self.note("seccomp");
        if self.is_enabled {
            match calls {
                Calls::Fewest => socket::confine::before_strict(),
                _ => socket::confine::before_filter(os::filter::Left::ALL),
            }
        }
    }

    /// Tries to install one, which the kernel does not take.
    pub(crate) fn confine_in_vain(&self) {
        self.note("seccomp");
        if self.is_enabled {
            socket::confine::before_filter(os::filter::Left::ALL);
            socket::confine::after_refusal();
        }
    }

    /// RLIMIT_NOFILE, soft and hard.
    pub(crate) fn limit_descriptors(&self, limit: u64) {
        self.here.enter().process_mut(self.here.pid).limit = [limit; 2];
        if self.is_enabled {
            os::poll::note_descriptor_limit(limit);
        }
    }
}
