//! What may be said about a study: the warnings that come first, the sentence that sums up, and the refusal to sum up.
//!
//! The invariant: no verdict is given on runs that others disturbed.

use std::collections::BTreeMap;

use crate::compare::digits::{bytes, figure};
use crate::compare::metric::Metric;
use crate::compare::plan::{Contender, Turn};
use crate::compare::quiet::Interference;
use crate::compare::study::{Axis, Ending, Sample, Study, connections};
use crate::compare::summary::{Line, Reading};
use crate::path::Path;

/// Of so many runs one may be disturbed: medians bear that, and a cron job must not cost an hour's work.
const ONE_OF: usize = 4;
/// A sentence has so many numbers at most.
const SAID: usize = 5;

/// What stands above everything else: connections that did not use SMC, cells that failed, and how it ended.
pub(crate) fn warnings(study: &Study) -> Vec<String> {
    let paths: Vec<Path> = [Path::Smc, Path::AfSmc].into_iter().collect();
    let mut all: Vec<String> = paths.iter().filter_map(|path| fallback(study, *path)).collect();
    all.extend(paths.iter().filter_map(|path| untold(study, *path)));
    all.extend(failures(study));
    match study.ending {
        Ending::Complete => {}
        Ending::Interrupted => all.push(format!("interrupted after {}", runs(study))),
        Ending::OutOfTime => {
            all.push(format!("ended after {}: another round would have taken too long", runs(study)))
        }
    }
    all
}

fn runs(study: &Study) -> String {
    format!("{} of {} runs", study.samples.len(), study.plan.runs())
}

fn over(study: &Study, path: Path) -> impl Iterator<Item = &Sample> {
    study.samples.iter().filter(move |one| study.contender(one.turn).is_some_and(|(_, who)| who.path == path))
}

/// How the connections of a path travelled, all runs that could tell added up.
#[derive(Default)]
struct Travelled<'a> {
    total: u32,
    plain: u32,
    runs: usize,
    plain_runs: usize,
    codes: BTreeMap<&'a str, u32>,
}

impl<'a> Travelled<'a> {
    fn over(study: &'a Study, path: Path) -> Self {
        let mut all = Self::default();
        for seen in over(study, path).filter_map(|sample| sample.run.connections.as_ref()) {
            all.total += seen.total;
            all.plain += seen.plain();
            all.plain_runs += usize::from(seen.plain() > 0);
            all.runs += 1;
            for (code, count) in &seen.fallback {
                *all.codes.entry(code).or_default() += count;
            }
        }
        all
    }

    /// `0x03010000 (12)`
    fn why(&self) -> String {
        let named: Vec<String> = self.codes.iter().map(|(code, count)| format!("{code} ({count})")).collect();
        if named.is_empty() { "nobody could tell why".into() } else { named.join(", ") }
    }
}

/// `12 of 50 smc connections stayed on TCP: 0x03010000 (12)`
fn fallback(study: &Study, path: Path) -> Option<String> {
    let all = Travelled::over(study, path);
    let when =
        if all.runs > 1 { format!(" in {} of {} runs", all.plain_runs, all.runs) } else { String::new() };
    let Travelled { plain, total, .. } = all;
    (plain > 0).then(|| format!("{plain} of {total} {path} connections stayed on TCP{when}: {}", all.why()))
}

/// How many connections used SMC-D, and why the others did not; None if SMC was not measured.
pub(crate) fn smc_use(study: &Study) -> Option<String> {
    over(study, Path::Smc).next()?;
    let all = Travelled::over(study, Path::Smc);
    let used = all.total - all.plain;
    Some(match (all.total, all.plain) {
        (0, _) => "connections that used SMC-D: unknown (smcss is not there, or cannot tell)".into(),
        (total, 0) => format!("{used} of {total} connections over smc used SMC-D"),
        (total, _) => format!(
            "{used} of {total} connections over smc used SMC-D; the others did not: {}; `man smcss` explains the codes",
            all.why()
        ),
    })
}

/// Connections that live for one transaction are gone before anybody could look: they are not missed.
fn untold(study: &Study, path: Path) -> Option<String> {
    let all = over(study, path).count();
    let untold = over(study, path).filter(|sample| sample.run.connections.is_none()).count();
    (untold > 0).then(|| {
        format!(
            "nobody could tell whether {path} connections used SMC in {untold} of {all} runs: is smcss there?"
        )
    })
}

/// A sentence per reason: what is wrong with a path is wrong with all its cells.
fn failures(study: &Study) -> Vec<String> {
    let mut by_reason: Vec<(&str, Vec<Turn>)> = vec![];
    for failure in &study.failures {
        match by_reason.iter_mut().find(|(reason, _)| *reason == failure.reason) {
            Some((_, turns)) => turns.push(failure.turn),
            None => by_reason.push((&failure.reason, vec![failure.turn])),
        }
    }
    let sentence = |(reason, turns): &(&str, Vec<Turn>)| {
        let more = if turns.len() > 1 { format!(" and {} more", turns.len() - 1) } else { String::new() };
        format!("{}{more} could not be measured: {reason}", study.name(turns[0]))
    };
    by_reason.iter().map(sentence).collect()
}

