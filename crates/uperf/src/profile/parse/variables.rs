//! What `$name` in a profile stands for.
//!
//! uperf looks into its environment, and only for the name in lower case. Here the name is tried as it is written and in
//! lower and upper case; first among the values given on the command line, then in the environment, then among the
//! defaults that built-in profiles have. A name that is given as `?name` is one that a profile need not have.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// What stands before the name of a given variable that a profile need not have.
const OPTIONAL: char = '?';

/// Where values come from.
pub(in crate::profile) struct Variables<'a> {
    /// From the command line.
    given: &'a BTreeMap<String, String>,
    /// The environment; a function, so that tests have one of their own.
    environment: fn(&str) -> Option<String>,
    /// Names in lower case and values.
    defaults: &'a [(&'a str, &'a str)],
    /// Names that the profile has, in lower case.
    asked: RefCell<BTreeSet<String>>,
}

impl<'a> Variables<'a> {
    /// From these three, the first one first.
    pub(in crate::profile) fn new(
        given: &'a BTreeMap<String, String>,
        environment: fn(&str) -> Option<String>,
        defaults: &'a [(&'a str, &'a str)],
    ) -> Self {
        Self { given, environment, defaults, asked: RefCell::default() }
    }

    /// Names that the profile has had so far, in lower case.
    pub(in crate::profile) fn asked(self) -> BTreeSet<String> {
        self.asked.into_inner()
    }

    /// `text` itself, or what it stands for if it begins with `$`. As for uperf, all that follows is the name.
    pub(super) fn resolve<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, String> {
        match text.strip_prefix('$') {
            None => Ok(text.into()),
            Some("") => Err("a `$` needs the name of a variable behind it".into()),
            Some(name) => self.find(name).map(Cow::Owned).ok_or_else(|| wanted(text, "not set")),
        }
    }

    /// The same, but a variable must not be empty.
    pub(super) fn resolve_filled<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, String> {
        match self.resolve(text)? {
            value if value.is_empty() && !text.is_empty() => Err(wanted(text, "empty")),
            value => Ok(value),
        }
    }

    fn find(&self, name: &str) -> Option<String> {
        self.asked.borrow_mut().insert(name.to_ascii_lowercase());
        let spellings = [name.to_owned(), name.to_ascii_lowercase(), name.to_ascii_uppercase()];
        let default = |name: &String| self.defaults.iter().find(|(key, _)| key == name);
        let optional = |name: &String| self.given.get(&format!("{OPTIONAL}{name}"));
        let given = |name: &String| self.given.get(name).or_else(|| optional(name)).cloned();
        let given = spellings.iter().find_map(given);
        given
            .or_else(|| spellings.iter().find_map(|name| (self.environment)(name)))
            .or_else(|| spellings.iter().find_map(default).map(|(_, value)| (*value).to_owned()))
    }
}

/// The first name in `given` that none of `asked` means.
pub(in crate::profile) fn unused<'g>(
    given: &'g BTreeMap<String, String>,
    asked: &BTreeSet<String>,
) -> Option<&'g str> {
    let is_unused = |name: &&str| !name.starts_with(OPTIONAL) && !asked.contains(&name.to_ascii_lowercase());
    given.keys().map(String::as_str).find(is_unused)
}

fn wanted(variable: &str, state: &str) -> String {
    format!("`{variable}` is {state}: give it a value in the environment or on the command line")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: [(&str, &str); 3] = [("a", "default"), ("b", "default"), ("c", "default")];

    fn environment(name: &str) -> Option<String> {
        match name {
            "b" => Some("environment".into()),
            "UPPER" => Some("upper".into()),
            "lower" => Some("lower".into()),
            "none" => Some(String::new()),
            _ => None,
        }
    }

    fn resolve(text: &str) -> Result<String, String> {
        let given = BTreeMap::from([("a".into(), "given".into()), ("B".into(), "given".into())]);
        let variables = Variables::new(&given, environment, &DEFAULTS);
        variables.resolve_filled(text).map(Cow::into_owned)
    }

    #[test]
    fn the_command_line_comes_before_the_environment_and_that_before_defaults_in_either_case() {
        let table = "$a=given $b=given $c=default $C=default a$b=a$b = $upper=upper $UPPER=upper $LOWER=lower $Lower=lower";
        for (text, value) in table.split(' ').filter_map(|pair| pair.split_once('=')) {
            assert_eq!(resolve(text).as_deref(), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_nobody_asked_for_is_unused() {
        let given = ["SIZE", "?warmup", "sise"].map(|name| (name.to_owned(), "1".to_owned())).into();
        let variables = Variables::new(&given, environment, &[]);
        for name in ["$size", "$warmup"] {
            assert_eq!(variables.resolve(name).as_deref(), Ok("1"), "{name}");
        }
        assert_eq!(unused(&given, &variables.asked()), Some("sise"));
        assert_eq!(unused(&given, &["size", "sise"].map(str::to_owned).into()), None, "?warmup need not be");
    }

    #[test]
    fn nothing_stands_for_an_unset_name() {
        let sentence = "give it a value in the environment or on the command line";
        assert_eq!(resolve("$x y"), Err(format!("`$x y` is not set: {sentence}")));
        assert_eq!(resolve("$none"), Err(format!("`$none` is empty: {sentence}")));
        assert_eq!(resolve("$"), Err("a `$` needs the name of a variable behind it".into()));
    }
}
