//! What is compared with what, and in which order: paths take turns within a round, and the first of them is another
//! one in every round, so that a machine that gets busy or throttles is unfair to all of them alike.
//!
//! Nothing in here measures. The invariant: the turns of every round are the same, in another order.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cell::Cell;
use crate::path::Path;
use uperf::Server;

/// Name of the variable by which a profile learns how long to run before anything is counted.
const WARM_UP: &str = "warmup";
/// Starting and ending a master and a slave, roughly; a first guess, until the run itself has shown it.
const START: Duration = Duration::from_millis(150);
/// The same for each connection.
const START_OF_ONE: Duration = Duration::from_millis(2);

/// What is done, whatever the bytes go over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Setting {
    /// Name of a built-in profile, or a file.
    pub(crate) profile: String,
    /// The profile's strands.
    pub(crate) connections: u32,
    /// How the slave serves.
    pub(crate) server: Server,
    /// Variables for the profile.
    pub(crate) variables: BTreeMap<String, String>,
    /// Length of the measured transaction.
    pub(crate) duration: Duration,
}

impl Setting {
    /// Profile, variables and an unusual server: what a row is called.
    pub(crate) fn workload(&self) -> String {
        let mut name = self.profile.clone();
        self.variables.iter().for_each(|(variable, value)| name += &format!(" {variable}={value}"));
        name + match self.server {
            Server::Threads => "",
            Server::Processes => " (server processes)",
            Server::Epoll => " (epoll server)",
        }
    }
}

/// What the bytes go over: one side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Contender {
    /// The path.
    pub(crate) path: Path,
    /// Environment of both ends.
    #[serde(default)]
    pub(crate) environment: BTreeMap<String, String>,
}

impl Contender {
    /// A path as it is by default.
    pub(crate) fn new(path: Path) -> Self {
        Self { path, environment: BTreeMap::new() }
    }

    /// The same with one more variable of environment.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        self.environment.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// Contenders that do the same thing, and which of them the others are measured against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Group {
    /// What they do.
    pub(crate) setting: Setting,
    /// In the order of the report.
    pub(crate) contenders: Vec<Contender>,
    /// One of them, unless it was left out.
    pub(crate) baseline: Contender,
}

impl Group {
    /// What `contender` does.
    fn cell(&self, contender: &Contender) -> Cell {
        let Setting { profile, connections, server, variables, duration } = self.setting.clone();
        let environment = contender.environment.clone();
        Cell { profile, connections, path: contender.path, server, duration, variables, environment }
    }
}

/// Whose turn it is: positions in [`Plan::groups`] and in [`Group::contenders`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// The group.
    pub(crate) group: usize,
    /// Within it.
    pub(crate) contender: usize,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// In the order of the report.
    pub(crate) groups: Vec<Group>,
    /// How often each cell has its turn.
    pub(crate) rounds: u16,
    /// Before each measurement, not counted: windows and spin budgets settle.
    pub(crate) warm_up: Duration,
    /// No round begins that would not end before this, and no run begins after it.
    pub(crate) budget: Option<Duration>,
}

impl Plan {
    /// All turns of one round in their order: each contender is the first of its group in its turn.
    pub(crate) fn round(&self, round: u16) -> Vec<Turn> {
        let order = |contenders: usize| (0..contenders).map(move |i| (i + usize::from(round)) % contenders);
        let turns = |(group, one): (usize, &Group)| {
            order(one.contenders.len()).map(move |contender| Turn { group, contender })
        };
        self.groups.iter().enumerate().flat_map(turns).collect()
    }

    /// What is to be measured in `turn`; None if the plan has no such turn.
    pub(crate) fn cell(&self, turn: Turn) -> Option<Cell> {
        let group = self.groups.get(turn.group)?;
        let mut cell = group.cell(group.contenders.get(turn.contender)?);
        let ms = format!("{}ms", self.warm_up.as_millis().max(1));
        cell.variables.entry(WARM_UP.into()).or_insert(ms);
        Some(cell)
    }

    /// How long one run of `turn` takes, before anybody has seen one.
    pub(crate) fn guess(&self, turn: Turn) -> Duration {
        let Some(Group { setting, .. }) = self.groups.get(turn.group) else { return Duration::ZERO };
        self.warm_up + setting.duration + START + START_OF_ONE * setting.connections
    }

    /// How long all of it takes, before anything has been measured.
    pub(crate) fn guess_all(&self) -> Duration {
        self.round(0).iter().map(|turn| self.guess(*turn)).sum::<Duration>() * u32::from(self.rounds)
    }

    /// Runs in all.
    pub(crate) fn runs(&self) -> usize {
        self.round(0).len() * usize::from(self.rounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::mock::plan;

    #[test]
    fn paths_take_turns_and_each_is_first_in_its_turn() {
        let plan = plan(&["rr", "str"], &[1], &[Path::TcpVeth, Path::Unix, Path::Smc]);
        let order = |round| -> Vec<String> {
            let cells = plan.round(round).into_iter().filter_map(|turn| plan.cell(turn));
            cells.map(|cell| format!("{} {}", cell.profile, cell.path)).collect()
        };
        let expected = ["rr tcp-veth", "rr unix", "rr smc", "str tcp-veth", "str unix", "str smc"];
        assert_eq!(order(0), expected);
        let expected = ["rr unix", "rr smc", "rr tcp-veth", "str unix", "str smc", "str tcp-veth"];
        assert_eq!(order(1), expected);
        assert_eq!(order(2)[0], "rr smc");
        assert_eq!(order(3), order(0));
    }

    #[test]
    fn a_cell_has_what_setting_contender_and_plan_say() {
        let mut plan = plan(&["ping"], &[50], &[Path::TcpVeth]);
        plan.groups[0].setting.variables.insert("size".into(), "4".into());
        plan.groups[0].contenders.push(Contender::new(Path::Smc).with("SMC_SPIN", "0"));
        let cell = plan.cell(Turn { group: 0, contender: 1 }).expect("it is in the plan");
        assert_eq!((cell.path, cell.connections), (Path::Smc, 50));
        assert_eq!(cell.environment["SMC_SPIN"], "0");
        assert_eq!((cell.variables["size"].as_str(), cell.variables["warmup"].as_str()), ("4", "500ms"));
        assert_eq!(plan.cell(Turn { group: 1, contender: 0 }), None);
    }

    #[test]
    fn a_guess_counts_every_run() {
        let plan = plan(&["rr"], &[50], &[Path::TcpVeth, Path::Smc]);
        let one = plan.guess(plan.round(0)[0]);
        assert_eq!(one, plan.warm_up + plan.groups[0].setting.duration + START + START_OF_ONE * 50);
        assert_eq!(plan.guess_all(), one * 2 * u32::from(plan.rounds));
        assert_eq!(plan.runs(), 2 * usize::from(plan.rounds));
    }

    #[test]
    fn contenders_are_named_with_their_environment() {
        let one = Contender::new(Path::Smc).with("SMC_RCVBUF", "64k").with("A", "1");
        assert_eq!(one.to_string(), "smc A=1 SMC_RCVBUF=64k");
    }
}
