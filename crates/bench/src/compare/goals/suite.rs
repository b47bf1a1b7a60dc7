//! The table of goals, as data, and the plan that measures every row of it.
//!
//! The invariant: a cell that several rows need is measured once.

use std::time::Duration;

use super::{Bar, Goal, What};
use crate::compare::digits::connections;
use crate::compare::metric::Metric;
use crate::compare::plan::{Contender, Group, Plan, Setting, Turn};
use crate::compare::quantity::Quantity;
use crate::path::Path;
use uperf::Server;

/// Environment that makes every wait of SMC a sleep.
const NO_SPIN: (&str, &str) = ("SMC_SPIN", "0");
/// Against AF_UNIX, whatever the row: times better, and the floor.
const AGAINST_UNIX: Bar = Bar::AtLeast { goal: 1.5, floor: 1.2 };

/// Of what two processes with bare rings reach here: the hooks may cost a little.
const AGAINST_BARE: Bar = Bar::AtLeast { goal: 0.85, floor: 0.6 };
/// Against TCP over loopback: never slower; a floor below leaves room for chance.
const AGAINST_TCP: Bar = Bar::AtLeast { goal: 1.0, floor: 0.95 };

const fn times(goal: f64, floor: f64) -> Bar {
    Bar::AtLeast { goal, floor }
}

const fn part(goal: f64, floor: f64) -> Bar {
    Bar::AtMost { goal, floor }
}

/// Rows of one profile.
struct Row {
    profile: &'static str,
    server: Server,
    variables: &'static [(&'static str, &'static str)],
    /// Of SMC.
    environment: Option<(&'static str, &'static str)>,
    metric: Metric,
    /// Whether [`AGAINST_UNIX`] holds, too.
    unix: bool,
    /// Whether [`AGAINST_BARE`] and [`AGAINST_TCP`] do.
    bare: bool,
    bars: &'static [(u32, Bar)],
}

/// What most rows are: a rate of `rr1c-200x1000`, against TCP between network namespaces and against AF_UNIX.
const ROW: Row = Row {
    profile: "rr1c-200x1000",
    server: Server::Threads,
    variables: &[],
    environment: None,
    metric: Metric::Rate,
    unix: true,
    bare: false,
    bars: &[],
};
const READ: Row = Row { profile: "str-readx30k", metric: Metric::Throughput, ..ROW };
const WRITE: Row = Row { profile: "str-writex30k", metric: Metric::Throughput, ..ROW };
const STREAM: &[(u32, Bar)] =
    &[(1, times(6.6, 4.0)), (10, times(9.0, 6.0)), (50, times(7.5, 5.0)), (250, times(5.0, 3.0))];
const STREAM_CPU: &[(u32, Bar)] = &[(10, part(0.12, 0.25)), (50, part(0.12, 0.25)), (250, part(0.12, 0.25))];

/// The table.
const TABLE: [Row; 13] = [
    Row { bare: true, bars: &[(1, times(100.0, 50.0))], ..ROW },
    Row { metric: Metric::P99, bars: &[(1, times(20.0, 10.0))], ..ROW },
    Row { environment: Some(NO_SPIN), bars: &[(1, times(2.0, 1.6))], ..ROW },
    Row { bare: true, bars: &[(10, times(12.0, 6.0)), (50, times(8.0, 5.0)), (250, times(6.6, 4.0))], ..ROW },
    Row {
        server: Server::Epoll,
        bars: &[(10, times(6.0, 2.5)), (50, times(5.0, 2.0)), (250, times(4.0, 1.8))],
        ..ROW
    },
    Row { profile: "rr1c-200x30k", bars: &[(1, times(10.0, 5.0)), (50, times(6.0, 3.0))], ..ROW },
    Row { bare: true, bars: STREAM, ..READ },
    Row { bare: true, bars: STREAM, ..WRITE },
    Row { metric: Metric::CpuPerGigabit, bars: STREAM_CPU, ..READ },
    Row { metric: Metric::CpuPerGigabit, bars: STREAM_CPU, ..WRITE },
    Row { metric: Metric::CpuPerTransaction, bars: &[(50, part(0.15, 0.3)), (250, part(0.15, 0.3))], ..ROW },
    // Little to do, and much time for it: a latency must not be bought with a spinning core. AF_UNIX cannot be
    // beaten by half where both ends sleep between any two transactions.
    Row {
        profile: "rate-200x1000",
        variables: &[("rate", "1000")],
        metric: Metric::CpuPerTransaction,
        unix: false,
        bars: &[(1, part(1.0, 1.2))],
        ..ROW
    },
    // The rendezvous comes on top of the kernel's own work of opening and closing.
    Row { profile: "crr-200x1000", unix: false, bars: &[(1, times(1.0, 0.9))], ..ROW },
];

