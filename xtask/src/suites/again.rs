//! Judging what differs. Owns the rule: a case differs if the library's runs never show a verdict that the
//! plain runs show; what differs once and not again is named as unsteady, and fails nothing.

use std::collections::BTreeSet;

use super::obtain::Room;
use super::run::{END, Way};
use super::verdicts::{Cases, Verdict};

/// How often a differing case is run again, each way.
const REPEATS: usize = 3;
/// Beyond so many a suite is broken as a whole, and more runs tell nothing new.
const MOST: usize = 60;

/// The comparison of a suite.
#[derive(Default)]
pub(super) struct Judged {
    /// Cases seen in either way.
    pub(super) cases: usize,
    /// Of these, how many passed in both.
    pub(super) passed: usize,
    /// Differing: name, what plain showed, what the library showed.
    pub(super) differing: Vec<String>,
    /// Differing at first, not when repeated.
    pub(super) unsteady: Vec<String>,
}

/// Compares both tables and repeats what differs.
pub(super) fn judge(room: &Room<'_>, plain: &Cases, enabled: &Cases) -> anyhow::Result<Judged> {
    let names: BTreeSet<&(String, String)> = plain.keys().chain(enabled.keys()).collect();
    let of = |table: &Cases, name: &(String, String)| table.get(name).copied().unwrap_or(Verdict::Missing);
    let mut judged = Judged { cases: names.len(), ..Judged::default() };
    for name in names {
        let (theirs, ours) = (of(plain, name), of(enabled, name));
        judged.passed += usize::from((theirs, ours) == (Verdict::Passed, Verdict::Passed));
        // The status of a whole part says nothing where a case of it says more.
        let is_said = name.1 == END
            && plain
                .keys()
                .chain(enabled.keys())
                .any(|case| case.0 == name.0 && case.1 != END && of(plain, case) != of(enabled, case));
        if theirs == ours || is_said {
            continue;
        }
        let mut seen = Seen { plain: vec![theirs], enabled: vec![ours] };
        if judged.differing.len() < MOST {
            seen.again(room, name)?;
        }
        let line = format!("{} {}: plain {:?}, library {:?}", name.0, name.1, seen.plain, seen.enabled);
        if seen.differs() { judged.differing.push(line) } else { judged.unsteady.push(line) }
    }
    Ok(judged)
}

struct Seen {
    plain: Vec<Verdict>,
    enabled: Vec<Verdict>,
}

impl Seen {
    fn again(&mut self, room: &Room<'_>, name: &(String, String)) -> anyhow::Result<()> {
        for _ in 0..REPEATS {
            self.plain.push(room.run_case(name, Way::Plain)?);
            self.enabled.push(room.run_case(name, Way::Enabled)?);
            crate::exec::interrupted()?;
        }
        Ok(())
    }

    /// The first pair differed by selection; chance is excluded by the repeats alone, where there are any.
    fn differs(&self) -> bool {
        let skip = usize::from(self.plain.len() > 1);
        let theirs: BTreeSet<Verdict> = self.plain.iter().copied().collect();
        // Of the repeats more than one must show what plain never shows.
        let strange = self.enabled[skip..].iter().filter(|verdict| !theirs.contains(verdict)).count();
        strange > 0
    }
}
