//! Numbers as text: as many digits as they deserve.

/// Three significant digits, as many as a median of a few rounds deserves; below 0.01 fewer.
pub(crate) fn figure(value: f64) -> String {
    let whole = value.abs().max(0.01).log10().floor() as i32;
    let unit = 10_f64.powi(whole - 2);
    // Rounding may carry into the next power: 9.996 is 10.0.
    let rounded = (value / unit).round() * unit;
    match rounded.abs() {
        size if size >= 99.95 => format!("{rounded:.0}"),
        size if size >= 9.995 => format!("{rounded:.1}"),
        _ => format!("{rounded:.2}"),
    }
}

/// A number of bytes as its owner would say it: `64 KiB`.
pub(crate) fn bytes(bytes: f64) -> String {
    let steps = [(f64::from(1 << 20), "MiB"), (1024.0, "KiB"), (1.0, "B")];
    let (scale, unit) = steps.into_iter().find(|(scale, _)| bytes >= *scale).unwrap_or((1.0, "B"));
    format!("{} {unit}", bytes / scale)
}

/// `1 connection`, `50 connections`.
pub(crate) fn connections(count: u32) -> String {
    format!("{count} connection{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let shown = [0.0, 0.094, 0.996, 3.816, 9.9999, 21.54, 99.96, 163.2, 4_166_667.0].map(figure);
        assert_eq!(shown, ["0.00", "0.09", "1.00", "3.82", "10.0", "21.5", "100", "163", "4170000"]);
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!([1.0, 4096.0, 1_048_576.0].map(bytes), ["1 B", "4 KiB", "1 MiB"]);
    }
}
