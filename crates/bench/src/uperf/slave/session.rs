//! One master's session: greets it, hires the strands that it orders, directs them as it commands, says goodbye.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};

use super::order;
use crate::cell::Server;
use crate::profile::model::{Group, Until};
use crate::result::{Run, Usage};
use crate::strand::crew::{Crew, Event, Events, hire};
use crate::strand::{Counts, Detail, End, Peer, Plan, Ports, Role, StrandReport, now_ns, together};
use crate::uperf::convert::from_wire;
use crate::uperf::link::{Link, MARK, PATIENCE, explain};
use crate::uperf::master::{accepts, from_info, to_info};
use crate::uperf::wire::{
    Ack, Command, Goodbye, Hello, Message, Order, OrderAck, SlaveInfo, VERSION, Verdict,
};

/// How long strands may take to end by themselves when all is done: uperf's.
const TO_END: Duration = Duration::from_secs(5);
/// How long strands that were stopped may take to notice.
const NOTICE: Duration = Duration::from_secs(1);
/// What starting one strand may take, on a busy machine.
const PER_STRAND: Duration = Duration::from_millis(20);

/// A master that has been greeted.
pub(super) struct Session {
    link: Link,
    master: String,
    server: Server,
}

/// What a session came to.
pub(super) struct Outcome {
    /// The measured transaction.
    pub(super) run: Run,
    /// Why it did not end well.
    pub(super) failure: Option<String>,
}

/// What comes through the channel of a session.
enum Happening {
    Strand(Event),
    Master(Result<(Command, Vec<End>), String>),
}

/// How the master ended a run.
enum Ending {
    /// All is done; this transaction was the measured one, if the master said so.
    Done(Option<usize>),
    Failed(String),
}

impl Session {
    /// Phase 1. An error is why whoever connected is no master.
    pub(super) fn greet(guest: TcpStream, server: Server) -> Result<Self, String> {
        let mut link = Link::new(guest).map_err(|error| error.to_string())?;
        let hello = hello(&mut link).map_err(|error| explain(&error))?;
        let master = link.peer().map_err(|error| error.to_string())?.to_string();
        let answer = check(&hello).map_or_else(|refusal| Ack::refuse(&refusal), |()| Ack::ok(MARK));
        link.send(&answer).map_err(|error| explain(&error))?;
        if answer.is_ok() { Ok(Self { link, master, server }) } else { Err(answer.message) }
    }

    /// Everything after the greeting.
    pub(super) fn serve(mut self) -> Outcome {
        let (sender, happenings) = channel();
        let ear = sender.clone();
        // Nobody listens any more: the session is over.
        let events: Events = Arc::new(move |event| drop(ear.send(Happening::Strand(event))));
        let job = match self.accept_order(events) {
            Ok(job) => job,
            Err(error) => {
                let failure =
                    format!("the order of the master at {} was not accepted: {error:#}", self.master);
                return Outcome { run: Run::default(), failure: Some(failure) };
            }
        };
        let strands = if job.peer == Peer::Ours { job.group.strands as usize } else { 0 };
        let listening = self.link.another().and_then(|mut link| {
            let work = move || {
                loop {
                    let said = command(&mut link, strands).map_err(|error| explain(&error));
                    let is_last = said.is_err();
                    if sender.send(Happening::Master(said)).is_err() || is_last {
                        return;
                    }
                }
            };
            thread::Builder::new().name("commands".into()).spawn(work)
        });
        let outcome = match listening {
            Ok(_) => job.work(&happenings, &mut self.link, &self.master),
            Err(error) => {
                Outcome { run: Run::default(), failure: Some(format!("cannot listen to a master: {error}")) }
            }
        };
        self.link.shut();
        outcome
    }

    /// Phase 2: from the order to strands that wait for the first transaction.
    fn accept_order(&mut self, events: Events) -> anyhow::Result<Job> {
        let heard = |error| anyhow!("{}", explain(&error));
        let hello = hello(&mut self.link).map_err(heard)?;
        let peer = if hello.host == MARK { Peer::Ours } else { Peer::Uperf };
        match self.prepare(&hello, peer, events) {
            Ok(job) => {
                let own = if accepts(&job.group) { job.crew.ports() } else { vec![] };
                let answer = OrderAck { ack: Ack::ok(""), slave_infos: u32::try_from(own.len())? };
                self.link.send(&answer).map_err(heard)?;
                for ports in own {
                    self.link.send(&to_info(&ports)).map_err(heard)?;
                }
                self.link.receive::<Ack>(PATIENCE + PER_STRAND * job.group.strands).map_err(heard)?;
                self.link.send(&Ack::end()).map_err(heard)?;
                Ok(job)
            }
            Err(error) => {
                let answer = OrderAck { ack: Ack::refuse(&format!("{error:#}")), slave_infos: 0 };
                // It may have gone away, which is why we are here.
                let _ = self.link.send(&answer);
                Err(error)
            }
        }
    }

