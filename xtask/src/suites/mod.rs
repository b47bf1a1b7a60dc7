//! `cargo xtask suites [NAME]`: test suites that nobody here wrote, run plain and over the library.
//!
//! The oracle is the same suite without the library, in the same run on the same machine: a case that fails
//! in both is no news, a case that differs is run again both ways until chance is excluded. Sources come from
//! packages at run time and lie under `target/suites`; nothing of them is part of this repository. Invariant:
//! a suite passes only if no case differs and its connections really used shared memory.

mod again;
mod carrier;
mod obtain;
mod report;
mod run;
mod table;
mod verdicts;

use anyhow::bail;

use crate::exec;
use crate::workspace::Workspace;

use again::Judged;
use carrier::Carried;
use obtain::Room;
use run::Way;
pub(crate) use run::laid_out;
use table::Suite;
use verdicts::Cases;

/// Which suites are asked for.
pub(crate) struct Wanted {
    /// By name; none are all.
    pub(crate) names: Vec<String>,
    /// Only the parts for CI, and only of suites that have some.
    pub(crate) short: bool,
    /// Only parts whose names contain this, or are one of these (`a,b`).
    pub(crate) part: Option<String>,
}

/// What became of one suite.
struct Outcome {
    suite: &'static Suite,
    version: String,
    judged: Judged,
    carried: Carried,
    /// Parts that have no cases without the library.
    silent: Vec<&'static str>,
}

/// Runs what is wanted, prints the table and fails where a suite does.
pub(crate) fn suites(ws: &Workspace, wanted: &Wanted) -> anyhow::Result<()> {
    let chosen = choose(wanted)?;
    laid_out(ws)?;
    let mut outcomes = vec![];
    let mut missing = vec![];
    for suite in chosen {
        match one(ws, suite, wanted) {
            Ok(outcome) => outcomes.push(outcome),
            Err(error) => missing.push(format!("{}: {error:#}", suite.name)),
        }
        exec::interrupted()?;
    }
    report::write(ws, &outcomes)?;
    let faults: Vec<String> = outcomes.iter().flat_map(report::faults).chain(missing).collect();
    if !faults.is_empty() {
        bail!("suites differ over the library, or could not be run:\n{}", faults.join("\n"));
    }
    Ok(())
}

fn choose(wanted: &Wanted) -> anyhow::Result<Vec<&'static Suite>> {
    if let Some(name) =
        wanted.names.iter().find(|name| table::SUITES.iter().all(|suite| suite.name != **name))
    {
        let names: Vec<&str> = table::SUITES.iter().map(|suite| suite.name).collect();
        bail!("no suite is named {name}; there are {}", names.join(", "));
    }
    let asked =
        |suite: &&Suite| wanted.names.is_empty() || wanted.names.iter().any(|name| name == suite.name);
    Ok(table::SUITES.iter().filter(asked).filter(|suite| !wanted.short || suite.short > 0).collect())
}

fn one(ws: &Workspace, suite: &'static Suite, wanted: &Wanted) -> anyhow::Result<Outcome> {
    println!("== {}", suite.name);
    let room = Room::furnish(ws, suite)?;
    let (mut plain, mut enabled) = (Cases::new(), Cases::new());
    let mut carried = Carried::default();
    let mut silent = vec![];
    for part in parts(suite, wanted) {
        let oracle = room.run(part, Way::Plain)?.cases;
        if oracle.len() == 1 {
            // The exit status alone: the runner did not even begin.
            silent.push(part);
            continue;
        }
        plain.extend(oracle);
        let run = room.run(part, Way::Enabled)?;
        enabled.extend(run.cases);
        carried.established += run.established;
        exec::interrupted()?;
    }
    carried.counted_by(&room)?;
    let judged = again::judge(&room, &plain, &enabled)?;
    let outcome = Outcome { suite, version: room.version(), judged, carried, silent };
    println!("{}", report::line(&outcome));
    Ok(outcome)
}

fn parts(suite: &'static Suite, wanted: &Wanted) -> impl Iterator<Item = &'static str> {
    let all = if wanted.short { &suite.parts[..suite.short] } else { suite.parts };
    let asked = wanted.part.clone().unwrap_or_default();
    all.iter().copied().filter(move |part| is_asked_for(part, &asked))
}

/// By a piece of its name, or by its whole one in a list. (A trailing comma makes a list of one.)
fn is_asked_for(part: &str, asked: &str) -> bool {
    if asked.contains(',') { asked.split(',').any(|one| one == part) } else { part.contains(asked) }
}

#[cfg(test)]
mod tests {
    use super::is_asked_for;

    #[test]
    fn parts_are_asked_for_by_a_piece_or_by_their_names() {
        let asked = |asked| ["test_ssl", "test_asyncio.test_ssl"].map(|part| is_asked_for(part, asked));
        assert_eq!(asked("test_ssl"), [true, true]);
        assert_eq!(asked("test_poll,test_ssl"), [true, false]);
        assert_eq!(asked("test_ssl,"), [true, false]);
        assert_eq!(asked(""), [true, true]);
    }
}
