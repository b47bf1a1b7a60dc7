//! Bars as the studies have them: a group per number of connections, a bar per path, the baseline being 100 %.
//!
//! The invariant: bars begin at zero, each group has the room for itself (where SMC is a hundred times as fast in one of them,
//! nothing could be told of the others), and every bar says its number; the drawing adds nothing that its text
//! alternative does not say.

use maud::{Markup, html};

use super::paint;
use super::scale::Scale;
use crate::compare::metric::Metric;
use crate::compare::plan::Contender;
use crate::compare::stats::Spread;
use crate::report::units::ratio;

/// Width of the drawing, in its own units: that of a telephone, so that letters keep their size on one.
pub(crate) const WIDTH: f64 = 340.0;
/// Right ends of the names.
const NAMES: f64 = 80.0;
/// Where bars begin and end.
const BARS: (f64, f64) = (86.0, 212.0);
/// Where percents end and the numbers themselves begin: in columns of their own, which no bar and no line crosses.
const NUMBERS: (f64, f64) = (259.0, 264.0);
/// Height of a bar, of its row, and of the heading of a group.
const BAR: f64 = 12.0;
const ROW: f64 = 18.0;
const HEADING: f64 = 26.0;
/// The narrowest bar that can be seen for one.
const LEAST: f64 = 4.0;
/// Longest name that fits left of its bar, and the longest that does so whatever its letters are.
const FITTING: usize = 14;
const SURE: usize = 10;

/// One bar.
pub(crate) struct Bar {
    /// Whose.
    pub(crate) contender: Contender,
    /// Part of the baseline, 1 being the same.
    pub(crate) ratio: Spread,
    /// The number itself with its unit.
    pub(crate) shown: String,
}

/// Bars that belong together.
pub(crate) struct Group {
    /// Such as `50 connections`.
    pub(crate) name: String,
    /// In the order of the report.
    pub(crate) bars: Vec<Bar>,
}

/// Says all of it in words, for whoever does not see the drawing.
pub(crate) fn words(metric: Metric, groups: &[Group]) -> String {
    let bar = |bar: &Bar| format!("{} {} ({})", bar.contender, ratio(metric, bar.ratio.median), bar.shown);
    let group = |group: &Group| {
        let bars: Vec<String> = group.bars.iter().map(bar).collect();
        format!("{}: {}.", group.name, bars.join(", "))
    };
    groups.iter().map(group).collect::<Vec<_>>().join(" ")
}

/// The drawing.
pub(crate) fn draw(title: &str, metric: Metric, groups: &[Group]) -> Markup {
    let rows: usize = groups.iter().map(|group| group.bars.len()).sum();
    let height = rows as f64 * ROW + groups.len() as f64 * HEADING + 4.0;
    let mut top = 0.0;
    let groups_drawn: Vec<Markup> = groups
        .iter()
        .map(|group| {
            let drawn = draw_group(group, metric, top);
            top += HEADING + group.bars.len() as f64 * ROW;
            drawn
        })
        .collect();
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {height:.0}")) role="img"
            aria-label=(format!("{title}. {}", words(metric, groups))) {
            @for group in groups_drawn { (group) }
        }
    }
}

fn draw_group(group: &Group, metric: Metric, top: f64) -> Markup {
    let scale = Scale::linear(group.bars.iter().map(|bar| bar.ratio.max).fold(1.0, f64::max), BARS);
    let rows = top + HEADING;
    let bottom = rows + group.bars.len() as f64 * ROW - 3.0;
    let one = scale.at(1.0);
    html! {
        text.group x="0" y=(place(rows - 8.0)) { (group.name) }
        line.base x1=(place(one)) x2=(place(one)) y1=(place(rows - 2.0)) y2=(place(bottom)) {}
        @for (i, bar) in group.bars.iter().enumerate() { (draw_bar(bar, metric, &scale, rows + i as f64 * ROW)) }
    }
}

fn draw_bar(bar: &Bar, metric: Metric, scale: &Scale, top: f64) -> Markup {
    let (middle, end) = (top + BAR / 2.0, scale.at(bar.ratio.median));
    let (low, high) = (scale.at(bar.ratio.min), scale.at(bar.ratio.max));
    let name = fitting(&bar.contender.to_string());
    // (Capitals are wide: a long name is drawn as wide as there is room.)
    let width = (name.chars().count() > SURE).then_some(NAMES - 2.0);
    html! {
        text.name x=(NAMES) y=(place(middle + 4.0)) text-anchor="end" textLength=[width] lengthAdjust="spacingAndGlyphs" { (name) }
        rect class=(paint::classes("fill", &bar.contender)) x=(BARS.0) y=(place(top)) width=(place((end - BARS.0).max(LEAST)))
            height=(BAR) rx="2" {}
        @if high - low > 1.0 {
            line.spread x1=(place(low)) x2=(place(high)) y1=(place(middle)) y2=(place(middle)) {}
        }
        text.value x=(NUMBERS.0) y=(place(middle + 4.0)) text-anchor="end" { (ratio(metric, bar.ratio.median)) }
        text.more x=(NUMBERS.1) y=(place(middle + 4.0)) { (bar.shown) }
    }
}

/// Cut, if it would not fit.
fn fitting(name: &str) -> String {
    if name.chars().count() <= FITTING {
        return name.into();
    }
    name.chars().take(FITTING - 1).chain(['…']).collect()
}

/// A place in a drawing: a tenth of a unit is finer than any screen.
pub(crate) fn place(place: f64) -> String {
    format!("{:.1}", if place.is_finite() { place } else { 0.0 })
}
