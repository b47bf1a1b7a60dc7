//! The master's half of the handshake: who is there, what is to be done, on which ports.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};

use super::Options;
use super::groups::{Party, SlaveLink, accepts, hosts};
use crate::convert::{WorkOrder, protocol_number, to_wire};
use crate::link::{Link, MARK, PATIENCE, PER_STRAND, explain};
use crate::profile::model::{Group, Profile, StrandKind, Until};
use crate::profile::options::Protocol;
use crate::say::say;
use crate::strand::workers::Server;
use crate::strand::workers::{Events, prepare};
use crate::strand::{Peer, Plan, Ports, Role};
use crate::wire::{Ack, Hello, Message, OrderAck, SlaveInfo, VERSION};

/// uperf's slave looks at its own clock and stops up to a second early. It is told a later end, since it stops at our
/// next command in any case.
const LATER: Duration = Duration::from_secs(2);

/// Everybody who takes part in a run, ready to begin.
pub(super) struct Cast {
    pub(super) parties: Vec<Party>,
    pub(super) slaves: Vec<SlaveLink>,
    /// Starting the strands took so long.
    pub(super) started_in: Duration,
}

/// Greets the slaves of all groups, prepares the strands and hands out the work orders. `events` makes the ear of a group;
/// `starting` is told before the strands are started.
pub(super) fn agree(
    profile: &Profile,
    options: &Options,
    events: impl Fn(usize) -> Events,
    starting: impl FnOnce(),
) -> anyhow::Result<Cast> {
    let mut slaves = vec![];
    for (number, group) in profile.groups.iter().enumerate() {
        for host in hosts(group) {
            let slave = greet(number, group, host, options)?;
            if options.verbose {
                let what = if slave.is_ours { "of this program" } else { "of uperf" };
                say(format_args!("{} has a slave {what} for {}", slave.host, group.name));
            }
            slaves.push(slave);
        }
    }
    let mut parties = vec![];
    for (number, group) in profile.groups.iter().enumerate() {
        parties.push(party(number, group, &slaves, options, events(number))?);
    }
    let ports = parties.iter().map(|party| order(party, &mut slaves)).collect::<anyhow::Result<Vec<_>>>()?;
    starting();
    let begin = Instant::now();
    for (party, ports) in parties.iter_mut().zip(ports) {
        party.workers.begin(ports).context("cannot start the strands")?;
    }
    let started_in = begin.elapsed();
    for slave in &mut slaves {
        end(slave).with_context(|| format!("the slave at {} did not start", slave.host))?;
    }
    Ok(Cast { parties, slaves, started_in })
}

/// Phase 1 with one slave.
fn greet(party: usize, group: &Group, host: String, options: &Options) -> anyhow::Result<SlaveLink> {
    let mut link = Link::connect(&host, options.port)?;
    let mut protocols = [false; 8];
    for flowop in group.transactions.iter().flat_map(|transaction| &transaction.flowops) {
        if flowop.kind.opens() {
            protocols[protocol_number(flowop.options.protocol) as usize] = true;
        }
    }
    let hello = Hello { phase: 1, slave_infos: 0, protocols, version: VERSION.into(), host: String::new() };
    let port = options.port;
    let stranger = |error| anyhow!("what listens at {host} port {port} is no slave: {}", explain(&error));
    link.send(&hello).map_err(stranger)?;
    let ack: Ack = link.receive(PATIENCE).map_err(stranger)?;
    if ack.is_ok() {
        let is_ours = ack.message == MARK;
        return Ok(SlaveLink::new(host, link, party, is_ours));
    }
    if ack == Ack::refuse(&ack.message) {
        bail!("the slave at {host} refuses: {}", ack.message);
    }
    bail!("what listens at {host} port {port} is no slave: its answer is none of uperf's")
}

fn party(
    number: usize,
    group: &Group,
    slaves: &[SlaveLink],
    options: &Options,
    events: Events,
) -> anyhow::Result<Party> {
    let own: Vec<usize> = (0..slaves.len()).filter(|&slave| slaves[slave].party == number).collect();
    let all_ours = own.iter().all(|&slave| slaves[slave].is_ours);
    let peer = if all_ours { Peer::Ours } else { Peer::Uperf };
    let plan = Plan {
        role: Role::Master,
        peer,
        transactions: group.transactions.clone(),
        detail: options.detail.clone(),
    };
    let kind = match group.kind {
        StrandKind::Threads => Server::Threads,
        StrandKind::Processes => Server::Processes,
    };
    let workers = prepare(plan, kind, group.strands, events).context("cannot make the strands")?;
    Ok(Party::new(group.clone(), group.opposite(), peer, workers, own))
}

