//! A study as text: warnings first, then what it comes to, then the tables, then how it was measured.

use std::collections::BTreeSet;

use comfy_table::{CellAlignment, Table, TableComponent, presets};

use crate::compare::digits::{bytes, figure};
use crate::compare::goals::{self, Bar, Goal, Judged, What};
use crate::compare::metric::Metric;
use crate::compare::plan::Contender;
use crate::compare::quantity::Unit;
use crate::compare::stats::Spread;
use crate::compare::study::{Extra, Study};
use crate::compare::summary::{Line, Reading};
use crate::compare::verdict;
use crate::report::units::{grouped, percent, show, show_range, times, workload};

/// Columns of names, which stand left; numbers stand right.
const NAMES: usize = 3;

/// All of it.
pub(crate) fn text(study: &Study) -> String {
    let reading = Reading::new(study);
    let lines = reading.lines();
    let judged = goals::judge(&reading);
    let mut parts = vec![verdict::warnings(study).join("\n"), study.title.clone()];
    parts.push(summary(&reading, &judged).join("\n"));
    parts.push(study.notes.join("\n"));
    if !judged.is_empty() {
        parts.push(goals_table(&judged));
    }
    if !lines.is_empty() {
        parts.push(speed(&reading, &lines));
        parts.push(cost(&reading, &lines));
    }
    parts.extend(study.extras.iter().map(extra));
    parts.push(how(study).join("\n"));
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    parts.join("\n\n") + "\n"
}

/// What it comes to, a sentence each.
pub(crate) fn summary(reading: &Reading<'_>, judged: &[Judged<'_>]) -> Vec<String> {
    if judged.is_empty() {
        return verdict::headline(reading);
    }
    let refusal = verdict::refusal(reading.study.seen());
    [goals::tally(judged)].into_iter().chain(refusal).collect()
}

/// How it was measured, a sentence each.
pub(crate) fn how(study: &Study) -> Vec<String> {
    let plan = &study.plan;
    vec![
        format!("{}, {:.0} s, version {}: {}", study.started, study.seconds, study.version, study.command),
        format!("machine: {}", study.machine.sentence()),
        format!("host: {}", verdict::calm(study)),
        format!(
            "{} in which the paths take turns; medians of the rounds, percentiles of all rounds merged, ratios \
             of runs of the same round; {:.2} s of warm-up before each run",
            if plan.rounds == 1 { "one round".into() } else { format!("{} rounds", plan.rounds) },
            plan.warm_up.as_secs_f64()
        ),
    ]
}

/// Columns in which no row has anything are left out.
fn table(mut header: Vec<String>, mut rows: Vec<Vec<String>>, names: usize) -> String {
    let is_empty = |column: &usize| rows.iter().all(|row| row.get(*column).is_none_or(String::is_empty));
    let empty: Vec<usize> = (names..header.len()).filter(is_empty).collect();
    for line in rows.iter_mut().chain([&mut header]) {
        let mut column = 0..;
        line.retain(|_| column.next().is_none_or(|column| !empty.contains(&column)));
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_style(TableComponent::HeaderLines, '─').set_header(header);
    table.set_style(TableComponent::MiddleHeaderIntersections, '─');
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(names) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Workload, connections and path: what was said in the row above is not said again.
fn names(line: &Line<'_>, above: Option<&Line<'_>>) -> [String; NAMES] {
    let name = |line: &Line<'_>| workload(&line.group.setting);
    let is_same_name = above.is_some_and(|above| name(above) == name(line));
    let is_same_group = above.is_some_and(|above| above.turn.group == line.turn.group);
    let unless = |is_same, text: String| if is_same { String::new() } else { text };
    [
        unless(is_same_name, name(line)),
        unless(is_same_group, line.group.setting.connections.to_string()),
        line.contender.to_string(),
    ]
}

fn rows(lines: &[Line<'_>], numbers: impl Fn(&Line<'_>) -> Vec<String>) -> Vec<Vec<String>> {
    let row = |(i, line): (usize, &Line<'_>)| {
        let names = names(line, i.checked_sub(1).map(|above| &lines[above]));
        names.into_iter().chain(numbers(line)).collect()
    };
    lines.iter().enumerate().map(row).collect()
}

/// The value, or nothing where there is none to show.
fn number(reading: &Reading<'_>, line: &Line<'_>, metric: Metric) -> String {
    reading.shown(line, metric).map(|value| show(metric, value)).unwrap_or_default()
}

fn speed(reading: &Reading<'_>, lines: &[Line<'_>]) -> String {
    let header = [
        "workload",
        "conns",
        "over",
        "rate",
        "min..max",
        &versus(lines),
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
    ];
    let percentiles = [Metric::P50, Metric::P90, Metric::P99, Metric::P999, Metric::Max];
    let numbers = |line: &Line<'_>| {
        let metric = reading.main_metric(line.turn.group);
        let spread = line.values.get(&metric).map(|value| value.spread);
        let range = spread.map(|all| show_range(metric, all.min, all.max)).unwrap_or_default();
        let ratio = line.times_better(metric).map(times).unwrap_or_default();
        let numbers = [number(reading, line, metric), range, ratio];
        numbers.into_iter().chain(percentiles.map(|metric| number(reading, line, metric))).collect()
    };
    table(owned(&header), rows(lines, numbers), NAMES)
}

