//! Tests: every sentence about a profile, and the place that it names. Profiles and sentences stand in
//! `testdata/refused.txt`, a text, `---` and what is said of it.

use std::collections::BTreeMap;

use super::parse;
use super::variables::Variables;
use crate::profile::errors::Errors;

const ALL: &str = include_str!("../../../testdata/refused.txt");

fn errors(text: &str) -> Errors {
    let environment = |name: &str| match name {
        "word" => Some("word".to_owned()),
        "many" => Some("size=1 sise=2".to_owned()),
        "empty" => Some(String::new()),
        _ => None,
    };
    let given = BTreeMap::new();
    let variables = Variables::new(&given, environment, &[]);
    parse("t", text, &variables).expect_err(text)
}

#[test]
fn every_mistake_has_its_sentence_and_its_place() {
    let (mut count, mut about) = (0, "");
    for case in ALL.split("===").skip(1) {
        let (title, rest) = case.split_once('\n').expect("a line");
        about = if title.is_empty() { about } else { title };
        let (text, sentences) = rest.split_once("\n---\n").expect("a text and what is said of it");
        assert_eq!(errors(text).to_string(), sentences.trim_end(), "{about}: {text}");
        count += 1;
    }
    assert!(count > 100, "{count}");
}

#[test]
fn limits() {
    let groups = "<group nthreads=1><transaction/></group>\n".repeat(1025);
    assert_eq!(errors(&groups).to_string(), "t:1025:2: this is one group too many: 1024 are the most");
    let options =
        format!("<group nthreads=1><transaction><flowop type=nop options='{}'>", "size=1 ".repeat(101));
    assert!(errors(&options).to_string().ends_with("101 options are too many: 100 are the most"));
}

#[test]
fn errors_end_at_a_hundred() {
    let errors = errors(&"<x/>\n".repeat(150));
    assert_eq!((errors.problems.len(), errors.more), (100, true));
    assert!(errors.to_string().ends_with("\nt: more than 100 errors; the rest is not shown"));
}

#[test]
fn errors_come_in_the_order_of_the_file() {
    let text = "<group nthreads=x y>\n<transaction duration=z>\n<flowop type=nop options='a=b'>\n<flowop type=no y=z>";
    let places: Vec<String> =
        errors(text).problems.iter().map(|problem| problem.place.unwrap().to_string()).collect();
    assert_eq!(places, ["1:17", "1:19", "2:23", "3:27", "4:14", "4:17"]);
}
