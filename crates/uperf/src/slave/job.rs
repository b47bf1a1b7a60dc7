//! Strands at work for one master: directs them as it commands, to the goodbye.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::link::Link;
use crate::profile::model::{Group, Until};
use crate::result::Run;
use crate::strand::workers::{Event, Workers};
use crate::strand::{Counts, End, Peer, StrandReport, TransactionReport, now_ns};
use crate::wire::{Command, Goodbye, Verdict};

/// How long strands may take to end by themselves when all is done: uperf's.
const TO_END: Duration = Duration::from_secs(5);
/// How long strands that were stopped may take to notice.
const NOTICE: Duration = Duration::from_secs(1);
/// What a session came to.
pub(super) struct Outcome {
    /// The measured transaction.
    pub(super) run: Run,
    /// Why it did not end well.
    pub(super) failure: Option<String>,
}

/// What comes through the channel of a session.
pub(super) enum Happening {
    Strand(Event),
    Master(Result<(Command, Vec<End>), String>),
}

/// How the master ended a run.
enum Ending {
    /// All is done; this transaction was the measured one, if the master said so.
    Done(Option<usize>),
    Failed(String),
}

/// Strands at work.
pub(super) struct Job {
    pub(super) group: Group,
    pub(super) peer: Peer,
    pub(super) workers: Box<dyn Workers>,
    reports: Vec<Option<Box<StrandReport>>>,
    /// How many transactions each strand knows that it may begin.
    released: Vec<usize>,
    /// The transaction that the master waits to hear of.
    unconfirmed: Option<u32>,
    begin_ns: u64,
}

impl Job {
    /// Strands that have begun to wait for the first transaction.
    pub(super) fn new(group: Group, peer: Peer, workers: Box<dyn Workers>) -> Self {
        let strands = group.strands as usize;
        let (reports, released) = (vec![None; strands], vec![0; strands]);
        Self { group, peer, workers, reports, released, unconfirmed: None, begin_ns: now_ns() }
    }

    /// Does what the master commands, to the end.
    pub(super) fn work(mut self, happenings: &Receiver<Happening>, link: &mut Link, master: &str) -> Outcome {
        let ending = self.obey(happenings, link);
        match &ending {
            Ending::Done(_) => self.await_strands(happenings, TO_END),
            Ending::Failed(_) => {}
        }
        self.workers.stop();
        self.workers.shut();
        self.await_strands(happenings, NOTICE);
        let told = if let Ending::Done(told) = ending { told } else { None };
        let measured = told.unwrap_or_else(|| self.busiest());
        let run = self.sum(measured);
        let failure = match ending {
            Ending::Done(_) => self.failure(),
            Ending::Failed(why) => Some(why),
        };
        // A master that is gone does not hear it.
        let _ = link.send(&self.goodbye(&run, failure.as_deref()));
        Outcome { run, failure: failure.map(|failure| format!("serving the master at {master}: {failure}")) }
    }

    fn obey(&mut self, happenings: &Receiver<Happening>, link: &mut Link) -> Ending {
        loop {
            match happenings.recv() {
                Ok(Happening::Strand(event)) => {
                    self.hear(event);
                    if let Some(failure) = self.failure().or_else(|| self.confirm(link).err()) {
                        return Ending::Failed(failure);
                    }
                }
                Ok(Happening::Master(Ok((Command::NextTransaction(number), ends)))) => {
                    if let Err(error) = self.go_on(number, &ends) {
                        return Ending::Failed(format!("{error:#}"));
                    }
                }
                Ok(Happening::Master(Ok((Command::SendStats(measured), ends)))) => {
                    self.end(self.group.transactions.len().saturating_sub(1), &ends);
                    let is_told = self.peer == Peer::Ours;
                    return Ending::Done(usize::try_from(measured).ok().filter(|_| is_told));
                }
                Ok(Happening::Master(Ok((Command::Abort | Command::Error, _)))) => {
                    return Ending::Failed("the master broke off the run".into());
                }
                Ok(Happening::Master(Err(why))) => {
                    return Ending::Failed(format!("the master is lost: {why}"));
                }
                Err(_) => return Ending::Failed("nobody is left".into()),
            }
        }
    }

