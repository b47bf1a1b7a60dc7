//! The strands of one group, however they are made: threads, processes, or all in one epoll loop.

mod threads;

use std::io;
use std::sync::Arc;

use super::control::{BeginNs, Counts, End};
use super::network::Listeners;
use super::plan::{Plan, Ports};
use super::report::StrandReport;
use super::steps::Opening;
use crate::profile::model::{FlowopKind, StrandKind};

use threads::Threads;

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
    },
    /// A strand has ended, and its connections are closed.
    Done {
        /// Its number in the group.
        strand: usize,
        /// What it came to.
        report: Box<StrandReport>,
    },
}

/// Where a crew tells its events, from any thread.
pub(crate) type Events = Arc<dyn Fn(Event) + Send + Sync>;

/// The strands of one group. Dropped, it lets go of them; whoever wants them gone stops and shuts them first.
pub(crate) trait Crew {
    /// Where each strand accepts; nothing for those that do not.
    fn ports(&self) -> Vec<Ports>;
    /// Starts the strands, which then wait for the first transaction. `ports`: where the other ends accept, by strand.
    fn begin(&mut self, ports: Vec<Vec<Ports>>) -> io::Result<()>;
    /// Lets each strand begin `transaction` when it comes to it.
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
pub(crate) fn hire(plan: Plan, kind: StrandKind, strands: u32, events: Events) -> io::Result<Box<dyn Crew>> {
    match kind {
        StrandKind::Threads | StrandKind::Processes => Ok(Box::new(Threads::hire(plan, strands, events)?)),
    }
}

/// Everything that a plan's strands accept at, each strand with ports of its own unless the profile fixes them.
fn listen(plan: &Plan, shared: &mut Listeners) -> io::Result<Listeners> {
    let mut own = Listeners::default();
    let flowops = plan.transactions.iter().flat_map(|transaction| &transaction.flowops);
    for flowop in flowops.filter(|flowop| flowop.kind == FlowopKind::Accept) {
        own.listen(&Opening::of(&flowop.options), shared)?;
    }
    Ok(own)
}
