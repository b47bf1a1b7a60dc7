//! How a run ends, well or not: goodbyes, and breaking off when somebody is lost.

use std::time::{Duration, Instant};

use super::conductor::{Conductor, Trouble, lost};
use super::groups::{Party, SlaveLink};
use crate::link::PATIENCE;
use crate::strand::{End, Peer};
use crate::wire::{Command, Verdict};

/// How long strands that were stopped may take to notice, before their connections are ended.
pub(super) const NOTICE: Duration = Duration::from_secs(1);
/// How long the slaves' word is waited for when a strand has failed: they know better why.
const SECOND_OPINION: Duration = Duration::from_millis(200);

impl Conductor<'_> {
    /// A slave that is lost, or says why it stopped, explains a strand's failure better than the strand can.
    pub(super) fn second_opinion(&mut self, first: Trouble) -> Trouble {
        let end = Instant::now() + SECOND_OPINION;
        while matches!(first, Trouble::Failed(_)) && Instant::now() < end {
            self.listen(end.saturating_duration_since(Instant::now()));
            if let Some(reason) = self.slaves.iter().find_map(lost) {
                return Trouble::Failed(reason);
            }
        }
        first
    }

    /// Stops everybody, politely first.
    pub(super) fn break_off(&mut self) {
        self.is_over = true;
        self.parties.iter_mut().for_each(|party| party.workers.stop());
        self.await_strands(NOTICE / 2);
        for slave in &mut self.slaves {
            // It may be the one that is lost.
            let _ = slave.link.send(&Command::Abort);
        }
        self.await_strands(NOTICE / 2);
        self.parties.iter_mut().for_each(|party| party.workers.shut());
        self.await_strands(NOTICE);
    }

    fn await_strands(&mut self, patience: Duration) {
        let end = Instant::now() + patience;
        while !self.parties.iter().all(Party::is_done) && Instant::now() < end {
            self.listen(end.saturating_duration_since(Instant::now()));
        }
    }

    /// Asks the slaves for their goodbyes.
    pub(super) fn farewell(&mut self, measured: usize) -> Result<(), Trouble> {
        self.is_over = true;
        for party in &self.parties {
            let told = if party.peer == Peer::Ours { u32::try_from(measured).unwrap_or(0) } else { 0 };
            let last = party.group.transactions.len().checked_sub(1);
            command(party, &mut self.slaves, Command::SendStats(told), last);
        }
        self.await_goodbyes(PATIENCE);
        for slave in &self.slaves {
            match &slave.goodbye {
                None => {
                    let why = slave.gone.clone().unwrap_or_else(|| "it said nothing".into());
                    return Err(Trouble::Failed(format!(
                        "the slave at {} did not say goodbye: {why}",
                        slave.host
                    )));
                }
                Some(goodbye) if goodbye.verdict == Verdict::Error => {
                    let message = goodbye.message.trim();
                    return Err(Trouble::Failed(format!("the slave at {} reports: {message}", slave.host)));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    pub(super) fn await_goodbyes(&mut self, patience: Duration) {
        let end = Instant::now() + patience;
        let waits = |slave: &SlaveLink| slave.goodbye.is_none() && slave.gone.is_none();
        while self.slaves.iter().any(waits) && Instant::now() < end && self.trouble.is_none() {
            self.listen(end.saturating_duration_since(Instant::now()));
        }
    }
}

/// Tells all slaves of a group; those of ours also where their strands end transaction `last`.
pub(super) fn command(party: &Party, slaves: &mut [SlaveLink], command: Command, last: Option<usize>) {
    let last = last.filter(|_| party.peer == Peer::Ours);
    let ends = last.map_or(vec![], |last| ends_to_bytes(&party.ends(last)));
    for &slave in &party.slaves {
        let link = &mut slaves[slave].link;
        // A connection that is gone is heard of by its listener.
        let _ = link.send(&command).and_then(|()| link.send_bytes(&ends));
    }
}

/// What follows the command between two ends of ours: eight bytes for each strand.
fn ends_to_bytes(ends: &[End]) -> Vec<u8> {
    let number = |end: &End| match end {
        End::After(turns) => *turns,
        End::Soon => u64::MAX,
    };
    ends.iter().flat_map(|end| number(end).to_ne_bytes()).collect()
}
