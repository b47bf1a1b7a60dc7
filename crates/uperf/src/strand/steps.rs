//! A transaction made ready to run: names looked up, sizes and connections resolved to what the loop needs per call.

use std::io;
use std::time::Duration;

use socket2::Socket;

use crate::profile::model::{Flowop, FlowopKind, Place, Transaction};
use crate::profile::options::{Options, Size};

/// Which libc call moves the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// read(2)
    Read,
    /// recv(2)
    Receive,
    /// write(2)
    Write,
    /// send(2)
    Send,
}

impl Call {
    /// Whether bytes come in.
    pub(crate) fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Receive)
    }

    /// Moves as many bytes of `buffer` as one call does. A preloaded library tells read(2) from recv(2), as flowops do.
    pub(crate) fn make(self, socket: &Socket, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Read => Ok(nix::unistd::read(socket, buffer)?),
            Self::Receive => io::Read::read(&mut &*socket, buffer),
            Self::Write => Ok(nix::unistd::write(socket, buffer)?),
            Self::Send => socket.send(buffer),
        }
    }
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Bytes over a connection.
    Move {
        /// How.
        call: Call,
        /// How many.
        size: Size,
        /// How long a read may wait.
        timeout: Option<Duration>,
    },
    /// Files over a connection: so many of this folder, in chunks of so many bytes or whole.
    Files {
        /// Where they are.
        dir: String,
        /// How many.
        files: u32,
        /// Bytes of one call.
        chunk: Option<u32>,
    },
    /// connect(2)
    Connect(Box<Options>),
    /// accept(2)
    Accept(Box<Options>),
    /// close(2)
    Close,
    /// Time goes by; `busy` on a CPU.
    Think {
        /// How much.
        duration: Duration,
        /// Spin instead of sleeping.
        busy: bool,
    },
    /// Nothing.
    Nop,
}

/// A flowop made ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// What it does.
    pub(crate) action: Action,
    /// Which connection of the strand, as an index.
    pub(crate) slot: usize,
    /// How often each time.
    pub(crate) count: u64,
    /// A failure counts, but ends nothing.
    pub(crate) canfail: bool,
    /// For error messages.
    pub(crate) kind: FlowopKind,
    /// For error messages.
    pub(crate) place: Place,
}

impl Step {
    fn new(flowop: &Flowop, slot: usize, non_blocking: bool) -> Self {
        let options = &flowop.options;
        Self {
            action: action(flowop, non_blocking),
            slot,
            count: options.count,
            canfail: options.canfail,
            kind: flowop.kind,
            place: flowop.place,
        }
    }

    /// Bytes of one turn, if they are the same each time.
    pub(crate) fn bytes(&self) -> Option<u64> {
        match &self.action {
            Action::Move { size: Size::Fixed(size), .. } => Some((*size).into()),
            Action::Move { .. } | Action::Files { .. } => None,
            _ => Some(0),
        }
    }
}

/// Turns of one pass.
pub(crate) fn turns(steps: &[Step]) -> u64 {
    steps.iter().map(|step| step.count).fold(0, u64::saturating_add)
}

fn action(flowop: &Flowop, non_blocking: bool) -> Action {
    let options = &flowop.options;
    let opening = || Box::new(Options { non_blocking, ..options.clone() });
    let call = match flowop.kind {
        FlowopKind::Read => Call::Read,
        FlowopKind::Recv => Call::Receive,
        FlowopKind::Write => Call::Write,
        FlowopKind::Send => Call::Send,
        FlowopKind::Connect => return Action::Connect(opening()),
        FlowopKind::Accept => return Action::Accept(opening()),
        FlowopKind::Disconnect => return Action::Close,
        FlowopKind::Nop => return Action::Nop,
        FlowopKind::Think => {
            return Action::Think { duration: options.duration.unwrap_or_default(), busy: options.busy };
        }
        FlowopKind::Sendfile | FlowopKind::Sendfilev => return files(flowop),
    };
    let timeout = options.timeout.filter(|_| call.reads());
    // Whoever made the group saw to it that there is a size.
    options.size.map_or(Action::Nop, |size| Action::Move { call, size, timeout })
}

fn files(flowop: &Flowop) -> Action {
    let options = &flowop.options;
    let files = if flowop.kind == FlowopKind::Sendfilev { options.nfiles } else { 1 };
    let dir = options.dir.clone().unwrap_or_default();
    Action::Files { dir, files, chunk: options.size.map(Size::largest) }
}

/// All transactions of a strand, made ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// One list of steps for each transaction.
    pub(crate) transactions: Vec<Vec<Step>>,
    /// How many different connections there are.
    pub(crate) slots: usize,
    /// The largest piece that goes through a buffer.
    pub(crate) buffer: usize,
}

impl Program {
    /// Makes `transactions` ready.
    pub(crate) fn new(transactions: &[Transaction]) -> Self {
        let flowops: Vec<&Flowop> =
            transactions.iter().flat_map(|transaction| &transaction.flowops).collect();
        let mut names: Vec<_> = flowops.iter().map(|flowop| flowop.options.conn).collect();
        names.sort_unstable();
        names.dedup();
        let slot = |flowop: &Flowop| names.binary_search(&flowop.options.conn).unwrap_or(0);
        // One flowop that must not block is enough for its connection.
        let waits: Vec<bool> = (0..names.len())
            .map(|own| flowops.iter().any(|flowop| slot(flowop) == own && flowop.options.non_blocking))
            .collect();
        let step = |flowop: &Flowop| Step::new(flowop, slot(flowop), waits[slot(flowop)]);
        let steps = |transaction: &Transaction| transaction.flowops.iter().map(step).collect();
        let sizes = flowops.iter().filter(|flowop| !flowop.kind.sends_files()).filter_map(|f| f.options.size);
        let largest = sizes.map(Size::largest).max().unwrap_or(0);
        Self {
            transactions: transactions.iter().map(steps).collect(),
            slots: names.len(),
            buffer: usize::try_from(largest).unwrap_or(usize::MAX),
        }
    }
}
