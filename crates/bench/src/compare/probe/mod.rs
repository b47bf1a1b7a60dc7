//! Sessions that measure quantities: opened once, then a round at a time, so that the loop can look at the host around
//! each round.

mod sessions;

pub(crate) use self::sessions::{guess, open, whole_seconds};
use crate::compare::World;
use crate::compare::quantity::Take;

/// Measures the quantities of one probe.
pub(crate) trait Session {
    /// One round of all of them; who goes first alternates. Which round it is, and what others did meanwhile, is filled in by
    /// whoever asked for it. An error ends this probe, not the suite.
    fn round(&mut self, world: &mut dyn World, round: u16) -> anyhow::Result<Vec<Take>>;
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
