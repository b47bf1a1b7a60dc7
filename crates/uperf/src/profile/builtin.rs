//! The profiles that come with the program: the shapes in which SMC is measured elsewhere (IBM's rr1c and str) and a few
//! beside them. Each is a file of `crates/uperf/profiles`, and [`Builtin::for_uperf`] is one that uperf runs, too.

use super::errors::Refusal;
use super::suggest::suggest;

/// What begins the warm-up in every file.
const WARM_UP: &str = "<transaction name=\"warm-up\"";

/// The variable that only a warm-up has.
pub const WARM_UP_TIME: &str = "warmup";

/// Values of variables that every built-in profile has.
pub const COMMON: [(&str, &str); 5] =
    [("h", "127.0.0.1"), ("proto", "tcp"), ("nprocs", "1"), (WARM_UP_TIME, "0s"), ("duration", "30s")];

/// A built-in profile.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// What it is called on the command line.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// The file.
    pub text: &'static str,
    /// Variables of its own and their values.
    pub own: &'static [(&'static str, &'static str)],
}

impl Builtin {
    /// The variables that it has and what they stand for unless somebody says otherwise.
    pub fn defaults(&self) -> Vec<(&'static str, &'static str)> {
        [&COMMON, self.own].concat()
    }

    /// The file for uperf, which wants its variables in the environment. Without the warm-up, since uperf refuses a
    /// duration of 0, and in a second transaction with a duration its strands now and then wait for each other.
    pub fn for_uperf(&self) -> String {
        let mut is_warm_up = false;
        let mut keeps = |line: &&str| {
            is_warm_up |= line.contains(WARM_UP);
            let keeps = !is_warm_up;
            is_warm_up &= !line.contains("</transaction>");
            keeps
        };
        self.text.split_inclusive('\n').filter(|line| keeps(line)).collect()
    }
}

/// All of them, in the order in which they are best read.
pub fn list() -> &'static [Builtin] {
    &BUILTINS
}

/// The one of this name.
pub fn find(name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|builtin| builtin.name == name)
}

/// One of `crates/uperf/profiles`.
macro_rules! builtin {
    ($name:literal, $about:literal $(, $variable:literal = $value:literal)*) => {
        Builtin {
            name: $name,
            about: $about,
            text: include_str!(concat!("../../profiles/", $name, ".xml")),
            own: &[$(($variable, $value)),*],
        }
    };
}

static BUILTINS: [Builtin; 11] = [
    builtin!("rr1c-1x1", "1 byte there and 1 back: latency"),
    builtin!("rr1c-200x1000", "200 bytes there and 1000 back: an interactive transaction"),
    builtin!("rr1c-200x30k", "200 bytes there and 30 KiB back: a query and its result"),
    builtin!("str-readx30k", "pieces of 30 KiB from the slave, $count to a flowop", "count" = "640"),
    builtin!("str-writex30k", "pieces of 30 KiB to the slave, $count to a flowop", "count" = "640"),
    builtin!("crr-200x1000", "connect, 200 bytes there and 1000 back, disconnect"),
    builtin!("ping", "$size bytes there and back", "size" = "64"),
    builtin!("stream", "writes of $size bytes", "size" = "64k"),
    builtin!(
        "paced",
        "writes of $size bytes, at most $rate times per second and connection",
        "size" = "64k",
        "rate" = "1000"
    ),
    builtin!(
        "both-ways",
        "pieces of $size bytes in both directions at once, each over connections of its own",
        "size" = "64k"
    ),
    builtin!(
        "rate-200x1000",
        "200 bytes there and 1000 back, at most $rate times per second and connection",
        "rate" = "1000"
    ),
];

