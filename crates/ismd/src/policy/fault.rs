//! What is wrong with a policy file, and where. Owns: a fault names line and column, and shows the place.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;

/// One thing that is wrong.
#[derive(Debug)]
pub(crate) struct Fault {
    path: String,
    text: String,
    at: Range<usize>,
    what: String,
}

impl Fault {
    pub(crate) fn new(path: &str, text: &str, at: Range<usize>, what: impl Into<String>) -> Self {
        // (Whoever names a place may count in bytes; a place that cuts a letter cannot be shown.)
        let end = (at.end.min(text.len())..).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
        let start = (0..=at.start.min(end)).rfind(|start| text.is_char_boundary(*start)).unwrap_or(0);
        Fault { path: path.into(), text: text.into(), at: start..end, what: what.into() }
    }

    /// Both counted from 1.
    pub(crate) fn line_and_column(&self) -> (usize, usize) {
        let before = &self.text[..self.at.start];
        let line_begins = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_begins..].chars().count() + 1)
    }

    /// One line: the place, and what is wrong there.
    pub(crate) fn title(&self) -> String {
        let (line, column) = self.line_and_column();
        format!("{}:{line}:{column}: {}", self.path, self.what)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = self.title();
        let snippet = Snippet::source(self.text.as_str())
            .path(self.path.as_str())
            .annotation(AnnotationKind::Primary.span(self.at.clone()));
        let report = [Level::ERROR.primary_title(title.as_str()).element(snippet)];
        f.write_str(&Renderer::plain().render(&report))
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_in_every_text_can_be_shown() {
        for text in ["", "\n", "a", "\u{e4}\u{1F600}\r\n\u{fffd}x\t\u{0}", "\u{feff}x = 1"] {
            for start in 0..text.len() + 2 {
                for end in 0..text.len() + 3 {
                    let fault = Fault::new("p", text, Range { start, end }, "wrong");
                    assert!(fault.to_string().contains("wrong") && fault.line_and_column().0 > 0);
                }
            }
        }
    }
}
