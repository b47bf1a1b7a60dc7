//! What all drawings have: a heading, a note, and a colour and a dash for each path, by the names that the style sheet knows.

use maud::{Markup, html};

use crate::compare::metric::Metric;
use crate::compare::plan::Contender;

/// Classes of a bar (`fill`) or of a line (`stroke`): one per path, as in `style.css`.
pub(crate) fn classes(kind: &str, contender: &Contender) -> String {
    let variant = if contender.environment.is_empty() { "" } else { " variant" };
    format!("{kind} {}{variant}", contender.path)
}

/// As headings begin.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// As the studies say it under each of their figures.
pub(crate) fn better(metric: Metric) -> &'static str {
    if metric.about().lower_is_better { "Shorter is better" } else { "Longer is better" }
}

/// A drawing with its heading.
pub(crate) fn figure(title: &str, note: &str, drawing: &Markup) -> Markup {
    html! {
        figure {
            figcaption { h3 { (title) } (note) }
            (drawing)
        }
    }
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
