//! `cargo xtask ci`: everything a change must pass, cheapest first. The tests come last, so the last words are theirs.

use std::time::Instant;

use crate::workspace::Workspace;
use crate::{checks, dist, exec, ordinary_user, packages, symbols, tidy};

type Step = (&'static str, fn(&Workspace) -> anyhow::Result<()>);

/// In order; each is also a task of its own.
const STEPS: [Step; 11] = [
    ("fmt", checks::fmt),
    ("tidy", tidy::tidy),
    ("lint", checks::lint),
    ("doc", checks::doc),
    ("deny", checks::deny),
    ("dist", dist::dist),
    ("symbols", symbols::symbols),
    ("packages", packages::packages),
    ("loom", checks::loom),
    ("test-user", ordinary_user::test),
    ("test", checks::test),
];

/// Runs all steps; stops at the first that fails.
pub(crate) fn ci(ws: &Workspace) -> anyhow::Result<()> {
    for (name, step) in STEPS {
        exec::interrupted()?;
        println!("\n== cargo xtask {name}");
        let start = Instant::now();
        step(ws)?;
        no_stray(name)?;
        eprintln!("   {name}: {} s", start.elapsed().as_secs());
    }
    Ok(())
}

/// A step that leaves a process behind has failed, whatever its exit status.
fn no_stray(step: &str) -> anyhow::Result<()> {
    let strays = exec::end_descendants();
    if strays.is_empty() {
        return Ok(());
    }
    anyhow::bail!(
        "`{step}` left processes behind: {}.\n   How to fix it: the test that started them must end them, on failure too",
        strays.join(", ")
    )
}
