//! The plans that have a name: quick, full, sweep and buffers, and the one that the command line makes up.
//!
//! The invariant: a preset only chooses; whatever the user said goes first.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::compare::plan::{Contender, Group, Plan, Setting};
use crate::path::Path;
use uperf::Server;

/// A preset may take a minute, start-up and report included.
const QUICK_BUDGET: Duration = Duration::from_secs(54);
/// SMC's environment for the sizes of its buffers: both ends, both directions.
const BUFFERS: [&str; 2] = ["SMC_RCVBUF", "SMC_SNDBUF"];

/// What a preset chooses.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Choice {
    /// Profiles.
    pub(crate) profiles: Vec<String>,
    /// Numbers of connections.
    pub(crate) connections: Vec<u32>,
    /// How slaves serve.
    pub(crate) servers: Vec<Server>,
    /// Variables of all profiles.
    pub(crate) variables: BTreeMap<String, String>,
    /// Environment of all contenders.
    pub(crate) environment: BTreeMap<String, String>,
    /// Of the measured transaction.
    pub(crate) duration: Duration,
    /// Turns of each cell.
    pub(crate) rounds: u16,
    /// None: half of the duration, a second at most.
    pub(crate) warm_up: Option<Duration>,
    /// When no further round may begin.
    pub(crate) budget: Option<Duration>,
}

impl Choice {
    /// What `compare` measures if it is told nothing.
    pub(crate) fn usual() -> Self {
        Self {
            profiles: owned(&["rr1c-200x1000", "str-readx30k"]),
            connections: vec![1, 10, 50],
            servers: vec![Server::Threads],
            duration: Duration::from_secs(2),
            rounds: 3,
            ..Self::default()
        }
    }

    /// Under a minute in all.
    pub(crate) fn quick() -> Self {
        let duration = Duration::from_millis(400);
        Self { connections: vec![1, 50], duration, budget: Some(QUICK_BUDGET), ..Self::usual() }
    }

    /// What the studies measure, in shorter runs.
    pub(crate) fn full() -> Self {
        Self {
            profiles: owned(&["rr1c-200x1000", "rr1c-200x30k", "str-readx30k", "str-writex30k"]),
            connections: vec![1, 10, 50, 250],
            duration: Duration::from_secs(5),
            rounds: 5,
            ..Self::usual()
        }
    }

    /// Before each measurement.
    pub(crate) fn warm_up(&self) -> Duration {
        self.warm_up.unwrap_or((self.duration / 2).min(Duration::from_secs(1)))
    }

    /// Everything with everything, over `paths`, of which `baseline` comes first.
    pub(crate) fn plan(&self, paths: &[Path], baseline: Path) -> Plan {
        self.plan_of(&self.contenders(paths, baseline))
    }

    /// Messages from a byte to a mebibyte, to and fro and one way; and connections of one request.
    pub(crate) fn sweep(&self, paths: &[Path], baseline: Path) -> Plan {
        let contenders = self.contenders(paths, baseline);
        let (count, server) = (self.connections.first(), self.servers.first().copied().unwrap_or_default());
        let of = &|profile: &str, size: Option<u64>| {
            let mut setting = self.setting(profile, count.copied().unwrap_or(1), server);
            setting.variables.extend(size.map(|size| ("size".into(), size.to_string())));
            group(setting, &contenders)
        };
        let sized = self.profiles.iter().flat_map(|profile| sizes().map(move |size| of(profile, Some(size))));
        self.planned(sized.chain([of("crr-200x1000", None)]).collect())
    }

    /// SMC with buffers from 16 KiB to 1 MiB, against SMC as it is.
    pub(crate) fn buffers(&self) -> Plan {
        let smc = self.contenders(&[Path::Smc], Path::Smc).remove(0);
        let sized = |exponent: u32| {
            let size = format!("{}k", 1 << exponent);
            BUFFERS.iter().fold(smc.clone(), |smc, name| smc.with(name, &size))
        };
        let contenders: Vec<Contender> = [smc.clone()].into_iter().chain((4..=10).map(sized)).collect();
        self.plan_of(&contenders)
    }

    /// All settings over all `contenders`.
    fn plan_of(&self, contenders: &[Contender]) -> Plan {
        let counted =
            self.profiles.iter().flat_map(|profile| self.connections.iter().map(move |n| (profile, *n)));
        let settings = counted.flat_map(|(profile, n)| {
            self.servers.iter().map(move |server| self.setting(profile, n, *server))
        });
        self.planned(settings.map(|setting| group(setting, contenders)).collect())
    }

