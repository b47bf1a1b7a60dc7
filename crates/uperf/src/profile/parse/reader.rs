//! Reads the attributes of a tag, and keeps the errors.

use super::element::Element;
use super::option;
use super::source::{Source, Span};
use super::tags::Attribute;
use super::variables::Variables;
use crate::profile::errors::Errors;
use crate::profile::model::Place;
use crate::profile::options::Options;

/// uperf's own limit.
const MOST_OPTIONS: usize = 100;

/// The attributes of a tag, names in small letters.
pub(super) struct Values<'a>(Vec<(String, Span<'a>)>);

/// A text and what its variables stand for.
pub(super) struct Reader<'a, 's> {
    pub(super) source: &'s Source<'a>,
    pub(super) variables: &'s Variables<'s>,
    /// What was wrong so far.
    pub(super) errors: Errors,
}

impl<'a> Values<'a> {
    /// The last one of this name counts, as in uperf.
    pub(super) fn find(&self, name: &str) -> Option<Span<'a>> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| *value)
    }
}

impl<'a> Reader<'a, '_> {
    /// Where `span` begins.
    pub(super) fn place(&self, span: Span<'a>) -> Place {
        self.source.place(span.offset)
    }

    /// `sentence` is wrong with `span`.
    pub(super) fn error(&mut self, span: Span<'a>, sentence: String) {
        self.errors.add(self.place(span), sentence);
    }

    /// Those of `attributes` that `element` has.
    pub(super) fn values(&mut self, element: Element, attributes: Vec<Attribute<'a>>) -> Values<'a> {
        let mut values = Vec::new();
        for Attribute { name, value } in attributes {
            let key = name.text.to_ascii_lowercase();
            if element.attributes().contains(&key.as_str()) {
                values.push((key, value));
            } else {
                self.error(name, element.refuse(&key));
            }
        }
        Values(values)
    }

    /// What `parse` makes of the value, if there is one and nothing is wrong with it.
    pub(super) fn parsed<T>(
        &mut self,
        value: Option<Span<'a>>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = value?;
        match self.variables.resolve_filled(value.text).and_then(|text| parse(&text)) {
            Ok(parsed) => Some(parsed),
            Err(sentence) => {
                self.error(value, sentence);
                None
            }
        }
    }

    /// The value of `name=`, in small letters, as uperf has them.
    pub(super) fn name(&mut self, values: &Values<'a>) -> Option<String> {
        self.parsed(values.find("name"), |text| Ok(text.to_ascii_lowercase()))
    }

    /// The options of a flowop.
    pub(super) fn options(&mut self, values: &Values<'a>) -> Options {
        let mut options = Options::default();
        let Some(value) = values.find("options") else { return options };
        let words = value.words();
        if words.len() > MOST_OPTIONS {
            let sentence = format!("{} options are too many: {MOST_OPTIONS} are the most", words.len());
            self.error(value, sentence);
        }
        for word in words.into_iter().take(MOST_OPTIONS) {
            if let Err(sentence) = option::set_all(&mut options, word.text, self.variables) {
                self.error(word, sentence);
            }
        }
        options
    }
}
