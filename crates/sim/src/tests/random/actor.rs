//! A process that follows its part of a plan, and tells the model what it does and what it gets.

use super::model::{Doing, Flow, Model, Who};
use super::plan::Op;
use crate::kernel::world::Pid;
use crate::program::Program;
use crate::tests::Pattern;
use os::Errno;
use os::epoll::{Event, Op as Control, bits as watch};
use os::net::msg;
use os::poll::{PollFd, bits};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

/// What all processes of a run share.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) model: Arc<Mutex<Model>>,
    pub(crate) pattern: &'static Pattern,
}

impl Stage {
    /// (Never held over a call of a program.)
    pub(crate) fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Each direction of each connection has bytes of its own.
fn offset(who: Who, from: usize) -> u64 {
    (who.conn * 2 + from) as u64 * 77_777
}

pub(crate) struct Actor {
    pub(crate) program: Program,
    pub(crate) stage: Stage,
    pub(crate) who: Who,
    pub(crate) fd: i32,
    pub(crate) set: Option<i32>,
}

impl Actor {
    fn pid(&self) -> Pid {
        self.program.here.pid
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.stage.model()
    }

    fn judge(&self, judged: Result<(), String>) {
        if let Err(why) = judged {
            panic!("{:?}: {why}", self.who);
        }
    }

    /// Runs a call that may wait.
    fn during<T>(&self, doing: Doing, call: impl FnOnce() -> T) -> T {
        self.model().does(self.who, doing, self.pid());
        let result = call();
        self.model().does(self.who, Doing::Else, self.pid());
        result
    }

    fn send(&self, len: usize, waits: bool) {
        let at = self.model().outgoing(self.who).sent;
        self.model().begins_to_send(self.who, len);
        let bytes = self.stage.pattern.at(at + offset(self.who, self.who.end), len);
        let (flags, doing) = if waits { (0, Doing::Writing) } else { (msg::DONTWAIT, Doing::Else) };
        let result = self.during(doing, || self.program.send(self.fd, bytes, flags));
        let judged = self.model().has_sent(self.who, len, waits, result);
        self.judge(judged);
    }

    fn receive(&self, len: usize, flags: i32) {
        let before = self.model().incoming(self.who);
        let mut bytes = vec![0; len];
        let doing = if flags & msg::DONTWAIT == 0 { Doing::Reading } else { Doing::Else };
        let result = self.during(doing, || self.program.recv(self.fd, &mut bytes, flags));
        let at = before.received + offset(self.who, 1 - self.who.end);
        let is_right = result.is_ok_and(|count| bytes[..count] == *self.stage.pattern.at(at, count));
        let takes = flags & msg::PEEK == 0;
        let judged = self.model().has_received(self.who, (before, takes), result, is_right);
        self.judge(judged);
        if result.is_ok_and(|count| count > 0) && self.program.is_shared(self.fd) {
            self.model().conns[self.who.conn].was_shared = true;
        }
    }

    fn limit(us: u64) -> Option<u64> {
        (us > 0).then_some(us * 1000)
    }

    fn poll_in(&self, us: u64) {
        let before = self.model().incoming(self.who);
        let mut fds = [PollFd { fd: self.fd, events: bits::IN, revents: 0 }];
        let doing = if us == 0 { Doing::Reading } else { Doing::Else };
        let result = self.during(doing, || self.program.poll(&mut fds, Self::limit(us)));
        assert!(result.is_ok(), "{:?}: poll gave {result:?}", self.who);
        self.has_polled(before, fds[0].revents != 0);
    }

    fn has_polled(&self, before: Flow, is_readable: bool) {
        let judged = self.model().has_polled(self.who, before, is_readable);
        self.judge(judged);
    }

    fn poll_out(&self, us: u64) {
        let mut fds = [PollFd { fd: self.fd, events: bits::OUT, revents: 0 }];
        let doing = if us == 0 { Doing::Writing } else { Doing::Else };
        let result = self.during(doing, || self.program.poll(&mut fds, Self::limit(us)));
        assert!(result.is_ok(), "{:?}: poll gave {result:?}", self.who);
    }

