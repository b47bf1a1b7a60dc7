//! The tables of the page: all numbers, goals, extras.

use maud::{Markup, html};

use crate::compare::goals::{Judged, Verdict};
use crate::compare::metric::Metric;
use crate::compare::study::Extra;
use crate::compare::summary::{Line, Reading};
use crate::path::Path;
use crate::report::text::{bar, range, reached};
use crate::report::units::{grouped, percent, show, show_range, times, workload};

/// Of the table of all numbers, what stands above the columns behind the names.
const HEADER: [&str; 14] = [
    "Rate",
    "Min..max",
    "Ratio",
    "p50",
    "p90",
    "p99",
    "p99.9",
    "max",
    "CPU per transaction",
    "Switches",
    "CPU us/Gb",
    "server us/Gb",
    "host us/Gb",
    "CPU ratio",
];
/// Those of them that are a metric as it is shown everywhere.
const SHOWN: [Metric; 7] = [
    Metric::P50,
    Metric::P90,
    Metric::P99,
    Metric::P999,
    Metric::Max,
    Metric::CpuPerTransaction,
    Metric::SwitchesPerTransaction,
];
/// Those whose unit is above the column.
const COSTS: [Metric; 3] = [Metric::CpuPerGigabit, Metric::ServerCpuPerGigabit, Metric::HostCpuPerGigabit];

/// A table that scrolls by itself on a narrow screen.
fn scrolling(name: &str, table: &Markup) -> Markup {
    html! { div.scroll role="region" aria-label=(name) tabindex="0" { (table) } }
}

/// Every contender in every setting; columns in which nobody has a number are left out.
pub(crate) fn numbers(reading: &Reading<'_>, lines: &[Line<'_>]) -> Markup {
    let rows: Vec<Vec<String>> = lines.iter().map(|line| cells(reading, line)).collect();
    let columns: Vec<usize> =
        (0..HEADER.len()).filter(|column| rows.iter().any(|row| !row[*column].is_empty())).collect();
    let table = html! {
        table {
            caption { "Medians of the rounds; percentiles of all rounds merged; ratios of runs of the same round" }
            thead {
                tr {
                    th.words scope="col" { "Over" }
                    th.words scope="col" { "Workload" }
                    th scope="col" { "Conns" }
                    @for column in &columns { th scope="col" { (HEADER[*column]) } }
                }
            }
            tbody {
                @for (line, cells) in lines.iter().zip(&rows) {
                    tr class=(emphasis(line)) {
                        th scope="row" { (line.contender) }
                        td.words { (workload(&line.group.setting)) }
                        td { (line.group.setting.connections) }
                        @for column in &columns { td { (cells[*column]) } }
                    }
                }
            }
        }
    };
    scrolling("All numbers", &table)
}

/// Groups are set apart, and SMC's rows stand out.
fn emphasis(line: &Line<'_>) -> String {
    let first = if line.turn.contender == 0 { "first" } else { "" };
    let hero = if line.contender.path == Path::Smc { "hero" } else { "" };
    format!("{first} {hero}").trim().to_owned()
}

/// Under each of [`HEADER`].
fn cells(reading: &Reading<'_>, line: &Line<'_>) -> Vec<String> {
    let main = reading.main_metric(line.turn.group);
    let number = |metric| reading.shown(line, metric).map(|value| show(metric, value));
    let range = line.values.get(&main).map(|value| show_range(main, value.spread.min, value.spread.max));
    let cost = line.values.get(&Metric::CpuPerGigabit).filter(|_| !line.is_baseline());
    let speed = [number(main), range, line.times_better(main).map(times)];
    let costs = COSTS.map(|metric| line.shown(metric).map(grouped));
    let ratio = cost.and_then(|value| value.ratio).map(|ratio| percent(ratio.median));
    let all = speed.into_iter().chain(SHOWN.map(number)).chain(costs).chain([ratio]);
    all.map(Option::unwrap_or_default).collect()
}

/// Every goal with its verdict.
pub(crate) fn goals(judged: &[Judged<'_>]) -> Markup {
    let table = html! {
        table.goals {
            thead {
                tr {
                    th.words scope="col" { "What" }
                    th.words scope="col" { "Against" }
                    th.words scope="col" { "Verdict" }
                    th scope="col" { "Reached" }
                    th scope="col" { "Min..max" }
                    th scope="col" { "Goal" }
                    th scope="col" { "Floor" }
                }
            }
            tbody { @for row in judged { (goal(row)) } }
        }
    };
    scrolling("Goals", &table)
}

fn goal(row: &Judged<'_>) -> Markup {
    let (class, sign) = match row.verdict {
        Verdict::Pass => ("pass", "✓ "),
        Verdict::Short => ("short", "△ "),
        Verdict::BelowFloor => ("floor", "✗ "),
        Verdict::Refused(_) | Verdict::NotMeasured(_) | Verdict::NotHere(_) => ("quiet", "– "),
    };
    let why = match &row.verdict {
        Verdict::Refused(why) | Verdict::NotMeasured(why) | Verdict::NotHere(why) => why.as_str(),
        _ => "",
    };
    let [goal, floor] = bar(row.goal);
    html! {
        tr {
            th scope="row" { (row.goal.name) }
            td.words { (row.against) }
            td.words { strong class=(class) { (sign) (row.verdict.word()) } @if !why.is_empty() { div.why { (why) } } }
            td { (reached(row)) }
            td { (range(row)) }
            td { (goal) }
            td { (floor) }
        }
    }
}

/// Numbers from elsewhere.
pub(crate) fn extra(extra: &Extra) -> Markup {
    let table = html! {
        table {
            thead { tr { @for name in &extra.header { th scope="col" { (name) } } } }
            tbody { @for row in &extra.rows { tr { @for cell in row { td { (cell) } } } } }
        }
    };
    scrolling(&extra.title, &table)
}
