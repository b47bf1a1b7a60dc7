//! `cargo xtask ci`: everything a change must pass, cheapest first. The tests come last, so the last words
//! are theirs.

use std::time::Instant;

use crate::workspace::Workspace;
use crate::{checks, cross, dist, exec, ordinary_user, packages, symbols, tidy};

type Step = (&'static str, fn(&Workspace) -> anyhow::Result<()>);

/// In order; each is also a task of its own. (Alone, each of the last two has what both share here.)
const STEPS: [Step; 12] = [
    ("fmt", checks::fmt),
    ("tidy", tidy::tidy),
    ("lint", checks::lint),
    ("doc", checks::doc),
    ("deny", checks::deny),
    ("cross", cross::cross),
    ("dist", dist::dist),
    ("symbols", symbols::symbols),
    ("packages", packages::packages),
    ("loom", checks::loom),
    ("test-user", ordinary_user::test_in_ci),
    ("test", checks::test_in_ci),
];

/// Runs all steps; stops at the first that fails.
pub(crate) fn ci(ws: &Workspace) -> anyhow::Result<()> {
    for (name, step) in STEPS {
        exec::interrupted()?;
        println!("\n== cargo xtask {name}");
        let (start, before) = (Instant::now(), exec::descendant_ids());
        step(ws)?;
        if name.starts_with("test") {
            no_stray(name, &before)?;
        }
        // After the last step the last word is the test runner's.
        if name != STEPS[STEPS.len() - 1].0 {
            eprintln!("   {name}: {} s", start.elapsed().as_secs());
        }
    }
    Ok(())
}

/// Tests that leave a process behind have failed, whatever they say. What was there `before` is a compiler's
/// daemon.
fn no_stray(step: &str, before: &[i32]) -> anyhow::Result<()> {
    let strays = exec::end_descendants_but(before);
    if strays.is_empty() {
        return Ok(());
    }
    anyhow::bail!(
        "`{step}` left processes behind: {}.\n   How to fix it: the test that started them must end them, on failure too",
        strays.join(", ")
    )
}
