//! Drawings with lines: how latencies are distributed, and what the size of a message changes.

use maud::Markup;

use super::curve::{Chart, Series, Tick};
use super::paint::{self, capital, figure};
use crate::compare::digits::{bytes, connections};
use crate::compare::metric::Metric;
use crate::compare::stats::Distribution;
use crate::compare::summary::{Line, Reading};
use crate::report::units::{mark, show, unit};

/// What a size is called in a profile.
pub(super) const SIZE: &str = "size";
/// Points per curve: as many as a screen can tell apart.
const POINTS: u32 = 120;
/// Where curves begin: the luckiest passes of all say nothing, and would take most of the height.
const FIRST: f64 = 0.1;
/// A percentile is drawn if so many passes were slower; fewer are accidents.
const BEYOND: f64 = 10.0;
/// Nor beyond one in so many, however long the run was.
const RAREST: f64 = 1e5;
/// Quantiles with a mark, if they are drawn.
const MARKS: [(f64, &str); 6] =
    [(0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99"), (0.99999, "99.999")];
/// Of these, those said in words.
const SAID: [Metric; 3] = [Metric::P50, Metric::P99, Metric::P999];

/// How latencies of one setting are distributed; None if no pass was timed.
pub(crate) fn percentiles(lines: &[&Line<'_>]) -> Option<Markup> {
    let first = lines.first()?;
    let title = format!("Latency, {}", connections(first.group.setting.connections));
    let curve = |line: &&Line<'_>| {
        let all = line.distribution.as_ref()?;
        Some(Series {
            name: line.contender.to_string(),
            class: paint::classes("stroke", line.contender),
            points: curve(all),
        })
    };
    let series: Vec<Series> = lines.iter().filter_map(curve).collect();
    let last = series.iter().filter_map(|one| one.points.last()).map(|point| point.0).fold(1.0, f64::max);
    let marks = MARKS.iter().map(|(quantile, name)| Tick { value: rarity(*quantile), name: (*name).into() });
    let ticks: Vec<Tick> = marks.filter(|tick| tick.value <= last * 1.01).collect();
    let words: Vec<String> = lines.iter().map(|line| words(line, &SAID)).collect();
    drawn(Metric::P50, &title, "Lower and flatter is better", &words, "percentile", &ticks, &series)
}

/// One transaction of so many is slower than `quantile`'s: equal steps lead from 90 to 99 to 99.9 %.
fn rarity(quantile: f64) -> f64 {
    1.0 / (1.0 - quantile)
}

fn curve(all: &Distribution) -> Vec<(f64, f64)> {
    let rarest = (all.passes() as f64 / BEYOND).clamp(2.0, RAREST);
    let first = rarity(FIRST).ln();
    let step = (rarest.ln() - first) / f64::from(POINTS);
    let points = (0..=POINTS).map(|i| (first + f64::from(i) * step).exp());
    points.map(|rarity| (rarity, all.at_ns(1.0 - 1.0 / rarity) / 1e3)).collect()
}

fn words(line: &Line<'_>, metrics: &[Metric]) -> String {
    let one =
        |metric: &Metric| Some(format!("{} {}", metric.about().title, show(*metric, line.shown(*metric)?)));
    format!("{}: {}.", line.contender, metrics.iter().filter_map(one).collect::<Vec<_>>().join(", "))
}

/// What the size of a message changes.
pub(crate) fn over_size(reading: &Reading<'_>, lines: &[&Line<'_>]) -> Vec<Markup> {
    let is_stream = lines.iter().any(|line| reading.main_metric(line.turn.group) == Metric::Throughput);
    let metrics: &[Metric] = if is_stream {
        &[Metric::Throughput, Metric::CpuPerGigabit]
    } else {
        &[Metric::P50, Metric::P99, Metric::CpuPerTransaction]
    };
    metrics.iter().filter_map(|metric| sized(lines, *metric)).collect()
}

fn sized(lines: &[&Line<'_>], metric: Metric) -> Option<Markup> {
    let mut series: Vec<Series> = vec![];
    let mut words = vec![];
    for line in lines {
        let size = line.group.setting.variables.get(SIZE).and_then(|size| size.parse::<f64>().ok());
        let (Some(size), Some(value)) = (size, line.shown(metric)) else { continue };
        let name = line.contender.to_string();
        words.push(format!("{name} at {}: {}.", bytes(size), show(metric, value)));
        match series.iter_mut().find(|one| one.name == name) {
            Some(one) => one.points.push((size, value)),
            None => series.push(Series {
                name,
                class: paint::classes("stroke", line.contender),
                points: vec![(size, value)],
            }),
        }
    }
    let ticks: Vec<Tick> = (0..=5).map(|power| 16_f64.powi(power)).map(size_tick).collect();
    let better = if metric.about().lower_is_better { "Lower is better" } else { "Higher is better" };
    drawn(metric, &title(metric), better, &words, "size of a message", &ticks, &series)
}

/// One unit for all lines; None without any.
fn drawn(
    metric: Metric,
    title: &str,
    better: &str,
    words: &[String],
    across: &str,
    ticks: &[Tick],
    series: &[Series],
) -> Option<Markup> {
    let (scale, unit) = unit(metric, series.iter().flat_map(|one| &one.points).map(|point| point.1));
    let (words, up) = (words.join(" "), |value| mark(value / scale));
    let drawing = Chart { title, words: &words, across, ticks, series, unit, up: &up };
    (!series.is_empty()).then(|| figure(title, better, &drawing.draw()))
}

/// A mark with the size as its name.
pub(crate) fn size_tick(value: f64) -> Tick {
    Tick { value, name: bytes(value) }
}

/// Of a drawing.
fn title(metric: Metric) -> String {
    let title = metric.about().title;
    if metric.quantile().is_some() { format!("Latency, {title}") } else { capital(title) }
}
