//! uperf's profiles: what to do over which connections, as a file in uperf's own notation.
//!
//! `model` and `options` hold the plain values; they know nothing of the file, except the place that an error should
//! point at. `parse` makes them from text, `check` refuses what could not be run, [`builtin`] has profiles of its own.
//!
//! A profile written for uperf means here what it means there. Letters are small letters, whatever the file says (names of
//! directories excepted). More than uperf: `protocol=unix`; transactions have names; a transaction with a duration or
//! iterations of 0 is left out, so that a variable can turn it off.

pub mod builtin;
mod check;
pub(crate) mod errors;
pub(crate) mod model;
pub(crate) mod options;
mod parse;
mod suggest;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};

use serde::{Deserialize, Serialize};

use self::errors::Errors;
pub use self::errors::Refusal;
use self::model::{Flowop, FlowopKind, Profile};
use self::options::Size;
pub(crate) use self::parse::numbers::time;
use self::parse::variables::{Variables, unused};

/// No profile is longer; whoever names a log file or a device by mistake gets an answer, too.
const MOST_BYTES: u64 = 1 << 20;

/// Loads the built-in profile of this name, or else the file. `variables` come before the environment, and that before
/// the defaults of a built-in profile; one whose name begins with `?` is for profiles that have it.
///
/// # Errors
///
/// Everything that is wrong with the profile, why the file cannot be read, or a variable that the profile has not.
pub(crate) fn load(name_or_path: &str, variables: &BTreeMap<String, String>) -> Result<Profile, Refusal> {
    let Read { profile, asked } = read(name_or_path, variables)?;
    let profile = profile?;
    check::here(name_or_path, &profile)?;
    match unused(variables, &asked) {
        Some(name) => Err(Refusal::unused(name, &[name_or_path], &asked)),
        None => Ok(profile),
    }
}

/// Whether the connections of this profile come and go with each pass.
///
/// # Errors
///
/// Everything that is wrong with it: what passes here is not refused later.
pub fn reconnects(name_or_path: &str, variables: &BTreeMap<String, String>) -> Result<bool, Refusal> {
    Ok(load(name_or_path, variables)?.reconnects())
}

/// Bytes that go one way, so many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// From the master to the slave.
    pub is_write: bool,
    /// Of each.
    pub bytes: u32,
    /// How often.
    pub count: u64,
}

/// What the transaction `measured` moves; None if it does more than to write and read pieces of fixed size.
///
/// # Errors
///
/// As [`reconnects`].
pub fn pieces(
    name_or_path: &str,
    variables: &BTreeMap<String, String>,
) -> Result<Option<Vec<Piece>>, Refusal> {
    let profile = load(name_or_path, variables)?;
    let [group] = &profile.groups[..] else { return Ok(None) };
    let measured = group.transactions.iter().find(|one| one.name == "measured" && one.rate.is_none());
    let piece = |flowop: &Flowop| match (flowop.kind, flowop.options.size) {
        (FlowopKind::Write | FlowopKind::Read, Some(Size::Fixed(bytes))) => {
            Some(Piece { is_write: flowop.kind == FlowopKind::Write, bytes, count: flowop.options.count })
        }
        _ => None,
    };
    Ok(measured.and_then(|one| one.flowops.iter().map(piece).collect()))
}

/// Refuses the first of `variables` that none of the profiles has. Where one cannot be read, nobody can tell.
pub fn refuse_unused(profiles: &[String], variables: &BTreeMap<String, String>) -> Result<(), Refusal> {
    let mut all = BTreeSet::new();
    for profile in profiles {
        let Ok(Read { asked, .. }) = read(profile, variables) else { return Ok(()) };
        all.extend(asked);
    }
    let names: Vec<&str> = profiles.iter().map(String::as_str).collect();
    unused(variables, &all).map_or(Ok(()), |name| Err(Refusal::unused(name, &names, &all)))
}

/// A text that was read.
struct Read {
    profile: Result<Profile, Errors>,
    /// Names of its variables, in lower case.
    asked: BTreeSet<String>,
}

