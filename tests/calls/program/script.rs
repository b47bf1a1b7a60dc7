//! The words of a script: who does which call on which connection, and what it waits for first. Invariant: a
//! script follows from its seed alone, so that both processes know it without being told.

use std::fmt::{self, Display, Formatter};

/// The two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The one that conducts.
    Here,
    /// Its puppet.
    There,
}

impl End {
    pub(crate) fn other(self) -> End {
        if self == End::Here { End::There } else { End::Here }
    }
}

/// Who of an end acts: the process itself, or the child that it has forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Actor {
    pub(crate) end: End,
    pub(crate) is_child: bool,
}

/// What must have arrived before a call, for its result to be TCP's and not a matter of luck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// So many unread bytes.
    Bytes(usize),
    /// The other end's last byte.
    Ended,
    /// A reset.
    Reset,
}

/// An arrival on one of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Awaited {
    pub(crate) link: usize,
    pub(crate) copy: usize,
    pub(crate) what: Arrival,
}

/// Ways to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Give {
    Write,
    Send,
    DontWait,
    SendTo,
    Vector,
    Message,
    Messages,
    More,
    Corked,
    File,
    Splice,
}

/// Ways to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    Read,
    Receive,
    DontWait,
    ReceiveFrom,
    Vector,
    Message,
    Messages,
    Peek,
    Discard,
    WaitAll,
    Splice,
}

/// Ways to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Poll,
    PollPrecise,
    Select,
    SelectPrecise,
    OwnSet,
    Unread,
    Error,
    Flags,
    Names,
    Options,
}

/// How a connection is in the set that a process keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Member {
    Level,
    LevelBoth,
    Edge,
    Once,
}

/// A call, or a few that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Connect,
    Accept,
    /// Way, bytes and offset of the first in its direction.
    Give(Give, usize, u64),
    /// The same.
    Take(Take, usize, u64),
    Look(Look),
    /// Puts it into the kept set, or changes how it is there.
    Join(Member, bool),
    Leave,
    /// Asks the kept set.
    WaitSet,
    /// Waits, without a limit that matters, until there is something to read.
    Await(Look),
    NonBlocking(bool),
    Shut(i32),
    Duplicate,
    Close,
    /// SO_LINGER of zero, and close: a reset.
    Abort,
    /// A child with copies of all that this process has.
    Fork,
    /// The child's end.
    ChildExits,
}

/// One line of a script.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) by: Actor,
    pub(crate) link: usize,
    /// Which of its descriptors.
    pub(crate) copy: usize,
    pub(crate) first: Vec<Awaited>,
    pub(crate) call: Call,
    /// What the other end does meanwhile, where the call waits for it.
    pub(crate) meanwhile: Option<Box<Step>>,
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let who = if self.by.is_child { "'s child" } else { "" };
        write!(f, "{:?}{who} {}.{} {:?}", self.by.end, self.link, self.copy, self.call)
    }
}
