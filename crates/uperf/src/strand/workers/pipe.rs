//! What a strand's process and the one that started it say to each other: a line of JSON each, over one pair of AF_UNIX
//! sockets that is the process's standard input. Never over TCP: under SMC that would be one connection more.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::profile::options::Protocol;
use crate::strand::control::{BeginNs, Counts, End};
use crate::strand::plan::{Plan, Ports};
use crate::strand::report::StrandReport;

/// To a strand.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    /// Listen where this plan accepts. What listens at its fixed port already is the process's standard output.
    Prepare { plan: Box<Plan>, shared: Option<Protocol> },
    /// Start; the other ends accept there.
    Begin(Vec<Ports>),
    /// [`super::Workers::release`]
    Release { transaction: usize, begin_ns: BeginNs },
    /// [`super::Workers::end`]
    End { transaction: usize, end: End },
    /// [`super::Workers::stop`]
    Stop,
    /// [`super::Workers::shut`]
    Shut,
}

/// From a strand.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Word {
    /// It listens there.
    Listening(Ports),
    /// It cannot: a sentence.
    Unable(String),
    /// It waits for a transaction.
    AtGate { transaction: usize, turns: u64, counts: Counts },
    /// It has heard that a transaction may begin.
    Released { transaction: usize },
    /// It has done so much so far.
    Counts(Counts),
    /// It has ended.
    Done(Box<StrandReport>),
}

/// Writes one line.
pub(super) fn say(mut to: &UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Reads lines.
pub(super) struct Ear(BufReader<UnixStream>);

impl Ear {
    /// Of the other end of `from`.
    pub(super) fn new(from: &UnixStream) -> io::Result<Self> {
        Ok(Self(BufReader::new(from.try_clone()?)))
    }

    /// The next one; None at the end.
    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&line)?))
    }
}
