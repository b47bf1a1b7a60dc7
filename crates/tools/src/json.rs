//! JSON, written. Owns: the escaping of text that programs chose (command names).

use std::fmt::{Display, Write};

/// An object under construction.
#[derive(Default)]
pub(crate) struct Object(String);

impl Object {
    /// A value that is JSON already: a number, `true`, `null`, an object, an array.
    pub(crate) fn value(mut self, key: &str, value: impl Display) -> Self {
        let comma = if self.0.is_empty() { "" } else { ", " };
        let _ = write!(self.0, "{comma}{}: {value}", quoted(key));
        self
    }

    /// A text.
    pub(crate) fn text(self, key: &str, value: &str) -> Self {
        self.value(key, quoted(value))
    }

    /// An object or nothing.
    pub(crate) fn object(self, key: &str, value: Option<Object>) -> Self {
        match value {
            Some(object) => self.value(key, object),
            None => self,
        }
    }
}

impl Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{{{}}}", self.0)
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' || c == '\u{7f}' => _ = write!(quoted, "\\u{:04x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::Object;

    #[test]
    fn objects_nest_and_texts_are_escaped() {
        let inner = Object::default().value("n", 1).text("t", "a\"\\\n\u{7f}é");
        let outer = Object::default().object("inner", Some(inner)).object("none", None).value("x", "null");
        assert_eq!(outer.to_string(), r#"{"inner": {"n": 1, "t": "a\"\\\u000a\u007fé"}, "x": null}"#);
    }
}
