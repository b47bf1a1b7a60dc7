//! Tests: whatever a profile looks like, the parser gives values or errors, and both make sense.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::parse;
use super::variables::Variables;
use crate::profile::builtin;
use crate::profile::model::{Profile, Until};
use crate::profile::options::Size;

/// What profiles are made of, and what they should not be made of.
const PIECES: &str = "< > /> </ \" ' = $ ( ) , <!-- --> <? <! <profile <group </group> <transaction </transaction> <flowop \
                      nthreads= nprocs= type= options= iterations= duration= rate= size= rand( connect read 0 9999999999 \
                      $h \0 é \u{feff}";

/// One of them, or what divides them.
fn piece() -> impl Strategy<Value = &'static str> {
    select(PIECES.split(' ').chain([" ", "\n"]).collect::<Vec<_>>())
}

/// A change of a text; positions are shares of its length.
#[derive(Clone, Debug)]
enum Change {
    Insert(Index, &'static str),
    Remove(Index, Index),
    Double(Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<Index>(), piece()).prop_map(|(at, piece)| Change::Insert(at, piece)),
        (any::<Index>(), any::<Index>()).prop_map(|(a, b)| Change::Remove(a, b)),
        (any::<Index>(), any::<Index>()).prop_map(|(a, b)| Change::Double(a, b)),
    ]
}

fn position(text: &str, index: &Index) -> usize {
    let at = index.index(text.len() + 1);
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or_default()
}

fn apply(text: &mut String, change: &Change) {
    match change {
        Change::Insert(at, piece) => text.insert_str(position(text, at), piece),
        Change::Remove(a, b) | Change::Double(a, b) => {
            let (a, b) = (position(text, a), position(text, b));
            // A short piece, so that something of the profile is left.
            let (start, end) = (a.min(b), a.max(b).min(a.min(b) + 40));
            let end = (start..=end).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(start);
            let piece =
                if matches!(change, Change::Double(..)) { text[start..end].repeat(2) } else { String::new() };
            text.replace_range(start..end, &piece);
        }
    }
}

fn check(text: &str) {
    let defaults: Vec<_> = builtin::list().iter().flat_map(builtin::Builtin::defaults).collect();
    let given = BTreeMap::new();
    let variables = Variables::new(&given, |_| None, &defaults);
    match parse("t", text, &variables) {
        Ok(profile) => check_values(&profile),
        Err(errors) => {
            assert!(!errors.problems.is_empty() && errors.problems.len() <= 100);
            let lines = text.split('\n').count();
            for place in errors.problems.iter().filter_map(|problem| problem.place) {
                assert!((1..=lines).contains(&(place.line as usize)), "{place} of {lines} lines");
                let line = text.split('\n').nth(place.line as usize - 1).unwrap();
                assert!((1..=line.chars().count() + 1).contains(&(place.column as usize)), "{place}: {line}");
            }
        }
    }
}

fn check_values(profile: &Profile) {
    assert!(!profile.groups.is_empty());
    for group in &profile.groups {
        assert!(group.strands > 0 && !group.transactions.is_empty());
        for transaction in &group.transactions {
            assert!(!matches!(transaction.until, Until::Iterations(0)));
            for options in transaction.flowops.iter().map(|flowop| &flowop.options) {
                assert!(options.count > 0 && options.repeat > 0 && options.batch_size > 0);
                assert!(options.size.is_none_or(|size| match size {
                    Size::Fixed(bytes) => bytes > 0,
                    Size::Random { min, max } => 0 < min && min <= max,
                }));
            }
        }
        // The slave's part is always to be had.
        assert_eq!(group.opposite().strands, group.strands);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_profiles_do_no_harm(
        profile in select(builtin::list()),
        changes in prop::collection::vec(change(), 1..12),
    ) {
        let mut text = profile.text.to_owned();
        changes.iter().for_each(|change| apply(&mut text, change));
        check(&text);
    }

    #[test]
    fn heaps_of_pieces_do_no_harm(pieces in prop::collection::vec(piece(), 0..80)) {
        check(&pieces.concat());
    }

    #[test]
    fn any_text_does_no_harm(text in ".{0,200}") {
        check(&text);
    }
}
