//! For tests: an executor that runs nothing, a host that obeys, and studies made of them.

use std::cell::{Cell as Shared, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;

use crate::cell::Cell;
use crate::compare::goals::{self, Goal};
use crate::compare::machine::Machine;
use crate::compare::measure::{Bench, Measured};
use crate::compare::plan::{Contender, Group, Plan, Setting, Turn};
use crate::compare::quantity::{Pair, Probe, Quantity, Take};
use crate::compare::quiet::{Glance, Host};
use crate::compare::study::{Ending, Study};
use crate::compare::world::{Missing, Session, World};
use crate::idle::{self, Idle};
use crate::path::Path;
use uperf::Server;
use uperf::result::{Connections, HostUsage, Latency, Run, Usage};

/// A command line of these options alone.
#[derive(clap::Parser)]
pub(crate) struct Program<A: clap::Args> {
    #[command(flatten)]
    pub(crate) options: A,
}

/// Three rounds of a second.
pub(crate) fn plan(profiles: &[&str], connections: &[u32], paths: &[Path]) -> Plan {
    let contenders: Vec<Contender> = paths.iter().copied().map(Contender::new).collect();
    let group = |profile: &str, connections: u32| {
        let (server, variables, duration) = (Server::Threads, BTreeMap::new(), Duration::from_secs(1));
        let setting = Setting { profile: profile.into(), connections, server, variables, duration };
        Group { setting, baseline: contenders[0].clone(), contenders: contenders.clone() }
    };
    let of = |profile: &&str| connections.iter().map(|n| group(profile, *n)).collect::<Vec<_>>();
    let groups = profiles.iter().flat_map(of).collect();
    Plan { groups, rounds: 3, warm_up: Duration::from_millis(500), budget: None }
}

/// Counters after a time in which one CPU had 100 s: of `work` seconds `own` were ours, and `steal` were stolen.
pub(crate) fn glance(work: u64, own: u64, steal: u64) -> Glance {
    let seconds = Duration::from_secs;
    let (idle, at) = (seconds(100 - work - steal), seconds(100));
    Glance { work: seconds(work), own: seconds(own), steal: seconds(steal), idle, at, ..Glance::default() }
}

/// One CPU, of which others take what the test says.
#[derive(Default)]
pub(crate) struct MockHost {
    is_blind: bool,
    now: Rc<Shared<Duration>>,
    seen: Glance,
    others: VecDeque<f64>,
}

impl MockHost {
    /// Without /proc.
    pub(crate) fn blind(self) -> Self {
        Self { is_blind: true, ..self }
    }

    /// Shares of the CPU that others take: each for the time between one look and the next.
    pub(crate) fn set_others(&mut self, shares: impl IntoIterator<Item = f64>) {
        // A look at the very beginning follows no time.
        self.others = [0.0].into_iter().chain(shares).collect();
    }
}

impl Host for MockHost {
    fn now(&self) -> Duration {
        self.now.get()
    }

    fn look(&mut self) -> Option<Glance> {
        let passed = self.now.get() - self.seen.at;
        if !passed.is_zero() || self.seen.at.is_zero() {
            let others = passed.mul_f64(self.others.pop_front().unwrap_or(0.0));
            self.seen.work += others;
            self.seen.foreign += others;
            self.seen.idle += passed - others;
            self.seen.at = self.now.get();
        }
        (!self.is_blind).then_some(self.seen)
    }

    fn pause(&mut self, duration: Duration) {
        self.now.set(self.now.get() + duration);
    }
}

/// From a cell, and how often it has run, to its numbers.
type Model = dyn Fn(&Cell, usize) -> Run;

/// From a quantity and a round to its numbers.
type QuantityModel = dyn Fn(Quantity, u16) -> Pair;

/// Gives each cell and each quantity the numbers that the test wants.
pub(crate) struct MockExecutor {
    takes: Duration,
    model: Box<Model>,
    clock: Rc<Shared<Duration>>,
    log: RefCell<Vec<String>>,
    failing: Vec<(String, String)>,
    quantities: Rc<QuantityModel>,
    missing: Vec<(Probe, String, bool)>,
    /// Whether this host has a path.
    has: fn(Path) -> Result<(), String>,
    stop: Rc<Shared<bool>>,
    stop_after: usize,
}

impl Default for MockExecutor {
    fn default() -> Self {
        Self::new(|_, _| run(1000.0, 100.0))
    }
}

impl MockExecutor {
    /// With these numbers.
    pub(crate) fn new(model: impl Fn(&Cell, usize) -> Run + 'static) -> Self {
        Self {
            takes: Duration::ZERO,
            model: Box::new(model),
            clock: Rc::default(),
            log: RefCell::default(),
            failing: vec![],
            quantities: Rc::new(|_, _| Pair { ours: 1.0, theirs: Some(1.0) }),
            missing: vec![],
            has: |_| Ok(()),
            stop: Rc::default(),
            stop_after: usize::MAX,
        }
    }

    /// So long per run, by the mock host's clock.
    pub(crate) fn taking(self, duration: Duration) -> Self {
        Self { takes: duration, ..self }
    }

    /// On a host with the paths that the function says.
    pub(crate) fn with_paths(self, has: fn(Path) -> Result<(), String>) -> Self {
        Self { has, ..self }
    }

    /// A host with the same clock.
    pub(crate) fn host(&self) -> MockHost {
        MockHost { now: Rc::clone(&self.clock), ..MockHost::default() }
    }

    /// Lets `profile connections path` fail.
    pub(crate) fn fail(&mut self, cell: &str, why: &str) {
        self.failing.push((cell.into(), why.into()));
    }

    /// With these numbers of quantities.
    pub(crate) fn with_quantities(self, model: impl Fn(Quantity, u16) -> Pair + 'static) -> Self {
        Self { quantities: Rc::new(model), ..self }
    }

    /// Lets `probe` have no session, because a program is absent or something failed.
    pub(crate) fn lack(&mut self, probe: Probe, why: &str, is_absent: bool) {
        self.missing.push((probe, why.into(), is_absent));
    }

    /// Lets somebody press Ctrl-C during the `runs`th run.
    pub(crate) fn stop_after(&mut self, runs: usize) {
        self.stop_after = runs;
    }

    /// Whether somebody has.
    pub(crate) fn stop_flag(&self) -> Rc<Shared<bool>> {
        Rc::clone(&self.stop)
    }

    /// `profile connections path` of every run, `probe` and its round of every session.
    pub(crate) fn ran(&self) -> Vec<String> {
        self.log.borrow().clone()
    }
}

impl World for MockExecutor {
    fn run(&mut self, cell: &Cell) -> anyhow::Result<Run> {
        let name = format!("{} {} {}", cell.profile, cell.connections, cell.path);
        let mut log = self.log.borrow_mut();
        let before = log.iter().filter(|one| **one == name).count();
        log.push(name.clone());
        self.clock.set(self.clock.get() + self.takes);
        self.stop.set(log.len() >= self.stop_after);
        if let Some((_, why)) = self.failing.iter().find(|(one, _)| *one == name) {
            anyhow::bail!("{why}");
        }
        Ok(Run { profile: cell.profile.clone(), strands: cell.connections, ..(self.model)(cell, before) })
    }

    fn available(&mut self, path: Path) -> Result<(), String> {
        (self.has)(path)
    }

    fn idle(&mut self, _: &idle::Settings, _: &[Path]) -> anyhow::Result<Idle> {
        Ok(Idle::default())
    }

    fn open(&mut self, probe: Probe, _: Duration) -> Result<Box<dyn Session>, Missing> {
        if let Some((_, why, is_absent)) = self.missing.iter().find(|(one, ..)| *one == probe) {
            let error = anyhow::anyhow!("{why}");
            return Err(if *is_absent { Missing::Absent(error) } else { Missing::Failed(error) });
        }
        Ok(Box::new(MockSession { probe, model: Rc::clone(&self.quantities) }))
    }
}

/// Runs a cell of the probe's name, so that time passes and somebody may press Ctrl-C, then gives what the model says.
struct MockSession {
    probe: Probe,
    model: Rc<QuantityModel>,
}

impl Session for MockSession {
    fn round(&mut self, world: &mut dyn World, round: u16) -> anyhow::Result<Vec<Take>> {
        let plan = plan(&[&self.probe.to_string()], &[1], &[Path::Smc]);
        world.run(&plan.cell(Turn { group: 0, contender: 0 }).context("planned")?)?;
        let found = |quantity| Take::new(quantity, vec![(self.model)(quantity, round)], None);
        Ok(self.probe.quantities().map(found).collect())
    }
}

/// One second of request and response (200 and 1000 bytes): so many transactions, and so much CPU of both ends each.
pub(crate) fn run(rate: f64, cpu_us: f64) -> Run {
    let transactions = rate as u64;
    let end = Usage {
        cpu_ns: (rate * cpu_us * 500.0) as u64,
        voluntary_switches: transactions,
        ..Usage::default()
    };
    Run {
        strands: 1,
        elapsed_ns: 1_000_000_000,
        operations: transactions * 2,
        transactions,
        bytes_sent: transactions * 200,
        bytes_received: transactions * 1000,
        latency: latencies(1e9 / rate, transactions),
        client: Some(end),
        server: Some(end),
        host: Some(HostUsage { busy_ns: 3 * end.cpu_ns, idle_ns: 0 }),
        connections: Some(Connections { total: 1, ..Connections::default() }),
        ..Run::default()
    }
}

/// The same as a stream of writes of 30 KiB.
pub(crate) fn stream(gigabits: f64, cpu_us_per_gigabit: f64) -> Run {
    let writes = gigabits * 1e9 / 8.0 / 30_720.0;
    let cpu_ns = (gigabits * cpu_us_per_gigabit * 500.0) as u64;
    let end = Usage { cpu_ns, ..Usage::default() };
    Run {
        operations: writes as u64,
        transactions: writes as u64,
        bytes_sent: writes as u64 * 30_720,
        bytes_received: 0,
        latency: latencies(1e9 / writes, writes as u64),
        client: Some(end),
        server: Some(end),
        host: Some(HostUsage { busy_ns: 3 * cpu_ns, idle_ns: 0 }),
        ..run(1000.0, 1.0)
    }
}

/// A distribution with a tail.
fn latencies(middle_ns: f64, passes: u64) -> Latency {
    let shares = [(0.8, 0.2), (1.0, 0.5), (1.3, 0.25), (2.0, 0.04), (6.0, 0.0095), (40.0, 0.0005)];
    let counts =
        shares.map(|(times, share)| ((middle_ns * times) as u64, (passes as f64 * share).ceil() as u64));
    Latency { counts_ns: counts.to_vec(), ..Latency::default() }
}

/// Some connections of a run over SMC, of which some fell back.
pub(crate) fn connected(run: Run, total: u32, smcd: u32, codes: &[(&str, u32)]) -> Run {
    let fallback = codes.iter().map(|(code, count)| ((*code).to_owned(), *count)).collect();
    Run { connections: Some(Connections { total, smcd, smcr: 0, fallback }), ..run }
}

/// What `executor` makes of `plan`, on an undisturbed machine.
pub(crate) fn study(plan: Plan, executor: &mut MockExecutor) -> Study {
    let mut host = executor.host();
    study_on(plan, executor, &mut host)
}

/// What it makes of a suite.
pub(crate) fn suite_study(suite: (Plan, Vec<Goal>), executor: &mut MockExecutor) -> Study {
    let mut host = executor.host();
    suite_on(suite, executor, &mut host)
}

/// The same on a machine with neighbours.
pub(crate) fn study_on(plan: Plan, executor: &mut MockExecutor, host: &mut MockHost) -> Study {
    suite_on((plan, vec![]), executor, host)
}

/// With goals, and what no cell tells of them.
pub(crate) fn suite_on(
    (plan, goals): (Plan, Vec<Goal>),
    executor: &mut MockExecutor,
    host: &mut MockHost,
) -> Study {
    let flag = executor.stop_flag();
    let stop = || flag.get();
    let mut bench = Bench { world: executor, host, stop: &stop, tell: &mut |_| {}, wait: Duration::ZERO };
    let Measured { samples, failures, ending } = bench.measure(&plan);
    let taken = bench.take(&goals::probes(&goals), plan.rounds, Duration::from_secs(1));
    Study {
        title: "TCP, AF_UNIX and SMC side by side".into(),
        command: "smc_bench compare --quick".into(),
        version: "0.1.0".into(),
        started: "2026-11-21T17:12:00Z".into(),
        seconds: 54.2,
        machine: Machine { cpu: Some("Example CPU".into()), cpus: 2, ..Machine::default() },
        plan,
        samples,
        failures,
        ending: if ending == Ending::Complete { taken.ending } else { ending },
        goals,
        takes: taken.takes,
        lacks: taken.lacks,
        ..Study::default()
    }
}
