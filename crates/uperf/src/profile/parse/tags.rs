//! The tags of a profile, one after the other, and what is wrong between and inside them.
//!
//! Own code, because profiles are not XML: uperf reads words, not a tree. It takes tags that are never closed, or closed
//! once too often, `<Profile` that ends with `</profile`, a `<` with a space behind it and tags without their `>`; people
//! have such files, and XML libraries refuse them (or, if they can be talked out of it, no longer know the column of an
//! option inside a value). What is read beyond uperf: tags without white space between them, values in single quotes or in
//! none, white space around `=`, `<!DOCTYPE>`, `</flowop>`, and a last tag that ends with the file.

use super::source::{Source, Span, is_space};
use crate::profile::errors::Errors;

/// A tag.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tag<'a> {
    /// `<name attribute="value">`, or the same with `/>`.
    Open {
        /// Its offset is that of the name.
        name: Span<'a>,
        /// Whether nothing belongs inside: `/>`.
        is_closed: bool,
        /// In the order of the text.
        attributes: Vec<Attribute<'a>>,
    },
    /// `</name>`
    Close(Span<'a>),
}

/// `name="value"`
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Attribute<'a> {
    /// As it is written.
    pub(super) name: Span<'a>,
    /// What is between the quotes.
    pub(super) value: Span<'a>,
}

/// Goes through a text. Every step takes at least one character, so it ends.
pub(super) struct Tags<'a, 's> {
    source: &'s Source<'a>,
    offset: usize,
}

impl<'a, 's> Tags<'a, 's> {
    /// From the start of `source`.
    pub(super) fn new(source: &'s Source<'a>) -> Self {
        Self { source, offset: 0 }
    }

    /// The next tag; none at the end. What is none is skipped and told.
    pub(super) fn next(&mut self, errors: &mut Errors) -> Option<Tag<'a>> {
        loop {
            self.skip_space();
            let start = self.offset;
            if self.rest().is_empty() {
                return None;
            } else if self.skip_aside(errors) || self.eat(">") || self.eat("/>") {
                // A `>` for itself means nothing, as for uperf.
            } else if self.eat("</") {
                return Some(self.close());
            } else if self.eat("<") {
                return Some(self.open(errors));
            } else {
                let text = self.until(|c| c == '<');
                let word = text.words().first().map_or("", |word| word.text);
                let sentence =
                    format!("`{word}` stands outside of any tag: write <!-- {word} --> if it is a comment");
                self.error(errors, start, sentence);
            }
        }
    }

    fn close(&mut self) -> Tag<'a> {
        self.skip_space();
        let name = self.until(|c| is_space(c) || c == '<' || c == '>');
        self.skip_space();
        self.eat(">");
        Tag::Close(name)
    }

    fn open(&mut self, errors: &mut Errors) -> Tag<'a> {
        self.skip_space();
        let name = self.until(|c| is_space(c) || "<>/=\"'".contains(c));
        let (mut attributes, mut is_closed) = (Vec::new(), false);
        loop {
            self.skip_space();
            if self.eat("/>") {
                is_closed = true;
                break;
            } else if self.rest().is_empty() || self.eat(">") {
                break;
            } else if self.skip_aside(errors) {
                continue;
            } else if self.rest().starts_with('<') {
                break;
            }
            match self.attribute(errors) {
                Some(attribute) => attributes.push(attribute),
                None => drop(self.until(|c| c == '<' || c == '>')),
            }
        }
        Tag::Open { name, is_closed, attributes }
    }

    fn attribute(&mut self, errors: &mut Errors) -> Option<Attribute<'a>> {
        let name = self.until(|c| is_space(c) || "<>/=\"'".contains(c));
        self.skip_space();
        let c = self.rest().chars().next().unwrap_or_default();
        let wrong = if name.text.is_empty() {
            format!("a `{c}` is out of place: is a quote missing, or one too many, before it?")
        } else if self.eat("=") {
            self.skip_space();
            return Some(Attribute { name, value: self.value(errors) });
        } else {
            format!("`{0}` has no value: write {0}=\"...\"", name.text)
        };
        self.error(errors, name.offset, wrong);
        None
    }

    fn value(&mut self, errors: &mut Errors) -> Span<'a> {
        let start = self.offset;
        let Some(quote) = ["\"", "'"].into_iter().find(|quote| self.eat(quote)) else {
            return self.unquoted();
        };
        let value = self.until(|c| quote.contains(c));
        let is_closed = self.eat(quote);
        // With a tag in it and a letter behind it, a value has taken the first quote of another for its own last.
        let swallowed =
            value.text.contains('<') && self.rest().starts_with(|c: char| c.is_ascii_alphanumeric());
        if is_closed && !swallowed {
            return value;
        }
        self.error(errors, start, "the quote that opens here is never closed".into());
        self.offset = value.offset;
        let value = self.until(|c| c == '<' || c == '>');
        value.part(0..value.text.trim_end_matches('/').len())
    }

    /// Up to white space or the end of the tag.
    fn unquoted(&mut self) -> Span<'a> {
        let rest = self.rest();
        let end = rest.find(|c| is_space(c) || c == '<' || c == '>').unwrap_or(rest.len());
        let slash = usize::from(rest[end..].starts_with('>') && rest[..end].ends_with('/'));
        self.take(end - slash)
    }

    /// Skips a comment, `<?xml ?>` or `<!DOCTYPE>`.
    fn skip_aside(&mut self, errors: &mut Errors) -> bool {
        let (rest, start) = (self.rest(), self.offset);
        let end = if rest.starts_with("<!--") {
            // From the third character on, because for uperf <!--> is a whole comment.
            find(rest, 2, "-->")
        } else if rest.starts_with("<?") {
            find(rest, 2, "?>")
        } else if rest.starts_with("<!") {
            find(rest, 0, ">")
                .and_then(|end| if rest[..end].contains('[') { find(rest, 0, "]>") } else { Some(end) })
        } else {
            return false;
        };
        if end.is_none() {
            let kind = if rest.starts_with("<!--") { "comment" } else { "declaration" };
            self.error(errors, start, format!("the {kind} that begins here never ends"));
        }
        self.take(end.unwrap_or(rest.len()));
        true
    }

    fn skip_space(&mut self) {
        self.until(|c| !is_space(c));
    }

    fn until(&mut self, end: impl Fn(char) -> bool) -> Span<'a> {
        let rest = self.rest();
        self.take(rest.find(end).unwrap_or(rest.len()))
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        self.take(if found { text.len() } else { 0 });
        found
    }

    fn take(&mut self, length: usize) -> Span<'a> {
        let span = Span { text: &self.rest()[..length], offset: self.offset };
        self.offset += length;
        span
    }

    fn rest(&self) -> &'a str {
        &self.source.text[self.offset..]
    }

    fn error(&self, errors: &mut Errors, offset: usize, sentence: String) {
        errors.add(self.source.place(offset), sentence);
    }
}

