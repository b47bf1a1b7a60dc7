//! What is wrong with a profile: sentences with the place that each is about. As many as there are, up to [`MOST`], so
//! that a profile is mended in one go.

use std::collections::BTreeSet;

use super::model::Place;
use super::suggest::suggest;

/// Errors that are kept; uperf gives up after as many.
const MOST: usize = 100;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// Where; none if it is about the file as a whole.
    pub(super) place: Option<Place>,
    /// What is wrong and what would be right.
    pub(super) sentence: String,
}

/// Everything that is wrong with one profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.sentences())]
pub struct Errors {
    /// The file, or the name of the built-in profile.
    pub(super) profile: String,
    /// In the order of the file.
    pub(super) problems: Vec<Problem>,
    /// Whether there were more than are kept.
    pub(super) more: bool,
}

impl Errors {
    /// No errors yet.
    pub(super) fn none(profile: &str) -> Self {
        Self { profile: profile.to_owned(), problems: Vec::new(), more: false }
    }

    /// The only error is about the file as a whole.
    pub(super) fn whole(profile: &str, sentence: impl Into<String>) -> Self {
        let mut errors = Self::none(profile);
        errors.add(None, sentence);
        errors
    }

    /// One more, unless there are too many already, or it was said: a wrong variable is wrong wherever it stands.
    pub(super) fn add(&mut self, place: impl Into<Option<Place>>, sentence: impl Into<String>) {
        let sentence = sentence.into();
        let is_said =
            sentence.contains("(from $") && self.problems.iter().any(|one| one.sentence == sentence);
        match self.problems.len() {
            _ if is_said => {}
            ..MOST => self.problems.push(Problem { place: place.into(), sentence }),
            _ => self.more = true,
        }
    }

    /// Whether nothing is wrong.
    pub(super) fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    fn sentences(&self) -> String {
        let sentence = |Problem { place, sentence }: &Problem| match place {
            Some(place) => format!("{}:{place}: {sentence}", self.profile),
            None => format!("{}: {sentence}", self.profile),
        };
        let more =
            self.more.then(|| format!("{}: more than {MOST} errors; the rest is not shown", self.profile));
        self.problems.iter().map(sentence).chain(more).collect::<Vec<_>>().join("\n")
    }

    /// `value` if nothing is wrong.
    pub(super) fn or<T>(mut self, value: T) -> Result<T, Self> {
        // What is wrong with the form of a tag is found before what is wrong with the values that it has.
        self.problems.sort_by_key(|problem| problem.place);
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

/// Why a profile is not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It cannot be read, or is wrong.
    #[error(transparent)]
    Profile(#[from] Errors),
    /// The command line does not fit it: one sentence.
    #[error("{0}")]
    Usage(String),
}

impl Refusal {
    /// The command line is wrong.
    pub fn usage(sentence: &str) -> Self {
        Self::Usage(sentence.to_owned())
    }

    /// Nobody has the variable `name`; `known` are those of `profiles`.
    pub(super) fn unused(name: &str, profiles: &[&str], known: &BTreeSet<String>) -> Self {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let who = match profiles {
            [one] => format!("the profile {one} has no"),
            several => format!("none of the profiles {} has a", several.join(", ")),
        };
        let right = if known.is_empty() { "there is none".to_owned() } else { suggest(name, &known) };
        Self::Usage(format!("{who} variable `{name}`: {right}"))
    }
}