fn read(name_or_path: &str, given: &BTreeMap<String, String>) -> Result<Read, Errors> {
    let environment = |name: &str| std::env::var(name).ok();
    let builtin = builtin::find(name_or_path);
    let defaults = builtin.map(builtin::Builtin::defaults).unwrap_or_default();
    let text = match builtin {
        Some(builtin) => builtin.text.to_owned(),
        None => File::open(name_or_path).and_then(text).map_err(|error| unreadable(name_or_path, &error))?,
    };
    let variables = Variables::new(given, environment, &defaults);
    let profile = parse::parse(name_or_path, &text, &variables);
    Ok(Read { profile, asked: variables.asked() })
}

/// Bytes that are no UTF-8 do no harm: they stand in comments.
fn text(file: impl io::Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io::Error::other(format!("it has more than {MOST_BYTES} bytes, so it is no profile")));
    }
    // Nothing of it is shown: a terminal would obey.
    let is_junk = |byte: u8| byte == 0x7f || (byte < b' ' && !b"\t\n\r".contains(&byte));
    if let Some(place) = bytes.iter().position(|byte| is_junk(*byte)) {
        let what = format!("byte {} is 0x{:02x}, so it is no text and no profile", place + 1, bytes[place]);
        return Err(io::Error::other(what));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn unreadable(path: &str, error: &io::Error) -> Errors {
    if error.kind() != io::ErrorKind::NotFound {
        return Errors::whole(path, format!("cannot read this file: {error}"));
    }
    let names: Vec<&str> = builtin::list().iter().map(|builtin| builtin.name).collect();
    let right = suggest::suggest(path, &names);
    Errors::whole(path, format!("neither a file nor a built-in profile has this name: {right}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(path: &str) -> String {
        load(path, &BTreeMap::new()).unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_read_is_said_without_a_place() {
        let names: Vec<&str> = builtin::list().iter().map(|builtin| builtin.name).collect();
        let neither = "neither a file nor a built-in profile has this name";
        assert_eq!(sentence("pings"), format!("pings: {neither}: did you mean `ping`?"));
        assert_eq!(sentence("./x/y.xml"), format!("./x/y.xml: {neither}: known are {}", names.join(", ")));
        assert!(sentence("/").starts_with("/: cannot read this file: "));
        let endless = "cannot read this file: it has more than 1048576 bytes, so it is no profile";
        assert_eq!(sentence("/dev/zero"), format!("/dev/zero: {endless}"));
        let empty = "there is no <group> in this profile: nothing would be done";
        assert_eq!(sentence("/dev/null"), format!("/dev/null: {empty}"));
    }

    #[test]
    fn several_profiles_share_their_variables() {
        let profiles = ["ping", "rate-200x1000"].map(str::to_owned);
        let refuse = |profiles: &[String], name: &str| {
            refuse_unused(profiles, &BTreeMap::from([(name.to_owned(), "9".to_owned())]))
        };
        assert!(refuse(&profiles, "size").is_ok() && refuse(&profiles, "rate").is_ok());
        let sentence = refuse(&profiles, "count").unwrap_err().to_string();
        let start =
            "none of the profiles ping, rate-200x1000 has a variable `count`: known are duration, h, ";
        assert!(sentence.starts_with(start), "{sentence}");
        assert!(refuse(&["dreams".to_owned()], "count").is_ok(), "no such profile: that is said later");
    }

    #[test]
    fn connections_of_one_pass_are_told_from_those_that_stay() {
        let reconnects = |builtin: &builtin::Builtin| {
            load(builtin.name, &BTreeMap::new()).expect("a built-in profile").reconnects()
        };
        let names: Vec<&str> =
            builtin::list().iter().filter(|one| reconnects(one)).map(|one| one.name).collect();
        assert_eq!(names, ["crr-200x1000"]);
    }

    #[test]
    fn foreign_letters_are_no_error() {
        assert_eq!(text(&b"<!-- \xe4 -->"[..]).unwrap(), "<!-- \u{fffd} -->");
    }

    #[test]
    fn a_file_is_read_like_a_built_in_profile() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/profiles/ping.xml");
        let given = "h=there proto=unix nprocs=2 warmup=1s duration=2s size=9".split(' ');
        let given = given
            .filter_map(|pair| pair.split_once('='))
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .collect();
        let profile = load(path, &given).unwrap();
        assert_eq!(profile.groups[0].strands, 2);
        assert_eq!(profile, load("ping", &given).unwrap());
    }
}
