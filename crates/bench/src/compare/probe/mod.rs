//! Sessions that measure quantities: opened once, then a round at a time, so that the loop can look at the host around
//! each round.

mod sessions;

pub(crate) use self::sessions::{guess, open, whole_seconds};
use crate::cell::Executor;
use crate::compare::quantity::{Pair, Quantity};
use uperf::result::Connections;

/// What a session gave in one round.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    /// Of what.
    pub(crate) quantity: Quantity,
    /// At least one.
    pub(crate) pairs: Vec<Pair>,
    /// What our connections ran over; None where there are none, where nobody could tell, and where another quantity of the
    /// same round has them.
    pub(crate) connections: Option<Connections>,
}

/// Measures the quantities of one probe.
pub(crate) trait Session {
    /// One round of all of them; who goes first alternates. An error ends this probe, not the suite.
    fn round(&mut self, executor: &mut dyn Executor, round: u16) -> anyhow::Result<Vec<Found>>;
}

/// Why a session cannot be had.
#[derive(Debug)]
pub(crate) enum Missing {
    /// A program of somebody else's is not installed: which.
    Absent(anyhow::Error),
    /// Something is wrong.
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Missing {
    fn from(error: anyhow::Error) -> Self {
        Missing::Failed(error)
    }
}
