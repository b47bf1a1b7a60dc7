//! One master's session: greets it and prepares the strands that it orders; [`super::job`] is what they then do.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use anyhow::{Context, anyhow, bail};

use super::job::{Happening, Job, Outcome};
use crate::convert::{WorkOrder, check_head, check_transaction, from_wire};
use crate::link::{Link, MARK, PATIENCE, PER_STRAND, explain, invalid};
use crate::master::{accepts, from_info, to_info};
use crate::profile::model::Group;
use crate::result::Run;
use crate::strand::workers::Server;
use crate::strand::workers::{Events, prepare};
use crate::strand::{Detail, End, Peer, Plan, Ports, Role};
use crate::wire::{
    Ack, Command, GroupHead, Hello, Message, Order, OrderAck, RawFlowop, SlaveInfo, TransactionHead, VERSION,
};

/// A master that has been greeted.
pub(super) struct Session {
    link: Link,
    /// Its address.
    pub(super) master: String,
    server: Server,
}

impl Session {
    /// Phase 1. An error is why whoever connected is no master.
    pub(super) fn greet(master: TcpStream, server: Server) -> Result<Self, String> {
        let mut link = Link::new(master).map_err(|error| error.to_string())?;
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
                let own = if accepts(&job.group) { job.workers.ports() } else { vec![] };
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
        let order = order(&mut self.link).map_err(|error| anyhow!("{}", explain(&error)))?;
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
        self.start(group, peer, ports, events)
    }

    fn start(&self, group: Group, peer: Peer, ports: Vec<Vec<Ports>>, events: Events) -> anyhow::Result<Job> {
        let plan = Plan {
            role: Role::Slave,
            peer,
            transactions: group.transactions.clone(),
            detail: Detail::default(),
        };
        let mut workers =
            prepare(plan, self.server, group.strands, events).context("cannot serve this profile")?;
        workers.begin(ports).context("cannot start the strands")?;
        Ok(Job::new(group, peer, workers))
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
            Err(invalid(error))
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
    let command: Command = link.receive(None)?;
    let follows = matches!(command, Command::NextTransaction(1..) | Command::SendStats(_));
    let bytes = link.receive_bytes(if follows { strands * size_of::<u64>() } else { 0 }, Some(PATIENCE))?;
    let numbers = bytes.as_chunks::<8>().0.iter().map(|&number| match link.order {
        Order::Native => u64::from_ne_bytes(number),
        Order::Swapped => u64::from_ne_bytes(number).swap_bytes(),
    });
    let ends = numbers.map(|turns| if turns == u64::MAX { End::Soon } else { End::After(turns) });
    Ok((command, ends.collect()))
}

/// Reads a work order: the group, its transactions and their flowops, bounded before anything is believed.
fn order(link: &mut Link) -> io::Result<WorkOrder> {
    let bytes = link.receive_bytes(GroupHead::SIZE, Some(PATIENCE))?;
    let (head, order) = GroupHead::read(&bytes).map_err(invalid)?;
    link.order = order;
    check_head(&head).map_err(|error| invalid(format!("{error:#}")))?;
    let mut transactions = vec![];
    for _ in 0..head.transactions {
        let transaction: TransactionHead = link.receive(PATIENCE)?;
        check_transaction(&transaction).map_err(|error| invalid(format!("{error:#}")))?;
        let flowops: io::Result<Vec<RawFlowop>> =
            (0..transaction.flowops).map(|_| link.receive(PATIENCE)).collect();
        transactions.push((transaction, flowops?));
    }
    Ok(WorkOrder { head, transactions })
}
