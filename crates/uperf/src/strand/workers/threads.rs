//! Strands as threads of this process, as uperf's slave has them and `nthreads=` asks for.

use std::io;
use std::sync::Arc;
use std::thread;

use super::{Event, Events, Workers, listen};
use crate::strand::control::{BeginNs, Control, Counts, End};
use crate::strand::listeners::Listeners;
use crate::strand::network::Kernel;
use crate::strand::plan::{Plan, Ports};
use crate::strand::state::Strand;

/// See the module.
pub(crate) struct Threads {
    plan: Arc<Plan>,
    events: Events,
    controls: Vec<Arc<Control>>,
    listeners: Vec<Listeners>,
    ports: Vec<Ports>,
}

impl Threads {
    /// `strands` of them, which listen already; `shared` listens at the profile's fixed ports for all.
    pub(crate) fn prepare(
        plan: Plan,
        strands: u32,
        events: Events,
        shared: &mut Listeners,
    ) -> io::Result<Self> {
        let listeners = listen(&plan, strands, shared)?;
        let ports = listeners.iter().map(Listeners::ports).collect();
        let controls = (0..strands).map(|_| Arc::default()).collect();
        Ok(Self { plan: Arc::new(plan), events, controls, listeners, ports })
    }

    /// Tells what all have done so far, from any thread.
    pub(super) fn watch(&self) -> impl Fn() -> Counts + Send + 'static {
        let controls = self.controls.clone();
        move || controls.iter().fold(Counts::default(), |sum, control| sum.plus(control.counts()))
    }
}

impl Workers for Threads {
    fn ports(&self) -> Vec<Ports> {
        self.ports.clone()
    }

    fn begin(&mut self, ports: Vec<Vec<Ports>>) -> io::Result<()> {
        let strands = self.controls.iter().zip(self.listeners.drain(..)).zip(ports);
        for (number, ((control, listeners), ports)) in strands.enumerate() {
            let (plan, control, events) = (self.plan.clone(), control.clone(), self.events.clone());
            let work = move || {
                let network = Kernel::new(plan.peer, &listeners, ports);
                drop(listeners);
                let strand = Strand::new(plan, control.clone(), network);
                let report = strand.run(|transaction, turns| {
                    events(Event::AtGate { strand: number, transaction, turns, counts: control.counts() });
                });
                events(Event::Done { strand: number, report: Box::new(report) });
            };
            thread::Builder::new().name(format!("strand {number}")).spawn(work)?;
        }
        Ok(())
    }

    fn release(&mut self, transaction: usize, begin_ns: BeginNs) {
        for (strand, control) in self.controls.iter().enumerate() {
            control.release(transaction, begin_ns);
            (self.events)(Event::Released { strand, transaction });
        }
    }

    fn end(&mut self, strand: usize, transaction: usize, end: End) {
        if let Some(control) = self.controls.get(strand) {
            control.end(transaction, end);
        }
    }

    fn stop(&mut self) {
        self.controls.iter().for_each(|control| control.stop());
    }

    fn shut(&mut self) {
        self.controls.iter().for_each(|control| control.shut());
    }

    fn counts(&self) -> Vec<Counts> {
        self.controls.iter().map(|control| control.counts()).collect()
    }
}
