//! What somebody may have meant who wrote an unknown word.

/// How many letters may differ. Two catch a swap, a doubled letter and a missing one; three would turn `foo` into `cc`.
const FAR: usize = 2;

/// The known word that looks most like `word`, if one does; the first of several.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let far = FAR.min(word.chars().count().saturating_sub(1));
    let distances = known.iter().map(|known| (strsim::osa_distance(word, known), *known));
    distances
        .filter(|(distance, _)| *distance <= far)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// A sentence about what would be right.
pub(super) fn suggest(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("known are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_listed() {
        let known = ["size", "rsize", "count"];
        assert_eq!(suggest("sise", &known), "did you mean `size`?");
        assert_eq!(suggest("szie", &known), "did you mean `size`?");
        assert_eq!(suggest("mount", &known), "did you mean `count`?");
        assert_eq!(suggest("windows", &known), "known are size, rsize, count");
        assert_eq!(suggest("", &known), "known are size, rsize, count");
    }
}
