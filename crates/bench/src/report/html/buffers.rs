//! What SMC's buffers change: throughput and CPU in one drawing, both against the default size, as chapter 7.3 of the
//! study of SMC-D for KVM guests has them.

use maud::Markup;

use super::curve::{Chart, Series};
use super::lines::size_tick;
use super::paint::figure;
use crate::compare::digits::{bytes, connections};
use crate::compare::metric::Metric;
use crate::compare::summary::{Line, Reading, groups};
use crate::report::units::{mark_percent, percent};

/// Of the environment, the variable that tells the size; the other one has the same value.
const SIZE: &str = "SMC_RCVBUF";

/// A drawing per number of connections.
pub(crate) fn figures(reading: &Reading<'_>, lines: &[&Line<'_>]) -> Vec<Markup> {
    groups(lines).iter().filter_map(|group| one(reading, group)).collect()
}

fn one(reading: &Reading<'_>, lines: &[&Line<'_>]) -> Option<Markup> {
    let first = lines.first()?;
    let main = reading.main_metric(first.turn.group);
    let all = [(main, "stroke smc"), (Metric::CpuPerGigabit, "stroke second")];
    let series: Vec<Series> =
        all.into_iter().filter_map(|(metric, class)| against_default(lines, metric, class)).collect();
    let words = series.iter().map(in_words).collect::<Vec<_>>().join(" ");
    let title = format!("Buffers, {}", connections(first.group.setting.connections));
    let ticks: Vec<_> = [16.0, 64.0, 256.0, 1024.0].map(|kib| size_tick(kib * 1024.0)).into();
    let drawing = Chart {
        title: &title,
        words: &words,
        across: "size of each buffer",
        ticks: &ticks,
        series: &series,
        unit: "",
        up: &mark_percent,
    };
    (!series.is_empty()).then(|| figure(&title, "The default size being 100 %", &drawing.draw()))
}

fn against_default(lines: &[&Line<'_>], metric: Metric, class: &str) -> Option<Series> {
    let point = |line: &&Line<'_>| Some((size(line)?, line.values.get(&metric)?.ratio?.median));
    let points: Vec<(f64, f64)> = lines.iter().filter_map(point).collect();
    let name = if metric == Metric::CpuPerGigabit { "CPU per Gb" } else { metric.about().title };
    (!points.is_empty()).then(|| Series { name: name.into(), class: class.into(), points })
}

fn size(line: &Line<'_>) -> Option<f64> {
    let kib = line.contender.environment.get(SIZE)?.strip_suffix('k')?;
    kib.parse::<f64>().ok().map(|kib| kib * 1024.0)
}

fn in_words(series: &Series) -> String {
    let point = |(size, ratio): &(f64, f64)| format!("{} at {}", percent(*ratio), bytes(*size));
    let points: Vec<String> = series.points.iter().map(point).collect();
    format!("{}: {}.", series.name, points.join(", "))
}
