//! What the master knows of each group of strands and of each slave while a run goes on.

use std::collections::BTreeSet;

use crate::link::Link;
use crate::profile::model::{Flowop, FlowopKind, Group, Until};
use crate::profile::options::Size;
use crate::strand::workers::{Event, Workers};
use crate::strand::{End, Peer, StrandReport};
use crate::wire::{Command, FromSlave, Goodbye};

/// A group of the profile and who works on it.
pub(super) struct Party {
    /// The master's part.
    pub(super) group: Group,
    /// The slave's part.
    pub(super) opposite: Group,
    /// Who the slaves are.
    pub(super) peer: Peer,
    /// Its strands.
    pub(super) workers: Box<dyn Workers>,
    /// Its slaves, by their numbers.
    pub(super) slaves: Vec<usize>,
    strands: Vec<Standing>,
}

/// How far a strand has come.
#[derive(Default)]
struct Standing {
    gate: Option<usize>,
    turns: u64,
    report: Option<Box<StrandReport>>,
}

impl Party {
    /// Nobody has begun anything.
    pub(super) fn new(
        group: Group,
        opposite: Group,
        peer: Peer,
        workers: Box<dyn Workers>,
        slaves: Vec<usize>,
    ) -> Self {
        let strands = std::iter::repeat_with(Standing::default).take(group.strands as usize).collect();
        Self { group, opposite, peer, workers, slaves, strands }
    }

    /// Hears of a strand. A sentence if it failed.
    pub(super) fn hear(&mut self, event: Event) -> Option<String> {
        match event {
            Event::AtGate { strand, transaction, turns, .. } => {
                if let Some(standing) = self.strands.get_mut(strand) {
                    standing.gate = Some(transaction);
                    standing.turns = turns;
                }
                None
            }
            Event::Released { .. } => None,
            Event::Done { strand, report } => {
                let failure = report.failure.clone();
                if let Some(standing) = self.strands.get_mut(strand) {
                    standing.report = Some(report);
                }
                failure.map(|failure| format!("strand {strand} of {}: {failure}", self.group.name))
            }
        }
    }

    /// Whether all strands that have `transaction` wait for it, or have ended.
    pub(super) fn waits_for(&self, transaction: usize) -> bool {
        let last = transaction.min(self.group.transactions.len());
        self.strands
            .iter()
            .all(|strand| strand.report.is_some() || strand.gate.is_some_and(|gate| gate >= last))
    }

    /// Whether all strands have ended.
    pub(super) fn is_done(&self) -> bool {
        self.strands.iter().all(|strand| strand.report.is_some())
    }

    /// What the strands came to that have ended, by strand.
    pub(super) fn reports(&self) -> Vec<StrandReport> {
        self.strands.iter().map(|strand| strand.report.as_deref().cloned().unwrap_or_default()).collect()
    }

    /// How the strands of the slave are to end `transaction`, all of whose turns are taken here.
    pub(super) fn ends(&self, transaction: usize) -> Vec<End> {
        let flowops = |group: &Group| group.transactions[transaction].flowops.clone();
        let (own, others) = (flowops(&self.group), flowops(&self.opposite));
        self.strands.iter().map(|strand| end_of_slave(strand.turns, &own, &others)).collect()
    }

    /// Whether `transaction` ends by the clock.
    pub(super) fn is_timed(&self, transaction: usize) -> bool {
        let transaction = self.group.transactions.get(transaction);
        transaction.is_some_and(|transaction| matches!(transaction.until, Until::Duration(_)))
    }

    /// Whether a transaction with a duration is followed by one that goes on with its connections. uperf's slave is
    /// interrupted at the end of the first, and takes the second for interrupted as well.
    pub(super) fn needs_clean_ends(&self) -> bool {
        self.group.transactions.windows(2).any(|pair| {
            let goes_on = pair[1].flowops.first().is_some_and(|flowop| flowop.kind.moves_bytes());
            matches!(pair[0].until, Until::Duration(_)) && goes_on
        })
    }
}

/// The hosts that a group connects to or accepts from.
pub(super) fn hosts(group: &Group) -> BTreeSet<String> {
    let flowops = group.transactions.iter().flat_map(|transaction| &transaction.flowops);
    flowops
        .filter(|flowop| flowop.kind.opens())
        .filter_map(|flowop| flowop.options.remotehost.clone())
        .collect()
}

