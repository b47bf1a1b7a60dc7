//! Numbers with their units, as people read them.

use crate::compare::digits::figure;
use crate::compare::metric::Metric;
use crate::compare::plan::Setting;
use uperf::Server;

/// One value of `metric`.
pub(crate) fn show(metric: Metric, value: f64) -> String {
    let (scale, unit) = scale(metric, value);
    let number = grouped(value / scale);
    if unit.is_empty() { number } else { format!("{number} {unit}") }
}

/// A round number of `metric`, for the mark of an axis: `1 ms`, not `1.00 ms`. Of us/Gb the unit is left out: it would
/// need more room than the number.
pub(crate) fn mark(metric: Metric, value: f64) -> String {
    match metric {
        Metric::CpuPerGigabit | Metric::ServerCpuPerGigabit | Metric::HostCpuPerGigabit => grouped(value),
        _ => {
            // A power of ten may be a hair below itself.
            let (scale, unit) = scale(metric, value * 1.000_001);
            format!("{} {unit}", round(value / scale)).trim_end().to_owned()
        }
    }
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
    let steps: &[(f64, &'static str)] = match metric {
        Metric::Rate => &[(1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")],
        Metric::Throughput => &[(1.0, "Gb/s"), (1e-3, "Mb/s"), (1e-6, "kb/s")],
        // The studies' unit, as long as it fits.
        Metric::CpuPerGigabit | Metric::ServerCpuPerGigabit | Metric::HostCpuPerGigabit => {
            &[(1e6, "s/Gb"), (1.0, "us/Gb")]
        }
        Metric::SwitchesPerTransaction => &[(1.0, "")],
        _ => &[(1e6, "s"), (1e3, "ms"), (1.0, "us")],
    };
    let fits = |step: &&(f64, &str)| value.abs() >= step.0;
    *steps.iter().find(fits).unwrap_or(&steps[steps.len() - 1])
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

/// A ratio: `21.5x`.
pub(crate) fn times(ratio: f64) -> String {
    format!("{}x", figure(ratio))
}

/// A part of a whole: `4.7 %`.
pub(crate) fn percent(part: f64) -> String {
    format!("{} %", figure(part * 100.0))
}

/// The profile and whatever else is unusual about a setting, connections excepted.
pub(crate) fn workload(setting: &Setting) -> String {
    let mut name = setting.profile.clone();
    setting.variables.iter().for_each(|(variable, value)| name += &format!(" {variable}={value}"));
    match setting.server {
        Server::Threads => {}
        Server::Processes => name += " (server processes)",
        Server::Epoll => name += " (epoll server)",
    }
    name
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
    fn marks_are_round() {
        let marks = [1e-3, 1.0, 1e3, 2e5].map(|us| mark(Metric::P50, us));
        assert_eq!(marks, ["0.001 us", "1 us", "1 ms", "200 ms"]);
        assert_eq!(mark(Metric::Throughput, 0.1), "100 Mb/s");
        assert_eq!(mark(Metric::CpuPerGigabit, 1e3), "1\u{a0}000");
        assert_eq!([0.5, 10.0].map(mark_percent), ["50 %", "1000 %"]);
    }

    #[test]
    fn a_range_has_its_unit_once() {
        assert_eq!(show_range(Metric::Rate, 900.0, 20_300.0), "0.90..20.3 k/s");
        assert_eq!(show_range(Metric::SwitchesPerTransaction, 0.0, 2.0), "0.00..2.00");
    }
}
