//! uperf's way to write numbers, cut and padded as it does, so that scripts find the columns where they look for them.

/// A size, in units of 1024.
pub(super) fn size(bytes: f64, width: usize) -> String {
    scaled(bytes, 1024.0, "B", width)
}

/// Bits per second, in units of 1000.
pub(super) fn rate(bits: f64, width: usize) -> String {
    scaled(bits, 1000.0, "b/s", width)
}

/// Cut to one character less than the column: "138.22M" in a column of 8 has lost its B.
fn scaled(value: f64, unit: f64, name: &str, width: usize) -> String {
    if value == 0.0 {
        return format!("{:>width$} ", "0");
    }
    let (value, prefix) =
        divided(value, |value, step| value > step, unit, &["", "K", "M", "G", "T", "P", "E", "Z"]);
    let mut text = format!("{value:.2}{prefix}{name}");
    text.truncate(width - 1);
    format!("{text:>width$} ")
}

/// Divided by `step` as long as it is too large for its name, and the name that fits then.
fn divided(
    value: f64,
    is_large: fn(f64, f64) -> bool,
    step: f64,
    names: &[&'static str],
) -> (f64, &'static str) {
    let mut named = (value, names[0]);
    for name in &names[1..] {
        named = if is_large(named.0, step) { (named.0 / step, *name) } else { named };
    }
    named
}

/// A time in nanoseconds, as ns, us, ms or s.
pub(super) fn time(ns: f64, width: usize) -> String {
    let (value, unit) = divided(ns, |value, step| value >= step, 1000.0, &["ns", "us", "ms", "s"]);
    let digits = width - unit.len();
    format!("{value:>digits$.2}{unit} ")
}

/// Seconds in nanoseconds.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::{rate, size, time};

    /// Taken from lines that uperf printed.
    #[test]
    fn numbers_look_like_uperfs() {
        assert_eq!(size(144_933_519.0, 8), " 138.22M ");
        assert_eq!(size(67_308_093.0, 8), " 64.19MB ");
        assert_eq!(size(0.0, 8), "       0 ");
        assert_eq!(rate(1_160_000_000.0, 12), "    1.16Gb/s ");
        assert_eq!(rate(528_680_000.0, 12), "  528.68Mb/s ");
        assert_eq!(rate(0.0, 12), "           0 ");
        assert_eq!(rate(12.0, 12), "    12.00b/s ");
        assert_eq!(time(33_730.0, 11), "    33.73us ");
        assert_eq!(time(0.0, 11), "     0.00ns ");
        assert_eq!(time(7_860_000.0, 11), "     7.86ms ");
        assert_eq!(time(4_310_000_000.0, 8), "   4.31s ");
    }

    #[test]
    fn the_largest_prefix_is_the_last() {
        assert!(size(1e30, 20).contains('Z'));
        assert_eq!(time(5e15, 11), "5000000.00s ");
    }
}