/// Why no verdict is given on these runs, or None if one may be.
pub(crate) fn refusal<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Option<String> {
    let samples: Vec<&Sample> = samples.into_iter().collect();
    let disturbed = || samples.iter().filter(|sample| sample.is_disturbed());
    let shares = disturbed().filter_map(|sample| sample.interference.map(|seen| seen.others));
    let worst = shares.fold(0.0, f64::max);
    (disturbed().count() * ONE_OF > samples.len()).then(|| {
        format!(
            "{}{:.0} % of the CPU was used by others during {} of {} runs",
            if disturbed().count() > 1 { "up to " } else { "" },
            worst * 100.0,
            disturbed().count(),
            samples.len()
        )
    })
}

/// How calm the host was, for the description of the run.
pub(crate) fn calm(study: &Study) -> String {
    let seen: Vec<&Interference> =
        study.samples.iter().filter_map(|sample| sample.interference.as_ref()).collect();
    if seen.is_empty() {
        return "what others did on this host could not be seen".into();
    }
    let most = |read: fn(&Interference) -> f64| seen.iter().map(|one| read(one)).fold(0.0, f64::max) * 100.0;
    let disturbed = study.samples.iter().filter(|sample| sample.is_disturbed()).count();
    format!(
        "others used at most {:.1} % of the CPU during a run (stolen by the hypervisor: {:.1} %); {disturbed} of {} runs count as disturbed",
        most(|one| one.others),
        most(|one| one.steal),
        study.samples.len()
    )
}

/// The sentences that sum up, or the refusal to.
pub(crate) fn headline(reading: &Reading<'_>) -> Vec<String> {
    if let Some(refusal) = refusal(&reading.study.samples) {
        return vec![format!("no verdict: {refusal}")];
    }
    let lines = reading.lines();
    if reading.study.axis == Axis::Buffer {
        return lines
            .chunk_by(|a, b| a.turn.group == b.turn.group)
            .filter_map(|all| best(reading, all))
            .collect();
    }
    let of = |line: &Line<'_>| (line.group.setting.profile.clone(), line.group.baseline.clone());
    let mut seen: Vec<(String, Contender)> = lines.iter().map(of).collect();
    seen.dedup();
    let sentence = |wanted: &(String, Contender)| {
        let own: Vec<&Line<'_>> = lines.iter().filter(|line| of(line) == *wanted).collect();
        sentence(reading, &own)
    };
    seen.iter().filter_map(sentence).collect()
}

/// `rr1c-200x1000 over smc: 21.5 times the transactions per second of tcp-veth on 1 connection, 9.8 times on 50
/// connections`, said of lines of one profile.
fn sentence(reading: &Reading<'_>, lines: &[&Line<'_>]) -> Option<String> {
    let hero = lines.iter().map(|line| line.contender).find(|who| who.path == Path::Smc)?;
    let chosen: Vec<&&Line<'_>> = lines.iter().filter(|line| line.contender == hero).collect();
    let part = |line: &&&Line<'_>| {
        let metric = reading.main_metric(line.turn.group);
        Some((figure(line.times_better(metric)?), place(line), noun(metric, &line.group.baseline)))
    };
    let parts: Vec<(String, String, String)> = chosen.iter().filter_map(part).collect();
    let shown = few(&parts).into_iter().enumerate().map(|(i, (times, place, noun))| {
        if i == 0 { format!("{times} times{noun} {place}") } else { format!("{times} times {place}") }
    });
    let shown: Vec<String> = shown.collect();
    let profile = &lines.first()?.group.setting.profile;
    (!shown.is_empty()).then(|| format!("{profile} over {hero}: {}", shown.join(", ")))
}

/// All, or of many the first, the middle and the last.
fn few<T>(all: &[T]) -> Vec<&T> {
    if all.len() > SAID {
        vec![&all[0], &all[all.len() / 2], &all[all.len() - 1]]
    } else {
        all.iter().collect()
    }
}

/// Where a ratio was measured.
fn place(line: &Line<'_>) -> String {
    match line.group.setting.variables.get("size") {
        Some(size) => format!("with messages of {}", size.parse().map_or(size.clone(), bytes)),
        None => format!("on {}", connections(line.group.setting.connections)),
    }
}

/// Of contenders of one setting, the one that beats the baseline by most.
fn best(reading: &Reading<'_>, lines: &[Line<'_>]) -> Option<String> {
    let metric = reading.main_metric(lines.first()?.turn.group);
    let times = |line: &&Line<'_>| line.times_better(metric).unwrap_or(0.0);
    let best = lines.iter().max_by(|a, b| times(a).total_cmp(&times(b)))?;
    let (profile, what) = (&best.group.setting.profile, noun(metric, &best.group.baseline));
    let times = figure(best.times_better(metric)?);
    Some(format!("{profile} {}: {times} times{what} over {}", place(best), best.contender))
}

fn noun(metric: Metric, baseline: &Contender) -> String {
    format!(" the {} of {baseline}", metric.about().title)
}

#[cfg(test)]
mod tests;
