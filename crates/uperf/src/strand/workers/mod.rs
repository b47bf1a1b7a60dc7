//! The strands of one group, however they are made: threads, processes, or all in one epoll loop.

pub(crate) mod child;
mod epoll;
mod pipe;
mod processes;
mod threads;

use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::control::{BeginNs, Counts, End};
use super::listeners::Listeners;
use super::plan::{Plan, Ports};
use super::report::StrandReport;
use crate::profile::model::FlowopKind;
use crate::profile::options::Options;

use epoll::Epoll;
use processes::Processes;
use threads::Threads;

/// How the slave serves a group's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Server {
    /// One thread per strand, as uperf's slave does
    #[default]
    Threads,
    /// One process per strand
    Processes,
    /// One thread for all strands, waiting in epoll
    Epoll,
}

/// What strands tell whoever directs them.
#[derive(Debug)]
pub(crate) enum Event {
    /// A strand waits for `transaction`, or has done all of them, after so many turns of the one before.
    AtGate {
        /// Its number in the group.
        strand: usize,
        /// What it waits for.
        transaction: usize,
        /// Of the transaction before.
        turns: u64,
        /// What it has done so far, all transactions.
        counts: Counts,
    },
    /// A strand knows that `transaction` may begin, and everything that it was told before.
    Released {
        /// Its number in the group.
        strand: usize,
        /// What it was told.
        transaction: usize,
    },
    /// A strand has ended, and its connections are closed.
    Done {
        /// Its number in the group.
        strand: usize,
        /// What it came to.
        report: Box<StrandReport>,
    },
}

/// Where workers tell their events, from any thread.
pub(crate) type Events = Arc<dyn Fn(Event) + Send + Sync>;

/// The strands of one group. Dropped, it lets go of them; whoever wants them gone stops and shuts them first.
pub(crate) trait Workers {
    /// Where each strand accepts; nothing for those that do not.
    fn ports(&self) -> Vec<Ports>;
    /// Starts the strands, which then wait for the first transaction. `ports`: where the other ends accept, by strand.
    fn begin(&mut self, ports: Vec<Vec<Ports>>) -> io::Result<()>;
    /// Lets each strand begin `transaction` when it comes to it. Each answers with [`Event::Released`].
    fn release(&mut self, transaction: usize, begin_ns: BeginNs);
    /// Ends `transaction` of one strand.
    fn end(&mut self, strand: usize, transaction: usize, end: End);
    /// Ends whatever goes on at the next occasion; nothing more is begun.
    fn stop(&mut self);
    /// Ends all connections, so that blocked strands notice that they were stopped.
    fn shut(&mut self);
    /// What each strand has done so far.
    fn counts(&self) -> Vec<Counts>;
}

/// Makes `strands` strands that listen already where their plan accepts.
pub(crate) fn prepare(
    plan: Plan,
    kind: Server,
    strands: u32,
    events: Events,
) -> io::Result<Box<dyn Workers>> {
    match kind {
        Server::Threads => Ok(Box::new(Threads::prepare(plan, strands, events, &mut Listeners::default())?)),
        Server::Processes => Ok(Box::new(Processes::prepare(plan, strands, events)?)),
        Server::Epoll => Ok(Box::new(Epoll::prepare(plan, strands, events)?)),
    }
}

/// Everything that a plan's strands accept at, each strand with ports of its own unless the profile fixes them.
fn listen(plan: &Plan, strands: u32, shared: &mut Listeners) -> io::Result<Vec<Listeners>> {
    let mut of_one = |_| {
        let mut own = Listeners::default();
        accepting(plan).try_for_each(|opening| own.listen(opening, shared)).map(|()| own)
    };
    (0..strands).map(&mut of_one).collect()
}

fn accepting(plan: &Plan) -> impl Iterator<Item = &Options> {
    let flowops = plan.transactions.iter().flat_map(|transaction| &transaction.flowops);
    flowops.filter(|flowop| flowop.kind == FlowopKind::Accept).map(|flowop| &flowop.options)
}

/// What processes have to share: the one protocol whose port the profile fixes.
fn fixed_port(plan: &Plan) -> io::Result<Option<&Options>> {
    let mut fixed = accepting(plan).filter(|opening| opening.port.is_some());
    let first = fixed.next();
    if let Some(first) = &first
        && fixed.any(|other| other.protocol != first.protocol)
    {
        return Err(io::Error::other("processes can share the fixed port (port=) of one protocol only"));
    }
    Ok(first)
}
