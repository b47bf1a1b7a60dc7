//! The four elements of a profile and the attributes of each.

use super::option;
use crate::profile::suggest::{nearest, suggest};

/// An element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    /// All of it.
    Profile,
    /// Strands that do the same.
    Group,
    /// Flowops that are repeated together.
    Transaction,
    /// One step.
    Flowop,
}

const ALL: [Element; 4] = [Element::Profile, Element::Group, Element::Transaction, Element::Flowop];

impl Element {
    /// As tags write it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Profile => "profile",
            Self::Group => "group",
            Self::Transaction => "transaction",
            Self::Flowop => "flowop",
        }
    }

    /// What it may say. `name` of a transaction or flowop is our extension: uperf gives such a name to the group.
    pub(super) fn attributes(self) -> &'static [&'static str] {
        match self {
            Self::Profile => &["name"],
            Self::Group => &["name", "nthreads", "nprocs"],
            Self::Transaction => &["name", "iterations", "duration", "rate"],
            Self::Flowop => &["name", "type", "options"],
        }
    }

    /// The element of this name, in letters of either case.
    pub(super) fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|element| element.name().eq_ignore_ascii_case(name))
    }

    /// For a name that is none: what was meant, if that can be told, and a sentence.
    pub(super) fn meant(name: &str) -> (Option<Self>, String) {
        let (lower, known) = (name.to_ascii_lowercase(), ALL.map(Self::name));
        let meant = nearest(&lower, &known).and_then(Self::named);
        (meant, format!("<{name}> is no element of a profile: {}", suggest(&lower, &known)))
    }

    /// A sentence about `attribute`, which this element does not have.
    pub(super) fn refuse(self, attribute: &str) -> String {
        let right = if self == Self::Flowop && option::is_known(attribute) {
            "write it inside of options=\"...\"".to_owned()
        } else if let Some(owner) = ALL.into_iter().find(|e| e.attributes().contains(&attribute)) {
            format!("it belongs to <{}>", owner.name())
        } else {
            suggest(attribute, self.attributes())
        };
        format!("`{attribute}` is no attribute of <{}>: {right}", self.name())
    }
}