    /// Begins `number`, and ends the one before as `ends` says.
    fn go_on(&mut self, number: u32, ends: &[End]) -> anyhow::Result<()> {
        let next = usize::try_from(number)?;
        if next >= self.group.transactions.len() {
            bail!("the master begins transaction {number}, which it did not order");
        }
        if let Some(last) = next.checked_sub(1) {
            self.end(last, ends);
        }
        self.unconfirmed = Some(number).filter(|_| self.peer == Peer::Ours);
        self.workers.release(next, now_ns());
        Ok(())
    }

    /// Tells a master of ours, once all strands know it, that the next transaction may begin. Only then it does, so that
    /// no byte of it can be taken for one of the transaction before.
    fn confirm(&mut self, link: &mut Link) -> Result<(), String> {
        let Some(number) = self.unconfirmed else { return Ok(()) };
        let strands = self.reports.iter().zip(&self.released);
        let all = { strands }.all(|(report, &released)| report.is_some() || released > number as usize);
        if !all {
            return Ok(());
        }
        self.unconfirmed = None;
        link.send(&Command::NextTransaction(number)).map_err(|error| format!("the master is lost: {error}"))
    }

    fn end(&mut self, transaction: usize, ends: &[End]) {
        let until = self.group.transactions.get(transaction).map(|transaction| transaction.until);
        for strand in 0..self.reports.len() {
            match ends.get(strand) {
                Some(&end) => self.workers.end(strand, transaction, end),
                // Iterations end by themselves, as soon as all bytes are here.
                None if matches!(until, Some(Until::Duration(_))) => {
                    self.workers.end(strand, transaction, End::Soon);
                }
                None => {}
            }
        }
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Done { strand, report } => self.reports[strand] = Some(report),
            Event::Released { strand, transaction } => self.released[strand] = transaction + 1,
            Event::AtGate { .. } => {}
        }
    }

    fn await_strands(&mut self, happenings: &Receiver<Happening>, patience: Duration) {
        let end = Instant::now() + patience;
        while self.reports.iter().any(Option::is_none) {
            match happenings.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Happening::Strand(event)) => self.hear(event),
                Ok(Happening::Master(_)) => {}
                Err(_) => return,
            }
        }
    }

    fn failure(&self) -> Option<String> {
        let mut reports = self.reports.iter().flatten().enumerate();
        reports.find_map(|(strand, report)| Some(format!("strand {strand}: {}", report.failure.as_ref()?)))
    }

    /// The transaction with the most operations.
    fn busiest(&self) -> usize {
        let operations = |number: usize| self.parts(number).map(|part| part.counts.operations).sum::<u64>();
        let numbers = (0..self.group.transactions.len()).rev();
        numbers.max_by_key(|&number| operations(number)).unwrap_or(0)
    }

    fn parts(&self, number: usize) -> impl Iterator<Item = &TransactionReport> {
        self.reports.iter().flatten().filter_map(move |report| report.transactions.get(number))
    }

    fn sum(&self, number: usize) -> Run {
        let counts = self.parts(number).fold(Counts::default(), |sum, part| sum.plus(part.counts));
        let begin = self.parts(number).map(|part| part.begin_ns).min().unwrap_or(0);
        let end = self.parts(number).map(|part| part.end_ns).max().unwrap_or(0);
        Run {
            strands: self.group.strands,
            elapsed_ns: end.saturating_sub(begin),
            operations: counts.operations,
            transactions: self.parts(number).map(|part| part.passes.count).sum(),
            bytes_sent: counts.sent,
            bytes_received: counts.received,
            server: Some(self.parts(number).map(|part| part.usage).sum()),
            errors: self.total().errors,
            ..Run::default()
        }
    }

    fn total(&self) -> Counts {
        self.reports.iter().flatten().fold(Counts::default(), |sum, report| sum.plus(report.counts()))
    }

    fn goodbye(&self, run: &Run, failure: Option<&str>) -> Goodbye {
        let total = self.total();
        // Nothing in it can fail to be written; a master of ours would do without.
        let detail = serde_json::to_string(&run.server).unwrap_or_default();
        Goodbye {
            verdict: if failure.is_some() { Verdict::Error } else { Verdict::Info },
            elapsed_ns: now_ns() - self.begin_ns,
            errors: total.errors,
            bytes: total.bytes(),
            operations: total.operations,
            message: failure.unwrap_or("Success").into(),
            detail: if self.peer == Peer::Ours { detail } else { String::new() },
        }
    }
}
