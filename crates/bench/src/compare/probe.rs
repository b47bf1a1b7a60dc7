//! Sessions that measure quantities on this machine: each puts together what another part of this program measures.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::app::{self, comparison::Slice};
use crate::cell::Cell;
use crate::compare::metric::{Figures, Metric};
use crate::compare::quantity::{Pair, Probe, Quantity, Take};
use crate::compare::world::{Missing, Session, World};
use crate::descriptors::{self, Calls, Rates};
use crate::idle;
use crate::path::Path;
use uperf::Server;
use uperf::result::Connections;

/// Ratios near 1 need many short slices: where the scheduler puts two processes moves one of them by a tenth.
const PAIRS: u32 = 20;
/// These cost little, and a goal of 0.99 is a narrow one.
const PAIRS_OF_CALLS: u32 = 30;
/// The longest slice of short connections.
const SLICE: Duration = Duration::from_millis(200);
/// Starting and ending of both ends beside a slice and half as much warm-up.
const AROUND: Duration = Duration::from_millis(150);
/// The least to watch connections idle: within less, a single wake-up is more than the floor.
const IDLE: Duration = Duration::from_secs(1);
/// Starting, using and ending a thousand of them.
const AROUND_IDLE: Duration = Duration::from_secs(3);

/// Opens what measures `probe`; one measurement takes about `duration`.
///
/// # Errors
///
/// What is not installed, or what is wrong.
pub(crate) fn open(probe: Probe, duration: Duration) -> Result<Box<dyn Session>, Missing> {
    Ok(match probe {
        Probe::PlainPeer => Box::new(PlainPeer { slice: duration.min(SLICE) }),
        Probe::Descriptors => Box::new(Calls::new()?),
        Probe::Idle => Box::new(idle::Settings::thousand(duration.max(IDLE))),
        Probe::App(name) => {
            let application = name.find().map_err(Missing::Absent)?;
            Box::new(app::Session::open(name, application, None, whole_seconds(duration).min(5))?)
        }
    })
}

/// How long a round of `probe` takes, before anybody has seen one.
pub(crate) fn guess(probe: Probe, duration: Duration) -> Duration {
    let app = |tests: u32| Duration::from_secs(1 + u64::from(whole_seconds(duration).min(5))) * 2 * tests;
    match probe {
        Probe::PlainPeer => (duration.min(SLICE) * 3 / 2 + AROUND) * 2 * PAIRS,
        Probe::Descriptors => descriptors::guess() * 2 * PAIRS_OF_CALLS,
        Probe::Idle => duration.max(IDLE) + AROUND_IDLE,
        Probe::App(app::Name::Redis) => app(2),
        Probe::App(_) => app(1),
    }
}

/// Load generators take no others.
pub(crate) fn whole_seconds(duration: Duration) -> u16 {
    duration.as_secs_f64().ceil().clamp(1.0, 3600.0) as u16
}

/// Ours and theirs, one right after the other.
fn pair<T>(ours_first: bool, mut measure: impl FnMut(bool) -> anyhow::Result<T>) -> anyhow::Result<(T, T)> {
    let (first, second) = (measure(ours_first)?, measure(!ours_first)?);
    Ok(if ours_first { (first, second) } else { (second, first) })
}

/// So many pairs; who goes first alternates, so that neither profits from what gets slower.
fn alternating<T>(
    count: u32,
    mut measure: impl FnMut(bool) -> anyhow::Result<T>,
) -> anyhow::Result<Vec<(T, T)>> {
    (0..count).map(|nth| pair(nth.is_multiple_of(2), &mut measure)).collect()
}

fn paired((ours, theirs): (f64, f64)) -> Pair {
    Pair { ours, theirs: Some(theirs) }
}

/// Short connections of a client under smc_run to a plain server, and of plain ends.
struct PlainPeer {
    slice: Duration,
}

impl PlainPeer {
    fn cell(&self, path: Path) -> Cell {
        Cell {
            profile: "crr-200x1000".into(),
            connections: 1,
            path,
            server: Server::default(),
            duration: self.slice,
            variables: BTreeMap::new(),
            environment: BTreeMap::new(),
        }
    }
}

impl Session for PlainPeer {
    fn round(&mut self, world: &mut dyn World, _: u16) -> anyhow::Result<Vec<Take>> {
        let mut seen: Option<Connections> = None;
        let rates = alternating(PAIRS, |ours| {
            let run = world.run(&self.cell(if ours { Path::SmcClient } else { Path::TcpLoopback }))?;
            if let Some(new) = run.connections.as_ref().filter(|_| ours) {
                seen.get_or_insert_default().add(new);
            }
            Figures::of(&run).get(Metric::Rate).context("a run that moved nothing")
        })?;
        let pairs = rates.into_iter().map(paired).collect();
        Ok(vec![Take::new(Quantity::PlainPeer, pairs, seen)])
    }
}

