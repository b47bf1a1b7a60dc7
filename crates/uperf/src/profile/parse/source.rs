//! The text of a profile and pieces of it. A piece knows its offset, so a line and a column need only be counted for an
//! error or a flowop.

use std::cell::Cell;
use std::ops::Range;

use crate::profile::model::Place;

/// A profile's text.
pub(super) struct Source<'a> {
    /// All of it.
    pub(super) text: &'a str,
    /// Offsets at which lines begin; the first is 0.
    lines: Vec<usize>,
    /// The offset that was asked for last and the characters before it in its line. Questions mostly go forward, and
    /// counting from here keeps a long line from taking the square of its length.
    last: Cell<(usize, usize)>,
}

/// A piece of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span<'a> {
    /// What it says.
    pub(super) text: &'a str,
    /// Where it begins, in bytes.
    pub(super) offset: usize,
}

impl<'a> Source<'a> {
    /// Looks for the lines of `text`.
    pub(super) fn new(text: &'a str) -> Self {
        let ends = text.match_indices('\n').map(|(offset, _)| offset + 1);
        Self { text, lines: std::iter::once(0).chain(ends).collect(), last: Cell::default() }
    }

    /// The line and column of `offset`, which is the start of a character or the end.
    pub(super) fn place(&self, offset: usize) -> Place {
        let line = self.lines.partition_point(|&start| start <= offset);
        let start = self.lines[line - 1];
        let (from, known) =
            Some(self.last.get()).filter(|last| (start..=offset).contains(&last.0)).unwrap_or((start, 0));
        let before = known + self.text.get(from..offset).unwrap_or_default().chars().count();
        self.last.set((offset, before));
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Place { line: count(line), column: count(before + 1) }
    }
}

impl<'a> Span<'a> {
    /// A piece of this piece. `range` counts from the start of this one and lies on characters.
    pub(super) fn part(&self, range: Range<usize>) -> Self {
        Self { text: &self.text[range.clone()], offset: self.offset + range.start }
    }

    /// The pieces between white space; white space in parentheses separates nothing.
    pub(super) fn words(&self) -> Vec<Span<'a>> {
        let (mut words, mut start, mut depth) = (Vec::new(), None, 0_usize);
        for (at, c) in self.text.char_indices() {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if is_space(c) && depth == 0 {
                words.extend(start.take().map(|start| self.part(start..at)));
            } else if start.is_none() {
                start = Some(at);
            }
        }
        words.extend(start.map(|start| self.part(start..self.text.len())));
        words
    }
}

/// What separates: uperf takes every control character for a space. The mark that some editors put first is none of the
/// profile either.
pub(super) fn is_space(c: char) -> bool {
    c <= ' ' || c == '\u{feff}'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<(&str, usize)> {
        Span { text, offset: 10 }.words().iter().map(|word| (word.text, word.offset)).collect()
    }

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let source = Source::new("ab\r\nä€x\n");
        let places: Vec<String> =
            [0, 1, 4, 6, 9, 10, 11].map(|offset| source.place(offset).to_string()).into();
        assert_eq!(places, ["1:1", "1:2", "2:1", "2:2", "2:3", "2:4", "3:1"]);
        assert_eq!([10, 4, 9].map(|offset| source.place(offset).to_string()), ["2:4", "2:1", "2:3"]);
    }

    #[test]
    fn words_keep_their_offsets() {
        assert_eq!(words(" a\n\tb=c \u{1}d"), [("a", 11), ("b=c", 14), ("d", 19)]);
        assert_eq!(words(" \n"), []);
    }

    #[test]
    fn parentheses_hold_words_together() {
        assert_eq!(words("rand( 1, 8k ) x"), [("rand( 1, 8k )", 10), ("x", 24)]);
        assert_eq!(words(") x"), [(")", 10), ("x", 12)]);
    }
}
