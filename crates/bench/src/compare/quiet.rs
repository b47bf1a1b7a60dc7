//! Is anybody else at work on this host? Looked at before and during every run, so that a report can say how far its
//! numbers are to be believed.
//!
//! The invariant: a machine that cannot be looked at is never called quiet, and never called busy.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Above this share of all CPU time in others' hands a run counts as disturbed. A desktop in idle uses 2 %;
/// 5 % of two CPUs is a tenth of one, which moves a median.
pub(crate) const LIMIT: f64 = 0.05;
/// The longest tick that Linux has, CONFIG_HZ=100.
const TICK: Duration = Duration::from_millis(10);
/// Between two looks while waiting.
const PATIENCE: Duration = Duration::from_secs(1);
/// Of so many runs one may be disturbed: medians bear that, and a cron job must not cost an hour's work.
const ONE_OF: usize = 4;

/// Counters of the host since its start, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Glance {
    /// User, nice and system time of all CPUs.
    pub(crate) work: Duration,
    /// Interrupts and soft interrupts: nobody can say whose.
    pub(crate) interrupts: Duration,
    /// Time that the hypervisor gave to others.
    pub(crate) steal: Duration,
    /// Idle, and waiting for I/O.
    pub(crate) idle: Duration,
    /// User and system time of this process and all its descendants, dead ones included.
    pub(crate) own: Duration,
    /// The same of all other processes that can be seen.
    pub(crate) foreign: Duration,
    /// Time in which somebody waited for a CPU: /proc/pressure/cpu, `some`. None where the kernel does not tell.
    pub(crate) pressure: Option<Duration>,
    /// Processes that want to run now, this one excepted: /proc/loadavg.
    pub(crate) runnable: u32,
    /// When, on a clock that only grows.
    pub(crate) at: Duration,
}

/// The host as the measuring loop sees it.
pub(crate) trait Host {
    /// A clock that only grows; its zero is the start of the comparison.
    fn now(&self) -> Duration;
    /// Looks; None where /proc tells nothing.
    fn look(&mut self) -> Option<Glance>;
    /// Sleeps.
    fn pause(&mut self, duration: Duration);
}

/// What others did between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interference {
    /// Share of all CPU time that others used, 0 to 1: processes that are not ours, and the hypervisor's other guests.
    pub(crate) others: f64,
    /// The hypervisor's part of it.
    pub(crate) steal: f64,
    /// Share of the time in which somebody waited for a CPU. Meaningful only while nothing of ours runs.
    pub(crate) pressure: Option<f64>,
    /// Processes other than this one that wanted to run at the second look.
    pub(crate) runnable: u32,
}

impl Interference {
    /// None if the clock of the CPUs stood still between the two looks.
    pub(crate) fn between(before: &Glance, after: &Glance) -> Option<Self> {
        let since = |counter: fn(&Glance) -> Duration| counter(after).saturating_sub(counter(before));
        let (work, steal) = (since(|g| g.work), since(|g| g.steal));
        let all = work + steal + since(|g| g.interrupts) + since(|g| g.idle);
        let share = |part: Duration| part.as_secs_f64() / all.as_secs_f64();
        // Two witnesses: the processes' own times are exact, but not all processes can be seen; /proc/stat sees through
        // containers, but counts in ticks. The graver one counts, the second only beyond its error.
        let hidden = work.saturating_sub(since(|g| g.own)).saturating_sub(error(all));
        let others = since(|g| g.foreign).max(hidden);
        let waited = before.pressure.zip(after.pressure);
        let pressure = waited.map(|(before, after)| after.saturating_sub(before).as_secs_f64());
        (!all.is_zero()).then(|| Self {
            others: share(others + steal).min(1.0),
            steal: share(steal),
            pressure: pressure.map(|waited| waited / since(|g| g.at).as_secs_f64()).filter(|p| p.is_finite()),
            runnable: after.runnable,
        })
    }

    /// Whether a run under it proves nothing.
    pub(crate) fn is_disturbing(&self) -> bool {
        self.others > LIMIT
    }

    /// Whether to begin now, said of a time in which nothing of ours ran.
    fn is_quiet(&self) -> bool {
        !self.is_disturbing() && self.pressure.is_none_or(|pressure| pressure <= LIMIT)
    }
}

/// How far /proc/stat may be from the truth over so much CPU time: each tick is a sample of what runs at that moment,
/// so two standard deviations of a binomial distribution are the root of the number of samples, at most.
fn error(all: Duration) -> Duration {
    TICK.mul_f64((all.as_secs_f64() / TICK.as_secs_f64()).sqrt())
}

