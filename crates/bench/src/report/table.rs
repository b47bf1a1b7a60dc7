//! The tables of a report. Text, page and Markdown show these very cells, so that no two of them can tell different numbers.

use std::collections::BTreeSet;

use crate::compare::digits::{bytes, figure};
use crate::compare::goals::{Bar, Goal};
use crate::compare::judge::{Judged, Verdict, unit};
use crate::compare::metric::Metric;
use crate::compare::plan::Contender;
use crate::compare::quantity::Unit;
use crate::compare::quiet::refusal;
use crate::compare::stats::Spread;
use crate::compare::study::Extra;
use crate::compare::summary::{Line, Reading};
use crate::path::Path;
use crate::report::units::{grouped, ratio, ratio_range, show, show_range};

/// Workload, connections and path.
const NAMES: usize = 3;
/// What a baseline's cells hold where others have a ratio.
const NOTHING: String = String::new();

/// A heading, columns and rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    /// What it is; empty where the columns say it.
    pub(crate) title: String,
    /// Of the columns.
    pub(crate) header: Vec<String>,
    /// As many cells each as the header.
    pub(crate) rows: Vec<Row>,
    /// So many columns are names, which stand left; numbers stand right.
    pub(crate) names: usize,
}

/// One row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// Under the header.
    pub(crate) cells: Vec<String>,
    /// Classes of the style sheet.
    pub(crate) class: &'static str,
}

impl Table {
    /// Columns of numbers in which no row has anything are left out.
    fn new(title: &str, header: &[&str], mut rows: Vec<Row>, names: usize) -> Self {
        let kept: Vec<bool> = (0..header.len())
            .map(|column| column < names || rows.iter().any(|row| !row.cells[column].is_empty()))
            .collect();
        let keep = |cells: &mut Vec<String>| {
            let mut kept = kept.iter();
            cells.retain(|_| kept.next().is_none_or(|kept| *kept));
        };
        let mut header: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
        keep(&mut header);
        rows.iter_mut().for_each(|row| keep(&mut row.cells));
        Self { title: title.into(), header, rows, names }
    }

    /// With these of its columns alone.
    pub(crate) fn only(&self, columns: &[usize]) -> Self {
        let pick = |cells: &[String]| columns.iter().map(|column| cells[*column].clone()).collect();
        let rows = self.rows.iter().map(|row| Row { cells: pick(&row.cells), class: row.class });
        Self { header: pick(&self.header), rows: rows.collect(), ..self.clone() }
    }
}

/// Goals, speed and cost, as far as the study has them.
pub(crate) fn tables(reading: &Reading<'_>, lines: &[Line<'_>], judged: &[Judged<'_>]) -> Vec<Table> {
    let extras = reading.study.extras.iter().map(extra);
    let own = [goals(reading, judged), speed(reading, lines), cost(reading, lines)];
    own.into_iter().chain(extras).filter(|table| !table.rows.is_empty()).collect()
}

fn columns(header: &str) -> Vec<&str> {
    header.split('|').collect()
}

fn rows(lines: &[Line<'_>], numbers: impl Fn(&Line<'_>) -> Vec<String>) -> Vec<Row> {
    let row = |line: &Line<'_>| {
        let setting = &line.group.setting;
        let names = [setting.workload(), setting.connections.to_string(), line.contender.to_string()];
        let class = match (line.turn.contender == 0, line.contender.path == Path::Smc) {
            (true, true) => "first hero",
            (true, false) => "first",
            (false, true) => "hero",
            _ => "",
        };
        Row { cells: names.into_iter().chain(numbers(line)).collect(), class }
    };
    lines.iter().map(row).collect()
}

/// The value, or nothing where there is none to show.
fn number(reading: &Reading<'_>, line: &Line<'_>, metric: Metric) -> String {
    reading.shown(line, metric).map(|value| show(metric, value)).unwrap_or_default()
}

/// The ratio to the baseline and its spread over the rounds.
fn ratios(line: &Line<'_>, metric: Metric) -> [String; 2] {
    let shown = |all: Spread| [ratio(metric, all.median), ratio_range(metric, all.min, all.max)];
    line.ratio(metric).map(shown).unwrap_or([NOTHING, NOTHING])
}

fn speed(reading: &Reading<'_>, lines: &[Line<'_>]) -> Table {
    let percentiles =
        [Metric::TransactionTime, Metric::P50, Metric::P90, Metric::P99, Metric::P999, Metric::Max];
    let numbers = |line: &Line<'_>| {
        let metric = reading.main_metric(line.turn.group);
        let range = |all: Spread| show_range(metric, all.min, all.max);
        let range = line.values.get(&metric).map(|value| range(value.spread)).unwrap_or_default();
        let speed = [number(reading, line, metric), range].into_iter().chain(ratios(line, metric));
        speed.chain(percentiles.map(|metric| number(reading, line, metric))).collect()
    };
    let header = format!(
        "workload|conns|over|rate|min..max|{}|ratio min..max|mean|p50|p90|p99|p99.9|max",
        versus(lines)
    );
    Table::new("Speed and latency", &columns(&header), rows(lines, numbers), NAMES)
}