    fn epoll(&mut self, flags: u32, us: u64) -> Result<(), Errno> {
        let before = self.model().incoming(self.who);
        let (set, how) = match self.set {
            Some(set) => (set, Control::Mod),
            None => (self.program.epoll_create()?, Control::Add),
        };
        self.set = Some(set);
        self.program.epoll_ctl(set, how, self.fd, watch::IN | flags, 1)?;
        let mut events = [Event { events: 0, data: 0 }; 2];
        let doing = if us == 0 { Doing::Reading } else { Doing::Else };
        let count = self.during(doing, || self.program.epoll_wait(set, &mut events, Self::limit(us)))?;
        self.has_polled(before, count > 0);
        Ok(())
    }

    fn forget_set(&mut self) {
        if let Some(set) = self.set.take() {
            let _ = self.program.close(set);
        }
    }

    fn close(mut self) {
        self.forget_set();
        self.model().lets_go(self.who, self.pid());
        let _ = self.program.close(self.fd);
        self.model().has_let_go(self.who, self.pid());
    }

    fn shut(&self, how: i32) {
        self.model().shuts(self.who, how);
        let _ = self.program.shutdown(self.fd, how);
    }

    fn copy(&mut self) {
        self.forget_set();
        let Ok(copy) = self.program.dup(self.fd) else { return };
        let _ = self.program.close(self.fd);
        self.fd = copy;
    }

    /// A child that acts as this end.
    fn child(&self, act: impl FnOnce(Actor) + Send + 'static) -> Pid {
        self.model().makes_child(self.who);
        let (stage, who, fd) = (self.stage.clone(), self.who, self.fd);
        self.program.fork(move |program| {
            stage.model().is_child(who, program.here.pid);
            act(Actor { program, stage, who, fd, set: None });
        })
    }

    /// A child serves this end, without the listener; the parent lets go of it.
    pub(crate) fn serve_by_child(self, listener: Option<i32>, ops: VecDeque<Op>) -> Pid {
        let child = self.child(move |child| {
            listener.into_iter().for_each(|listener| _ = child.program.close(listener));
            child.act(ops);
        });
        self.close();
        child
    }

    /// All of it, to the end of the process.
    pub(crate) fn act(mut self, mut ops: VecDeque<Op>) {
        while let Some(op) = ops.pop_front() {
            match op {
                Op::Send(len) => self.send(len, true),
                Op::TrySend(len) => self.send(len, false),
                Op::Recv(len) => self.receive(len, 0),
                Op::TryRecv(len) => self.receive(len, msg::DONTWAIT),
                Op::Peek(len) => self.receive(len, msg::DONTWAIT | msg::PEEK),
                Op::PollIn(us) => self.poll_in(us),
                Op::PollOut(us) => self.poll_out(us),
                Op::Epoll(flags, us) => self.epoll(flags, us).expect("epoll serves a socket"),
                Op::ShutWrite => self.shut(1),
                Op::ShutRead => self.shut(0),
                Op::Nap(us) => self.program.nap(us * 1000),
                Op::Copy => self.copy(),
                Op::Share(us) => {
                    self.forget_set();
                    self.child(move |child| {
                        child.program.nap(us * 1000);
                        child.model().lets_go(child.who, child.pid());
                    });
                }
                Op::Home => self.program.go_home(self.fd),
                Op::HandOver => {
                    self.forget_set();
                    let program = self.program;
                    return program.await_end(self.serve_by_child(None, ops));
                }
                Op::Exec => {
                    self.forget_set();
                    self.model().execs(self.who);
                    let (stage, who, fd) = (self.stage.clone(), self.who, self.fd);
                    let go_on = move |program| Actor { program, stage, who, fd, set: None }.act(ops);
                    return self.program.exec(self.program.is_enabled, go_on);
                }
                Op::Reset => {
                    self.model().will_reset(self.who);
                    let _ = self.program.reset_on_close(self.fd);
                    return self.close();
                }
                Op::Close => return self.close(),
                Op::Abort => {
                    self.model().is_killed(self.pid());
                    self.program.kill(self.pid());
                    self.program.nap(1);
                }
            }
        }
        self.model().lets_go(self.who, self.pid());
    }
}