/// What the ratios are to, where it is the same in all lines.
fn versus(lines: &[Line<'_>]) -> String {
    let baselines: BTreeSet<&Contender> = lines.iter().map(|line| &line.group.baseline).collect();
    match baselines.into_iter().collect::<Vec<_>>()[..] {
        [baseline] => format!("vs {baseline}"),
        _ => "ratio".into(),
    }
}

fn cost(reading: &Reading<'_>, lines: &[Line<'_>]) -> String {
    let per_gigabit = [Metric::CpuPerGigabit, Metric::ServerCpuPerGigabit, Metric::HostCpuPerGigabit];
    let numbers = |line: &Line<'_>| {
        let value = line.values.get(&Metric::CpuPerGigabit).filter(|_| !line.is_baseline());
        let part = value.and_then(|value| value.ratio).map(|ratio| percent(ratio.median));
        let per_transaction = [Metric::CpuPerTransaction, Metric::SwitchesPerTransaction];
        let numbers = per_transaction.map(|metric| number(reading, line, metric)).into_iter();
        let us = per_gigabit.map(|metric| line.shown(metric).map(grouped).unwrap_or_default());
        numbers.chain([part.unwrap_or_default()]).chain(us).collect()
    };
    let header = [
        "workload",
        "conns",
        "over",
        "CPU/transaction",
        "switches",
        &versus(lines),
        "CPU us/Gb",
        "server",
        "host",
    ];
    table(owned(&header), rows(lines, numbers), NAMES)
}

/// Goal and floor, as they are to be reached.
pub(crate) fn bar(goal: &Goal) -> [String; 2] {
    match (goal.bar, unit(goal)) {
        (Bar::AtLeast { goal, floor }, _) => [goal, floor].map(|bar| format!("{bar}x")),
        (Bar::AtMost { goal, floor }, Unit::Times) => [goal, floor].map(|bar| format!("<= {bar}")),
        (Bar::AtMost { goal, floor }, Unit::PercentOfCore) => [goal, floor].map(|bar| format!("<= {bar} %")),
        (Bar::AtMost { goal, floor }, Unit::Bytes) => [goal, floor].map(|bar| format!("<= {}", bytes(bar))),
    }
}

fn unit(goal: &Goal) -> Unit {
    match goal.what {
        What::Turns { .. } => Unit::Times,
        What::Quantity { quantity } => quantity.about().unit,
    }
}

/// A number as its goal counts it; one that has to be close to 1 with a digit more.
fn counted(goal: &Goal, value: f64) -> String {
    match (unit(goal), goal.bar) {
        (Unit::Times, Bar::AtLeast { goal, .. }) if goal < 1.0 => format!("{value:.3}"),
        (Unit::Times, _) => figure(value),
        (Unit::PercentOfCore, _) => format!("{value:.3} %"),
        (Unit::Bytes, _) => format!("{} KiB", figure(value / 1024.0)),
    }
}

/// The median as its bar counts.
pub(crate) fn reached(judged: &Judged<'_>) -> String {
    let sign = if matches!(judged.goal.bar, Bar::AtLeast { .. }) { "x" } else { "" };
    judged.reached.map(|all| counted(judged.goal, all.median) + sign).unwrap_or_default()
}

/// Smallest and largest of the rounds.
pub(crate) fn range(judged: &Judged<'_>) -> String {
    let range = |all: Spread| format!("{}..{}", counted(judged.goal, all.min), counted(judged.goal, all.max));
    judged.reached.map(range).unwrap_or_default()
}

fn goals_table(judged: &[Judged<'_>]) -> String {
    let row = |row: &Judged<'_>| {
        let [goal, floor] = bar(row.goal);
        // Why something failed stands above everything else, once.
        let why = match &row.verdict {
            goals::Verdict::Refused(why) | goals::Verdict::NotHere(why) => format!(": {why}"),
            _ => String::new(),
        };
        let verdict = format!("{}{why}", row.verdict.word());
        vec![row.goal.name.clone(), row.against.clone(), verdict, reached(row), range(row), goal, floor]
    };
    let header = owned(&["what", "against", "verdict", "reached", "min..max", "goal", "floor"]);
    table(header, judged.iter().map(row).collect(), NAMES)
}

/// A title and its table.
pub(crate) fn extra(extra: &Extra) -> String {
    format!("{}\n{}", extra.title, table(extra.header.clone(), extra.rows.clone(), 1))
}

#[cfg(test)]
mod tests;
