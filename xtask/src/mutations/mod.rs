//! `cargo xtask mutations [NAME]`: takes mends out again, one by one, and runs the test that must notice.
//!
//! A mend is a replacement of a few lines (`table`), done in a copy of the checkout under `target/mutations`;
//! the checkout itself is never touched. Invariant: a mend counts as held only if its test passes with it and
//! fails without it, and the code without it compiles.

mod scratch;
mod table;

use std::time::Instant;

use anyhow::bail;

use crate::exec;
use crate::workspace::Workspace;

use scratch::Scratch;
use table::{Mend, mends};

/// So often is a test run that passes without the mend, for some need luck.
const ATTEMPTS: u32 = 3;

/// What became of one mend.
enum Found {
    /// The test fails without it.
    Held,
    /// It passes all the same.
    Unnoticed,
    /// The test fails with the mend, too, so that it proves nothing.
    FailsAnyway,
    /// What is left without it does not compile.
    NoCode,
}

impl Found {
    fn word(&self) -> &'static str {
        match self {
            Found::Held => "held",
            Found::Unnoticed => "NOT NOTICED",
            Found::FailsAnyway => "FAILS ANYWAY",
            Found::NoCode => "DOES NOT COMPILE",
        }
    }
}

/// Takes the mends out whose names contain one of `names`, or all, and prints a table.
pub(crate) fn mutations(ws: &Workspace, names: &[String]) -> anyhow::Result<()> {
    let is_wanted = |mend: &&Mend| names.is_empty() || names.iter().any(|name| mend.name.contains(&**name));
    let chosen: Vec<&Mend> = mends().filter(is_wanted).collect();
    if chosen.is_empty() {
        let all: Vec<&str> = mends().map(|mend| mend.name).collect();
        bail!("no mend is named so; there are {}", all.join(", "));
    }
    for mend in &chosen {
        mend.places(&ws.root())?;
    }
    let scratch = Scratch::new(ws)?;
    let mut rows = vec![];
    for mend in chosen {
        let begun = Instant::now();
        let found = one(&scratch, mend)?;
        let row = format!(
            "| {} | {} | {} | {} | {} s |",
            mend.name,
            mend.without,
            mend.test,
            found.word(),
            begun.elapsed().as_secs()
        );
        println!("{row}");
        rows.push((matches!(found, Found::Held), row));
    }
    println!("\n| mend | without it | test | is | took |\n|---|---|---|---|--:|");
    rows.iter().for_each(|(_, row)| println!("{row}"));
    match rows.iter().filter(|(is_held, _)| !is_held).count() {
        0 => Ok(()),
        count => bail!(
            "{count} mends are not held by their tests.\n   How to fix it: {} has what each test said; name a test that \
             fails without the mend, or write one",
            scratch.logs().display()
        ),
    }
}

fn one(scratch: &Scratch, mend: &Mend) -> anyhow::Result<Found> {
    exec::interrupted()?;
    println!("== {}: without it {}", mend.name, mend.without);
    if !scratch.builds(mend, "with")? || !scratch.passes(mend, "with")? {
        return Ok(Found::FailsAnyway);
    }
    let _taken_out = scratch.take_out(mend)?;
    if !scratch.builds(mend, "without")? {
        return Ok(Found::NoCode);
    }
    for _ in 0..ATTEMPTS {
        exec::interrupted()?;
        if !scratch.passes(mend, "without")? {
            return Ok(Found::Held);
        }
    }
    Ok(Found::Unnoticed)
}
