//! A transaction made ready to run: names looked up, sizes and connections resolved to what the loop needs per call.

use std::time::Duration;

use crate::profile::model::{Flowop, FlowopKind, Place, Transaction};
use crate::profile::options::{Options, Protocol, Size};

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
}

/// How a connection is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Opening {
    /// What it is.
    pub(crate) protocol: Protocol,
    /// The other end's host.
    pub(crate) host: String,
    /// The own address to bind to.
    pub(crate) from: Option<String>,
    /// The port that the profile fixes.
    pub(crate) port: Option<u16>,
    /// SO_SNDBUF and SO_RCVBUF.
    pub(crate) wndsz: Option<u32>,
    /// TCP_NODELAY.
    pub(crate) nodelay: bool,
    /// TCP_CONGESTION.
    pub(crate) congestion: Option<String>,
    /// O_NONBLOCK.
    pub(crate) non_blocking: bool,
}

impl Opening {
    /// What a connect or accept says about the connection that it makes.
    pub(crate) fn of(options: &Options) -> Self {
        Self {
            protocol: options.protocol,
            host: options.remotehost.clone().unwrap_or_default(),
            from: options.localhost.clone(),
            port: options.port,
            wndsz: options.wndsz,
            nodelay: options.tcp_nodelay,
            congestion: options.cc.clone(),
            non_blocking: options.non_blocking,
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
    Connect(Opening),
    /// accept(2)
    Accept(Opening),
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
    let opening = || Opening { non_blocking, ..Opening::of(options) };
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
