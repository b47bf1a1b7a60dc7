//! Numbers with their units, as people read them.

use crate::compare::digits::figure;
use crate::compare::metric::Metric;

/// One value of `metric`.
pub(crate) fn show(metric: Metric, value: f64) -> String {
    let (scale, unit) = scale(metric, value);
    let number = grouped(value / scale);
    if unit.is_empty() { number } else { format!("{number} {unit}") }
}

/// One unit for all of `values`, that of the smallest as long as the largest has seven digits in it, for more have no
/// room beside an axis: what to divide by, and what to call the quotients.
pub(crate) fn unit(metric: Metric, values: impl Iterator<Item = f64>) -> (f64, &'static str) {
    let least_and_most = |(least, most): (f64, f64), value: f64| (least.min(value), most.max(value));
    let (least, most) = values.filter(|value| *value > 0.0).fold((f64::INFINITY, 0.0), least_and_most);
    let own = scale(metric, if least.is_finite() { least } else { 1.0 });
    let fits = |(step, _): &&(f64, &str)| *step >= own.0 && most < 1e7 * step;
    steps(metric).iter().rev().find(fits).copied().unwrap_or(own)
}

/// A number for the mark of an axis whose unit stands elsewhere: `1 000`, not `1000.00`.
pub(crate) fn mark(value: f64) -> String {
    // A power of ten may be a hair below itself.
    let value = if value >= 0.999 { value.round() } else { round(value) };
    if value >= 1000.0 { grouped(value) } else { format!("{value}") }
}

/// A part of a whole, for the mark of an axis: `50 %`.
pub(crate) fn mark_percent(part: f64) -> String {
    format!("{} %", round(part * 100.0))
}

/// Without what a power of ten leaves behind.
fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// Two values of `metric`, the unit once.
pub(crate) fn show_range(metric: Metric, low: f64, high: f64) -> String {
    let (scale, unit) = scale(metric, high);
    format!("{}..{} {unit}", grouped(low / scale), grouped(high / scale)).trim_end().to_owned()
}

/// What to divide by, and what to call the quotient.
pub(crate) fn scale(metric: Metric, value: f64) -> (f64, &'static str) {
    let fits = |step: &&(f64, &str)| value.abs() >= step.0;
    let steps = steps(metric);
    *steps.iter().find(fits).unwrap_or(&steps[steps.len() - 1])
}

/// The units of `metric`, largest first.
fn steps(metric: Metric) -> &'static [(f64, &'static str)] {
    match metric {
        Metric::Rate => &[(1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")],
        Metric::Throughput => &[(1.0, "Gb/s"), (1e-3, "Mb/s"), (1e-6, "kb/s")],
        // The studies' unit, as long as it fits.
        Metric::CpuPerGigabit | Metric::ServerCpuPerGigabit | Metric::HostCpuPerGigabit => {
            &[(1e6, "s/Gb"), (1.0, "us/Gb")]
        }
        Metric::SwitchesPerTransaction => &[(1.0, "")],
        _ => &[(1e6, "s"), (1e3, "ms"), (1.0, "us")],
    }
}

/// Three digits, thousands apart: `25 100`.
pub(crate) fn grouped(value: f64) -> String {
    let text = figure(value);
    let digits = text.find('.').unwrap_or(text.len());
    let mut grouped = String::new();
    for (i, c) in text.char_indices() {
        if i > 0 && i < digits && (digits - i).is_multiple_of(3) && c.is_ascii_digit() {
            grouped.push('\u{a0}');
        }
        grouped.push(c);
    }
    grouped
}

/// A ratio to the baseline: `21.5x` of what shall be more, `4.7 %` of what shall be less.
pub(crate) fn ratio(metric: Metric, ratio: f64) -> String {
    if metric.about().lower_is_better { percent(ratio) } else { format!("{}x", figure(ratio)) }
}

/// Two of them, the sign once.
pub(crate) fn ratio_range(metric: Metric, low: f64, high: f64) -> String {
    let scale = if metric.about().lower_is_better { 100.0 } else { 1.0 };
    format!("{}..{}", figure(low * scale), ratio(metric, high))
}

/// A part of a whole: `4.7 %`.
pub(crate) fn percent(part: f64) -> String {
    format!("{} %", figure(part * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_unit_of_their_size() {
        let shown = [
            show(Metric::Rate, 3_302_000.0),
            show(Metric::Rate, 20_310.0),
            show(Metric::Throughput, 34.41),
            show(Metric::Throughput, 0.512),
            show(Metric::P50, 0.312),
            show(Metric::P99, 1252.0),
            show(Metric::CpuPerGigabit, 25_100.4),
            show(Metric::CpuPerGigabit, 4_160_000.0),
            show(Metric::SwitchesPerTransaction, 1.98),
        ];
        let blank = '\u{a0}';
        let expected = ["3.30 M/s", "20.3 k/s", "34.4 Gb/s", "512 Mb/s", "0.31 us", "1.25 ms"];
        assert_eq!(shown[..6], expected);
        assert_eq!(shown[6..], [format!("25{blank}100 us/Gb"), "4.16 s/Gb".to_owned(), "1.98".to_owned()]);
    }

    #[test]
    fn a_chart_has_one_unit_and_round_marks() {
        let unit_of = |values: &[f64]| unit(Metric::P50, values.iter().copied());
        assert_eq!(unit_of(&[0.2, 5e6]), (1.0, "us"));
        assert_eq!(unit_of(&[2e3, 5e6]), (1e3, "ms"));
        assert_eq!(unit_of(&[]), (1.0, "us"));
        let rates = [0.000_32, 34.0].into_iter();
        assert_eq!(unit(Metric::Throughput, rates), (1e-3, "Mb/s"), "34 000 000 kb/s has no room");
        assert_eq!([1e-3, 9.999_999, 999.9999, 2e5].map(mark), ["0.001", "10", "1\u{a0}000", "200\u{a0}000"]);
        assert_eq!([0.5, 10.0].map(mark_percent), ["50 %", "1000 %"]);
        assert_eq!(ratio(Metric::Rate, 21.54), "21.5x");
        assert_eq!(ratio_range(Metric::CpuPerGigabit, 0.047, 0.1), "4.70..10.0 %");
    }

    #[test]
    fn a_range_has_its_unit_once() {
        assert_eq!(show_range(Metric::Rate, 900.0, 20_300.0), "0.90..20.3 k/s");
        assert_eq!(show_range(Metric::SwitchesPerTransaction, 0.0, 2.0), "0.00..2.00");
    }
}
