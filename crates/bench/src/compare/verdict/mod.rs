//! What may be said about a study: the warnings that come first, and the sentence that sums up or refuses to.
//!
//! The invariant: no verdict is given on runs that others disturbed.

use std::collections::BTreeMap;

use crate::compare::digits::{bytes, connections, figure};
use crate::compare::judge::{Judged, tally};
use crate::compare::metric::Metric;
use crate::compare::plan::{Contender, Setting};
use crate::compare::quantity;
use crate::compare::quiet::{Interference, is_disturbed, refusal};
use crate::compare::study::{Axis, Ending, Sample, Study};
use crate::compare::summary::{Line, Reading};
use crate::path::Path;
use uperf::result::Connections;

/// Paths over which every connection shall use SMC.
const SMC: [Path; 2] = [Path::Smc, Path::AfSmc];
/// A sentence has so many numbers at most.
const SAID: usize = 5;

/// What stands above everything else: connections that did not use SMC, cells that failed, and how it ended.
pub(crate) fn warnings(study: &Study) -> Vec<String> {
    let mut all = study.cautions.clone();
    all.extend(strays(study));
    all.extend(SMC.into_iter().filter_map(|path| untold(study, path)));
    all.extend(failures(study));
    match study.ending {
        Ending::Complete => {}
        Ending::Interrupted => all.push(ended("interrupted", study)),
        Ending::OutOfTime => {
            all.push(format!("{}: another round would have taken too long", ended("ended", study)))
        }
    }
    all
}

/// Idle connections and probes are not planned as runs are.
fn ended(how: &str, study: &Study) -> String {
    match study.plan.runs() {
        0 => how.into(),
        all => format!("{how} after {} of {all} runs", study.samples.len()),
    }
}

fn over(study: &Study, path: Path) -> impl Iterator<Item = &Sample> {
    study.samples.iter().filter(move |one| study.contender(one.turn).is_some_and(|(_, who)| who.path == path))
}

/// How connections travelled, all runs that could tell added up.
#[derive(Default)]
struct Travelled<'a> {
    total: u64,
    plain: u64,
    runs: usize,
    plain_runs: usize,
    codes: BTreeMap<&'a str, u64>,
}

impl<'a> Travelled<'a> {
    fn over(study: &'a Study, path: Path) -> Self {
        Self::all(over(study, path).filter_map(|sample| sample.run.connections.as_ref()))
    }

    fn all(seen: impl Iterator<Item = &'a Connections>) -> Self {
        let mut all = Self::default();
        for seen in seen {
            all.total += u64::from(seen.total);
            all.plain += u64::from(seen.plain());
            all.plain_runs += usize::from(seen.plain() > 0);
            all.runs += 1;
            for (code, count) in &seen.fallback {
                *all.codes.entry(code).or_default() += u64::from(*count);
            }
        }
        all
    }

    /// `12 of 50 smc connections stayed on TCP: 0x03010000 (12)`; None if none did.
    fn stayed(&self, whose: &str) -> Option<String> {
        let Self { plain, total, runs, plain_runs, .. } = *self;
        let when = if runs > 1 { format!(" in {plain_runs} of {runs} runs") } else { String::new() };
        (plain > 0).then(|| match self.codes.is_empty() {
            true => {
                format!("{plain} of {total} {whose} had not told{when} that they share memory, nor why not")
            }
            false => format!("{plain} of {total} {whose} stayed on TCP{when}: {}", self.why()),
        })
    }

    /// Of connections whose one end is plain; None if they were plain.
    fn left_tcp(&self, whose: &str) -> Option<String> {
        let used = self.total - self.plain;
        (used > 0).then(|| format!("{used} of {} {whose} used SMC, so their peer was not plain", self.total))
    }

    /// `0x03010000 (12)`
    fn why(&self) -> String {
        let named: Vec<String> = self.codes.iter().map(|(code, count)| format!("{code} ({count})")).collect();
        named.join(", ")
    }
}