/// What no cell tells. A library that is loaded into every program must not cost those that it cannot help; the servers
/// are those that people run, against TCP over loopback.
const QUANTITIES: [(Quantity, Bar); 10] = [
    (Quantity::PlainPeer, times(0.98, 0.95)),
    (Quantity::Pipe, times(0.99, 0.98)),
    (Quantity::File, times(0.99, 0.98)),
    (Quantity::IdleCpu, part(0.0, 0.1)),
    (Quantity::IdleMemory, part(40.0 * KIB, 140.0 * KIB)),
    (Quantity::RedisSet, times(2.0, 1.4)),
    (Quantity::RedisGet, times(2.0, 1.4)),
    (Quantity::Nginx, times(1.8, 1.3)),
    (Quantity::Postgres, times(1.6, 1.3)),
    (Quantity::Memcached, times(2.0, 1.4)),
];
const KIB: f64 = 1024.0;

/// How often, how long, and how much of it.
#[derive(Default)]
pub(crate) struct Pace {
    /// Of every measured transaction.
    pub(crate) duration: Duration,
    /// Turns of each cell.
    pub(crate) rounds: u16,
    /// Before each.
    pub(crate) warm_up: Duration,
    /// What the names of the goals have in them.
    pub(crate) only: String,
}

/// Every cell that the tables need, once, and the rows that refer to them and to quantities. `veth` takes the place of the path of that
/// name.
pub(crate) fn suite(pace: &Pace, veth: Path) -> (Plan, Vec<Goal>) {
    let mut plan = Plan { groups: vec![], rounds: pace.rounds, warm_up: pace.warm_up, budget: None };
    let mut goals = vec![];
    for row in &TABLE {
        for &(count, bar) in row.bars {
            goals.extend(row.goal(&mut plan, pace, count, veth, bar));
        }
    }
    for row in TABLE.iter().filter(|row| row.unix) {
        for &(count, _) in row.bars {
            goals.extend(row.goal(&mut plan, pace, count, Path::Unix, AGAINST_UNIX));
        }
    }
    for (path, bar) in [(Path::Bare, AGAINST_BARE), (Path::TcpLoopback, AGAINST_TCP)] {
        for row in TABLE.iter().filter(|row| row.bare) {
            for &(count, _) in row.bars {
                goals.extend(row.goal(&mut plan, pace, count, path, bar));
            }
        }
    }
    let name = |quantity: Quantity| quantity.about().title.to_owned();
    let goal = |(quantity, bar)| Goal { name: name(quantity), what: What::Quantity { quantity }, bar };
    goals.extend(QUANTITIES.map(goal).into_iter().filter(|goal| goal.name.contains(&pace.only)));
    (plan, goals)
}

impl Row {
    fn goal(&self, plan: &mut Plan, pace: &Pace, count: u32, baseline: Path, bar: Bar) -> Option<Goal> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let setting = Setting {
            profile: self.profile.into(),
            connections: count,
            server: self.server,
            variables: self.variables.iter().map(owned).collect(),
            duration: pace.duration,
        };
        let name = Some(self.name(&setting)).filter(|name| name.contains(&pace.only))?;
        let theirs = turn(plan, &setting, Contender::new(baseline));
        let smc = Contender::new(Path::Smc);
        let ours = self.environment.map_or(smc.clone(), |(name, value)| smc.with(name, value));
        let what = What::Turns { ours: turn(plan, &setting, ours), theirs, metric: self.metric };
        Some(Goal { name, what, bar })
    }

    fn name(&self, setting: &Setting) -> String {
        let mut name = format!("{}, {}", self.profile, connections(setting.connections));
        if self.server != Server::default() {
            name += ", epoll server";
        }
        self.variables.iter().for_each(|(variable, value)| name += &format!(", {variable} {value}"));
        if let Some((variable, value)) = self.environment {
            name += &format!(", {variable}={value}");
        }
        format!("{name}: {}", self.metric.about().title)
    }
}

/// Where `contender` has its turn in `setting`; both join the plan if they are not there yet.
fn turn(plan: &mut Plan, setting: &Setting, contender: Contender) -> Turn {
    let group = plan.groups.iter().position(|group| group.setting == *setting).unwrap_or_else(|| {
        let baseline = contender.clone();
        plan.groups.push(Group { setting: setting.clone(), contenders: vec![], baseline });
        plan.groups.len() - 1
    });
    let contenders = &mut plan.groups[group].contenders;
    let place = contenders.iter().position(|one| *one == contender).unwrap_or_else(|| {
        contenders.push(contender);
        contenders.len() - 1
    });
    Turn { group, contender: place }
}
