//! The run itself: opens one gate after the other, and keeps its head when a strand or a slave is lost.

use std::time::{Duration, Instant};

use super::conductor::{Conductor, Trouble};
use super::ending::{NOTICE, command};
use super::groups::Party;
use super::output::Printer;
use super::sum::{self, Summary};
use super::{Slave, host};
use crate::exit::Exit;
use crate::link::PATIENCE;
use crate::profile::model::Until;
use crate::strand::{Peer, now_ns};
use crate::wire::Command;

/// uperf's master looks at its strands once a second, and so does its slave.
const SETTLE: Duration = Duration::from_secs(1);
/// Longest time without a look around.
const GLANCE: Duration = Duration::from_millis(500);

impl Conductor<'_> {
    /// Runs everything and adds up, whatever happens.
    pub(super) fn conduct(mut self, printer: &mut Printer) -> Summary {
        let outcome = self.all_transactions(printer);
        self.hosts.push(host::cpu());
        printer.ended(self.counts());
        let trouble = outcome.err().or_else(|| self.trouble.take());
        if trouble.is_some() {
            self.break_off();
        }
        let elapsed_ns = now_ns() - self.begin_ns;
        let groups = sum::groups(&self.parties);
        let measured = sum::measured(&groups);
        let trouble = trouble.or_else(|| self.farewell(measured).err());
        if trouble.is_some() {
            self.await_goodbyes(NOTICE);
        }
        let run = sum::run(&self.profile.name, &groups, measured, &self.hosts, &self.slaves);
        let slaves = self
            .slaves
            .iter()
            .map(|slave| Slave { host: slave.host.clone(), goodbye: slave.goodbye.clone() });
        let (exit, failure) = match trouble {
            None => (Exit::Done, None),
            Some(Trouble::Failed(sentence)) => (Exit::Failed, Some(sentence)),
            Some(Trouble::Interrupted) => (Exit::Interrupted, Some("interrupted".into())),
        };
        Summary { exit, failure, elapsed_ns, counts: self.counts(), slaves: slaves.collect(), groups, run }
    }

    fn all_transactions(&mut self, printer: &mut Printer) -> Result<(), Trouble> {
        let transactions = self.parties.iter().map(|party| party.group.transactions.len()).max().unwrap_or(0);
        for number in 0..transactions {
            self.until(printer, self.last_end(), |conductor| {
                conductor.parties.iter().all(|party| party.waits_for(number))
            })?;
            self.hosts.push(host::cpu());
            self.announce(printer, number)?;
            self.current = number;
            printer.begin(number, self.counts());
            let begin_ns = now_ns();
            let parties = self.parties.iter_mut().filter(|party| party.group.transactions.len() > number);
            parties.for_each(|party| party.workers.release(number, begin_ns));
        }
        self.until(printer, self.last_end(), |conductor| conductor.parties.iter().all(Party::is_done))
    }

    /// When the current transaction must have ended at the latest, if it ends by the clock at all.
    fn last_end(&self) -> Option<Instant> {
        let transactions = self.parties.iter().filter_map(|party| party.group.transactions.get(self.current));
        let durations: Option<Vec<Duration>> = transactions
            .map(|transaction| match transaction.until {
                Until::Duration(duration) => Some(duration),
                Until::Iterations(_) => None,
            })
            .collect();
        let longest = durations.filter(|_| !self.hosts.is_empty())?.into_iter().max()?;
        Some(Instant::now() + longest + PATIENCE)
    }

    /// Tells the slaves to go on to `number`; those of ours also where their strands end the transaction before, and
    /// they say when they have.
    fn announce(&mut self, printer: &mut Printer, number: usize) -> Result<(), Trouble> {
        let value = u32::try_from(number).unwrap_or(u32::MAX);
        self.settle(printer, number, false)?;
        for party in self.parties.iter().filter(|party| party.group.transactions.len() > number) {
            command(party, &mut self.slaves, Command::NextTransaction(value), number.checked_sub(1));
        }
        self.settle(printer, number, true)?;
        let give_up = Instant::now() + PATIENCE;
        self.until(printer, Some(give_up), |conductor| {
            conductor.parties.iter().all(|party| {
                let has_it = party.peer == Peer::Ours && party.group.transactions.len() > number;
                !has_it || party.slaves.iter().all(|&slave| conductor.slaves[slave].has_begun(value))
            })
        })
    }

    /// Gives uperf's slave the time that uperf's master gives it. Told to go on, it interrupts strands that have not come
    /// to their gate. So after iterations it is told later, when they have. After a duration they are to be interrupted;
    /// only when they have noticed may their connections be closed, which is an error to them before.
    fn settle(&mut self, printer: &mut Printer, next: usize, is_told: bool) -> Result<(), Trouble> {
        let Some(last) = next.checked_sub(1) else { return Ok(()) };
        let mut parties = self.parties.iter();
        if !parties.any(|party| party.peer == Peer::Uperf && party.is_timed(last) == is_told) {
            return Ok(());
        }
        let end = Instant::now() + SETTLE;
        self.until(printer, Some(end), |_| Instant::now() >= end)
    }

    /// Listens until `is_reached`, with lines of progress now and then.
    fn until(
        &mut self,
        printer: &mut Printer,
        give_up: Option<Instant>,
        is_reached: impl Fn(&Self) -> bool,
    ) -> Result<(), Trouble> {
        loop {
            if let Some(trouble) = self.trouble.take() {
                return Err(self.second_opinion(trouble));
            }
            if is_reached(self) {
                return Ok(());
            }
            if give_up.is_some_and(|give_up| Instant::now() >= give_up) {
                return Err(Trouble::Failed(self.stuck()));
            }
            let patience =
                give_up.map_or(GLANCE, |give_up| give_up.saturating_duration_since(Instant::now()));
            self.listen(printer.next_tick().min(patience).min(GLANCE));
            let counts = self.counts();
            printer.tick(counts);
        }
    }

    fn stuck(&self) -> String {
        let name = self.parties.iter().find_map(|party| party.group.transactions.get(self.current));
        let name = name.map_or("", |transaction| &transaction.name);
        let seconds = PATIENCE.as_secs();
        format!("transaction {name} should have ended {seconds} s ago: the other end does not answer")
    }
}