/// Behind the first `end` at `from` or later.
fn find(text: &str, from: usize, end: &str) -> Option<usize> {
    text[from..].find(end).map(|at| from + at + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name a=b` per tag, `/name` for one that closes, and the errors.
    fn tags(text: &str) -> (Vec<String>, String) {
        let (source, mut errors) = (Source::new(text), Errors::none("t"));
        let (mut tags, mut found) = (Tags::new(&source), Vec::new());
        while let Some(tag) = tags.next(&mut errors) {
            found.push(match tag {
                Tag::Close(name) => format!("/{}", name.text),
                Tag::Open { name, attributes, .. } => attributes
                    .iter()
                    .fold(name.text.to_owned(), |line, a| format!("{line} {}={}", a.name.text, a.value.text)),
            });
        }
        (found, errors.to_string())
    }

    #[track_caller]
    fn reads(text: &str, expected: &[&str]) {
        assert_eq!(tags(text), (expected.iter().map(ToString::to_string).collect(), String::new()), "{text}");
    }

    #[test]
    fn tags_need_no_white_space_between_them() {
        reads(r#"<a x="1"><b y="2"/></a>"#, &["a x=1", "b y=2", "/a"]);
        reads(" < a\n\tx = \"1\"y='\"'z=3/>\n</ a\n>", &["a x=1 y=\" z=3", "/a"]);
    }

    #[test]
    fn values_hold_anything_but_their_quote() {
        reads("<a x='>/<\n=\"' y=\"'\" z=a/b=c w=>", &["a x=>/<\n=\" y=' z=a/b=c w="]);
    }

    #[test]
    fn ends_may_be_missing_or_doubled() {
        reads("<a x=1 <b> > /> </b </a", &["a x=1", "b", "/b", "/a"]);
        reads("<a", &["a"]);
        reads("</", &["/"]);
    }

    #[test]
    fn what_is_aside_is_skipped() {
        let doctype = "<!DOCTYPE p [ <!ELEMENT p ANY> ]><!DOCTYPE p>";
        let text = format!(
            "\u{feff}<?xml version=\"1.0\"?>{doctype}<!--<b>--><!--><a <!-- > --> x=1>\0<!-- - -- -->"
        );
        reads(&text, &["a x=1"]);
    }

    #[test]
    fn each_breach_is_told_with_its_place() {
        let table = [
            ("a b <c>", "t:1:1: `a` stands outside of any tag: write <!-- a --> if it is a comment", 1),
            (
                "<a>\n  \"<c>",
                "t:2:3: `\"` stands outside of any tag: write <!-- \" --> if it is a comment",
                2,
            ),
            ("<a x=\"1/>\n<b>", "t:1:6: the quote that opens here is never closed", 2),
            ("<a x='1\n<b y='2'>", "t:1:6: the quote that opens here is never closed", 2),
            ("<a\n x>", "t:2:2: `x` has no value: write x=\"...\"", 1),
            (
                "<a \"x\"><b>",
                "t:1:4: a `\"` is out of place: is a quote missing, or one too many, before it?",
                2,
            ),
            ("<a =5>", "t:1:4: a `=` is out of place: is a quote missing, or one too many, before it?", 1),
            ("<a / >", "t:1:4: a `/` is out of place: is a quote missing, or one too many, before it?", 1),
            ("<a> <!-- <b> ->", "t:1:5: the comment that begins here never ends", 1),
            ("<?xml >", "t:1:1: the declaration that begins here never ends", 0),
            ("<!DOCTYPE p [ >", "t:1:1: the declaration that begins here never ends", 0),
        ];
        for (text, sentence, count) in table {
            let (found, errors) = tags(text);
            assert_eq!((errors.as_str(), found.len()), (sentence, count), "{text}");
        }
    }
}
