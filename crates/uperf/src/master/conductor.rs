//! What the master hears while a run goes on, from strands, slaves and the user, and what it knows by it.
//!
//! Everything that happens comes through one channel, so there is nothing to lock and nothing waits without a limit: a
//! transaction with a duration may take `link::PATIENCE` longer, a goodbye as long; iterations take as long as they take,
//! unless a strand, a slave or the user says otherwise.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::Context;

use super::agree::{Cast, agree};
use super::groups::{Party, SlaveLink};
use super::output::Printer;
use super::{Options, interrupt};
use crate::link::explain;
use crate::profile::model::Profile;
use crate::result::HostUsage;
use crate::strand::workers::{Event, Events};
use crate::strand::{Counts, now_ns};
use crate::wire::FromSlave;

/// What comes through the channel.
enum Happening {
    Strand(usize, Event),
    Slave(usize, Result<FromSlave, String>),
    Interrupted,
}

/// Why a run cannot go on.
pub(super) enum Trouble {
    Failed(String),
    Interrupted,
}

/// See the module.
pub(super) struct Conductor<'a> {
    pub(super) profile: &'a Profile,
    pub(super) parties: Vec<Party>,
    pub(super) slaves: Vec<SlaveLink>,
    happenings: Receiver<Happening>,
    pub(super) trouble: Option<Trouble>,
    pub(super) hosts: Vec<Option<HostUsage>>,
    /// The transaction that goes on.
    pub(super) current: usize,
    pub(super) begin_ns: u64,
    pub(super) is_over: bool,
}

impl<'a> Conductor<'a> {
    /// Agrees with the slaves and has everybody ready. An error is why there will be no run.
    pub(super) fn new(
        profile: &'a Profile,
        options: &Options,
        printer: &mut Printer,
    ) -> anyhow::Result<Self> {
        let (sender, happenings) = channel();
        let ear = |party: usize| -> Events {
            let sender = sender.clone();
            // Nobody listens any more: the run is over.
            Arc::new(move |event| drop(sender.send(Happening::Strand(party, event))))
        };
        let Cast { parties, slaves, started_in } = agree(profile, options, ear, || printer.starting())?;
        printer.started(started_in);
        for (number, slave) in slaves.iter().enumerate() {
            listen(number, slave, sender.clone()).context("cannot listen to a slave")?;
        }
        interrupt::on_signal(move || drop(sender.send(Happening::Interrupted)))?;
        Ok(Self {
            profile,
            parties,
            slaves,
            happenings,
            trouble: None,
            hosts: vec![],
            current: 0,
            begin_ns: now_ns(),
            is_over: false,
        })
    }

    /// Hears what happens next, for as long as `patience` at most.
    pub(super) fn listen(&mut self, patience: Duration) {
        match self.happenings.recv_timeout(patience) {
            Ok(Happening::Strand(party, event)) => {
                if let Some(failure) = self.parties[party].hear(event) {
                    self.trouble.get_or_insert(Trouble::Failed(failure));
                }
            }
            Ok(Happening::Slave(number, said)) => {
                self.slaves[number].hear(said);
                if let Some(reason) = lost(&self.slaves[number]).filter(|_| !self.is_over) {
                    self.trouble.get_or_insert(Trouble::Failed(reason));
                }
            }
            Ok(Happening::Interrupted) => self.trouble = Some(Trouble::Interrupted),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }

    pub(super) fn counts(&self) -> Counts {
        let counts = self.parties.iter().flat_map(|party| party.workers.counts());
        counts.fold(Counts::default(), Counts::plus)
    }
}

impl Drop for Conductor<'_> {
    fn drop(&mut self) {
        // Ends the listeners, too.
        self.slaves.iter().for_each(|slave| slave.link.shut());
    }
}

/// Hears a slave from a thread of its own, until it has nothing more to say.
fn listen(number: usize, slave: &SlaveLink, sender: Sender<Happening>) -> std::io::Result<()> {
    let mut link = slave.link.another()?;
    let work = move || {
        loop {
            let said = link.wait_for_slave().map_err(|error| explain(&error));
            let is_last = !matches!(said, Ok(FromSlave::Command(_)));
            if sender.send(Happening::Slave(number, said)).is_err() || is_last {
                return;
            }
        }
    };
    thread::Builder::new().name(format!("slave {number}")).spawn(work).map(drop)
}

/// Why a slave takes no more part, while it should.
pub(super) fn lost(slave: &SlaveLink) -> Option<String> {
    let host = &slave.host;
    if let Some(goodbye) = &slave.goodbye {
        return Some(format!(
            "the slave at {host} stopped in the middle of the run: {}",
            goodbye.message.trim()
        ));
    }
    slave.gone.as_ref().map(|why| format!("the slave at {host} is lost in the middle of the run: {why}"))
}
