//! Strands as processes: this program once more for each, as `nprocs=` asks for. A process cannot fork here, so it gets
//! its plan as JSON. They die with the process that started them, and at the latest when the workers is dropped.

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::pipe::{Ear, Order, Word, say};
use super::{Event, Events, Workers, fixed_port};
use crate::strand::control::{BeginNs, Counts, End};
use crate::strand::listeners::Listeners;
use crate::strand::plan::{Plan, Ports};
use crate::strand::report::StrandReport;

/// How long a process may take to start, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(15);
/// Readers need little.
const STACK: usize = 128 * 1024;

/// See the module.
pub(crate) struct Processes {
    events: Events,
    members: Vec<Member>,
}

struct Member {
    pipe: UnixStream,
    ear: Option<Ear>,
    child: Arc<Mutex<Child>>,
    ports: Ports,
    counts: Arc<Mutex<Counts>>,
}

impl Processes {
    /// `strands` of them, which listen already.
    pub(crate) fn prepare(plan: Plan, strands: u32, events: Events) -> io::Result<Self> {
        let mut shared = Listeners::default();
        let opening = fixed_port(&plan)?;
        if let Some(opening) = opening {
            Listeners::default().listen(opening, &mut shared)?;
        }
        let protocol = opening.map(|opening| opening.protocol);
        let listener = || protocol.and_then(|protocol| shared.descriptor(protocol)).transpose();
        let members: io::Result<Vec<Member>> = (0..strands).map(|_| Member::start(listener()?)).collect();
        let mut members = members?;
        let order = Order::Prepare { plan: Box::new(plan), shared: protocol };
        members.iter().try_for_each(|member| say(&member.pipe, &order))?;
        members.iter_mut().try_for_each(Member::introduce)?;
        Ok(Self { events, members })
    }

    fn say(&self, what: &Order) {
        self.members.iter().for_each(|member| member.say(what));
    }
}

impl Member {
    fn start(listener: Option<OwnedFd>) -> io::Result<Self> {
        let (pipe, theirs) = UnixStream::pair()?;
        pipe.set_read_timeout(Some(PATIENCE))?;
        let ear = Some(Ear::new(&pipe)?);
        let child = Command::new(std::env::current_exe()?)
            .args(["strand", "--parent", &std::process::id().to_string()])
            .stdin(OwnedFd::from(theirs))
            .stdout(listener.map_or_else(Stdio::null, Stdio::from))
            .spawn()?;
        let (child, counts) = (Arc::new(Mutex::new(child)), Arc::default());
        Ok(Self { pipe, ear, child, ports: Ports::default(), counts })
    }

    /// Hears where it listens.
    fn introduce(&mut self) -> io::Result<()> {
        match self.ear.as_mut().map_or(Ok(None), Ear::hear)? {
            Some(Word::Listening(ports)) => self.ports = ports,
            Some(Word::Unable(why)) => return Err(io::Error::other(why)),
            _ => return Err(io::Error::other("a strand's process ended at once")),
        }
        self.pipe.set_read_timeout(None)
    }

    /// A process that is gone is heard of by its reader.
    fn say(&self, what: &Order) {
        let _ = say(&self.pipe, what);
    }

    /// Hears the process from a thread of its own, to its end.
    fn listen(&mut self, strand: usize, events: Events) -> io::Result<()> {
        let Some(mut ear) = self.ear.take() else { return Ok(()) };
        let (child, counts) = (self.child.clone(), self.counts.clone());
        let work = move || {
            let report = loop {
                match ear.hear() {
                    Ok(Some(Word::AtGate { transaction, turns, counts: now })) => {
                        *lock(&counts) = now;
                        events(Event::AtGate { strand, transaction, turns, counts: now });
                    }
                    Ok(Some(Word::Released { transaction })) => {
                        events(Event::Released { strand, transaction });
                    }
                    Ok(Some(Word::Counts(now))) => *lock(&counts) = now,
                    Ok(Some(Word::Done(report))) => break report,
                    Ok(Some(Word::Listening(_) | Word::Unable(_))) => {}
                    Ok(None) => break lost(&format!("its process ended too early: {}", ending(&child))),
                    Err(error) => break lost(&format!("its process cannot be understood: {error}")),
                }
            };
            *lock(&counts) = report.counts();
            events(Event::Done { strand, report });
        };
        thread::Builder::new().name(format!("reader {strand}")).stack_size(STACK).spawn(work).map(drop)
    }
}

fn lost(why: &str) -> Box<StrandReport> {
    Box::new(StrandReport { failure: Some(why.to_owned()), ..StrandReport::default() })
}

fn ending(child: &Mutex<Child>) -> String {
    lock(child).wait().map_or_else(|error| error.to_string(), |status| status.to_string())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Workers for Processes {
    fn ports(&self) -> Vec<Ports> {
        self.members.iter().map(|member| member.ports.clone()).collect()
    }

    fn begin(&mut self, ports: Vec<Vec<Ports>>) -> io::Result<()> {
        for (strand, (member, ports)) in self.members.iter_mut().zip(ports).enumerate() {
            member.say(&Order::Begin(ports));
            member.listen(strand, self.events.clone())?;
        }
        Ok(())
    }

    fn release(&mut self, transaction: usize, begin_ns: BeginNs) {
        self.say(&Order::Release { transaction, begin_ns });
    }

    fn end(&mut self, strand: usize, transaction: usize, end: End) {
        if let Some(member) = self.members.get(strand) {
            member.say(&Order::End { transaction, end });
        }
    }

    fn stop(&mut self) {
        self.say(&Order::Stop);
    }

    fn shut(&mut self) {
        self.say(&Order::Shut);
    }

    fn counts(&self) -> Vec<Counts> {
        self.members.iter().map(|member| *lock(&member.counts)).collect()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for member in &self.members {
            // Ends its reader, and the process if it still reads orders. What has ended already is as good.
            let _ = member.pipe.shutdown(Shutdown::Both);
            let _ = lock(&member.child).kill();
        }
        for member in &self.members {
            let _ = lock(&member.child).wait();
        }
    }
}
