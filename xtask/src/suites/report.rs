//! The tables: on the terminal, and as Markdown for docs/compatibility.md (`target/suites/table.md`).

use std::fmt::Write;
use std::fs;

use super::{Outcome, carrier};
use crate::workspace::Workspace;

/// One line per suite.
pub(super) fn line(outcome: &Outcome) -> String {
    let (judged, carried) = (&outcome.judged, &outcome.carried);
    let [cases, passed, differ, unsteady, shared, early] = numbers(outcome);
    let mut text = format!(
        "{:<12} {cases:>5} cases, {passed:>5} passed both ways, {differ} differ, {unsteady} unsteady; {shared} shared, \
         {early} ended early, {} established",
        outcome.suite.name, carried.established,
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

/// Cases, passed, differing, unsteady, in shared memory, ended early.
fn numbers(outcome: &Outcome) -> [String; 6] {
    let (judged, carried) = (&outcome.judged, &outcome.carried);
    let share = carried.share().map_or_else(|| "none".into(), |share| format!("{share} %"));
    [
        judged.cases.to_string(),
        judged.passed.to_string(),
        judged.differing.len().to_string(),
        judged.unsteady.len().to_string(),
        format!("{} ({share})", carried.shared),
        carried.ended_early().to_string(),
    ]
}

/// Prints and writes the Markdown.
pub(super) fn write(ws: &Workspace, outcomes: &[Outcome]) -> anyhow::Result<()> {
    let mut text = String::from(
        "| suite | version | cases | passed both ways | differing | unsteady | shared memory | ended early |\n|---|---|--:|--:|--:|--:|--:|--:|\n",
    );
    for outcome in outcomes {
        let cells = numbers(outcome).join(" | ");
        let _ = writeln!(text, "| {} | {} | {cells} |", outcome.suite.name, outcome.version);
    }
    println!("\n{text}");
    Ok(fs::write(ws.target().join("suites/table.md"), text)?)
}
