//! Whether what SMC has to reach was reached, by every row of [`goals`](super::goals).
//!
//! The invariant: no goal is judged on runs that others disturbed, and none on runs of different rounds.

use crate::compare::digits::figure;
use crate::compare::goals::{Bar, Goal, What};
use crate::compare::metric::Metric;
use crate::compare::plan::Turn;
use crate::compare::quantity::{Quantity, Unit};
use crate::compare::quiet::{Interference, refusal};
use crate::compare::stats::Spread;
use crate::compare::study::Study;
use crate::compare::summary::Reading;
use crate::path::Path;

/// How a row stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The goal is reached.
    Pass,
    /// The floor is, the goal is not.
    Short,
    /// Not even the floor.
    BelowFloor,
    /// Not even the floor, nor does `bare`: why.
    Forbidden(String),
    /// Others disturbed too many of its runs: why.
    Refused(String),
    /// There are no two runs of one round: why.
    NotMeasured(String),
    /// The same because a program of somebody else's is not installed, which is nobody's failure: which one.
    NotHere(String),
}

impl Verdict {
    /// In one or two words.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Short => "short",
            Verdict::BelowFloor => "below floor",
            Verdict::Forbidden(_) => "not on this machine",
            Verdict::Refused(_) => "no verdict",
            Verdict::NotMeasured(_) | Verdict::NotHere(_) => "not measured",
        }
    }

    /// Whether it shows that something is broken, or nothing where something should have been shown.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(self, Verdict::BelowFloor | Verdict::Refused(_) | Verdict::NotMeasured(_))
    }
}

/// A row, what it reached and its verdict.
pub(crate) struct Judged<'a> {
    /// The row.
    pub(crate) goal: &'a Goal,
    /// The other path; empty for what stands by itself.
    pub(crate) against: String,
    /// Times better, or part of, as the bar counts, or in the quantity's unit; None if it was not measured.
    pub(crate) reached: Option<Spread>,
    /// How it stands.
    pub(crate) verdict: Verdict,
}

/// Judges every row of the study.
pub(crate) fn judge<'a>(reading: &Reading<'a>) -> Vec<Judged<'a>> {
    let judge_one = |goal: &'a Goal| match goal.what {
        What::Turns { ours, theirs, metric } => judge_turns(reading, goal, [ours, theirs], metric),
        What::Quantity { quantity } => judge_quantity(reading.study, goal, quantity),
    };
    reading.study.goals.iter().map(judge_one).collect()
}

/// What a row is counted in.
pub(crate) fn unit(goal: &Goal) -> Unit {
    match goal.what {
        What::Turns { .. } => Unit::Times,
        What::Quantity { quantity } => quantity.about().unit,
    }
}

fn judge_turns<'a>(reading: &Reading<'a>, goal: &'a Goal, turns: [Turn; 2], metric: Metric) -> Judged<'a> {
    let (study, [ours, theirs]) = (reading.study, turns);
    let pairs = reading.paired(ours, theirs, metric);
    let ratio = goal.bar.ratio(&pairs, metric);
    let samples = study.samples.iter().filter(|one| turns.contains(&one.turn));
    let failed = study.failures.iter().find(|one| turns.contains(&one.turn));
    let missing = failed.map(|one| Verdict::NotMeasured(one.reason.clone()));
    let verdict = goal.bar.judge(ratio, samples.map(|one| one.interference), missing);
    let verdict = match verdict {
        Verdict::BelowFloor => limit(reading, goal.bar, theirs, metric).unwrap_or(Verdict::BelowFloor),
        verdict => verdict,
    };
    let against = study.contender(theirs).map(|(_, who)| who.to_string()).unwrap_or_default();
    Judged { goal, against, reached: ratio, verdict }
}

/// What `bare` comes to against `theirs`, if not even that reaches the floor: then the machine forbids it.
fn limit(reading: &Reading<'_>, bar: Bar, theirs: Turn, metric: Metric) -> Option<Verdict> {
    let group = reading.study.plan.groups.get(theirs.group)?;
    let bare = group.contenders.iter().position(|one| one.path == Path::Bare)?;
    let bare = Turn { contender: bare, ..theirs };
    let pairs = reading.paired(bare, theirs, metric);
    let reached = bar.ratio(&pairs, metric).filter(|_| bare != theirs)?.median;
    let sign = if matches!(bar, Bar::AtLeast { .. }) { "x" } else { "" };
    let why = || format!("bare, the limit of this machine, reaches {}{sign}", figure(reached));
    (bar.verdict(reached) == Verdict::BelowFloor).then(|| Verdict::Forbidden(why()))
}

fn judge_quantity<'a>(study: &Study, goal: &'a Goal, quantity: Quantity) -> Judged<'a> {
    let pairs = study.taken(quantity).flat_map(|take| &take.pairs);
    let values = pairs.map(|pair| pair.value());
    let reached = match quantity.about().unit {
        Unit::Times => Spread::of_ratios(values),
        _ => Spread::of(values),
    };
    let missing = study.lacks.iter().find(|lack| lack.quantity == quantity).map(|lack| {
        let reason = lack.reason.clone();
        if lack.is_absent { Verdict::NotHere(reason) } else { Verdict::NotMeasured(reason) }
    });
    let verdict = goal.bar.judge(reached, study.taken(quantity).map(|take| take.interference), missing);
    Judged { goal, against: quantity.about().against.into(), reached, verdict }
}

impl Bar {
    /// Of pairs of rounds, as it counts.
    fn ratio(self, pairs: &[(f64, f64)], metric: Metric) -> Option<Spread> {
        Spread::of_ratios(pairs.iter().map(|&(ours, theirs)| match self {
            Bar::AtLeast { .. } => metric.times_better(ours, theirs),
            Bar::AtMost { .. } => ours / theirs,
        }))
    }

    /// Of what was reached while others were seen to do this; `missing` says why nothing was.
    fn judge(
        self,
        reached: Option<Spread>,
        seen: impl Iterator<Item = Option<Interference>>,
        missing: Option<Verdict>,
    ) -> Verdict {
        match reached {
            Some(reached) => refusal(seen).map_or_else(|| self.verdict(reached.median), Verdict::Refused),
            None => missing.unwrap_or_else(|| Verdict::NotMeasured("it was not its turn yet".into())),
        }
    }

    fn verdict(self, reached: f64) -> Verdict {
        let (has_goal, has_floor) = match self {
            Bar::AtLeast { goal, floor } => (reached >= goal, reached >= floor),
            Bar::AtMost { goal, floor } => (reached <= goal, reached <= floor),
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
        (count(|v| matches!(v, Verdict::Forbidden(_))), "not possible on this machine"),
        (count(|v| matches!(v, Verdict::Refused(_))), "without a verdict"),
        (count(|v| matches!(v, Verdict::NotMeasured(_) | Verdict::NotHere(_))), "not measured"),
    ];
    rest.iter()
        .filter(|(count, _)| *count > 0)
        .for_each(|(count, word)| text += &format!(", {count} {word}"));
    text
}

#[cfg(test)]
mod tests;
