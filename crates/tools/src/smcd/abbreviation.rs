//! Numbers in at most six characters. Owns: decimal powers, five characters and a letter.

const LETTERS: [char; 5] = ['K', 'M', 'G', 'T', 'P'];

/// Below 1000 as it is, above with as many digits as fit: 12345 is 12.35K.
pub(super) fn abbreviated(number: u64) -> String {
    if number < 1000 {
        return number.to_string();
    }
    let power = LETTERS.len().min(number.ilog10() as usize / 3);
    let scaled = number as f64 / 1000f64.powi(power as i32);
    let digits = (0..=3).rev().map(|decimals| format!("{scaled:.decimals$}")).find(|text| text.len() <= 5);
    format!("{:>5}{}", digits.unwrap_or_else(|| format!("{scaled:.0}")), LETTERS[power - 1])
}

#[cfg(test)]
mod tests {
    use super::abbreviated;

    #[test]
    fn golden() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1.000K"),
            (9999, "9.999K"),
            (12345, "12.35K"),
            (99_999, "100.0K"),
            (123_456, "123.5K"),
            (999_999, " 1000K"),
            (1_000_000, "1.000M"),
            (18_036_000, "18.04M"),
            (1_000_000_000, "1.000G"),
            (1_000_000_000_000, "1.000T"),
            (1_000_000_000_000_000, "1.000P"),
            (u64::MAX, "18447P"),
        ] {
            assert_eq!(abbreviated(number), text, "{number}");
        }
    }
}
