//! What one remembers: how SMC compares with the baseline, from the worst setting to the best, one tile per profile.
//!
//! The invariant: a tile shows both ends of what was measured, never the best number alone.

use maud::{Markup, html};

use super::figures::about;
use crate::compare::digits::figure;
use crate::compare::plan::Setting;
use crate::compare::study::Axis;
use crate::compare::summary::{Line, Reading};
use crate::path::Path;

/// A number to remember, and what it is.
type Fact = (String, String);

/// All tiles; none where the study is about sizes.
pub(crate) fn draw(reading: &Reading<'_>, lines: &[Line<'_>]) -> Markup {
    let is_hero =
        |line: &&Line<'_>| line.contender.path == Path::Smc && line.contender.environment.is_empty();
    let heroes: Vec<&Line<'_>> = lines.iter().filter(is_hero).collect();
    let tiles = heroes.chunk_by(|a, b| a.group.setting.profile == b.group.setting.profile);
    let tiles: Vec<(&Setting, Vec<Fact>)> =
        tiles.map(|lines| (&lines[0].group.setting, facts(reading, lines))).collect();
    html! {
        @if reading.study.axis == Axis::Connections && tiles.iter().any(|(_, facts)| !facts.is_empty()) {
            ul.tiles {
                @for (setting, facts) in tiles.iter().filter(|(_, facts)| !facts.is_empty()) {
                    li { (about(Axis::Connections, setting).as_ref().unwrap_or(&setting.profile)) div { @for (number, what) in facts { p { b { (number) } span { (what) } } } } }
                }
            }
        }
    }
}

/// Speed and cost.
fn facts(reading: &Reading<'_>, lines: &[&Line<'_>]) -> Vec<Fact> {
    let Some(first) = lines.first() else { return vec![] };
    let main = reading.main_metric(first.turn.group);
    let baseline = &first.group.baseline;
    let speed = range(lines, |line| line.times_better(main));
    let cost = range(lines, |line| line.ratio(first.cost()).map(|ratio| 100.0 * ratio.median));
    let speed = speed.map(|range| (format!("{range}x"), format!("the {} of {baseline}", main.about().title)));
    let cost =
        cost.map(|range| (format!("{range}\u{a0}%"), format!("of its {}", first.cost().about().title)));
    speed.into_iter().chain(cost).collect()
}

/// `2.84 to 180`, or one number where there is but one.
fn range(lines: &[&Line<'_>], read: impl Fn(&Line<'_>) -> Option<f64>) -> Option<String> {
    let all: Vec<f64> = lines.iter().filter_map(|line| read(line)).collect();
    let low = all.iter().copied().reduce(f64::min)?;
    let high = all.iter().copied().reduce(f64::max)?;
    let (low, high) = (figure(low), figure(high));
    Some(if low == high { high } else { format!("{low} to {high}") })
}