/// Where a slave's strand is when it has done what `turns` turns here did. Its flowops may move larger pieces (`rsize=`),
/// so that it takes fewer turns; one that reads what a file or a random size brings cannot count at all.
fn end_of_slave(turns: u64, own: &[Flowop], others: &[Flowop]) -> End {
    let is_random = |flowop: &Flowop| matches!(flowop.options.size, Some(Size::Random { .. }));
    if own.iter().any(|flowop| flowop.kind.sends_files() || is_random(flowop)) {
        return End::Soon;
    }
    let pass = |flowops: &[Flowop]| flowops.iter().map(|flowop| flowop.options.count).sum::<u64>();
    let scaled = |turns: u64, own: &Flowop, other: &Flowop| match (own.options.size, other.options.size) {
        (Some(Size::Fixed(own)), Some(Size::Fixed(other))) => {
            turns * u64::from(own) / u64::from(other.max(1))
        }
        _ => turns,
    };
    if let ([own], [other]) = (own, others) {
        return End::After(scaled(turns, own, other));
    }
    let (mut after, mut rest) = (turns / pass(own).max(1) * pass(others), turns % pass(own).max(1));
    for (own, other) in own.iter().zip(others) {
        if rest < own.options.count {
            after += scaled(rest, own, other);
            break;
        }
        rest -= own.options.count;
        after += other.options.count;
    }
    End::After(after)
}

/// A slave of one group.
pub(super) struct SlaveLink {
    /// As the profile spells it.
    pub(super) host: String,
    /// To talk to it.
    pub(super) link: Link,
    /// Which group it works for.
    pub(super) party: usize,
    /// Whether it is this program.
    pub(super) is_ours: bool,
    /// The last transaction that it said it has begun.
    begun: Option<u32>,
    /// What it said at the end.
    pub(super) goodbye: Option<Goodbye>,
    /// Why nothing more will come from it.
    pub(super) gone: Option<String>,
}

impl SlaveLink {
    /// A slave that has been greeted.
    pub(super) fn new(host: String, link: Link, party: usize, is_ours: bool) -> Self {
        Self { host, link, party, is_ours, begun: None, goodbye: None, gone: None }
    }

    /// Hears what it says.
    pub(super) fn hear(&mut self, said: Result<FromSlave, String>) {
        match said {
            Ok(FromSlave::Command(Command::NextTransaction(begun))) => self.begun = Some(begun),
            Ok(FromSlave::Command(_)) => {}
            Ok(FromSlave::Goodbye(goodbye)) => self.goodbye = Some(goodbye),
            Err(why) => self.gone = Some(why),
        }
    }

    /// Whether it has begun `transaction`.
    pub(super) fn has_begun(&self, transaction: u32) -> bool {
        self.begun.is_some_and(|begun| begun >= transaction)
    }
}

/// Whether a group's strands accept, so that the slaves must be told where.
pub(crate) fn accepts(group: &Group) -> bool {
    let mut flowops = group.transactions.iter().flat_map(|transaction| &transaction.flowops);
    flowops.any(|flowop| flowop.kind == FlowopKind::Accept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::model::Place;
    use crate::profile::options::Options;

    fn flowop(size: u32, count: u64) -> Flowop {
        let options = Options { size: Some(Size::Fixed(size)), count, ..Options::default() };
        Flowop { kind: FlowopKind::Write, options, place: Place { line: 1, column: 1 } }
    }

    #[test]
    fn a_slave_that_reads_larger_pieces_takes_fewer_turns() {
        let end = |turns, own: &[Flowop], others: &[Flowop]| end_of_slave(turns, own, others);
        assert_eq!(end(35, &[flowop(100, 10)], &[flowop(100, 10)]), End::After(35));
        assert_eq!(end(35, &[flowop(100, 10)], &[flowop(200, 5)]), End::After(17));
        assert_eq!(end(35, &[flowop(8, 1)], &[flowop(128, 1)]), End::After(2));
        let own = [flowop(100, 10), flowop(10, 1)];
        let others = [flowop(200, 5), flowop(10, 1)];
        assert_eq!(end(22, &own, &others), End::After(12));
        assert_eq!(end(26, &own, &others), End::After(14));
        assert_eq!(end(32, &own, &others), End::After(17));
    }

    #[test]
    fn what_a_file_or_a_random_size_brings_cannot_be_counted() {
        let file = Flowop { kind: FlowopKind::Sendfile, ..flowop(1, 1) };
        assert_eq!(end_of_slave(5, &[file], &[flowop(64, 1)]), End::Soon);
        let mut random = flowop(1, 1);
        random.options.size = Some(Size::Random { min: 1, max: 64 });
        assert_eq!(end_of_slave(5, &[random.clone()], &[random]), End::Soon);
    }
}
