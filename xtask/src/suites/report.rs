//! The tables: on the terminal, and as Markdown for docs/compatibility.md (`target/suites/table.md`).

use std::fmt::Write;
use std::fs;

use super::{Outcome, carrier};
use crate::workspace::Workspace;

/// One line per suite.
pub(super) fn line(outcome: &Outcome) -> String {
    let (judged, carried) = (&outcome.judged, &outcome.carried);
    let mut text = format!(
        "{:<12} {:>5} cases, {:>5} passed both ways, {} differ, {} unsteady; {} shared ({}), {} ended early, {} established",
        outcome.suite.name,
        judged.cases,
        judged.passed,
        judged.differing.len(),
        judged.unsteady.len(),
        carried.shared,
        share(outcome),
        carried.ended_early(),
        carried.established,
    );
    for name in &judged.differing {
        let _ = write!(
            text,
            "\n   differs: {name}{}",
            known(outcome, name).map_or(String::new(), |why| format!(" ({why})"))
        );
    }
    for name in &judged.unsteady {
        let _ = write!(text, "\n   unsteady: {name}");
    }
    let _ = write!(text, "\n   on TCP: {}", carried.reasons());
    text
}

/// Why the suite fails, if it does.
pub(super) fn faults(outcome: &Outcome) -> Vec<String> {
    let strange = outcome.judged.differing.iter().filter(|name| known(outcome, name).is_none());
    let mut faults: Vec<String> = strange.map(|name| format!("{}: {name}", outcome.suite.name)).collect();
    faults.extend(
        outcome
            .silent
            .iter()
            .map(|part| format!("{}: {part} has no cases without the library", outcome.suite.name)),
    );
    let floor = outcome.suite.floor.map_or(carrier::BAR, |(floor, _)| floor);
    if let Some(share) = outcome.carried.share().filter(|share| *share < floor) {
        faults.push(format!(
            "{}: only {share} % in shared memory, {floor} % wanted: {}",
            outcome.suite.name,
            outcome.carried.reasons()
        ));
    }
    faults
}

/// The reason of a difference that LIMITATIONS.md lists.
fn known(outcome: &Outcome, name: &str) -> Option<&'static str> {
    outcome.suite.known.iter().find(|(case, _)| name.contains(case)).map(|(_, why)| *why)
}

fn share(outcome: &Outcome) -> String {
    outcome.carried.share().map_or_else(|| "none".into(), |share| format!("{share} %"))
}

/// Prints and writes the Markdown.
pub(super) fn write(ws: &Workspace, outcomes: &[Outcome]) -> anyhow::Result<()> {
    let mut text = String::from(
        "| suite | version | cases | passed both ways | differing | unsteady | shared memory | ended early |\n|---|---|--:|--:|--:|--:|--:|--:|\n",
    );
    for outcome in outcomes {
        let (judged, carried) = (&outcome.judged, &outcome.carried);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} ({}) | {} |",
            outcome.suite.name,
            outcome.version,
            judged.cases,
            judged.passed,
            judged.differing.len(),
            judged.unsteady.len(),
            carried.shared,
            share(outcome),
            carried.ended_early()
        );
    }
    println!("\n{text}");
    Ok(fs::write(ws.target().join("suites/table.md"), text)?)
}
