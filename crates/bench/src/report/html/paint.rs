//! Which colour and which dash each path has, by the names that the style sheet knows.

use crate::compare::plan::Contender;

/// Classes of a bar (`fill`) or of a line (`stroke`): one per path, as in `style.css`.
pub(crate) fn classes(kind: &str, contender: &Contender) -> String {
    let variant = if contender.environment.is_empty() { "" } else { " variant" };
    format!("{kind} {}{variant}", contender.path)
}

#[cfg(test)]
mod tests {
    use crate::path::Path;
    use clap::ValueEnum;

    #[test]
    fn every_path_has_a_colour() {
        let style = include_str!("style.css");
        for path in Path::value_variants() {
            assert!(style.contains(&format!(".{path} {{")), "{path}");
        }
    }
}
