//! The tables of the page: all numbers, goals, extras.

use maud::{Markup, html};

use crate::compare::digits::figure;
use crate::compare::goals::{Judged, Verdict};
use crate::compare::metric::Metric;
use crate::compare::study::Extra;
use crate::compare::summary::{Line, Reading};
use crate::path::Path;
use crate::report::text::{bar, reached};
use crate::report::units::{grouped, percent, show, show_range, times, workload};

/// Columns of numbers, with what stands above them. The speed comes before them, the cost's ratio after.
const LATENCIES: [(Metric, &str); 5] = [
    (Metric::P50, "p50"),
    (Metric::P90, "p90"),
    (Metric::P99, "p99"),
    (Metric::P999, "p99.9"),
    (Metric::Max, "max"),
];
const COSTS: [(Metric, &str); 3] = [
    (Metric::CpuPerGigabit, "CPU us/Gb"),
    (Metric::ServerCpuPerGigabit, "server us/Gb"),
    (Metric::HostCpuPerGigabit, "host us/Gb"),
];

/// A table that scrolls by itself on a narrow screen.
fn scrolling(name: &str, table: &Markup) -> Markup {
    html! { div.scroll role="region" aria-label=(name) tabindex="0" { (table) } }
}

/// Every contender in every setting.
pub(crate) fn numbers(reading: &Reading<'_>, lines: &[Line<'_>]) -> Markup {
    let table = html! {
        table {
            caption { "Medians of the rounds; percentiles of all rounds merged; ratios of runs of the same round" }
            thead {
                tr {
                    th.words scope="col" { "Over" }
                    th.words scope="col" { "Workload" }
                    th scope="col" { "Conns" }
                    th scope="col" { "Rate" }
                    th scope="col" { "Min..max" }
                    th scope="col" { "Ratio" }
                    @for (_, name) in LATENCIES { th scope="col" { (name) } }
                    th scope="col" { "CPU per transaction" }
                    th scope="col" { "Switches" }
                    @for (_, name) in COSTS { th scope="col" { (name) } }
                    th scope="col" { "CPU ratio" }
                }
            }
            tbody { @for line in lines { (row(reading, line)) } }
        }
    };
    scrolling("All numbers", &table)
}

fn row(reading: &Reading<'_>, line: &Line<'_>) -> Markup {
    let main = reading.main_metric(line.turn.group);
    let number = |metric| reading.shown(line, metric).map(|value| show(metric, value));
    let range = line.values.get(&main).map(|value| show_range(main, value.spread.min, value.spread.max));
    let cost = line.values.get(&Metric::CpuPerGigabit).filter(|_| !line.is_baseline());
    let first = if line.turn.contender == 0 { "first" } else { "" };
    let hero = if line.contender.path == Path::Smc { "hero" } else { "" };
    html! {
        tr class=(format!("{first} {hero}").trim()) {
            th scope="row" { (line.contender) }
            td.words { (workload(&line.group.setting)) }
            td { (line.group.setting.connections) }
            td { (number(main).unwrap_or_default()) }
            td { (range.unwrap_or_default()) }
            td { (line.times_better(main).map(times).unwrap_or_default()) }
            @for (metric, _) in LATENCIES { td { (number(metric).unwrap_or_default()) } }
            td { (number(Metric::CpuPerTransaction).unwrap_or_default()) }
            td { (number(Metric::SwitchesPerTransaction).unwrap_or_default()) }
            @for (metric, _) in COSTS { td { (line.shown(metric).map(grouped).unwrap_or_default()) } }
            td { (cost.and_then(|value| value.ratio).map(|ratio| percent(ratio.median)).unwrap_or_default()) }
        }
    }
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
        Verdict::Refused(_) | Verdict::NotMeasured(_) => ("quiet", "– "),
    };
    let why = match &row.verdict {
        Verdict::Refused(why) | Verdict::NotMeasured(why) => why.as_str(),
        _ => "",
    };
    let [goal, floor] = bar(row.goal.bar);
    html! {
        tr {
            th scope="row" { (row.goal.name) }
            td.words { (row.against) }
            td.words { strong class=(class) { (sign) (row.verdict.word()) } @if !why.is_empty() { div.why { (why) } } }
            td { (reached(row)) }
            td { (row.ratio.map(|all| format!("{}..{}", figure(all.min), figure(all.max))).unwrap_or_default()) }
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
