//! Styles: how a program waits, reads and writes. Invariant: no wait has a time limit, so that a wake-up that
//! is lost stays lost and is seen.

use isthmus_tests::sys::{self, Errno, Fd, Ret, Select};
use testkit::Random;
use testkit::random::mix;

/// How a thread waits for its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Block,
    Timeout,
    Poll,
    Ppoll,
    Select,
    Pselect,
    Level,
    Edge,
    Oneshot,
    Exclusive,
}

impl Wait {
    const ALL: [Wait; 10] = [
        Wait::Block,
        Wait::Timeout,
        Wait::Poll,
        Wait::Ppoll,
        Wait::Select,
        Wait::Pselect,
        Wait::Level,
        Wait::Edge,
        Wait::Oneshot,
        Wait::Exclusive,
    ];

    pub(crate) fn any(random: &mut Random, may_block: bool) -> Wait {
        let skip = if may_block { 0 } else { 2 };
        Wait::ALL[skip + random.below(Wait::ALL.len() - skip)]
    }

    pub(crate) fn is_blocking(self) -> bool {
        matches!(self, Wait::Block | Wait::Timeout)
    }
}

/// A call that writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteCall {
    Write,
    Send,
    Writev,
    Sendmsg,
    Sendto,
    More,
    Sendfile,
    Splice,
}

/// A call that reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadCall {
    Read,
    Recv,
    Readv,
    Recvmsg,
    Peek,
    WaitAll,
    Queued,
    Splice,
}

const WRITES: [WriteCall; 8] = [
    WriteCall::Write,
    WriteCall::Send,
    WriteCall::Writev,
    WriteCall::Sendmsg,
    WriteCall::Sendto,
    WriteCall::More,
    WriteCall::Sendfile,
    WriteCall::Splice,
];
const READS: [ReadCall; 8] = [
    ReadCall::Read,
    ReadCall::Recv,
    ReadCall::Readv,
    ReadCall::Recvmsg,
    ReadCall::Peek,
    ReadCall::WaitAll,
    ReadCall::Queued,
    ReadCall::Splice,
];

/// The calls of one end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calls {
    /// `None`: another one each time.
    pub(crate) write: Option<WriteCall>,
    pub(crate) read: Option<ReadCall>,
    /// Most bytes of one call.
    pub(crate) buffer: usize,
}

impl Calls {
    pub(crate) fn any(random: &mut Random) -> Calls {
        let write = (!random.once_in(4)).then(|| WRITES[random.below(WRITES.len())]);
        let read = (!random.once_in(4)).then(|| READS[random.below(READS.len())]);
        // Below 64 bytes a megabyte takes as many calls as a whole run has time for.
        let buffer = (64 + random.size(1 << 17)).max(if random.once_in(3) { 1 << 16 } else { 0 });
        Calls { write, read, buffer }
    }

    pub(crate) fn write(self, n: u64) -> WriteCall {
        self.write.unwrap_or(WRITES[(mix(n) % 8) as usize])
    }

    pub(crate) fn read(self, n: u64) -> ReadCall {
        self.read.unwrap_or(READS[(mix(!n) % 8) as usize])
    }
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Want {
    pub(crate) const READ: Want = Want { read: true, write: false };
    pub(crate) const WRITE: Want = Want { read: false, write: true };

    pub(crate) fn and(self, other: Want) -> Want {
        Want { read: self.read || other.read, write: self.write || other.write }
    }

    pub(crate) fn poll(self) -> i16 {
        (if self.read { libc::POLLIN } else { 0 }) | (if self.write { libc::POLLOUT } else { 0 })
    }

    pub(crate) fn epoll(self) -> i32 {
        (if self.read { libc::EPOLLIN | libc::EPOLLRDHUP } else { 0 })
            | (if self.write { libc::EPOLLOUT } else { 0 })
    }
}

/// A thread's way to wait for one connection.
pub(crate) struct Waiter {
    wait: Wait,
    fd: Fd,
    set: Fd,
    armed: Option<Want>,
}

const BOTH: i32 = libc::EPOLLIN | libc::EPOLLOUT;

impl Waiter {
    pub(crate) fn new(wait: Wait, fd: Fd) -> Waiter {
        let uses_set = matches!(wait, Wait::Level | Wait::Edge | Wait::Oneshot | Wait::Exclusive);
        let set = if uses_set { sys::epoll() } else { -1 };
        let added = match wait {
            Wait::Edge => sys::ep_add(set, fd, BOTH | libc::EPOLLRDHUP | libc::EPOLLET, 1),
            Wait::Exclusive => sys::ep_add(set, fd, BOTH | libc::EPOLLET | libc::EPOLLEXCLUSIVE, 1),
            _ => Ok(0),
        };
        added.expect("add the connection to its set");
        Waiter { wait, fd, set, armed: None }
    }

    /// Prepares the descriptor for this style.
    pub(crate) fn prepare(wait: Wait, fd: Fd) {
        sys::nonblocking(fd, !wait.is_blocking());
        let ms = if wait == Wait::Timeout { 20 } else { 0 };
        sys::set_timeout(fd, libc::SO_RCVTIMEO, ms).expect("SO_RCVTIMEO");
    }

    /// Returns when the connection may be ready.
    pub(crate) fn wait(&mut self, want: Want) {
        let low = self.fd < 1024;
        let done = match self.wait {
            Wait::Block | Wait::Timeout => Ok(0),
            Wait::Select if low => self.select(Select::Plain, want),
            Wait::Pselect if low => self.select(Select::Precise, want),
            Wait::Ppoll => sys::ppoll(&[(self.fd, want.poll())], None).0,
            Wait::Poll | Wait::Select | Wait::Pselect => sys::poll(&[(self.fd, want.poll())], -1).0,
            Wait::Level | Wait::Oneshot => self.arm(want).and_then(|_| self.set_wait()),
            Wait::Edge | Wait::Exclusive => self.set_wait(),
        };
        assert!(done.is_ok() || done == Err(Errno(libc::EINTR)), "{:?} answers {done:?}", self.wait);
    }

    fn set_wait(&self) -> Ret {
        sys::ep_wait(self.set, -1).map(|events| events.len())
    }

    fn arm(&mut self, want: Want) -> Ret {
        let oneshot = self.wait == Wait::Oneshot;
        if self.armed == Some(want) && !oneshot {
            return Ok(0);
        }
        self.armed = Some(want);
        let events = want.epoll() | if oneshot { libc::EPOLLONESHOT } else { 0 };
        modify_or_add(self.set, self.fd, events, 1)
    }

    fn select(&self, kind: Select, want: Want) -> Ret {
        let one = [self.fd];
        let list = |wanted: bool| if wanted { &one[..] } else { &[] };
        // A day: as good as no limit, and what the wrapper can say.
        let said = sys::select(kind, list(want.read), list(want.write), &[], 86_400_000);
        said.split(' ').next().and_then(|n| n.parse().ok()).ok_or(Errno(libc::EINTR))
    }
}

/// EPOLL_CTL_MOD, and EPOLL_CTL_ADD where that says ENOENT.
pub(crate) fn modify_or_add(set: Fd, fd: Fd, events: i32, data: u64) -> Ret {
    match sys::ep_mod(set, fd, events, data) {
        Err(Errno(libc::ENOENT)) => sys::ep_add(set, fd, events, data),
        other => other,
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.set >= 0 {
            let _ = sys::close(self.set);
        }
    }
}