/// Phase 2 with all slaves of a group. Returns where they accept, by strand.
fn order(party: &Party, slaves: &mut [SlaveLink]) -> anyhow::Result<Vec<Vec<Ports>>> {
    let mut ports = vec![vec![]; party.group.strands as usize];
    for &slave in &party.slaves {
        let slave = &mut slaves[slave];
        let theirs = order_from(party, slave).with_context(|| format!("the slave at {}", slave.host))?;
        for (strand, info) in ports.iter_mut().zip(theirs) {
            strand.push(from_info(&slave.host, &info));
        }
    }
    Ok(ports)
}

fn order_from(party: &Party, slave: &mut SlaveLink) -> anyhow::Result<Vec<SlaveInfo>> {
    let strands = party.group.strands;
    let infos =
        if accepts(&party.group) { party.workers.ports().iter().map(to_info).collect() } else { vec![] };
    if party.peer == Peer::Uperf && party.needs_clean_ends() {
        say(format_args!(
            "uperf's slave at {} may do nothing in a transaction that follows one with a duration on the same \
             connections: leave out the warm-up",
            slave.host
        ));
    }
    let hello = Hello {
        phase: 2,
        slave_infos: u32::try_from(infos.len())?,
        protocols: [false; 8],
        version: VERSION.into(),
        host: if party.peer == Peer::Ours { MARK.into() } else { String::new() },
    };
    let told = |error| anyhow!("cannot be told what to do: {}", explain(&error));
    slave.link.send(&hello).map_err(told)?;
    let order = to_wire(&for_slave(party), &slave.host);
    slave.link.send_bytes(&bytes(&order, &infos, &slave.link)).map_err(told)?;
    let silent = |error| anyhow!("does not say whether it will do it: {}", explain(&error));
    let answer: OrderAck = slave.link.receive(PATIENCE + PER_STRAND * strands).map_err(silent)?;
    if !answer.ack.is_ok() {
        bail!("will not do it: {}", answer.ack.message);
    }
    if answer.slave_infos != 0 && answer.slave_infos != strands {
        bail!("has {} strands, not {strands}", answer.slave_infos);
    }
    let infos = (0..answer.slave_infos).map(|_| slave.link.receive(PATIENCE));
    infos.collect::<Result<_, _>>().map_err(|error| anyhow!("does not tell its ports: {}", explain(&error)))
}

/// The slave's part.
fn for_slave(party: &Party) -> Group {
    let mut group = party.opposite.clone();
    for transaction in &mut group.transactions {
        if let Until::Duration(duration) = &mut transaction.until
            && party.peer == Peer::Uperf
        {
            *duration += LATER;
        }
    }
    group
}

fn bytes(order: &WorkOrder, infos: &[SlaveInfo], link: &Link) -> Vec<u8> {
    let mut bytes = order.head.encode(link.order);
    for (head, flowops) in &order.transactions {
        bytes.extend(head.encode(link.order));
        flowops.iter().for_each(|flowop| bytes.extend(flowop.encode(link.order)));
    }
    infos.iter().for_each(|info| bytes.extend(info.encode(link.order)));
    bytes
}

/// Own ports as they go over the wire.
pub(crate) fn to_info(ports: &Ports) -> SlaveInfo {
    let mut info = SlaveInfo::default();
    for &(protocol, port) in &ports.ports {
        info.ports[protocol_number(protocol) as usize] = port.into();
    }
    info
}

/// The ports of `host`.
pub(crate) fn from_info(host: &str, info: &SlaveInfo) -> Ports {
    let known = [Protocol::Tcp, Protocol::Unix].into_iter();
    let ports = known.map(|protocol| (protocol, info.ports[protocol_number(protocol) as usize]));
    let ports = ports.filter_map(|(protocol, port)| Some((protocol, u16::try_from(port).ok()?)));
    Ports { host: host.to_owned(), ports: ports.filter(|&(_, port)| port > 0).collect() }
}

/// The last message of the handshake, each way.
fn end(slave: &mut SlaveLink) -> anyhow::Result<()> {
    let waited = |error| anyhow!("{}", explain(&error));
    slave.link.send(&Ack::end()).map_err(waited)?;
    slave.link.receive::<Ack>(PATIENCE).map_err(waited)?;
    Ok(())
}
