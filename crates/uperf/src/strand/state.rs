//! One strand as it stands: what it works with, how far it is, and why it stops.

use std::sync::Arc;
use std::time::Duration;

use super::clock::now_ns;
use super::connections::Connections;
use super::control::{Control, UNLIMITED};
use super::files::Files;
use super::history::History;
use super::network::Network;
use super::plan::{Plan, Role};
use super::recorder::Recorder;
use super::steps::Program;

/// Longest sleep before a strand looks whether it was stopped.
const NAP: Duration = Duration::from_millis(50);

/// Why a pass was not finished.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The transaction is over.
    Ended,
    /// Something went wrong: a sentence.
    Failed(Box<str>),
}

/// One strand.
pub(crate) struct Strand<N: Network> {
    pub(super) plan: Arc<Plan>,
    pub(super) program: Program,
    pub(super) control: Arc<Control>,
    pub(super) network: N,
    pub(super) connections: Connections,
    pub(super) buffer: Vec<u8>,
    pub(super) recorder: Recorder,
    pub(super) history: Option<History>,
    /// What the last sendfile sent from.
    pub(super) files: Option<Files>,
    /// Taken in the current transaction.
    pub(super) turns: u64,
    /// Which step of a pass was under way, and how far, when the current transaction ended.
    pub(super) position: Position,
    /// When the current transaction is over, at the master.
    pub(super) deadline_ns: u64,
    /// Which transaction it is in.
    pub(super) transaction: usize,
    /// Whether flowops are timed, and with their CPU time.
    pub(super) timed: bool,
    pub(super) with_cpu: bool,
}

impl<N: Network> Strand<N> {
    /// Ready to begin.
    pub(crate) fn new(plan: Arc<Plan>, control: Arc<Control>, network: N) -> Self {
        let program = Program::new(&plan.transactions);
        let detail = &plan.detail;
        Self {
            connections: Connections::new(program.slots),
            buffer: vec![0; program.buffer],
            recorder: Recorder::new(plan.role == Role::Master),
            history: detail.history.as_deref().map(History::new),
            files: None,
            timed: detail.flowops || detail.cpu || detail.history.is_some(),
            with_cpu: detail.cpu,
            program,
            plan,
            control,
            network,
            turns: 0,
            position: Position::default(),
            deadline_ns: UNLIMITED,
            transaction: 0,
        }
    }

    /// Sleeps in naps, so that it can be stopped.
    pub(super) fn sleep_until(&mut self, until_ns: u64) -> Result<(), Stop> {
        loop {
            let left = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
            if left.is_zero() {
                return Ok(());
            }
            if self.is_over() {
                return Err(Stop::Ended);
            }
            std::thread::sleep(left.min(NAP));
        }
    }

    /// Whether the transaction has been ended, seen from inside a pass.
    pub(super) fn is_over(&self) -> bool {
        self.turns >= self.control.limit()
    }

    pub(super) fn is_master(&self) -> bool {
        self.plan.role == Role::Master
    }
}

/// What a strand was doing when its transaction ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// Which step.
    pub(super) step: usize,
    /// Bytes of the turn that it was in.
    pub(super) bytes: u64,
}