impl Session for Calls {
    fn round(&mut self, _: &mut dyn World, _: u16) -> anyhow::Result<Vec<Take>> {
        let rates = alternating(PAIRS_OF_CALLS, |ours| self.slice(ours))?;
        let found = |quantity, rate: fn(&Rates) -> f64| {
            let pairs = rates.iter().map(|(ours, theirs)| paired((rate(ours), rate(theirs))));
            Take::new(quantity, pairs.collect(), None)
        };
        Ok(vec![found(Quantity::Pipe, |rates| rates.pipe), found(Quantity::File, |rates| rates.file)])
    }
}

impl Session for idle::Settings {
    fn round(&mut self, _: &mut dyn World, _: u16) -> anyhow::Result<Vec<Take>> {
        let measured = idle::measure(self, &[Path::Smc])?;
        let Some(line) = measured.lines.first() else { bail!("{}", measured.notes.join("; ")) };
        let alone = |ours| vec![Pair { ours, theirs: None }];
        let percent = alone(100.0 * line.cpu_ns as f64 / line.elapsed_ns as f64);
        let (bytes, seen) = (alone(line.memory_bytes as f64), Some(line.seen.clone()));
        Ok(vec![Take::new(Quantity::IdleCpu, percent, None), Take::new(Quantity::IdleMemory, bytes, seen)])
    }
}

impl Session for app::Session {
    fn round(&mut self, _: &mut dyn World, round: u16) -> anyhow::Result<Vec<Take>> {
        let path = |ours| if ours { Path::Smc } else { Path::TcpLoopback };
        let count = Probe::App(self.name).quantities().count();
        let tests = &self.tests()[..count];
        let (ours, theirs) = pair(round % 2 == 1, |ours| self.slices(path(ours), tests))?;
        let found = |(quantity, (ours, theirs)): (Quantity, (Slice, Slice))| {
            let pairs = vec![paired((ours.counted.rate, theirs.counted.rate))];
            Take::new(quantity, pairs, Some(ours.connections))
        };
        let quantities = Probe::App(self.name).quantities();
        Ok(quantities.zip(ours.into_iter().zip(theirs)).map(found).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::mock::{MockExecutor, connected, run};

    #[test]
    fn a_plain_peer_is_compared_in_pairs_that_turn_around() {
        let model = |cell: &Cell, before: usize| match cell.path {
            Path::SmcClient => connected(run(990.0, 1.0), 990, 0, &[]),
            _ => run(1000.0 + before as f64, 1.0),
        };
        let mut executor = MockExecutor::new(model);
        let mut session = PlainPeer { slice: SLICE };
        let found = session.round(&mut executor, 0).expect("it runs").remove(0);
        let pairs: Vec<Pair> =
            (0..PAIRS).map(|nth| Pair { ours: 990.0, theirs: Some(f64::from(1000 + nth)) }).collect();
        assert_eq!((found.quantity, found.pairs), (Quantity::PlainPeer, pairs));
        let seen = found.connections.expect("those of the client");
        assert_eq!((seen.total, seen.smcd), (990 * PAIRS, 0));
        let ran = executor.ran();
        let order: Vec<&str> = ran.iter().take(4).filter_map(|name| name.split(' ').nth(2)).collect();
        assert_eq!(order, ["smc-client", "tcp-loopback", "tcp-loopback", "smc-client"]);
    }

    #[test]
    fn a_brief_suite_is_planned_for_less_than_a_minute() {
        let probes = [Probe::PlainPeer, Probe::Descriptors, Probe::Idle].into_iter();
        let apps = [app::Name::Redis, app::Name::Nginx, app::Name::Postgres, app::Name::Memcached];
        let all = probes.chain(apps.map(Probe::App));
        let sum: Duration = all.map(|probe| guess(probe, Duration::from_millis(500))).sum();
        assert!(sum < Duration::from_secs(60), "{sum:?}");
    }

    #[test]
    fn load_generators_have_whole_seconds() {
        let seconds = [0.01, 1.0, 1.2, 60.0].map(Duration::from_secs_f64).map(whole_seconds);
        assert_eq!(seconds, [1, 1, 2, 60]);
    }
}
