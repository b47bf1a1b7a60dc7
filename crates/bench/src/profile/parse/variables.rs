//! What `$name` in a profile stands for.
//!
//! uperf looks into its environment, and only for the name in lower case. Here the name is tried as it is written and in
//! lower and upper case; first among the values given on the command line, then in the environment, then among the
//! defaults that built-in profiles have.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// Where values come from.
pub(in crate::profile) struct Variables<'a> {
    /// From the command line.
    pub(in crate::profile) given: &'a BTreeMap<String, String>,
    /// The environment; a function, so that tests have one of their own.
    pub(in crate::profile) environment: fn(&str) -> Option<String>,
    /// Names in lower case and values.
    pub(in crate::profile) defaults: &'a [(&'a str, &'a str)],
}

impl Variables<'_> {
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
        let spellings = [name.to_owned(), name.to_ascii_lowercase(), name.to_ascii_uppercase()];
        let default = |name: &String| self.defaults.iter().find(|(key, _)| key == name);
        let given = spellings.iter().find_map(|name| self.given.get(name).cloned());
        given
            .or_else(|| spellings.iter().find_map(|name| (self.environment)(name)))
            .or_else(|| spellings.iter().find_map(default).map(|(_, value)| (*value).to_owned()))
    }
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
        let variables = Variables { given: &given, environment, defaults: &DEFAULTS };
        variables.resolve_filled(text).map(Cow::into_owned)
    }

    #[test]
    fn the_command_line_comes_before_the_environment_and_that_before_defaults() {
        let table = [
            ("$a", "given"),
            ("$b", "given"),
            ("$c", "default"),
            ("$C", "default"),
            ("a$b", "a$b"),
            ("", ""),
        ];
        for (text, value) in table {
            assert_eq!(resolve(text).as_deref(), Ok(value), "{text}");
        }
    }

    #[test]
    fn names_are_tried_in_either_case() {
        for (text, value) in
            [("$upper", "upper"), ("$UPPER", "upper"), ("$LOWER", "lower"), ("$Lower", "lower")]
        {
            assert_eq!(resolve(text).as_deref(), Ok(value), "{text}");
        }
    }

    #[test]
    fn nothing_stands_for_an_unset_name() {
        let sentence = "give it a value in the environment or on the command line";
        assert_eq!(resolve("$x y"), Err(format!("`$x y` is not set: {sentence}")));
        assert_eq!(resolve("$none"), Err(format!("`$none` is empty: {sentence}")));
        assert_eq!(resolve("$"), Err("a `$` needs the name of a variable behind it".into()));
    }
}