/// What the ratios are to, where it is the same in all lines.
fn versus(lines: &[Line<'_>]) -> String {
    let baselines: BTreeSet<&Contender> = lines.iter().map(|line| &line.group.baseline).collect();
    match baselines.into_iter().collect::<Vec<_>>()[..] {
        [baseline] => format!("vs {baseline}"),
        _ => "ratio".into(),
    }
}

fn cost(reading: &Reading<'_>, lines: &[Line<'_>]) -> Table {
    let per_gigabit = [Metric::CpuPerGigabit, Metric::ServerCpuPerGigabit, Metric::HostCpuPerGigabit];
    let numbers = |line: &Line<'_>| {
        // What both ends used says more, where it is known.
        let server = Metric::ServerCpuPerTransaction;
        let server = number(reading, line, server);
        let alone = if line.shown(Metric::CpuPerTransaction).is_none() { server } else { NOTHING };
        let both = [Metric::CpuPerTransaction, Metric::SwitchesPerTransaction];
        let [cpu, switches] = both.map(|metric| number(reading, line, metric));
        let us = per_gigabit.map(|metric| line.shown(metric).map(grouped).unwrap_or_default());
        [cpu, alone, switches].into_iter().chain(ratios(line, line.cost())).chain(us).collect()
    };
    let header = format!(
        "workload|conns|over|CPU/transaction|server CPU/transaction|switches|CPU {}|ratio min..max|CPU us/Gb|server us/Gb|\
         host us/Gb",
        versus(lines)
    );
    Table::new("Cost", &columns(&header), rows(lines, numbers), NAMES)
}

/// Goal and floor, as they are to be reached.
fn bar(goal: &Goal) -> [String; 2] {
    match (goal.bar, unit(goal)) {
        (Bar::AtLeast { goal, floor }, _) => [goal, floor].map(|bar| format!("{bar}x")),
        (Bar::AtMost { goal, floor }, Unit::Times) => [goal, floor].map(|bar| format!("<= {bar}")),
        (Bar::AtMost { goal, floor }, Unit::PercentOfCore) => [goal, floor].map(|bar| format!("<= {bar} %")),
        (Bar::AtMost { goal, floor }, Unit::Bytes) => [goal, floor].map(|bar| format!("<= {}", bytes(bar))),
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
fn reached(judged: &Judged<'_>) -> String {
    let sign = if matches!(judged.goal.bar, Bar::AtLeast { .. }) { "x" } else { "" };
    judged.reached.map(|all| counted(judged.goal, all.median) + sign).unwrap_or_default()
}

fn goals(reading: &Reading<'_>, judged: &[Judged<'_>]) -> Table {
    let is_refused = refusal(reading.study.seen()).is_some();
    let row = |row: &Judged<'_>| {
        let [goal, floor] = bar(row.goal);
        let (class, why) = match &row.verdict {
            Verdict::Pass => ("pass", ""),
            Verdict::Short => ("short", ""),
            Verdict::BelowFloor => ("floor", ""),
            // What stands above everything else is not said again: why something failed, and that all was disturbed.
            Verdict::NotMeasured(_) => ("quiet", ""),
            Verdict::Refused(_) if is_refused => ("quiet", ""),
            Verdict::Forbidden(why) | Verdict::Refused(why) | Verdict::NotHere(why) => {
                ("quiet", why.as_str())
            }
        };
        let verdict = if why.is_empty() { NOTHING } else { format!(": {why}") };
        let verdict = format!("{}{verdict}", row.verdict.word());
        let range = |all: Spread| format!("{}..{}", counted(row.goal, all.min), counted(row.goal, all.max));
        let range = row.reached.map(range).unwrap_or_default();
        let names = [row.goal.name.clone(), row.against.clone(), verdict];
        Row { cells: names.into_iter().chain([reached(row), range, goal, floor]).collect(), class }
    };
    let header = ["what", "against", "verdict", "reached", "min..max", "goal", "floor"];
    Table::new("Goals", &header, judged.iter().map(row).collect(), NAMES)
}

fn extra(extra: &Extra) -> Table {
    let header: Vec<&str> = extra.header.iter().map(String::as_str).collect();
    let rows = extra.rows.iter().map(|cells| Row { cells: cells.clone(), class: "" });
    Table::new(&extra.title, &header, rows.collect(), 1)
}