/// Connections that did not travel as they should have.
fn strays(study: &Study) -> Vec<String> {
    let of_path = |path| Travelled::over(study, path).stayed(&format!("{path} connections"));
    let plain = Travelled::over(study, Path::SmcClient).left_tcp("smc-client connections");
    let of_quantity = |about: &quantity::About| {
        let all = Travelled::all(study.taken(about.quantity).filter_map(|take| take.connections.as_ref()));
        let whose = format!("connections of {}", about.subject());
        if about.quantity.wants_smc() { all.stayed(&whose) } else { all.left_tcp(&whose) }
    };
    SMC.into_iter()
        .filter_map(of_path)
        .chain(plain)
        .chain(quantity::ALL.iter().filter_map(of_quantity))
        .collect()
}

/// How many connections used SMC-D, and why the others did not; None if SMC was not measured.
pub(crate) fn smc_use(study: &Study) -> Option<String> {
    over(study, Path::Smc).next()?;
    let all = Travelled::over(study, Path::Smc);
    let used = all.total - all.plain;
    Some(match (all.total, all.plain) {
        (0, _) => "connections that used SMC-D: unknown (smcss is not there, or cannot tell)".into(),
        (total, 0) => format!("{used} of {total} connections over smc used SMC-D"),
        (total, _) if all.codes.is_empty() => {
            format!(
                "{used} of {total} connections over smc used SMC-D; the others had not told how they travel"
            )
        }
        (total, _) => format!(
            "{used} of {total} connections over smc used SMC-D; the others did not: {}; `man smcss` explains the codes",
            all.why()
        ),
    })
}

/// Runs whose connections nobody saw or counted.
fn untold(study: &Study, path: Path) -> Option<String> {
    let all = over(study, path).count();
    let untold = over(study, path).filter(|sample| sample.run.connections.is_none()).count();
    (untold > 0).then(|| {
        format!(
            "nobody could tell whether {path} connections used SMC in {untold} of {all} runs: smcss and smcd are not there, or had no time to look"
        )
    })
}

/// A sentence per reason: what is wrong with a path is wrong with all its cells. A program that is not installed is no
/// failure.
fn failures(study: &Study) -> Vec<String> {
    let mut by_reason: Vec<(&str, Vec<String>)> = vec![];
    let cells = study.failures.iter().map(|failure| (failure.reason.as_str(), study.name(failure.turn)));
    let failed = study.lacks.iter().filter(|lack| !lack.is_absent);
    let quantities = failed.map(|lack| (lack.reason.as_str(), lack.quantity.about().subject().to_owned()));
    for (reason, name) in cells.chain(quantities) {
        match by_reason.iter_mut().find(|(one, _)| *one == reason) {
            Some((_, names)) => names.push(name),
            None => by_reason.push((reason, vec![name])),
        }
    }
    let sentence = |(reason, names): &(&str, Vec<String>)| {
        let more = if names.len() > 1 { format!(" and {} more", names.len() - 1) } else { String::new() };
        format!("{}{more} could not be measured: {reason}", names[0])
    };
    by_reason.iter().map(sentence).collect()
}

/// What it comes to, a sentence each, or why nothing is said.
pub(crate) fn summary(reading: &Reading<'_>, judged: &[Judged<'_>]) -> Vec<String> {
    if judged.is_empty() {
        return headline(reading);
    }
    let refusal = refusal(reading.study.seen()).map(|why| format!("no verdict: {why}"));
    refusal.into_iter().chain([tally(judged)]).collect()
}

/// How it was measured, a sentence each.
pub(crate) fn how(study: &Study) -> Vec<String> {
    let plan = &study.plan;
    let begun = study.samples.iter().map(|sample| sample.round + 1).max().unwrap_or(0);
    let rounds = match plan.rounds {
        1 => "one round".into(),
        all if begun < all => format!("{begun} of {all} rounds"),
        all => format!("{all} rounds"),
    };
    let turns = format!(
        "{rounds} in which the paths take turns; medians of the rounds, percentiles of all rounds merged, ratios of runs \
         of the same round; runs of {:.2} s, each after {:.2} s of warm-up",
        plan.groups.iter().map(|group| group.setting.duration).min().unwrap_or_default().as_secs_f64(),
        plan.warm_up.as_secs_f64()
    );
    let mut all = vec![
        format!("{}, {:.0} s, version {}: {}", study.started, study.seconds, study.version, study.command),
        format!("machine: {}", study.machine.sentence()),
        format!("host: {}", calm(study)),
    ];
    all.extend((!plan.groups.is_empty()).then_some(turns));
    all
}

