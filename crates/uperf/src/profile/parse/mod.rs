//! From the text of a profile to its values.
//!
//! What uperf reads is read, to the same values. Beyond that (see [`tags`], [`option`] and [`variables`]) nothing is
//! refused only because uperf stumbles over it. What uperf takes without a word and then does not do is an error.

mod builder;
mod element;
pub(super) mod numbers;
mod option;
mod reader;
mod source;
mod tags;
pub(super) mod variables;

#[cfg(test)]
mod mutation;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod taken;

use self::builder::Builder;
use self::reader::Reader;
use self::source::Source;
use self::tags::Tags;
use self::variables::Variables;
use super::check;
use super::errors::Errors;
use super::model::Profile;

/// Reads `text`; `name` is what errors call it.
pub(super) fn parse(name: &str, text: &str, variables: &Variables<'_>) -> Result<Profile, Errors> {
    let source = Source::new(text);
    let mut builder = Builder::new(Reader { source: &source, variables, errors: Errors::none(name) });
    let mut tags = Tags::new(&source);
    while let Some(tag) = tags.next(&mut builder.reader.errors) {
        builder.tag(tag);
    }
    let (profile, mut errors) = builder.finish();
    if errors.is_empty() {
        check::check(&profile, &mut errors);
    }
    errors.or(profile)
}