/// The same, or what is wrong with the name.
pub fn named(name: &str) -> Result<&'static Builtin, Refusal> {
    let right = || suggest(name, &BUILTINS.map(|builtin| builtin.name));
    find(name).ok_or_else(|| Refusal::Usage(format!("no built-in profile has the name {name}: {}", right())))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use super::*;
    use crate::profile::model::{Profile, StrandKind, Transaction, Until};
    use crate::profile::options::{Protocol, Size};
    use crate::profile::parse::parse;
    use crate::profile::parse::variables::Variables;

    fn parsed(builtin: &Builtin, text: &str, given: &[(&str, &str)]) -> Profile {
        let given: BTreeMap<String, String> =
            given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let defaults = builtin.defaults();
        let variables = Variables::new(&given, |_| None, &defaults);
        parse(builtin.name, text, &variables).unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn steps(transaction: &Transaction) -> String {
        let step = |flowop: &crate::profile::model::Flowop| match (flowop.options.size, flowop.options.count)
        {
            (Some(Size::Fixed(size)), 1) => format!("{} {size}", flowop.kind),
            (Some(Size::Fixed(size)), count) => format!("{} {count}x{size}", flowop.kind),
            _ => flowop.kind.to_string(),
        };
        transaction.flowops.iter().map(step).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn what_is_measured_is_what_the_name_says() {
        let table = [
            ("rr1c-1x1", "write 1, read 1", true),
            ("rr1c-200x1000", "write 200, read 1000", true),
            ("rr1c-200x30k", "write 200, read 30720", true),
            ("str-readx30k", "read 640x30720", true),
            ("str-writex30k", "write 640x30720", true),
            ("crr-200x1000", "connect, write 200, read 1000, disconnect", false),
            ("ping", "write 64, read 64", true),
            ("stream", "write 65536", true),
            ("paced", "write 65536", true),
            ("both-ways", "write 65536", true),
            ("rate-200x1000", "write 200, read 1000", true),
        ];
        assert_eq!(list().iter().map(|b| b.name).collect::<Vec<_>>(), table.map(|(name, ..)| name));
        for (name, measured, stays_open) in table {
            let profile = parsed(find(name).unwrap(), find(name).unwrap().text, &[]);
            let transactions: Vec<String> = profile.groups[0].transactions.iter().map(steps).collect();
            let expected = if stays_open { vec!["connect", measured, "disconnect"] } else { vec![measured] };
            assert_eq!(transactions, expected, "{name}");
            let groups = if name == "both-ways" { 2 } else { 1 };
            assert_eq!((profile.name.as_str(), profile.groups.len()), (name, groups));
        }
    }

    #[test]
    fn defaults_are_thirty_seconds_of_tcp_on_this_host() {
        for builtin in list() {
            let profile = parsed(builtin, builtin.text, &[]);
            let group = &profile.groups[0];
            assert_eq!((group.kind, group.strands), (StrandKind::Processes, 1));
            let measured =
                group.transactions.iter().find(|transaction| transaction.name == "measured").unwrap();
            assert_eq!(measured.until, Until::Duration(Duration::from_secs(30)));
            let rate = ["rate-200x1000", "paced"].contains(&builtin.name).then_some(1000_u32);
            assert_eq!(measured.rate.map(Into::into), rate);
            let connect = &group.transactions[0].flowops[0].options;
            assert_eq!(connect.remotehost.as_deref(), Some("127.0.0.1"));
            assert_eq!((connect.protocol, connect.tcp_nodelay), (Protocol::Tcp, true));
        }
    }

    #[test]
    fn the_warm_up_does_what_is_measured_and_is_there_on_demand() {
        for builtin in list() {
            let cold = parsed(builtin, builtin.text, &[]);
            let warm = parsed(builtin, builtin.text, &[("warmup", "2s")]);
            let transactions = &warm.groups[0].transactions;
            assert_eq!(transactions.len(), cold.groups[0].transactions.len() + 1);
            let at = transactions.iter().position(|transaction| transaction.name == "warm-up").unwrap();
            assert_eq!(transactions[at].until, Until::Duration(Duration::from_secs(2)));
            assert_eq!(transactions[at + 1].name, "measured");
            assert_eq!(steps(&transactions[at]), steps(&transactions[at + 1]));
            assert_eq!(transactions[at].rate, transactions[at + 1].rate);
        }
    }

    #[test]
    fn every_variable_is_used_and_has_a_default() {
        for builtin in list() {
            let is_name = |c: char| c.is_ascii_lowercase();
            let used: BTreeSet<&str> = builtin
                .text
                .split('$')
                .skip(1)
                .map(|rest| &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())])
                .collect();
            let known: BTreeSet<&str> = builtin.defaults().iter().map(|(name, _)| *name).collect();
            assert_eq!(used, known, "{}", builtin.name);
        }
    }

    #[test]
    fn uperf_gets_no_warm_up_and_nothing_that_it_stumbles_over() {
        for builtin in list() {
            let text = builtin.for_uperf();
            assert!(!text.contains("warm") && !text.contains("><"), "{text}");
            assert_eq!(text.matches("<transaction").count(), text.matches("</transaction>").count());
            let (own, uperfs) = (parsed(builtin, builtin.text, &[]), parsed(builtin, &text, &[]));
            let shape = |profile: &Profile| -> Vec<String> {
                profile.groups[0].transactions.iter().map(steps).collect()
            };
            assert_eq!(shape(&own), shape(&uperfs));
        }
    }
}
