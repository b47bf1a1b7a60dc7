//! What one strand is to do, complete: a thread gets it as a value, a process as JSON.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::profile::model::Transaction;
use crate::profile::options::Protocol;

/// Which end a strand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Decides when a transaction with a duration ends.
    Master,
    /// Goes on until the master does something else or closes.
    Slave,
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Peer {
    /// This program: both ends do exactly the same passes, and nobody has to be interrupted.
    Ours,
    /// uperf: it stops wherever a signal finds it, so sockets have a timeout to notice that.
    Uperf,
}

/// What is measured beyond the transactions themselves. Each costs clock readings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Detail {
    /// Time of each flowop.
    pub(crate) flowops: bool,
    /// CPU time of each flowop.
    pub(crate) cpu: bool,
    /// A line for each flowop goes here.
    pub(crate) history: Option<PathBuf>,
    /// How often a process tells what it has done so far; None for only when it is done with a transaction.
    pub(crate) progress: Option<Duration>,
}

/// Everything that the strands of one group do, as this end sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Which end it is.
    pub(crate) role: Role,
    /// Who is at the other.
    pub(crate) peer: Peer,
    /// In this order.
    pub(crate) transactions: Vec<Transaction>,
    /// What else to measure.
    pub(crate) detail: Detail,
}

/// Where the strands of one host accept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ports {
    /// The host as the profile spells it; empty for this one.
    pub(crate) host: String,
    /// Each protocol once.
    pub(crate) ports: Vec<(Protocol, u16)>,
}

impl Ports {
    /// The port for `protocol`.
    pub(crate) fn of(&self, protocol: Protocol) -> Option<u16> {
        self.ports.iter().find(|(known, _)| *known == protocol).map(|&(_, port)| port)
    }
}