/// Looks at the host for `window` while nothing of ours runs; if it is busy, looks again and again until it is quiet,
/// until `limit` is used up, or until `stop` says so. Returns the last look and what was seen; takes what it waited
/// from `limit`.
pub(crate) fn settle(
    host: &mut dyn Host,
    window: Duration,
    limit: &mut Duration,
    stop: &dyn Fn() -> bool,
) -> Option<(Glance, Interference)> {
    loop {
        let before = host.look()?;
        host.pause(window);
        let after = host.look()?;
        let seen = Interference::between(&before, &after);
        if limit.is_zero() || seen.is_none_or(|seen| seen.is_quiet()) || stop() {
            return seen.map(|seen| (before, seen));
        }
        let began = host.now();
        host.pause(PATIENCE.min(*limit));
        *limit = limit.saturating_sub(window + (host.now() - began));
    }
}

/// Whether what was seen of others proves that a run proves nothing.
pub(crate) fn is_disturbed(seen: Option<Interference>) -> bool {
    seen.is_some_and(|seen| seen.is_disturbing())
}

/// Why no verdict is given on runs during which others were seen to do this, or None if one may be.
pub(crate) fn refusal(seen: impl IntoIterator<Item = Option<Interference>>) -> Option<String> {
    let seen: Vec<Option<Interference>> = seen.into_iter().collect();
    let disturbing: Vec<f64> =
        seen.iter().filter(|one| is_disturbed(**one)).filter_map(|one| Some((*one)?.others)).collect();
    let worst = disturbing.iter().copied().fold(0.0, f64::max);
    (disturbing.len() * ONE_OF > seen.len()).then(|| {
        format!(
            "{}{:.0} % of the CPU was used by others during {} of {} runs",
            if disturbing.len() > 1 { "up to " } else { "" },
            worst * 100.0,
            disturbing.len(),
            seen.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::mock::{MockHost, glance};

    #[test]
    fn own_work_is_no_interference_that_of_the_hypervisor_and_of_visible_processes_is() {
        let hidden = Glance { foreign: Duration::from_secs(20), ..glance(50, 50, 0) };
        for (after, others, steal) in [
            (glance(80, 80, 0), 0.0, 0.0),
            // 100 s are 10 000 ticks, whose error is 100 ticks.
            (glance(80, 30, 0), 0.49, 0.0),
            (glance(50, 50, 10), 0.1, 0.1),
            // The processes say more than /proc/stat.
            (hidden, 0.2, 0.0),
        ] {
            let seen = Interference::between(&Glance::default(), &after).expect("time passed");
            assert_eq!((seen.others, seen.steal, seen.is_disturbing()), (others, steal, others > 0.0));
        }
    }

    #[test]
    fn what_ticks_cannot_tell_is_no_accusation() {
        let short = |work: f64| Glance {
            work: Duration::from_secs_f64(work),
            own: Duration::from_secs_f64(0.6),
            idle: Duration::from_secs_f64(1.2 - work),
            ..Glance::default()
        };
        let seen =
            |work| Interference::between(&Glance::default(), &short(work)).expect("time passed").others;
        assert_eq!(seen(0.68), 0.0, "120 ticks may be eleven off");
        assert!((seen(0.8) - 0.075).abs() < 0.01, "{}", seen(0.8));
    }

    #[test]
    fn a_clock_that_stands_still_tells_nothing() {
        let one = glance(1, 1, 0);
        assert_eq!(Interference::between(&one, &one), None);
    }

    #[test]
    fn waiting_ends_with_quiet_with_the_limit_and_with_a_stop() {
        let busy = || vec![0.4; 100];
        for (others, seconds, stops, left, is_disturbing) in [
            // Twice a look and a pause.
            (vec![0.4, 0.4, 0.4, 0.4, 0.0], 60, false, 60 - 4, false),
            (busy(), 5, false, 0, true),
            (busy(), 60, true, 60, true),
        ] {
            let mut host = MockHost::default();
            host.set_others(others);
            let mut limit = Duration::from_secs(seconds);
            let (_, seen) = settle(&mut host, Duration::from_secs(1), &mut limit, &|| stops).expect("seen");
            assert_eq!((limit, seen.is_disturbing()), (Duration::from_secs(left), is_disturbing));
        }
    }

    #[test]
    fn a_host_that_tells_nothing_is_neither() {
        let mut host = MockHost::default().blind();
        assert_eq!(settle(&mut host, Duration::from_secs(1), &mut Duration::from_secs(9), &|| false), None);
    }
}