    fn prepare(&mut self, hello: &Hello, peer: Peer, events: Events) -> anyhow::Result<Job> {
        if hello.phase != 2 {
            bail!("phase 2 of the handshake was expected, not phase {}", hello.phase);
        }
        let order = order::receive(&mut self.link).map_err(|error| anyhow!("{}", explain(&error)))?;
        let group = from_wire(&order, &self.master)?;
        if hello.slave_infos != 0 && hello.slave_infos != group.strands {
            bail!("{} ports for {} strands", hello.slave_infos, group.strands);
        }
        let mut ports = vec![vec![]; group.strands as usize];
        for strand in ports.iter_mut().take(hello.slave_infos as usize) {
            let info: SlaveInfo =
                self.link.receive(PATIENCE).map_err(|error| anyhow!("{}", explain(&error)))?;
            strand.push(from_info(&self.master, &info));
        }
        self.hire(group, peer, ports, events)
    }

    fn hire(&self, group: Group, peer: Peer, ports: Vec<Vec<Ports>>, events: Events) -> anyhow::Result<Job> {
        let plan = Plan {
            role: Role::Slave,
            peer,
            transactions: group.transactions.clone(),
            detail: Detail::default(),
        };
        let mut crew = hire(plan, self.server, group.strands, events).context("cannot serve this profile")?;
        crew.begin(ports).context("cannot start the strands")?;
        let strands = group.strands as usize;
        let (reports, released) = (vec![None; strands], vec![0; strands]);
        Ok(Job { group, peer, crew, reports, released, unconfirmed: None, begin_ns: now_ns() })
    }
}

/// The next hello. A stranger is told what is wrong, if there is a word for it.
fn hello(link: &mut Link) -> io::Result<Hello> {
    let bytes = link.receive_bytes(Hello::SIZE, Some(PATIENCE))?;
    match Hello::read(&bytes) {
        Ok((hello, order)) => {
            link.order = order;
            Ok(hello)
        }
        Err(error) => {
            // Whether it understands or not.
            let _ = link.send(&Ack::refuse("Wrong magic"));
            Err(io::Error::new(io::ErrorKind::InvalidData, error))
        }
    }
}

/// Whether a master with this greeting can be served.
fn check(hello: &Hello) -> Result<(), String> {
    if hello.version != VERSION {
        return Err(format!("data version {} is not {VERSION}, which this slave has", hello.version));
    }
    let foreign = (0..).zip(hello.protocols).find(|&(number, used)| used && ![1, 2].contains(&number));
    match foreign {
        Some((number, _)) => {
            Err(format!("protocol {number} is not one that smc_bench has: tcp and unix are"))
        }
        None => Ok(()),
    }
}

/// The master's next command, and where `strands` strands end the transaction before it.
fn command(link: &mut Link, strands: usize) -> io::Result<(Command, Vec<End>)> {
    let command: Command = link.wait_for()?;
    let follows = matches!(command, Command::NextTransaction(1..) | Command::SendStats(_));
    let bytes = link.receive_bytes(if follows { strands * size_of::<u64>() } else { 0 }, Some(PATIENCE))?;
    let numbers = bytes.as_chunks::<8>().0.iter().map(|&number| match link.order {
        Order::Native => u64::from_ne_bytes(number),
        Order::Swapped => u64::from_ne_bytes(number).swap_bytes(),
    });
    let ends = numbers.map(|turns| if turns == u64::MAX { End::Soon } else { End::After(turns) });
    Ok((command, ends.collect()))
}

/// Strands at work.
struct Job {
    group: Group,
    peer: Peer,
    crew: Box<dyn Crew>,
    reports: Vec<Option<Box<StrandReport>>>,
    /// How many transactions each strand knows that it may begin.
    released: Vec<usize>,
    /// The transaction that the master waits to hear of.
    unconfirmed: Option<u32>,
    begin_ns: u64,
}

impl Job {
    /// Does what the master commands, to the end.
    fn work(mut self, happenings: &Receiver<Happening>, link: &mut Link, master: &str) -> Outcome {
        let ending = self.obey(happenings, link);
        match &ending {
            Ending::Done(_) => self.await_strands(happenings, TO_END),
            Ending::Failed(_) => {}
        }
        self.crew.stop();
        self.crew.shut();
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
        self.crew.release(next, now_ns());
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
                Some(&end) => self.crew.end(strand, transaction, end),
                // Iterations end by themselves, as soon as all bytes are here.
                None if matches!(until, Some(Until::Duration(_))) => {
                    self.crew.end(strand, transaction, End::Soon);
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

    fn parts(&self, number: usize) -> impl Iterator<Item = &crate::strand::TransactionReport> {
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
            server: Some(self.parts(number).fold(Usage::default(), |sum, part| together(sum, part.usage))),
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
