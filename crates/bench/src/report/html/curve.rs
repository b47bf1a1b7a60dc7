//! Lines over a logarithmic axis: percentiles, sizes of messages, sizes of buffers.
//!
//! The invariant: each line is named where it ends, so that nobody has to tell colours apart.

use maud::{Markup, html};

use super::bars::{WIDTH, place};
use super::scale::{Scale, apart};

/// Height of the drawing, in its own units.
const HEIGHT: f64 = 236.0;
/// Where lines may be: left to right, bottom to top. Right of them stand their names.
const ACROSS: (f64, f64) = (54.0, 250.0);
const UP: (f64, f64) = (200.0, 22.0);
/// Between two names.
const GAP: f64 = 14.0;

/// A line.
pub(crate) struct Series {
    /// What stands at its end.
    pub(crate) name: String,
    /// Classes of the style sheet.
    pub(crate) class: String,
    /// Left to right.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A mark of an axis.
pub(crate) struct Tick {
    /// Where.
    pub(crate) value: f64,
    /// What stands there.
    pub(crate) name: String,
}

/// A drawing with lines.
pub(crate) struct Chart<'a> {
    /// What it shows.
    pub(crate) title: &'a str,
    /// In words.
    pub(crate) words: &'a str,
    /// Below the lower axis.
    pub(crate) across: &'a str,
    /// Marks of the lower axis.
    pub(crate) ticks: &'a [Tick],
    /// The lines.
    pub(crate) series: &'a [Series],
    /// Unit of the axis at the left; empty where its marks have it.
    pub(crate) unit: &'a str,
    /// Names a mark of the axis at the left.
    pub(crate) up: &'a dyn Fn(f64) -> String,
}

impl Chart<'_> {
    /// The drawing.
    pub(crate) fn draw(&self) -> Markup {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let marks = self.ticks.iter().map(|tick| tick.value);
        let x = Scale::log(points().map(|point| point.0).chain(marks), ACROSS);
        let y = Scale::log(points().map(|point| point.1), UP).widened(0.06);
        html! {
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img"
                aria-label=(format!("{}. {}", self.title, self.words)) {
                (self.draw_axes(&x, &y))
                @for series in self.series { (draw_line(series, &x, &y)) }
                (self.draw_names(&x, &y))
            }
        }
    }

    fn draw_axes(&self, x: &Scale, y: &Scale) -> Markup {
        html! {
            @for tick in y.decades() {
                line.grid x1=(ACROSS.0) x2=(ACROSS.1) y1=(place(y.at(tick))) y2=(place(y.at(tick))) {}
                text.tick x=(ACROSS.0 - 5.0) y=(place(y.at(tick) + 3.5)) text-anchor="end" { ((self.up)(tick)) }
            }
            @for tick in self.ticks {
                line.grid x1=(place(x.at(tick.value))) x2=(place(x.at(tick.value))) y1=(UP.0) y2=(UP.0 + 4.0) {}
                text.tick x=(place(x.at(tick.value))) y=(UP.0 + 15.0) text-anchor="middle" { (tick.name) }
            }
            text.tick x=(ACROSS.0 - 5.0) y=(UP.1 - 5.0) text-anchor="end" { (self.unit) }
            line.axis x1=(ACROSS.0) x2=(ACROSS.1) y1=(UP.0) y2=(UP.0) {}
            text.tick x=(place(f64::midpoint(ACROSS.0, ACROSS.1))) y=(HEIGHT - 4.0) text-anchor="middle" { (self.across) }
        }
    }

    fn draw_names(&self, x: &Scale, y: &Scale) -> Markup {
        let ends: Vec<(f64, f64, &Series)> = self
            .series
            .iter()
            .filter_map(|series| series.points.last().map(|last| (x.at(last.0), y.at(last.1), series)))
            .collect();
        // (Below them are the marks of the lower axis.)
        let places = apart(&ends.iter().map(|end| end.1).collect::<Vec<_>>(), GAP, UP.0 - 5.0);
        html! {
            @for ((x, y, series), name) in ends.iter().zip(places) {
                line.lead x1=(place(*x)) x2=(place(ACROSS.1 + 8.0)) y1=(place(*y)) y2=(place(name)) {}
                circle class=(series.class) cx=(place(*x)) cy=(place(*y)) r="3" {}
                text.name x=(place(ACROSS.1 + 11.0)) y=(place(name + 3.5)) { (series.name) }
            }
        }
    }
}

fn draw_line(series: &Series, x: &Scale, y: &Scale) -> Markup {
    let points: Vec<String> = series
        .points
        .iter()
        .map(|point| format!("{},{}", place(x.at(point.0)), place(y.at(point.1))))
        .collect();
    html! { polyline class=(series.class) points=(points.join(" ")) {} }
}