/// How calm the host was, for the description of the run.
pub(crate) fn calm(study: &Study) -> String {
    let seen: Vec<Interference> = study.seen().flatten().collect();
    if seen.is_empty() {
        return "what others did on this host could not be seen".into();
    }
    let most = |read: fn(&Interference) -> f64| seen.iter().map(read).fold(0.0, f64::max) * 100.0;
    let disturbed = study.seen().filter(|one| is_disturbed(*one)).count();
    format!(
        "others used at most {:.1} % of the CPU during a run (stolen by the hypervisor: {:.1} %); {disturbed} of {} runs count as disturbed",
        most(|one| one.others),
        most(|one| one.steal),
        study.seen().count()
    )
}

/// The sentences that sum up, or the refusal to.
pub(crate) fn headline(reading: &Reading<'_>) -> Vec<String> {
    if let Some(refusal) = refusal(reading.study.seen()) {
        return vec![format!("no verdict: {refusal}")];
    }
    let lines = reading.lines();
    if reading.study.axis == Axis::Buffer {
        return lines
            .chunk_by(|a, b| a.turn.group == b.turn.group)
            .filter_map(|all| best(reading, all))
            .collect();
    }
    // Along sizes the size stands beside each number.
    let is_sized = reading.study.axis == Axis::Size;
    let name = |one: &Setting| if is_sized { one.profile.clone() } else { one.workload() };
    let of = |line: &Line<'_>| (name(&line.group.setting), line.group.baseline.clone());
    let mut seen: Vec<(String, Contender)> = lines.iter().map(of).collect();
    seen.dedup();
    let sentence = |wanted: &(String, Contender)| {
        let own: Vec<&Line<'_>> = lines.iter().filter(|line| of(line) == *wanted).collect();
        sentence(reading, &wanted.0, &own)
    };
    seen.iter().filter_map(sentence).collect()
}

/// `rr1c-200x1000 over smc: 21.5 times the transactions per second of tcp-veth on 1 connection, 9.8 times on 50
/// connections`, said of lines of one profile.
fn sentence(reading: &Reading<'_>, name: &str, lines: &[&Line<'_>]) -> Option<String> {
    let hero = lines.iter().map(|line| line.contender).find(|who| who.path == Path::Smc)?;
    let chosen: Vec<&&Line<'_>> = lines.iter().filter(|line| line.contender == hero).collect();
    let part = |line: &&&Line<'_>| {
        let metric = reading.main_metric(line.turn.group);
        Some((figure(line.times_better(metric)?), place(reading, line), noun(metric, &line.group.baseline)))
    };
    let parts: Vec<(String, String, String)> = chosen.iter().filter_map(part).collect();
    let shown = few(&parts).into_iter().enumerate().map(|(i, (times, place, noun))| {
        if i == 0 { format!("{times} times{noun} {place}") } else { format!("{times} times {place}") }
    });
    let shown: Vec<String> = shown.collect();
    (!shown.is_empty()).then(|| format!("{name} over {hero}: {}", shown.join(", ")))
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
fn place(reading: &Reading<'_>, line: &Line<'_>) -> String {
    match line.group.setting.variables.get("size").filter(|_| reading.study.axis == Axis::Size) {
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
    Some(format!("{profile} {}: {times} times{what} over {}", place(reading, best), best.contender))
}

fn noun(metric: Metric, baseline: &Contender) -> String {
    format!(" the {} of {baseline}", metric.about().title)
}

#[cfg(test)]
mod tests;
