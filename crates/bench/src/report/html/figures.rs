//! Which drawings a study gets: those of the published studies for numbers of connections, lines for sizes.
//!
//! The invariant: what was not measured is not drawn.

use maud::Markup;

use super::bars::{self, Bar, Group};
use super::buffers;
use super::lines::{SIZE, over_size, percentiles};
use super::paint::{better, capital, figure};
use crate::compare::digits::connections;
use crate::compare::metric::Metric;
use crate::compare::plan::Setting;
use crate::compare::study::Axis;
use crate::compare::summary::{Line, Reading, groups};
use crate::report::units::{grouped, ratio, unit};
use uperf::profile::builtin;

/// Drawings under one heading.
pub(crate) struct Chapter {
    /// What is done, in words where the profile is a built-in one.
    pub(crate) heading: String,
    /// What it is called then.
    pub(crate) name: Option<String>,
    /// As they stand.
    pub(crate) figures: Vec<Markup>,
}

/// All drawings of a study.
pub(crate) fn chapters(reading: &Reading<'_>, lines: &[Line<'_>]) -> Vec<Chapter> {
    let mut names: Vec<String> = lines.iter().map(|line| heading(reading, line)).collect();
    names.dedup();
    let chapter = |name: String| {
        let own: Vec<&Line<'_>> = lines.iter().filter(|line| heading(reading, line) == name).collect();
        let figures = match reading.study.axis {
            Axis::Buffer => buffers::figures(reading, &own),
            Axis::Size if own.iter().any(|line| line.group.setting.variables.contains_key(SIZE)) => {
                over_size(reading, &own)
            }
            _ => per_connections(reading, &own),
        };
        match own.first().and_then(|line| about(reading.study.axis, &line.group.setting)) {
            Some(words) => Chapter { heading: words, name: Some(name), figures },
            None => Chapter { heading: name, name: None, figures },
        }
    };
    names.into_iter().map(chapter).filter(|chapter| !chapter.figures.is_empty()).collect()
}

/// What a built-in profile does, with its variables as they are set, but the one that the drawings go along.
pub(super) fn about(axis: Axis, setting: &Setting) -> Option<String> {
    let profile = builtin::find(&setting.profile)?;
    // How many pieces are one flowop says nothing to who reads the page.
    let parts = profile.about.split(", ").filter(|part| !part.contains("$count"));
    let mut words = parts.collect::<Vec<_>>().join(", ");
    for (name, usual) in profile.own {
        let value = setting.variables.get(*name).map_or(*usual, String::as_str);
        let value = if axis == Axis::Size && *name == SIZE { "so many" } else { value };
        words = words.replace(&format!("${name}"), value);
    }
    Some(capital(&words))
}

fn heading(reading: &Reading<'_>, line: &Line<'_>) -> String {
    let setting = &line.group.setting;
    if reading.study.axis == Axis::Size { setting.profile.clone() } else { setting.workload() }
}

/// Speed, cost and distribution for each number of connections.
fn per_connections(reading: &Reading<'_>, lines: &[&Line<'_>]) -> Vec<Markup> {
    let Some(first) = lines.first() else { return vec![] };
    let main = reading.main_metric(first.turn.group);
    let mut figures: Vec<Markup> =
        [main, first.cost()].into_iter().filter_map(|metric| normalised(lines, metric)).collect();
    if main != Metric::Throughput {
        figures.extend(groups(lines).iter().filter_map(|group| percentiles(group)));
    }
    figures
}

fn normalised(lines: &[&Line<'_>], metric: Metric) -> Option<Markup> {
    let (scale, unit) = unit(metric, lines.iter().filter_map(|line| line.shown(metric)));
    let bar = |line: &&Line<'_>| {
        let value = line.values.get(&metric)?;
        let shown = grouped(value.shown / scale);
        Some(Bar { contender: line.contender.clone(), ratio: value.ratio?, shown })
    };
    let group = |lines: Vec<&Line<'_>>| -> Option<Group> {
        let name = connections(lines.first()?.group.setting.connections);
        Some(Group { name, bars: lines.iter().filter_map(bar).collect() })
    };
    let groups: Vec<Group> =
        groups(lines).into_iter().filter_map(group).filter(|group| !group.bars.is_empty()).collect();
    let baseline = &lines.first()?.group.baseline;
    let (title, better, one) = (metric.about().title, better(metric), ratio(metric, 1.0));
    let unit = if unit.is_empty() { String::new() } else { format!("; numbers in {unit}") };
    let note = format!(
        "{better} within a group, {baseline} being {one}; thin lines lead from the lowest round to the highest{unit}"
    );
    (!groups.is_empty()).then(|| figure(&capital(title), &note, &bars::draw(title, metric, &groups)))
}
