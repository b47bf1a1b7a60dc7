//! What SMC has to reach, and whether it did: each goal is a ratio to another path of the same run, with a floor below
//! which something is broken. The table of goals is in `suite.rs`.
//!
//! The invariant: no goal is judged on runs that others disturbed, and none on runs of different rounds.

mod suite;

use serde::{Deserialize, Serialize};

pub(crate) use self::suite::{Pace, suite};
use crate::compare::metric::Metric;
use crate::compare::plan::Turn;
use crate::compare::stats::Spread;
use crate::compare::summary::Reading;
use crate::compare::verdict::refusal;

/// What a ratio has to reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bar {
    /// So many times better than the other path: more of a rate, less of a time.
    AtLeast {
        /// Reached: passed.
        goal: f64,
        /// Not reached: broken.
        floor: f64,
    },
    /// Not more than this part of the other path's number.
    AtMost {
        /// Reached: passed.
        goal: f64,
        /// Exceeded: broken.
        floor: f64,
    },
}

/// One row as it is judged and saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Goal {
    /// For people.
    pub(crate) name: String,
    /// SMC's turn.
    pub(crate) ours: Turn,
    /// The other path's.
    pub(crate) theirs: Turn,
    /// What is compared.
    pub(crate) metric: Metric,
    /// What is to be reached.
    pub(crate) bar: Bar,
}

/// How a row stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The goal is reached.
    Pass,
    /// The floor is, the goal is not.
    Short,
    /// Not even the floor.
    BelowFloor,
    /// Others disturbed too many of its runs: why.
    Refused(String),
    /// There are no two runs of one round: why.
    NotMeasured(String),
}

impl Verdict {
    /// In one or two words.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Short => "short",
            Verdict::BelowFloor => "below floor",
            Verdict::Refused(_) => "no verdict",
            Verdict::NotMeasured(_) => "not measured",
        }
    }
}

/// A row, its ratio and its verdict.
pub(crate) struct Judged<'a> {
    /// The row.
    pub(crate) goal: &'a Goal,
    /// The other path.
    pub(crate) against: String,
    /// Times better, or part of, as the bar counts; None if it was not measured.
    pub(crate) ratio: Option<Spread>,
    /// How it stands.
    pub(crate) verdict: Verdict,
}

/// Judges every row of the study.
pub(crate) fn judge<'a>(reading: &Reading<'a>) -> Vec<Judged<'a>> {
    reading.study.goals.iter().map(|goal| judge_one(reading, goal)).collect()
}

fn judge_one<'a>(reading: &Reading<'a>, goal: &'a Goal) -> Judged<'a> {
    let study = reading.study;
    let pairs = reading.paired(goal.ours, goal.theirs, goal.metric);
    let count = |&(ours, theirs): &(f64, f64)| match goal.bar {
        Bar::AtLeast { .. } => goal.metric.times_better(ours, theirs),
        Bar::AtMost { .. } => ours / theirs,
    };
    let ratio = Spread::of(pairs.iter().map(count));
    let samples = || study.samples.iter().filter(|one| one.turn == goal.ours || one.turn == goal.theirs);
    let failed = || study.failures.iter().find(|one| one.turn == goal.ours || one.turn == goal.theirs);
    let verdict = match ratio {
        None => {
            Verdict::NotMeasured(failed().map_or("it was not its turn yet".into(), |one| one.reason.clone()))
        }
        Some(ratio) => refusal(samples()).map_or_else(|| goal.bar.verdict(ratio.median), Verdict::Refused),
    };
    let against = study.contender(goal.theirs).map(|(_, who)| who.to_string()).unwrap_or_default();
    Judged { goal, against, ratio, verdict }
}

impl Bar {
    fn verdict(self, ratio: f64) -> Verdict {
        let (has_goal, has_floor) = match self {
            Bar::AtLeast { goal, floor } => (ratio >= goal, ratio >= floor),
            Bar::AtMost { goal, floor } => (ratio <= goal, ratio <= floor),
        };
        match (has_goal, has_floor) {
            (true, _) => Verdict::Pass,
            (false, true) => Verdict::Short,
            (false, false) => Verdict::BelowFloor,
        }
    }
}

/// `41 of 60 goals reached, 12 short, 3 below floor, 4 without a verdict`
pub(crate) fn tally(judged: &[Judged<'_>]) -> String {
    let count = |wanted: fn(&Verdict) -> bool| judged.iter().filter(|row| wanted(&row.verdict)).count();
    let mut text = format!("{} of {} goals reached", count(|v| *v == Verdict::Pass), judged.len());
    let rest = [
        (count(|v| *v == Verdict::Short), "short"),
        (count(|v| *v == Verdict::BelowFloor), "below floor"),
        (count(|v| matches!(v, Verdict::Refused(_))), "without a verdict"),
        (count(|v| matches!(v, Verdict::NotMeasured(_))), "not measured"),
    ];
    rest.iter()
        .filter(|(count, _)| *count > 0)
        .for_each(|(count, word)| text += &format!(", {count} {word}"));
    text
}

#[cfg(test)]
mod tests;
