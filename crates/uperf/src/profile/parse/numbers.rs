//! Sizes, times and plain numbers as uperf writes them. Letters are those of either case; what follows the first letter
//! of a suffix is read as uperf reads it, not at all, if it is letters: `30kb` is `30k`.

use std::time::Duration;

/// uperf keeps sizes in a C int.
const LARGEST: u32 = i32::MAX as u32;

/// A size, `8192`, `8k` or `1.5m`: a number and B, K, M, G, T, P, E or Z, each 1024 times the one before.
pub(super) fn size(text: &str) -> Result<u32, String> {
    scaled(text, "size")
}

/// A number in the notation of sizes, which is how uperf reads iterations, strands and rates.
pub(super) fn number(text: &str) -> Result<u32, String> {
    scaled(text, "number")
}

fn scaled(text: &str, noun: &str) -> Result<u32, String> {
    let (number, suffix) = split(text);
    let power = suffix.chars().next().map_or(Some(0), |c| "BKMGTPEZ".find(c.to_ascii_uppercase()));
    let (Some(value), Some(power), true) = (value(number), power, only_letters(suffix)) else {
        return Err(format!("`{text}` is no {noun}: write digits, and K, M or G if you like, such as 30k"));
    };
    let total = (0..power).fold(value, |total, _| total * 1024.0);
    if total >= f64::from(LARGEST) + 1.0 {
        return Err(format!("`{text}` is too large: {LARGEST} is the largest {noun}"));
    }
    Ok(whole(total).try_into().unwrap_or(LARGEST))
}

/// A time, `300`, `1.5s` or `500ms`: a number and s, ms, us or ns. A single `m` is milliseconds.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let (number, suffix) = split(text);
    let wrong =
        || format!("`{text}` is no time: write digits, and s, ms, us or ns if you like, such as 500ms");
    let suffix = suffix.to_ascii_lowercase();
    if suffix.starts_with("mi") && !suffix.starts_with("mil") {
        return Err(format!("`{text}` would be milliseconds for uperf: write minutes as seconds"));
    }
    let nanoseconds = match suffix.chars().next() {
        None | Some('s') => 1e9,
        Some('m') => 1e6,
        Some('u') => 1e3,
        Some('n') => 1.0,
        Some(_) => return Err(wrong()),
    };
    let (Some(value), true) = (value(number), only_letters(&suffix)) else { return Err(wrong()) };
    let total = value * nanoseconds;
    if total >= u64::MAX as f64 {
        return Err(format!("`{text}` is too long: that is centuries"));
    }
    Ok(Duration::from_nanos(whole(total)))
}

/// A plain number without a suffix.
pub(super) fn plain(text: &str) -> Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits {
        return Err(format!("`{text}` is no plain number: digits alone are wanted"));
    }
    text.parse().map_err(|_| format!("`{text}` is too large a number"))
}

fn split(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()))
}

/// Whole numbers up to 2^53 are exact: every size, and every time up to 104 days in nanoseconds.
fn value(number: &str) -> Option<f64> {
    number.parse().ok()
}

fn only_letters(suffix: &str) -> bool {
    suffix.bytes().all(|b| b.is_ascii_alphabetic())
}

/// The part before the point, as uperf takes it; the caller has compared `value` with its limit.
#[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "neither negative nor too large")]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        let table = "0=0 300=300 300b=300 30k=30720 30K=30720 30kb=30720 30KiB=30720 1.5k=1536 .5k=512 1.9=1 2.=2 \
                     64m=67108864 1g=1073741824 1.5G=1610612736 0.001t=1099511627 0z=0 2147483647=2147483647";
        for (text, bytes) in table.split(' ').filter_map(|pair| pair.split_once('=')) {
            assert_eq!(size(text).map(|size| size.to_string()), Ok(bytes.to_owned()), "{text}");
        }
    }

    #[test]
    fn no_size_has_a_sentence() {
        for text in
            ["", "k", "-1", "+1", "abc", "1x", "1k5", "1.2.3", ".", "1 k", "0x10", "1e3", "1ké", "rand"]
        {
            let sentence = size(text).unwrap_err();
            assert!(sentence.starts_with(&format!("`{text}` is no size: ")), "{sentence}");
        }
        for text in ["2g", "4096m", "2147483648", "1t", "99999999999999999999999", "1z"] {
            assert_eq!(size(text), Err(format!("`{text}` is too large: 2147483647 is the largest size")));
        }
    }

    #[test]
    fn other_numbers_are_written_like_sizes() {
        assert_eq!(number("10k"), Ok(10_240));
        assert!(number("ten").unwrap_err().starts_with("`ten` is no number: "));
        assert!(number("2g").unwrap_err().ends_with(" is the largest number"));
    }

    #[test]
    fn times_are_seconds_unless_they_say_otherwise() {
        let table = "300=300s 60s=60s 60S=60s 60sec=60s 500ms=500ms 500m=500ms 500msec=500ms 2milliseconds=2ms 20us=20µs \
                     20ns=20ns 1.5s=1.5s .5=500ms 1.=1s 0=0ns 0.1ns=0ns 123456789ns=123.456789ms";
        for (text, duration) in table.split(' ').filter_map(|pair| pair.split_once('=')) {
            assert_eq!(time(text).map(|time| format!("{time:?}")), Ok(duration.to_owned()), "{text}");
        }
    }

    #[test]
    fn no_time_has_a_sentence() {
        for text in ["", "s", "-1", "1h", "1x", "1d", "1.2.3s", "1s5", "five", "1 s"] {
            let sentence = time(text).unwrap_err();
            assert!(sentence.starts_with(&format!("`{text}` is no time: ")), "{sentence}");
        }
        for text in ["5min", "5minutes", "1MIN"] {
            let sentence = format!("`{text}` would be milliseconds for uperf: write minutes as seconds");
            assert_eq!(time(text).unwrap_err(), sentence);
        }
        assert_eq!(time("18446744074"), Err("`18446744074` is too long: that is centuries".into()));
    }

    #[test]
    fn plain_numbers_are_digits() {
        assert_eq!(plain("0"), Ok(0));
        assert_eq!(plain("18446744073709551615"), Ok(u64::MAX));
        let large = plain("18446744073709551616").unwrap_err();
        assert_eq!(large, "`18446744073709551616` is too large a number");
        for text in ["", "1k", "-1", "+1", "1.0", "ten"] {
            assert_eq!(plain(text), Err(format!("`{text}` is no plain number: digits alone are wanted")));
        }
    }
}