    fn planned(&self, groups: Vec<Group>) -> Plan {
        Plan { groups, rounds: self.rounds, warm_up: self.warm_up(), budget: self.budget }
    }

    fn setting(&self, profile: &str, connections: u32, server: Server) -> Setting {
        let (variables, duration) = (self.variables.clone(), self.duration);
        Setting { profile: profile.into(), connections, server, variables, duration }
    }

    fn contenders(&self, paths: &[Path], baseline: Path) -> Vec<Contender> {
        let others = paths.iter().copied().filter(|path| *path != baseline);
        let paths = [baseline].into_iter().filter(|path| paths.contains(path)).chain(others);
        paths.map(|path| Contender { path, environment: self.environment.clone() }).collect()
    }
}

/// The first contender is the one that the others are measured against.
fn group(setting: Setting, contenders: &[Contender]) -> Group {
    let baseline = contenders.first().cloned().unwrap_or_else(|| Contender::new(Path::Smc));
    Group { setting, contenders: contenders.to_vec(), baseline }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// 1, 4, 16 and so on up to 1 MiB.
pub(crate) fn sizes() -> impl Iterator<Item = u64> {
    (0..=10).map(|power| 1_u64 << (2 * power))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [Path; 3] = [Path::Smc, Path::Unix, Path::TcpVeth];

    #[test]
    fn everything_meets_everything_and_the_baseline_comes_first() {
        let choice = Choice { servers: vec![Server::Threads, Server::Epoll], ..Choice::full() };
        let plan = choice.plan(&PATHS, Path::TcpVeth);
        assert_eq!(plan.groups.len(), 4 * 4 * 2);
        assert_eq!(plan.runs(), 4 * 4 * 2 * 3 * 5);
        for group in &plan.groups {
            let paths: Vec<Path> = group.contenders.iter().map(|one| one.path).collect();
            assert_eq!(paths, [Path::TcpVeth, Path::Smc, Path::Unix]);
            assert_eq!(group.baseline, Contender::new(Path::TcpVeth));
        }
    }

    #[test]
    fn quick_is_planned_for_less_than_a_minute() {
        let all = [Path::TcpVeth, Path::TcpLoopback, Path::Unix, Path::Smc];
        let plan = Choice::quick().plan(&all, Path::TcpVeth);
        assert_eq!(plan.runs(), 2 * 2 * 4 * 3);
        assert!(plan.guess_all() < QUICK_BUDGET, "{:?}", plan.guess_all());
        assert!(plan.budget.is_some_and(|budget| budget < Duration::from_secs(60)));
    }

    #[test]
    fn a_sweep_goes_from_a_byte_to_a_mebibyte() {
        let choice = Choice { profiles: owned(&["ping", "stream"]), connections: vec![1], ..Choice::usual() };
        let plan = choice.sweep(&PATHS, Path::TcpVeth);
        let sizes = |profile: &str| -> Vec<String> {
            let groups = plan.groups.iter().filter(|group| group.setting.profile == profile);
            groups.filter_map(|group| group.setting.variables.get("size").cloned()).collect()
        };
        assert_eq!(sizes("ping").len(), 11);
        assert_eq!(sizes("stream").first().map(String::as_str), Some("1"));
        assert_eq!(sizes("stream").last().map(String::as_str), Some("1048576"));
        assert_eq!(plan.groups.last().map(|group| group.setting.profile.as_str()), Some("crr-200x1000"));
    }

    #[test]
    fn buffers_are_compared_with_the_default_ones() {
        let choice = Choice { profiles: owned(&["str-readx30k"]), ..Choice::usual() };
        let plan = choice.buffers();
        assert_eq!(plan.groups.len(), 3);
        let names: Vec<String> = plan.groups[0].contenders.iter().map(ToString::to_string).collect();
        assert_eq!(names[0], "smc");
        assert_eq!(names[1], "smc SMC_RCVBUF=16k SMC_SNDBUF=16k");
        assert_eq!(names.last().map(String::as_str), Some("smc SMC_RCVBUF=1024k SMC_SNDBUF=1024k"));
        assert_eq!(plan.groups[0].baseline.to_string(), "smc");
    }

    #[test]
    fn a_long_run_warms_up_for_a_second() {
        assert_eq!(Choice::full().warm_up(), Duration::from_secs(1));
        assert_eq!(Choice::quick().warm_up(), Duration::from_millis(200));
    }
}
